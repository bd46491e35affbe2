"""The keeper, turn by turn on a clock that is set by hand, and once with its thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.changes import LEASE_ACQUIRED, LEASE_LOST
from idkmesh.workloads.lease.keeper import LeaseKeeper
from idkmesh.workloads.lease.sqlite import SqliteLeaseStore
from idkmesh.workloads.lease.store import Grant, LeaseStoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from idkmesh.changes import Change

TTL = 15.0
OURS = "the lease is ours (default): one supervises from now on"


class World:
    """A boot clock, a real store on it, and what goes wrong on the way to the store.

    ``before`` and ``after`` are called around each call of the store: they may raise, and let time pass.
    """

    def __init__(self, path: Path) -> None:
        self.now = 100.0
        self.real = SqliteLeaseStore(path, clock=lambda: self.now, boot="boot")
        self.claim_slack = self.real.claim_slack
        self.name, self.place = self.real.name, self.real.place
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None
        self.changes: list[Change] = []
        self.calls: list[str] = []
        self.keeper = self.another("one")

    def another(self, holder: str) -> LeaseKeeper:
        return LeaseKeeper(self, holder, TTL, clock=lambda: self.now, changed=self.changes.append)

    def words(self) -> list[str]:
        return [change.what for change in self.changes]

    def _around(self, name: str, call: Callable[[], object]) -> None:
        self.calls.append(name)
        self.before()
        call()
        self.after()

    def acquire(self, holder: str, ttl: float) -> Grant | None:
        came: list[Grant | None] = []
        self._around("acquire", lambda: came.append(self.real.acquire(holder, ttl)))
        return came[0]

    def renew(self, grant: Grant, ttl: float) -> bool:
        came: list[bool] = []
        self._around("renew", lambda: came.append(self.real.renew(grant, ttl)))
        return came[0]

    def release(self, grant: Grant) -> None:
        self._around("release", lambda: self.real.release(grant))

    def holder(self) -> str | None:
        return self.real.holder()

    def claim(self, grant: Grant, instance: str, cooldown: float) -> bool:
        return self.real.claim(grant, instance, cooldown)

    def close(self) -> None:
        self.real.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "lease.sqlite3")


def away() -> None:
    raise LeaseStoreError("the store is away")


def test_it_holds_and_renews(world: World) -> None:
    """AR-6.2: it acquires, and renews each third of the ttl; while that works it may act all the time."""
    keeper = world.keeper
    assert keeper.held() is None
    wait = keeper.turn()
    for _ in range(20):
        assert wait == pytest.approx(TTL / 3)
        assert keeper.held() is not None
        world.now += wait
        assert keeper.held() is not None
        wait = keeper.turn()
    assert keeper.holder_name() == "one"
    assert world.words() == [LEASE_ACQUIRED]
    assert world.changes[0].facts == {"lease": "default", "holder": "one", "ttl_s": TTL}
    assert world.calls.count("renew") == 20


def test_a_standby_says_so_once(world: World) -> None:
    """AR-6.4: who holds it, which lease and where, and that nothing is done here; again for another holder."""
    lines: list[str] = []
    waiting = LeaseKeeper(
        world,
        "w",
        TTL,
        clock=lambda: world.now,
        changed=world.changes.append,
        log=lambda line, level: lines.append(line),
    )
    world.keeper.turn()
    waiting.turn()
    waiting.turn()
    so = "nothing is checked or started here; another declaration wants a lease of its own: name it as"
    assert lines == [f"standby: one holds the lease default ({world.place}): {so} supervisor.lease.name"]
    world.now += TTL
    world.another("two").turn()
    waiting.turn()
    assert [line.split()[1] for line in lines] == ["one", "two"]
    world.now += TTL
    waiting.turn()
    assert lines[2] == OURS.replace("one", "w")
    world.now += TTL
    world.another("two").turn()
    for _ in range(3):
        waiting.turn()
    assert [line.split()[:2] for line in lines[3:]] == [["the", "lease"], ["standby:", "two"]]


def test_a_lease_with_a_name_of_its_own(world: World) -> None:
    """AR-6.4: who has named it knows of names."""
    lines: list[str] = []
    world.name = "shop"
    world.keeper.turn()
    waiting = LeaseKeeper(world, "w", TTL, changed=print, log=lambda line, level: lines.append(line))
    waiting._clock = lambda: world.now
    waiting.turn()
    assert lines == [f"standby: one holds the lease shop ({world.place}): nothing is checked or started here"]


def test_who_waits_says_who_holds(world: World) -> None:
    """AR-6.4: who does not hold it must not act, and knows who does."""
    world.keeper.turn()
    other = world.another("other")
    wait = other.turn()
    assert TTL / 6 <= wait <= TTL / 3
    assert other.held() is None
    assert other.holder_name() == "one"
    assert other.trouble is None


def test_a_pause(world: World) -> None:
    """AR-6.2: a holder that was stopped past the stop may not act, before its thread has done anything."""
    world.keeper.turn()
    world.now += TTL * 0.799
    assert world.keeper.held() is not None
    world.now += TTL * 0.002
    assert world.keeper.held() is None
    assert world.keeper.holder_name() is None


def test_a_pause_in_the_request(world: World) -> None:
    """AR-6.2: a term counts from before the request: an answer that comes after the stop gives no right to act."""

    def pause() -> None:
        world.now += TTL * 0.9

    world.before = pause
    world.keeper.turn()
    assert world.keeper.held() is None
    assert world.words() == []
    world.before = lambda: None
    world.keeper.turn()  # gives back what came too late
    assert world.calls == ["acquire", "release", "acquire"]
    assert world.keeper.held() is not None


def test_a_pause_in_a_renewal(world: World) -> None:
    """AR-6.2: the same of a renewal whose answer is late, while another has taken the lease."""
    world.keeper.turn()
    other = world.another("other")

    def pause() -> None:
        world.before = lambda: None
        world.now += TTL * 1.1
        other.turn()

    world.now += TTL / 3
    world.before = pause
    world.keeper.turn()
    assert world.keeper.held() is None
    assert other.held() is not None
    assert world.words() == [LEASE_ACQUIRED, LEASE_ACQUIRED, LEASE_LOST]
    world.keeper.turn()
    assert world.real.holder() == "other"


def test_the_store_is_away(world: World) -> None:
    """AR-6.3: a store that does not answer is asked again and again; at the stop the lease is lost, and said to be."""
    keeper = world.keeper
    keeper.turn()
    granted = world.now
    world.before = away
    world.now += TTL / 3
    while keeper.held() is not None:
        wait = keeper.turn()
        assert 0 < wait <= 1.01
        assert keeper.trouble == "the store is away"
        world.now += wait
    assert world.now == pytest.approx(granted + TTL * 0.8)
    keeper.turn()
    assert world.words() == [LEASE_ACQUIRED, LEASE_LOST]
    assert world.changes[1].facts == {"lease": "default", "holder": "one", "reason": "the store is away"}
    assert world.calls.count("renew") >= 5


def test_the_store_comes_back(world: World) -> None:
    """AR-6.3: one that answers before the stop costs nothing, one that answers later a new holding."""
    keeper = world.keeper
    keeper.turn()
    first = keeper.held()
    world.before = away
    world.now += TTL / 3
    keeper.turn()
    world.before = lambda: None
    world.now += 1
    keeper.turn()
    assert keeper.held() == first
    assert keeper.trouble is None
    world.before = away
    world.now += TTL * 0.8
    keeper.turn()
    keeper.turn()
    world.before = lambda: None
    keeper.turn()
    assert keeper.held() not in (None, first)
    assert world.words() == [LEASE_ACQUIRED, LEASE_LOST, LEASE_ACQUIRED]


def test_answers_that_are_lost(world: World) -> None:
    """AR-6.2: a renewal that was done and not answered extends nothing for its holder."""
    keeper = world.keeper
    keeper.turn()
    world.now += TTL / 3
    world.after = away
    keeper.turn()
    world.now += TTL * 0.8 - TTL / 3
    assert keeper.held() is None
    world.after = lambda: None
    keeper.turn()
    keeper.turn()
    assert keeper.held() is not None


@pytest.mark.parametrize("seed", range(20))
def test_never_two(world: World, seed: int) -> None:
    """AR-6.1, AR-6.2: through any order of turns, pauses, losses and lost answers at most one may act at an instant."""
    import random  # noqa: PLC0415  the order of things, made again by its seed

    chance = random.Random(seed)
    keepers = [world.another(f"supervisor {number}") for number in range(3)]
    acted = 0

    def trouble() -> None:
        world.now += chance.choice([0, 0.01, 1, TTL])
        if chance.random() < 0.2:
            away()

    for _ in range(150):
        world.before, world.after = chance.choice([(lambda: None, lambda: None), (trouble, trouble)])
        chance.choice(keepers).turn()
        world.now += chance.choice([0.1, 1, 3, TTL / 3, TTL])
        holders = [keeper for keeper in keepers if keeper.held() is not None]
        assert len(holders) <= 1
        acted += len(holders)
    assert acted > 0


def test_its_thread(tmp_path: Path) -> None:
    """AR-6.3: a keeper that is stopped may not act from then on, gives the lease back, and its thread ends."""
    store = SqliteLeaseStore(tmp_path / "lease.sqlite3")
    changes: list[Change] = []
    told = threading.Event()

    def changed(change: Change) -> None:
        changes.append(change)
        told.set()

    keeper = LeaseKeeper(store, "one", TTL, changed=changed)
    assert keeper.stop(0)
    keeper = LeaseKeeper(store, "one", TTL, changed=changed)
    keeper.start()
    with pytest.raises(RuntimeError, match="once"):
        keeper.start()
    assert told.wait(30)
    grant = keeper.held()
    assert grant is not None
    assert store.claim(grant, "web-1", 60)
    assert keeper.stop(30)
    assert keeper.held() is None
    assert store.holder() is None
    assert [change.what for change in changes] == [LEASE_ACQUIRED, LEASE_LOST]
    assert changes[1].facts["reason"] == "given back"


def test_nobody_waits_for_the_store(tmp_path: Path) -> None:
    """AR-5.4, AR-6.2: looking at the lease takes no lock and waits for nothing, while the store hangs."""
    world = World(tmp_path / "lease.sqlite3")
    hanging, going_on = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        going_on.wait(60)

    world.before = hang
    world.keeper.start()
    try:
        assert hanging.wait(30)
        began = time.monotonic()
        for _ in range(1000):
            assert world.keeper.held() is None
        assert time.monotonic() - began < 5
        assert not world.keeper.stop(0)
    finally:
        going_on.set()
        assert world.keeper.stop(30)


def test_impossible_timing() -> None:
    """AR-6.2: a ttl that leaves no time for a pass is refused where the keeper is made."""
    with pytest.raises(ValueError, match="leaves no time"):
        LeaseKeeper(None, "one", 3, changed=print)  # type: ignore[arg-type]  # it is not asked


def test_a_fault_of_the_store_ends_nothing(world: World) -> None:
    """AR-6.3: what no store should raise is told by its kind alone, and the keeper asks again."""

    def fault() -> None:
        raise AttributeError("secret")

    world.before = fault
    wait = world.keeper.turn()
    assert TTL / 6 <= wait <= TTL / 3
    assert world.keeper.trouble == "the lease's store has a fault: AttributeError"
    world.before = lambda: None
    world.keeper.turn()
    assert world.keeper.held() is not None
    assert world.keeper.trouble is None


def test_a_fault_at_the_end(world: World) -> None:
    """AR-6.3: a lease that cannot be given back ends by itself, which is told; the thread ends all the same."""
    lines: list[str] = []
    told = threading.Event()
    keeper = LeaseKeeper(
        world, "one", TTL, changed=lambda change: told.set(), log=lambda line, level: lines.append(line)
    )
    keeper.start()
    assert told.wait(30)

    def fault() -> None:
        raise OSError("away")

    world.before = fault
    assert keeper.stop(30)
    assert lines == [
        OURS,
        "the lease is not given back: the lease's store has a fault: OSError",
        "the lease is no longer ours (default): given back",
    ]


def test_who_takes_changes_has_a_fault(world: World) -> None:
    """AR-6.3: it is told, and the lease is held."""
    lines: list[str] = []

    def changed(change: Change) -> None:
        raise ValueError(change.what)

    keeper = LeaseKeeper(
        world, "one", TTL, clock=lambda: world.now, changed=changed, log=lambda line, level: lines.append(line)
    )
    keeper.turn()
    assert keeper.held() is not None
    assert lines == [OURS, "a taker of changes has a fault: idkmesh.lease.acquired: ValueError"]


def test_a_store_that_is_away_is_told_once(world: World) -> None:
    """AR-1.2, AR-6.3: a standby whose store does not answer says so in its log, once until it does."""
    lines: list[str] = []
    keeper = LeaseKeeper(
        world,
        "one",
        TTL,
        clock=lambda: world.now,
        changed=world.changes.append,
        log=lambda line, level: lines.append(line),
    )
    world.before = away
    keeper.turn()
    keeper.turn()
    world.before = lambda: None
    keeper.turn()
    so = "without the lease nothing is checked, it is asked for again"
    assert lines == [f"the store is away; {so}", OURS, "the lease's store answers again"]


def test_a_holder_whose_store_is_away_is_told_once(world: World) -> None:
    """AR-6.3: it loses the lease meanwhile, for which no store is asked: that is no answer of it."""
    lines: list[str] = []
    world.keeper._voice.line = lambda line, _level: lines.append(line)
    world.now += world.keeper.turn()
    world.before = away
    for _ in range(40):
        world.now += world.keeper.turn()
    assert world.keeper.held() is None
    assert world.keeper.trouble == "the store is away"
    assert [line for line in lines if "answers again" in line or "is away;" in line] == [
        "the store is away; without the lease nothing is checked, it is asked for again"
    ]


def test_who_ends_may_not_act(world: World) -> None:
    """AR-6.3, AR-7.7: from the first word of its end on, not only once the store has heard of it."""
    world.keeper.turn()
    assert world.keeper.held() is not None
    assert world.keeper.stop(0.0)
    assert world.calls == ["acquire"]
    assert world.keeper.held() is None
