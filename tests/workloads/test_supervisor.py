from __future__ import annotations

import itertools
import logging
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idkmesh.workloads.ages import system_stamp
from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.lease.store import LeaseStoreError
from idkmesh.workloads.model import InstanceState, ModuleKind, Readiness, Run, RunEnd
from idkmesh.workloads.record import Key, RestartEnd
from idkmesh.workloads.snapshot import Role
from idkmesh.workloads.survey import Patience
from idkmesh.workloads.tracker_store import TrackerStore, TrackerStoreError
from tests.workloads.process_support import waited
from tests.workloads.support import (
    BOOT,
    COULD_NOT,
    FAILS,
    LEFT,
    PASSES,
    AlwaysHeld,
    Game,
    Keeper,
    LeaseTable,
    ManualClock,
    Platform,
    Simulated,
    declaration,
    module,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.workloads.ages import Stamp
    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.lease.store import Grant
    from idkmesh.workloads.model import Declaration
    from idkmesh.workloads.record import Kept

PATIENCE = 60.0
WEB = module(instances=("web-1", "web-2", "web-3"))
ONE = declaration(module())
MANY_GAMES = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def hanging(call: str, opened: threading.Event) -> Callable[[str, Key | None], None]:
    """Return a hook that lets calls of this kind wait until ``opened``."""

    def hook(what: str, _key: Key | None) -> None:
        if what == call:
            opened.wait(PATIENCE)

    return hook


def test_it_beats_while_a_driver_keeps_it_waiting(tmp_path: Path) -> None:
    """AR-7.8, HL-2.1: whoever watches the thread of passes hears of it several times a second, in a long pass too."""
    beats, hold = threading.Semaphore(0), threading.Event()
    game = Game(tmp_path, ONE, alive=beats.release)
    game.platform.hook = hanging("run", hold)
    pass_of_it = threading.Thread(target=game.make_pass)
    pass_of_it.start()
    try:
        for _ in range(8):
            assert beats.acquire(timeout=PATIENCE)
        assert pass_of_it.is_alive()
    finally:
        hold.set()
        pass_of_it.join(PATIENCE)


def instants(game: Game) -> list[float]:
    return [at - BOOT for _, at in game.platform.restarts]


def test_a_wedged_replica_is_restarted(tmp_path: Path) -> None:
    """AR-5.1, AR-5.5: 80 s after its first failure, with an event before and one after, and then it is unknown."""
    game = Game(tmp_path, ONE)
    game.platform["web/web-1"].mended_by_restart = True
    game.play(60, PASSES)
    game.play(81, FAILS)
    assert instants(game) == [140.0]
    (before,) = game.recorded
    assert (before.what, before.subject) == ("idkmesh.instance.restart_requested", "web/web-1")
    assert before.facts == {
        "module": "web",
        "instance": "web-1",
        "detail": "readiness command failing",
        "unhealthy_seconds": 60.0,
    }
    assert game.whats() == ["instance.healthy", "instance.unhealthy", "instance.restarted"]
    assert game.health() == "unknown"
    game.play(60)
    assert game.health() == "healthy"
    assert game.supervisor.snapshot().records[Key("web", "web-1")].restarts == 1


@settings(deadline=None, max_examples=25, suppress_health_check=MANY_GAMES)
@given(st.integers(1, 60), st.integers(0, 6))
def test_at_the_first_pass_after_eighty_seconds(tmp_path: Path, interval: int, lead: int) -> None:
    """AR-5.1: exactly at the first pass at or after 80 s of failures, whatever the interval of the passes is."""
    game = Game(Path(tempfile.mkdtemp(dir=tmp_path)), declaration(module(), interval=interval))
    game.play(lead * interval, PASSES, interval)
    began = game.clock.boot - BOOT
    game.play(81 + interval, FAILS, interval)
    first = next(at for at in (began + number * interval for number in range(1000)) if at >= began + 80)
    assert instants(game)[0] == first


@pytest.mark.parametrize("kind", [ModuleKind.SINGLETON, ModuleKind.STATEFUL])
def test_others_are_reported_alone(tmp_path: Path, kind: ModuleKind) -> None:
    """AR-1.1: a singleton and a stateful module are told to be unhealthy, and never restarted."""
    game = Game(tmp_path, declaration(module(kind=kind)))
    game.play(400, FAILS)
    assert game.platform.restarts == []
    assert game.whats() == ["instance.unhealthy"]


def test_once_a_cooldown(tmp_path: Path) -> None:
    """AR-5.1, AR-5.3: a replica that a restart does not mend is restarted once a cooldown, counted from the claim."""
    game = Game(tmp_path, ONE)
    game.play(700, FAILS)
    assert instants(game) == [80.0, 380.0, 680.0]


def test_a_cooldown_counts_from_the_claim(tmp_path: Path) -> None:
    """AR-5.1: however long the restart itself takes."""
    game = Game(tmp_path, ONE)
    game.platform.hook = lambda what, _key: game.clock.move(30) if what == "restart" else None
    game.play(390, FAILS)
    assert instants(game) == [80.0, 380.0]


def test_once_a_cooldown_where_claims_last_longer(tmp_path: Path) -> None:
    """AR-5.1, AR-5.3: a claim of ours that the store still has is no other's: its cooldown does not count twice."""
    game = Game(tmp_path, ONE)
    game.lease.store.claim_slack = 4.0
    game.play(700, FAILS)
    assert instants(game) == [80.0, 385.0, 690.0]
    assert "instance.restart_failed" not in game.whats()


@pytest.mark.parametrize("run", [COULD_NOT, LEFT, Run(RunEnd.EXITED, "", 127), Run(RunEnd.EXITED, "", 126)])
def test_a_misdeclared_command_restarts_nobody(tmp_path: Path, run: Run) -> None:
    """AR-3.3, AR-3.4, AR-1.2: what could not run says nothing, is told once until it can, and restarts nobody."""
    game = Game(tmp_path, ONE)
    game.play(500, run)
    assert game.platform.restarts == []
    what = "check.misdeclared" if run is LEFT else "check.could_not_run"
    assert game.whats() == [what]
    assert [level for level, _ in game.lines] == [logging.WARNING]
    game.play(30, PASSES)
    game.play(30, run)
    assert game.whats() == [what, "instance.healthy", what]


RUNS = {"P": PASSES, "F": FAILS, "N": COULD_NOT}


@settings(deadline=None, max_examples=30, suppress_health_check=MANY_GAMES)
@given(st.lists(st.tuples(st.sampled_from("FFPN"), st.integers(1, 24)), max_size=16))
def test_never_two_restarts_in_a_cooldown(tmp_path: Path, course: list[tuple[str, int]]) -> None:
    """AR-5.1, AR-4.2: whatever the checks say, restarts of an instance are a cooldown apart, after failures alone."""
    game = Game(Path(tempfile.mkdtemp(dir=tmp_path)), declaration(module(), cooldown=60))
    for letter, passes in course:
        before = len(game.platform.restarts)
        game.play(passes * 5, RUNS[letter])
        assert letter == "F" or len(game.platform.restarts) == before
    found = instants(game)
    assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(found))


@settings(deadline=None, max_examples=12, suppress_health_check=MANY_GAMES)
@given(st.lists(st.lists(st.sampled_from("FFFP"), min_size=3, max_size=3), min_size=4, max_size=12), st.booleans())
def test_never_two_outstanding(tmp_path: Path, course: list[list[str]], mended: bool) -> None:
    """AR-5.2: of a module one replica at most is being restarted: the one before is healthy, or its cooldown over."""
    game = Game(Path(tempfile.mkdtemp(dir=tmp_path)), declaration(WEB, cooldown=120))
    healthy_since: dict[Key, float] = {}
    for letters in course:
        for number, letter in enumerate(letters, start=1):
            game.platform[f"web/web-{number}"].run = RUNS[letter]
            game.platform[f"web/web-{number}"].mended_by_restart = mended
        for _ in range(6):
            before, now = list(game.platform.restarts), game.clock.boot
            game.play(5)
            new = game.platform.restarts[len(before) :]
            assert len(new) <= 1
            for key, record in game.supervisor.snapshot().records.items():
                if record.tracker.health.value == "healthy":
                    healthy_since[key] = now
            outstanding = [key for key, at in before if now - at < 120 and healthy_since.get(key, 0) <= at]
            assert not new or outstanding == []


def test_all_replicas_fail(tmp_path: Path) -> None:
    """AR-5.2: a module whose replicas all fail is never restarted as a whole; the next one waits for the cooldown."""
    game = Game(tmp_path, declaration(WEB))
    game.play(1000, FAILS)
    assert instants(game) == [80.0, 380.0, 680.0, 980.0]
    names = [key.name for key, _ in game.platform.restarts]
    assert set(names[:3]) == {"web-1", "web-2", "web-3"}


def test_the_next_follows_a_mended_one(tmp_path: Path) -> None:
    """AR-5.2: once the replica that was restarted is healthy again, the next one has its turn."""
    game = Game(tmp_path, declaration(WEB))
    for name in ("web-1", "web-2", "web-3"):
        game.platform[f"web/{name}"].mended_by_restart = True
    game.play(200, FAILS)
    assert [each.name for each, _ in game.platform.restarts] == ["web-1", "web-2", "web-3"]
    assert instants(game) == [80.0, 105.0, 130.0]


def test_what_is_not_checked(tmp_path: Path) -> None:
    """AR-3.1: an instance that is not ours, stopped or frozen is reported and never run in."""
    game = Game(tmp_path, declaration(WEB))
    game.platform["web/web-1"].owned = False
    game.platform["web/web-2"].state = InstanceState.STOPPED
    game.platform["web/web-3"].state = InstanceState.FROZEN
    game.play(200, FAILS)
    assert game.platform.runs == []
    assert game.whats() == ["check.could_not_run"] * 3
    reasons = [record.reason for record in game.supervisor.snapshot().records.values()]
    mend = "if it is, run lxc config set web-1 user.idkmesh.module web"
    assert reasons == [
        f"the instance is not ours: its configuration names no such module; {mend}",
        "the instance is stopped",
        "the instance is frozen",
    ]


def test_eight_at_once_as_the_user(tmp_path: Path) -> None:
    """AR-3.2: at most eight commands at once, as the user that was asked for."""
    names = tuple(f"web-{number}" for number in range(40))
    game = Game(tmp_path, declaration(module(instances=names)), uid=1234)
    eight = threading.Barrier(8)

    def all_there(what: str, _key: Key | None) -> None:
        if what == "run":
            eight.wait(PATIENCE)

    game.platform.hook = all_there
    game.make_pass()
    assert (game.platform.most_at_once, game.platform.uids) == (8, {1234})
    assert len(game.platform.runs) == 40


def test_the_port_check_counts(tmp_path: Path) -> None:
    """AR-3.5, AR-3.6: the platform's own health is combined with the command, and the detail says which failed."""
    game = Game(tmp_path, declaration(module(port=80)))
    game.platform["web/web-1"].port_health = False
    game.play(30, PASSES)
    record = game.supervisor.snapshot().records[Key("web", "web-1")]
    assert (record.tracker.health.value, record.tracker.detail) == ("unhealthy", "port check failing")
    game.platform["web/web-1"].port_health = None
    game.make_pass()  # a running instance without an address
    record = game.supervisor.snapshot().records[Key("web", "web-1")]
    assert record.tracker.detail == "readiness command passing"


def test_root_is_logged(tmp_path: Path) -> None:
    """AR-3.2: user 0 is logged at the start."""
    game = Game(tmp_path, ONE, uid=0)
    game.supervisor.start()
    assert game.supervisor.stop(PATIENCE)
    assert (logging.WARNING, "readiness commands run as root (IDKMESH_PROBE_UID is 0)") in game.lines


# --- drivers that do not do their part --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [DriverError("the daemon does not answer"), KeyError("x")])
def test_a_silent_platform_is_told_once(tmp_path: Path, fault: Exception) -> None:
    """AR-8.4, AR-1.2: a platform that does not answer makes nobody unhealthy; it is told once until it answers."""
    game = Game(tmp_path, ONE)
    game.play(30, PASSES)
    game.platform.silent = fault
    game.play(120)
    assert game.whats() == ["instance.healthy", "check.could_not_run"]
    record = game.supervisor.snapshot().records[Key("web", "web-1")]
    assert record.instance is not None
    assert record.instance.state is InstanceState.UNREACHABLE
    assert record.tracker.health.value == "unknown"
    game.platform.silent = None
    game.play(30)
    assert game.health() == "healthy"


def test_named_instances_are_unknown_from_the_first_pass(tmp_path: Path) -> None:
    """AR-7.2, AR-1.3: in the order of the file, though their platform never answered; one that is renamed is gone."""
    game = Game(tmp_path, declaration(WEB))
    game.platform.silent = DriverError("no daemon")
    game.make_pass()
    snapshot = game.supervisor.snapshot()
    assert [key.name for key in snapshot.records] == ["web-1", "web-2", "web-3"]
    assert {record.tracker.health.value for record in snapshot.records.values()} == {"unknown"}
    assert {record.reason for record in snapshot.records.values()} == {"its platform tells nothing of its instances"}
    assert snapshot.platforms == {"sim": "no daemon"}
    assert snapshot.reason_of(WEB) == "platform sim tells nothing of its instances: no daemon"
    game.supervisor.reload(declaration(replace(WEB, instances=("web-2", "web-4"))))
    game.play(400)
    assert [key.name for key in game.supervisor.snapshot().records] == ["web-2", "web-4"]
    assert game.platform.restarts == []
    assert game.whats().count("check.could_not_run") == 1
    game.platform.silent = None
    game.play(30, PASSES)
    assert game.health("web/web-2") == "healthy"
    assert game.supervisor.snapshot().platforms == {"sim": None}
    assert game.supervisor.snapshot().reason_of(WEB) is None


def test_names_of_a_silent_platform_stand_in_the_order_of_the_file(tmp_path: Path) -> None:
    """AR-7.2: also where some were seen before it fell silent, and keep what is known of them."""
    game = Game(tmp_path, declaration(replace(WEB, instances=("web-2",))))
    game.play(30, PASSES)
    game.platform.silent = DriverError("no daemon")
    game.supervisor.reload(declaration(WEB))
    game.make_pass()
    records = game.supervisor.snapshot().records
    assert [(key.name, record.tracker.health.value) for key, record in records.items()] == [
        ("web-1", "unknown"),
        ("web-2", "healthy"),
        ("web-3", "unknown"),
    ]


def test_a_standby_says_nothing_of_platforms(tmp_path: Path) -> None:
    """AR-6.4, AR-7.2: it asks none, so none is reachable or unreachable by it."""
    clock = ManualClock()
    keeper = Keeper(LeaseTable(clock))
    game = Game(tmp_path, ONE, clock=clock, lease=keeper)
    keeper.turn()
    game.platform.silent = DriverError("no daemon")
    game.make_pass()
    assert game.supervisor.snapshot().platforms == {"sim": "no daemon"}
    clock.move(60)
    game.make_pass()
    snapshot = game.supervisor.snapshot()
    assert (snapshot.role, snapshot.platforms, snapshot.records) == (Role.STANDBY, {}, {})


def test_a_selector_that_matches_nothing_is_told_once(tmp_path: Path) -> None:
    """AR-7.2, AR-7.3: by a line, an event and the module's reason, until one is there; a silence is no match."""
    selected = module(instances=(), selector={"user.idkmesh.module": "web", "user.a": "b"})
    game = Game(tmp_path, declaration(selected))
    game.make_pass()
    game.platform.silent = DriverError("no daemon")
    game.make_pass()
    game.platform.silent = None
    game.make_pass()
    (first, silence) = game.told
    reason = (
        "its selector matches no instance: none has what it wants of user.idkmesh.module, user.a; run lxc config set "
        "NAME user.idkmesh.module web"
    )
    assert (first.what, first.subject) == ("idkmesh.check.could_not_run", "web")
    assert first.facts == {"module": "web", "check": "selector", "reason": reason}
    assert silence.facts["driver"] == "sim"
    assert (logging.WARNING, f"module web: {reason}; this is told once until one is there") in game.lines
    assert game.supervisor.snapshot().reason_of(selected) == reason
    game.platform.instances_of[Key("web", "x")] = Simulated()
    game.make_pass()
    assert game.supervisor.snapshot().reason_of(selected) is None
    del game.platform.instances_of[Key("web", "x")]
    game.make_pass()
    assert len(game.told) == 3


def test_a_long_selector_is_cut_short(tmp_path: Path) -> None:
    """AR-7.3: of a selector three keys are named, and no value, which somebody else may have chosen."""
    selected = module(instances=(), selector={f"user.k{number}": "secret" for number in range(16)})
    game = Game(tmp_path, declaration(selected))
    game.make_pass()
    reason = str(game.supervisor.snapshot().reason_of(selected))
    assert "wants of user.k0, user.k1, user.k2, ...; run lxc config set NAME KEY VALUE" in reason
    assert "secret" not in reason


def test_a_bad_driver_hurts_only_its_own(tmp_path: Path) -> None:
    """AR-3.2: of 200 instances of two platforms, one of which hangs, those of the other are judged as ever."""
    names = [f"n-{number}" for number in range(100)]
    clock = ManualClock()
    hung, fine = Platform(clock, {"hung": names}), Platform(clock, {"web": names})
    opened = threading.Event()
    hung.hook = hanging("run", opened)
    declared = declaration(
        module("hung", driver="hung", instances=tuple(names), readiness=Readiness(("x",), 0)),
        module("web", driver="fine", instances=tuple(names)),
    )
    game = Game(tmp_path, declared, clock=clock, drivers={"hung": hung, "fine": fine}, patience=Patience(PATIENCE, 0.1))
    try:
        game.play(200, FAILS)
        records = game.supervisor.snapshot().records
        healths = {key.module: set[str]() for key in records}
        for key, record in records.items():
            healths[key.module].add(record.tracker.health.value)
        assert healths == {"hung": {"unknown"}, "web": {"healthy"}}
        assert len(hung.runs) == 8
        assert hung.restarts == fine.restarts == []
    finally:
        opened.set()


def test_a_listing_that_hangs_is_given_up(tmp_path: Path) -> None:
    """AR-3.2: a driver whose listing does not come back says nothing of its instances, and the pass goes on."""
    game = Game(tmp_path, ONE, patience=Patience(0.05, 0.05))
    opened = threading.Event()
    game.platform.hook = hanging("instances", opened)
    game.make_pass()
    game.make_pass()
    opened.set()
    assert game.whats() == ["check.could_not_run"]
    assert game.told[0].facts["reason"] == "its driver has not come back"


def test_a_restart_that_fails(tmp_path: Path) -> None:
    """AR-5.3, AR-5.5: a restart that did not come about is told, and its claim is spent."""
    game = Game(tmp_path, ONE)
    game.platform.restart_fault = DriverError("the daemon says no")
    game.play(379, FAILS)
    assert instants(game) == [80.0]
    assert game.whats() == ["instance.unhealthy", "instance.restart_failed"]
    assert game.told[1].facts["outcome"] == "the daemon says no"
    record = game.supervisor.snapshot().records[Key("web", "web-1")]
    assert (record.restarts, record.tracker.health.value) == (0, "unhealthy")


def test_a_restart_that_hangs(tmp_path: Path) -> None:
    """AR-5.5: a restart that does not come back is told to be not known."""
    game = Game(tmp_path, ONE, restart_seconds=0.05)
    opened = threading.Event()
    game.platform.hook = hanging("restart", opened)
    game.play(81, FAILS)
    opened.set()
    assert game.told[-1].facts["outcome"] == "its driver has not come back: whether it came about is not known"


def test_a_restart_that_hangs_twice(tmp_path: Path) -> None:
    """AR-5.5, AR-3.2: while a restart has not come back no other one of that instance is begun, which is told."""
    game = Game(tmp_path, ONE, restart_seconds=0.05)
    opened = threading.Event()
    game.platform.hook = hanging("restart", opened)
    game.play(381, FAILS)
    opened.set()
    assert instants(game) == [80.0]
    assert game.told[-1].facts["outcome"] == "its driver has not come back from earlier calls"


def test_a_driver_with_a_fault(tmp_path: Path) -> None:
    """AR-5.5: what a driver raises without words of its own is told by its kind alone."""
    game = Game(tmp_path, ONE)
    game.platform.restart_fault = KeyError("a password")
    game.play(81, FAILS)
    assert game.told[-1].facts["outcome"] == "its driver has a fault: KeyError"


# --- events, the lease, the stores ------------------------------------------------------------------------------------


def test_without_the_event_nothing_is_restarted(tmp_path: Path) -> None:
    """AR-5.5: if the event before cannot be recorded, nothing is restarted, which is told once."""
    game = Game(tmp_path, ONE)
    game.can_record = False
    game.play(200, FAILS)
    assert game.platform.restarts == []
    assert game.lease.store.claims == {}
    assert [line for level, line in game.lines if level == logging.ERROR] == [
        "the restart of web/web-1 cannot be recorded, so nothing is restarted"
    ]
    game.can_record = True
    game.make_pass()
    assert instants(game) == [200.0]


def test_who_records_may_raise(tmp_path: Path) -> None:
    """AR-5.5: a fault of who records is no record."""

    def broken(_: object) -> bool:
        raise OSError

    game = Game(tmp_path, ONE, record=broken)
    game.play(100, FAILS)
    assert game.platform.restarts == []


def test_a_taker_of_changes_may_raise(tmp_path: Path) -> None:
    """AR-7.3: a fault of who takes changes ends nothing."""

    def broken(_: object) -> None:
        raise OSError

    game = Game(tmp_path, ONE, changed=broken)
    game.play(100, FAILS)
    assert instants(game) == [80.0]


def test_standby_asks_nothing(tmp_path: Path) -> None:
    """AR-6.4: who does not hold the lease checks nothing, and says who does."""
    clock = ManualClock()
    table = LeaseTable(clock)
    table.acquire("two", 1e6)
    lease = Keeper(table)
    lease.turn()
    game = Game(tmp_path, ONE, clock=clock, lease=lease)
    game.play(100, FAILS)
    snapshot = game.supervisor.snapshot()
    assert (snapshot.role, snapshot.holder, dict(snapshot.records)) == (Role.STANDBY, "two", {})
    assert game.platform.runs == []


def test_the_lease_is_not_waited_for_until_the_next_pass(tmp_path: Path) -> None:
    """AR-6.4: a pass follows the lease at once, though the next one would be due at an instant that never comes."""
    clock = ManualClock()
    game = Game(tmp_path, ONE, clock=clock, lease=Keeper(LeaseTable(clock)))
    game.supervisor.start()
    try:
        assert waited(lambda: game.supervisor.snapshot().role is Role.STANDBY)
        game.lease.turn()
        assert waited(lambda: game.supervisor.snapshot().role is Role.HOLDER)
    finally:
        assert game.supervisor.stop(PATIENCE)


def test_standby_shows_nothing_of_before(tmp_path: Path) -> None:
    """AR-6.4, AR-1.3: who held the lease before knows nothing of the instances now, and shows none."""
    clock = ManualClock()
    table = LeaseTable(clock)
    lease = Keeper(table)
    lease.turn()
    game = Game(tmp_path, ONE, clock=clock, lease=lease)
    game.make_pass()
    assert game.supervisor.snapshot().records
    clock.move(Keeper.TTL)
    table.acquire("two", 1e6)
    game.make_pass()
    snapshot = game.supervisor.snapshot()
    assert (snapshot.role, snapshot.holder, dict(snapshot.records)) == (Role.STANDBY, "two", {})


def test_a_lost_lease_ends_the_pass(tmp_path: Path) -> None:
    """AR-6.3: what runs is finished, nothing is started, and what was seen counts for nothing."""
    names = tuple(f"web-{number}" for number in range(100))
    clock = ManualClock()
    lease = Keeper(LeaseTable(clock))
    lease.turn()
    game = Game(tmp_path, declaration(module(instances=names)), clock=clock, lease=lease)
    game.platform.hook = lambda what, _key: clock.move(60) if what == "run" else None
    game.make_pass()
    assert 1 <= len(game.platform.runs) <= 8
    assert game.supervisor.snapshot().role is Role.STANDBY


def test_a_lease_lost_before_the_call(tmp_path: Path) -> None:
    """AR-5.4: the lease is looked at right before the call: lost there, nothing is restarted, and that is told."""
    clock = ManualClock()
    lease = Keeper(LeaseTable(clock))
    game = Game(tmp_path, ONE, clock=clock, lease=lease)
    game.platform.all_run(FAILS)
    for _ in range(16):
        lease.turn()
        game.play(5)
    lease.turn()
    claim = lease.store.claim

    def slow_claim(*given: object) -> bool:
        granted = bool(claim(*given))
        if given[1] == "sim/web-1":
            clock.move(13)
        return granted

    lease.store.claim = slow_claim
    game.make_pass()
    assert game.platform.restarts == []
    assert game.told[-1].facts["outcome"] == "the lease is no longer ours"


def test_the_look_right_before_the_call(tmp_path: Path) -> None:
    """AR-5.4: the last look at the lease is the restart's own: lost by then, the daemon is not called."""

    class Lease(AlwaysHeld):
        def held(self) -> Grant | None:
            held = super().held()
            return held if threading.current_thread() is threading.main_thread() else None

    clock = ManualClock()
    game = Game(tmp_path, ONE, clock=clock, lease=Lease(LeaseTable(clock)))
    game.play(81, FAILS)
    assert game.platform.restarts == []
    assert game.told[-1].facts["outcome"] == "the lease is no longer ours"


def test_a_lease_lost_before_the_claim(tmp_path: Path) -> None:
    """AR-5.3, AR-6.3: a claim that fails with the lease is no claim of somebody else's: nothing is remembered."""
    clock = ManualClock()
    lease = Keeper(LeaseTable(clock))

    def slow_record(_: object) -> bool:
        clock.move(16)
        return True

    game = Game(tmp_path, ONE, clock=clock, lease=lease, record=slow_record)
    game.platform.all_run(FAILS)
    for _ in range(17):
        lease.turn()
        game.play(5)
    assert game.platform.restarts == []
    assert game.told[-1].facts["outcome"] == "the lease is no longer ours"
    record = game.supervisor.snapshot().records
    assert all(each.restart is None for each in record.values())


def test_another_supervisor_takes_the_store(tmp_path: Path) -> None:
    """AR-6.3: where another supervisor has taken over the trackers, what is claimed is not done, and is told."""
    game = Game(tmp_path, ONE)
    game.play(80, FAILS)
    claim = game.lease.store.claim

    def taken(*given: object) -> bool:
        game.store.adopt("two", game.clock.stamp())
        return bool(claim(*given))

    game.lease.store.claim = taken
    game.make_pass()
    assert game.platform.restarts == []
    assert game.told[-1].facts["outcome"] == "the lease is no longer ours"


def test_another_hosts_restart_holds_up_ours(tmp_path: Path) -> None:
    """AR-5.2, AR-5.3: a supervisor without our trackers has restarted a replica: its claim of the module is seen."""
    game = Game(tmp_path, declaration(WEB))
    game.lease.turn()
    game.lease.store.claims["web"] = game.clock.boot
    game.play(296, FAILS)
    assert game.platform.restarts == []
    assert game.told[-1].facts["outcome"] == "another replica of the module was restarted within the cooldown"
    assert len(game.recorded) == 4  # at 80, 140, 200 and 260 s: not with every pass
    game.play(60)
    assert len(game.platform.restarts) == 1


def test_a_module_that_was_away_is_not_known(tmp_path: Path) -> None:
    """AR-5.2: a module that a reload takes out and another brings back: its restart is forgotten, its claim counts."""
    game = Game(tmp_path, declaration(WEB, module("api")))
    game.play(81, FAILS)
    for modules in ([module("api")], [WEB, module("api")]):
        game.supervisor.reload(declaration(*modules))
        game.play(5)
    game.platform["web/web-1"].run = COULD_NOT
    game.play(280)
    assert [at - BOOT for key, at in game.platform.restarts if key.module == "web"] == [80.0]
    game.play(60)
    assert len([key for key, _ in game.platform.restarts if key.module == "web"]) == 2


def test_a_store_that_comes_back_with_less(tmp_path: Path) -> None:
    """AR-5.2, AR-4.5: trackers that could not be taken over come back without the last restart: its claim counts."""
    before = Game(tmp_path, declaration(WEB))
    before.make_pass()
    before.store.adopt("another holding", before.clock.stamp())
    aside = tmp_path / "aside"
    before.store.path.rename(aside)
    before.store.path.mkdir()
    game = Game(tmp_path, declaration(WEB), platform=before.platform, clock=before.clock)
    game.play(100, FAILS)
    before.store.path.rmdir()
    aside.rename(before.store.path)
    game.platform["web/web-1"].run = COULD_NOT
    game.play(250)
    assert instants(game) == [80.0]


def test_another_hosts_restart_of_who_is_alone(tmp_path: Path) -> None:
    """AR-5.2: where all the others are healthy, a claim of the module holds up nobody."""
    game = Game(tmp_path, declaration(WEB))
    game.lease.turn()
    game.lease.store.claims["web"] = game.clock.boot
    game.platform["web/web-2"].run = FAILS
    game.play(100)
    assert instants(game) == [80.0]


def test_a_claim_that_is_taken(tmp_path: Path) -> None:
    """AR-5.3: an instance that was claimed within its cooldown is not restarted, and not before another cooldown."""
    game = Game(tmp_path, ONE)
    game.lease.turn()
    game.lease.store.claims["sim/web-1"] = game.clock.boot
    game.play(379, FAILS)
    assert game.platform.restarts == []
    assert game.whats()[-1] == "instance.restart_failed"
    game.play(5)
    assert instants(game) == [380.0]


def test_a_module_with_another_name(tmp_path: Path) -> None:
    """AR-5.1, AR-5.3: the instance is the same when its module is called otherwise: its cooldown goes on."""
    clock = ManualClock()
    platform = Platform(clock, {"web": ("web-1",), "shop": ("web-1",)})
    game = Game(tmp_path, ONE, clock=clock, platform=platform)
    game.play(90, FAILS)
    game.supervisor.reload(declaration(module("shop", instances=("web-1",))))
    game.play(285)
    assert instants(game) == [80.0]
    game.play(300)
    assert len(instants(game)) == 2


def test_a_silent_lease_store(tmp_path: Path) -> None:
    """AR-5.3, AR-6.3: a store that does not answer gives no claim; it is tried again after a minute."""
    clock = ManualClock()
    table = LeaseTable(clock)
    game = Game(tmp_path, ONE, clock=clock, lease=Held(table))
    game.play(80, FAILS)
    table.silent = True
    game.play(55)
    table.silent = False
    game.play(10)
    assert game.told[1].facts["outcome"] == "the lease's store did not answer"
    assert instants(game) == [140.0]


def test_a_store_that_falls_silent_between_two_claims(tmp_path: Path) -> None:
    """AR-5.3: the module's claim is ours, and no other's that would hold us up for a cooldown."""
    game = Game(tmp_path, declaration(WEB))
    claim, asked = game.lease.store.claim, itertools.count()

    def claims_once(*given: object) -> bool:
        if next(asked) == 1:
            raise LeaseStoreError("the lease's store does not answer")
        return bool(claim(*given))

    game.lease.store.claim = claims_once
    game.play(150, FAILS)
    assert game.told[3].facts["outcome"] == "the lease's store did not answer"
    assert instants(game) == [140.0]


class Held(Keeper):
    """Holds its lease whether the store answers or not, as one does until its time is over."""

    def held(self) -> object:  # type: ignore[override]
        if not self._table.silent:
            self.turn()
        self._until = self._table.clock.boot + 1
        return super().held()

    def holder_name(self) -> str | None:
        return "one"


def test_a_store_that_cannot_be_used(tmp_path: Path) -> None:
    """AR-4.5: without a store trackers are kept in memory, which is told once, and again when that is over."""
    place = tmp_path / "state"
    place.touch()
    game = Game(place, ONE)
    game.play(100, FAILS)
    assert instants(game) == [80.0]
    errors = [line for level, line in game.lines if level == logging.ERROR]
    assert len(errors) == 1
    assert game.supervisor.snapshot().store_fault == errors[0]
    place.unlink()
    game.make_pass()
    assert game.supervisor.snapshot().store_fault is None


def test_a_pass_that_has_a_fault(tmp_path: Path) -> None:
    """AR-6.3: a fault of ours is told once, and the next pass follows."""
    broken = threading.Event()

    class Lease(Keeper):
        def held(self) -> None:
            broken.set()
            raise KeyError("a fault")

    game = Game(tmp_path, replace_interval(0), lease=Lease(LeaseTable(ManualClock())), stamp=system_stamp)
    game.supervisor.start()
    assert broken.wait(PATIENCE)
    assert game.supervisor.stop(PATIENCE)
    assert [line for _, line in game.lines] == ["a pass of the supervisor has a fault, it goes on: KeyError: 'a fault'"]


def replace_interval(seconds: int) -> Declaration:
    return replace(ONE, supervisor=replace(ONE.supervisor, interval_s=seconds))


# --- its own life -----------------------------------------------------------------------------------------------------


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    """AR-4.5: a supervisor that ends and comes again within three passes goes on where it was."""
    game = Game(tmp_path, ONE)
    game.play(60, FAILS)
    again = Game(tmp_path, ONE, platform=game.platform, clock=game.clock, lease=game.lease)
    again.play(30)
    assert instants(again) == [80.0]


def test_a_time_without_a_supervisor(tmp_path: Path) -> None:
    """AR-4.5, AR-4.3: a time without a supervisor is one without evidence: the next result begins a run."""
    game = Game(tmp_path, ONE)
    game.play(75, FAILS)
    game.clock.move(3600)
    again = Game(tmp_path, ONE, platform=game.platform, clock=game.clock, lease=game.lease)
    again.play(85)
    assert instants(again) == [75.0 + 3600 + 80]


def test_a_cooldown_survives_a_boot(tmp_path: Path) -> None:
    """AR-4.5, AR-5.1: a restart is remembered beyond a start of the machine."""
    game = Game(tmp_path, ONE)
    game.play(85, FAILS)
    game.clock.reboot(100)
    lease = Keeper(LeaseTable(game.clock))
    lease.turn()
    again = Game(tmp_path, ONE, platform=game.platform, clock=game.clock, lease=lease)
    again.make_pass()
    restart = again.supervisor.snapshot().records[Key("web", "web-1")].restart
    assert restart is not None
    assert game.clock.boot - restart.at == 105.0


def test_a_pause_is_no_evidence(tmp_path: Path) -> None:
    """AR-4.3, AR-4.5: a supervisor that is stopped for an hour in the middle of a pass does not count that hour."""
    game = Game(tmp_path, ONE)
    game.play(40, FAILS)
    game.platform.hook = lambda what, _key: game.clock.move(3600) if what == "run" else None
    game.make_pass()
    game.platform.hook = lambda _what, _key: None
    game.make_pass()
    assert game.platform.restarts == []
    assert game.health() == "unknown"


def test_nothing_is_decided_after_a_pause(tmp_path: Path) -> None:
    """AR-5.1, AR-4.5: a pass that is paused before it decides is too old to restart by, whatever the lease says."""

    class Lease(AlwaysHeld):
        TTL = 1e6

    clock = ManualClock()
    game = Game(tmp_path, ONE, clock=clock, lease=Lease(LeaseTable(clock)))
    game.play(80, FAILS)
    game.platform.hook = lambda what, _key: game.clock.move(3600) if what == "run" else None
    game.make_pass()
    assert game.platform.restarts == []
    assert game.recorded == []


def test_a_reload_keeps_what_is_unchanged(tmp_path: Path) -> None:
    """AR-7.1, AR-7.3: of a reload instances of which the same is asked keep their trackers; others begin anew."""
    platform_names = {"web": ["web-1"], "api": ["api-1"], "old": ["old-1"], "new": ["new-1"]}
    clock = ManualClock()
    game = Game(
        tmp_path,
        declaration(module(), module("api"), module("old")),
        clock=clock,
        platform=Platform(clock, platform_names),
    )
    game.play(30)
    game.supervisor.reload(
        declaration(
            module(kind=ModuleKind.STATEFUL), module("api", readiness=Readiness(("/bin/other",))), module("new")
        )
    )
    game.make_pass()
    healths = {key.module: record.tracker.health.value for key, record in game.supervisor.snapshot().records.items()}
    assert healths == {"web": "healthy", "api": "unknown", "new": "unknown"}
    counts = {"modules": 3, "kept": 1, "changed": 1, "added": 1, "removed": 1}
    assert game.told[-1].facts == {**counts, "platforms": []}
    game.play(200, FAILS)
    assert "web" not in {key.module for key, _ in game.platform.restarts}


def test_another_port_was_never_open(tmp_path: Path) -> None:
    """AR-3.5: that a port was open is forgotten with it: of the port that is declared now a timeout says nothing."""
    game = Game(tmp_path, declaration(module(port=80)))
    game.platform["web/web-1"].port_health = True
    game.make_pass()
    opened = [game.supervisor.snapshot().records[Key("web", "web-1")].tracker.opened]
    game.platform["web/web-1"].port_health = None
    game.supervisor.reload(declaration(module(port=81)))
    game.make_pass()
    opened.append(game.supervisor.snapshot().records[Key("web", "web-1")].tracker.opened)
    assert opened == [True, False]


def test_a_reload_forgets_no_restart(tmp_path: Path) -> None:
    """AR-5.1: another command begins the tracker anew, and not the cooldown."""
    game = Game(tmp_path, ONE)
    game.play(85, FAILS)
    game.supervisor.reload(declaration(module(readiness=Readiness(("/bin/other",)))))
    game.play(294)
    assert instants(game) == [80.0]


def test_an_instance_that_is_no_longer_listed(tmp_path: Path) -> None:
    """AR-4.3: an instance that nobody lists any more is kept as long as its evidence, and then forgotten."""
    game = Game(tmp_path, declaration(WEB))
    game.play(30)
    del game.platform.instances_of[Key("web", "web-2")]
    game.make_pass()
    record = game.supervisor.snapshot().records[Key("web", "web-2")]
    assert record.reason == "the instance is no longer listed"
    game.play(30)
    assert Key("web", "web-2") not in game.supervisor.snapshot().records


def test_a_restarted_one_that_is_no_longer_listed(tmp_path: Path) -> None:
    """AR-5.2: it is not healthy, so the next replica waits until its cooldown is over, though nobody lists it."""
    game = Game(tmp_path, declaration(WEB))
    game.play(81, FAILS)
    (first, _), *_ = game.platform.restarts
    del game.platform.instances_of[first]
    game.play(290)
    assert instants(game) == [80.0]
    game.play(30)
    assert len(game.platform.restarts) == 2


def test_passes_follow_one_another(tmp_path: Path) -> None:
    """AR-3.2: one pass at a time; one that takes longer than the interval is followed at once, never joined."""
    at_once: list[int] = []
    game = Game(tmp_path, replace_interval(0), stamp=system_stamp)
    enough = threading.Event()

    def listing(what: str, _: object) -> None:
        if what == "instances":
            at_once.append(1)
            time.sleep(0.01)
            at_once.pop()
            if len(game.platform.runs) > 5:
                enough.set()
            assert at_once == []

    game.platform.hook = listing
    game.supervisor.start()
    with pytest.raises(RuntimeError, match="started once"):
        game.supervisor.start()
    assert enough.wait(PATIENCE)
    assert game.supervisor.stop(PATIENCE)
    runs = len(game.platform.runs)
    assert game.supervisor.stop(PATIENCE)
    assert len(game.platform.runs) == runs


def test_stop_says_when_it_was_not_enough(tmp_path: Path) -> None:
    """AR-6.3: what runs is waited for, at most so long as was said."""
    game = Game(tmp_path, ONE)
    opened, running = threading.Event(), threading.Event()

    def hang(what: str, _: object) -> None:
        if what == "run":
            running.set()
            opened.wait(PATIENCE)

    game.platform.hook = hang
    game.supervisor.start()
    assert running.wait(PATIENCE)
    assert not game.supervisor.stop(0.05)
    opened.set()
    assert game.supervisor.stop(PATIENCE)


def test_an_interrupted_restart_is_told(tmp_path: Path) -> None:
    """AR-5.5: a restart that was begun by a supervisor that has ended since is told to be not known, once."""
    game = Game(tmp_path, ONE)

    def die(what: str, _: object) -> None:
        if what == "restart":
            game.supervisor._restarter._end = lambda *_: (_ for _ in ()).throw(SystemExit)  # type: ignore[method-assign]

    game.platform.hook = die
    with pytest.raises(SystemExit):
        game.play(85, FAILS)
    afterwards: list[Game] = []
    for _ in range(2):
        game.lease._grant = game.lease._table.grant = None
        afterwards.append(Game(tmp_path, ONE, platform=game.platform, clock=game.clock, lease=game.lease))
        game.platform.hook = lambda _what, _key: None
        afterwards[-1].make_pass()
    told = [change for each in afterwards for change in each.told if change.what.endswith("restart_failed")]
    assert [change.facts["outcome"] for change in told] == [
        "the supervisor has ended meanwhile: whether it came about is not known"
    ]
    restart = afterwards[0].supervisor.snapshot().records[Key("web", "web-1")].restart
    assert restart is not None
    assert restart.end is RestartEnd.FAILED


def test_an_adoption_that_came_about_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-4.5: who got no answer saves nothing over what it has not read, though the store has its name by then."""
    game = Game(tmp_path, ONE)
    game.play(30.0, FAILS)
    game.supervisor = Game(tmp_path, ONE, platform=game.platform, clock=game.clock).supervisor
    real = TrackerStore.adopt

    def late(store: TrackerStore, owner: str, now: Stamp) -> list[Kept]:
        real(store, owner, now)
        raise TrackerStoreError("no answer")

    monkeypatch.setattr(TrackerStore, "adopt", late)
    game.make_pass()
    assert game.health() == "unknown"
    monkeypatch.undo()
    game.make_pass()
    assert game.health() == "unhealthy"


def test_many_that_say_nothing_are_one_line(tmp_path: Path) -> None:
    """AR-7.3: beyond twenty for one reason in one pass they are one event and one line, with their number, once."""
    names = tuple(f"web-{number}" for number in range(990))
    game = Game(tmp_path, declaration(module(instances=names), module("api", instances=tuple("abcdefghij"))))
    for each in game.platform.instances_of.values():
        each.state = InstanceState.GONE
    game.play(30.0)
    assert game.whats() == ["check.could_not_run"]
    (change,) = game.told
    assert change.subject == "1,000 instances of 2 modules"
    facts = {"instances": 1000, "modules": 2, "check": "instance", "reason": "the instance is not there"}
    assert change.facts == facts
    ((_, line),) = game.lines
    assert line.startswith("instance of 1,000 instances of 2 modules says nothing: the instance is not there; ")


def test_a_few_that_say_nothing_are_told_by_name(tmp_path: Path) -> None:
    """AR-1.2, AR-7.3: up to twenty each has its own event; of one module the event that gathers more names it."""
    for count, told in ((20, 20), (21, 1)):
        folder = tmp_path / str(count)
        game = Game(folder, declaration(module(instances=tuple(f"web-{number}" for number in range(count)))))
        game.platform.all_run(LEFT)
        game.make_pass()
        assert game.whats() == ["check.misdeclared"] * told
        assert {change.facts["module"] for change in game.told} == {"web"}


def test_drivers_are_released_when_a_reload_is_taken(tmp_path: Path) -> None:
    """AR-7.6: those that no pass uses any more, also one that no pass ever used, and each of them once."""
    released: list[Driver] = []
    game = Game(tmp_path, ONE, released=released.extend)
    game.make_pass()
    never, newest = (Platform(game.clock, {"web": ("web-1",)}) for _ in range(2))
    game.supervisor.reload(ONE, {"sim": never})
    game.supervisor.reload(ONE, {"sim": newest})
    assert released == []
    game.make_pass()
    assert released == [game.platform, never]
    game.supervisor.reload(ONE)
    game.make_pass()
    assert released == [game.platform, never]
    assert newest.runs


def test_no_reload_is_lost(tmp_path: Path) -> None:
    """AR-7.1: of two declarations before one pass the last counts, with the drivers that came with the first."""
    game = Game(tmp_path, ONE)
    game.make_pass()
    other = Platform(game.clock, {"api": ["api-1"]})
    game.supervisor.reload(declaration(module("web"), module("api")), {"sim": other})
    game.supervisor.reload(declaration(module("api")))
    game.make_pass()
    assert [each.name for each in game.supervisor.snapshot().modules] == ["api"]
    assert other.runs == [Key("api", "api-1")]
    assert game.whats().count("modules.reloaded") == 2


def test_a_reload_is_told_at_once(tmp_path: Path) -> None:
    """AR-7.6: before a pass takes it, so that no later refusal stands above it; with what platform has changed."""
    game = Game(tmp_path, declaration(WEB))
    game.supervisor.reload(declaration(WEB), {"sim": Platform(game.clock, {})})
    game.supervisor.reload(declaration(WEB, module("api")))
    first, second = game.told
    counts = {"modules": 1, "kept": 1, "changed": 0, "added": 0, "removed": 0}
    assert first.facts == {**counts, "platforms": ["sim"]}
    assert second.facts == {**counts, "modules": 2, "added": 1, "platforms": []}
    told = "the declaration of modules was read again: 1 kept, 0 changed, 0 added, 0 removed"
    assert game.lines[0] == (logging.INFO, f"{told}; platform sim has changed; it counts from the next pass")
    assert [each.name for each in game.supervisor.snapshot().modules] == ["web"]


def test_first_healthy_instances_share_a_line(tmp_path: Path) -> None:
    """AR-7.1: at a start those that become healthy in one pass stand in one line, the first five by name."""
    names = tuple(f"web-{number}" for number in range(1, 8))
    game = Game(tmp_path, declaration(module(instances=names)))
    game.play(30, PASSES)
    assert game.whats() == ["instance.healthy"] * 7
    line = "instances web/web-1, web/web-2, web/web-3, web/web-4, web/web-5 and 2 more are healthy"
    assert game.lines == [(logging.INFO, line)]
    game.platform["web/web-3"].identity = "b"
    game.play(30)
    assert game.lines[1:] == [(logging.INFO, "instance web/web-3 is healthy")]


def test_a_claim_that_has_a_fault(tmp_path: Path) -> None:
    """AR-5.3, AR-5.5: whatever the lease's store raises, nothing is restarted, and no event before stands alone."""
    game = Game(tmp_path, ONE)

    def fault(*_: object) -> bool:
        raise AttributeError("of the store")

    game.lease.store.claim = fault
    game.play(90, FAILS)
    assert game.platform.restarts == []
    assert [change.what for change in game.recorded] == ["idkmesh.instance.restart_requested"]
    assert game.whats().count("instance.restart_failed") == 1
