"""Who beats is alive; who is silent for longer than promised is overdue; nobody waits for anybody."""

from __future__ import annotations

import threading

import pytest

from idkmesh.clock import SystemClock
from idkmesh.health.liveness import Liveness, watch
from idkmesh.health.slots import WARNING, Slots, look
from idkmesh.health.watchdog import Beat, Watchdog, WatchdogError
from tests.health.support import START, ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watchdog(clock: ManualClock) -> Watchdog:
    return Watchdog(3.0, clock)


def test_overdue_is_longer_than_the_budget(watchdog: Watchdog, clock: ManualClock) -> None:
    """HL-2.1: silent for longer than the budget, by the monotonic clock; as long as it is not yet."""
    beat = watchdog.register("front")
    watchdog.register("probes", 1.0)
    assert watchdog.overdue(START + 1.0) == ()
    assert watchdog.overdue(START + 1.001) == ("probes",)
    assert watchdog.overdue(START + 3.0) == ("probes",)
    assert watchdog.overdue(START + 3.001) == ("front", "probes")
    clock.now += 3.0
    beat.beat()
    assert watchdog.overdue(START + 6.0) == ("probes",)
    assert watchdog.silences(START + 6.0) == {"front": 3.0, "probes": 6.0}


def test_a_beat_that_comes_while_one_reads(watchdog: Watchdog, clock: ManualClock) -> None:
    """HL-2.1: a silence is never below zero, also where the beat is newer than the reader's clock."""
    watchdog.register("front")
    assert watchdog.silences(START - 1.0) == {"front": 0.0}
    assert watchdog.overdue(START - 1.0) == ()


def test_wall_clock_steps_change_nothing(watchdog: Watchdog, clock: ManualClock) -> None:
    """HL-2.1, PROBE-08: the wall clock goes an hour forward and back; who beats is alive, who does not is overdue."""
    beat = watchdog.register("front")
    for step in (3600.0, -3600.0, 0.0):
        clock.wall_step = step
        clock.now += 2.0
        assert watchdog.overdue(clock.now) == ()
        beat.beat()
    clock.now += 3.5
    assert watchdog.overdue(clock.now) == ("front",)


def test_a_name_is_registered_once(watchdog: Watchdog) -> None:
    """HL-2.5: a second registration is refused, until the first has ended."""
    first = watchdog.register("front")
    with pytest.raises(WatchdogError, match="front is registered already"):
        watchdog.register("front")
    first.close()
    assert watchdog.overdue(START + 99) == ()
    second = watchdog.register("front")
    first.close()  # of what is no longer registered
    assert watchdog.overdue(START + 99) == ("front",)
    second.close()
    assert watchdog.silences(START) == {}


@pytest.mark.parametrize("budget", [0.0, -1.0, 3.1, float("nan"), float("inf")])
def test_a_component_only_shortens_its_budget(watchdog: Watchdog, budget: float) -> None:
    """HL-2.1: at most interval_ms x max_missed_ticks, and above 0."""
    with pytest.raises(WatchdogError, match="front"):
        watchdog.register("front", budget)
    assert watchdog.register("front", 3.0).budget == 3.0


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_a_watchdog_has_a_budget(budget: float) -> None:
    """HL-2.1: a silence that has no end would be noticed by nobody."""
    with pytest.raises(WatchdogError, match="watchdog"):
        Watchdog(budget, SystemClock())


def test_nobody_waits_for_a_lock(watchdog: Watchdog) -> None:
    """HL-1.1, HL-1.5: beating and reading go on while the lock of registering is held."""
    beat = watchdog.register("front")
    read: list[object] = []

    def use() -> None:
        beat.beat()
        read.extend([watchdog.overdue(START), watchdog.silences(START)])

    with watchdog._lock:
        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        thread.join(30)
        assert read == [(), {"front": 0.0}]


def test_a_beat_stores_one_instant(watchdog: Watchdog, clock: ManualClock) -> None:
    """HL-2.1: nothing else of it changes, so nothing has to be held together by a lock."""
    beat = watchdog.register("front")
    before = {name: getattr(beat, name) for name in Beat.__slots__}
    clock.now += 1
    beat.beat()
    after = {name: getattr(beat, name) for name in Beat.__slots__}
    assert {name for name in before if before[name] != after[name]} == {"at"}


def test_many_threads_register_and_end() -> None:
    """HL-2.5: whatever is registered and ended at once, in the end nobody is left, and no name was taken twice."""
    watchdog = Watchdog(1.0, SystemClock())
    faults: list[Exception] = []

    def use(name: str) -> None:
        try:
            for _ in range(200):
                watchdog.register(name).close()
        except WatchdogError as error:
            faults.append(error)

    threads = [threading.Thread(target=use, args=(f"part-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert faults == []
    assert watchdog.silences(0.0) == {}


# --- liveness ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("critical_down", "silences", "expected"),
    [
        (True, {"front": 0.1, "probes": 9.0}, True),
        (True, {"front": 0.99, "probes": 9.0}, True),
        (True, {"front": 1.0, "probes": 9.0}, False),
        (True, {"probes": 9.0}, False),
        (False, {"front": 0.1, "probes": 9.0}, False),
    ],
)
def test_dependency_only(critical_down: bool, silences: dict[str, float], expected: bool) -> None:
    """HL-5.4: a critical dependency was down, and this process had beaten within the last interval before."""
    state, change = watch(Liveness(), ("probes",), silences, critical_down=critical_down, interval=1.0)
    assert change is not None
    assert change.what == "idkmesh.liveness.failed"
    assert change.facts == {"components": ["probes"], "components_total": 1, "dependency_only": expected}
    assert (state.alive, state.dependency_only, state.failures_total) == (False, expected, 1)


def test_liveness_is_told_once_each_way() -> None:
    """HL-5.4: failed once, however long it goes on and whoever else falls silent; recovered once, of the same kind."""
    told = []
    state = Liveness()
    for overdue in ((), ("probes",), ("probes",), ("front", "probes"), (), (), ("front",)):
        silences = {"front": 0.0, "probes": 0.0}
        state, change = watch(state, overdue, silences, critical_down=True, interval=1.0)
        told.append(change and (change.what.rpartition(".")[2], change.facts["dependency_only"]))
    assert told == [None, ("failed", True), None, None, ("recovered", True), None, ("failed", True)]
    assert state.failures_total == 2


def test_a_dependency_that_is_down_is_no_liveness_failure() -> None:
    """HL-1.1: all dependencies may be down; as long as everybody beats, the process lives."""
    state, change = watch(Liveness(), (), {"front": 0.1}, critical_down=True, interval=1.0)
    assert change is None
    assert state.alive


# --- slots ---------------------------------------------------------------------------------------------------------


def test_a_slot_that_is_held_is_told_once() -> None:
    """HL-2.3: longer than the budget is told once a hold, and warned of while it lasts."""
    slots, told = Slots(), []
    for now in range(8):
        holders = ["long"] if now == 7 else ["long", "short"] if now < 3 else ["long", f"quick-{now}"]
        slots, changes = look(slots, holders, float(now), 3.0)
        told.append([(change.what, change.facts) for change in changes])
        assert slots.warnings == ((WARNING,) if now > 3 else ())
    assert told == [[], [], [], [], [("idkmesh.slot.held", {"seconds": 4.0, "slots": 1})], [], [], []]
    slots, _ = look(slots, [], 8.0, 3.0)
    assert (slots, slots.warnings) == (Slots(), ())


def test_a_forked_child_begins_anew(watchdog: Watchdog, clock: ManualClock) -> None:
    """HL-2.1, HL-6.1: its silences count from the fork, and a lock that the parent held is not in its way."""
    watchdog.register("front")
    clock.now += 100.0
    with watchdog._lock:
        watchdog.renew()
        watchdog.register("probes")
    assert watchdog.silences(clock.now + 1.0) == {"front": 1.0, "probes": 1.0}


def test_a_program_gives_no_clock() -> None:
    """HL-6.1: `Watchdog(seconds)` is enough: it is held against the system's clock."""
    watchdog = Watchdog(3600.0)
    watchdog.register("loop")
    assert watchdog.overdue(SystemClock().monotonic()) == ()
