"""Supervisors that end, or are paused, at any step: never two restarts of an instance within a cooldown (AR-5, AR-6).

A supervisor runs in a thread of its own that stops at each step and goes on when the test says so. The platform, the
lease's store and the clock are simulated; the supervisor and the tracker store are the real ones. Between the last look
at the lease and the restart there is no step: what can happen there is AR-5.4, and cannot be closed.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.workloads.support import (
    COOLDOWN,
    FAILS,
    IN_MEMORY,
    PASSES,
    Game,
    Keeper,
    LeaseTable,
    ManualClock,
    Platform,
    declaration,
    module,
)

if TYPE_CHECKING:
    from idkmesh.changes import Change
    from idkmesh.workloads.model import Declaration

PATIENCE = 60.0
# Read before the suite takes the variables of the user away.
EXAMPLES = int(os.environ.get("IDKMESH_SUPERVISOR_EXAMPLES", "12"))
"""How many courses of two supervisors are tried; the variable asks for more."""
WEB = declaration(module(instances=("web-1", "web-2")))


class _KilledError(BaseException):
    """The process has ended here."""


class Stepped:
    """A supervisor that stops at each step of a pass. ``steps`` counts those of the pass that goes on."""

    def __init__(self, name: str, folder: Path, declared: Declaration, platform: Platform, table: LeaseTable) -> None:
        self.lease = Keeper(table, name)
        self.game = Game(folder, declared, platform=platform, clock=platform.clock, lease=self.lease)
        self.lease.hook = self._step
        self._wrap(self.game.supervisor._store, "save")
        self._wrap(self.game.supervisor._store, "adopt")
        self.game.supervisor._restarter._record = self._record
        self.game.supervisor._voice._changed = self._told
        self.told: list[Change] = []
        self.lease.store = _SteppedTable(table, self._step)
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._killed = self._ended = False
        self._thread: threading.Thread | None = None
        self.requested: list[Change] = []
        self.steps = 0

    @property
    def in_pass(self) -> bool:
        return self._thread is not None

    def go(self, steps: int = 1_000_000) -> None:
        """Go on, or begin a pass, and stop after so many steps, or at the end of the pass."""
        if self._thread is None:
            self.steps = 0
            self._thread = threading.Thread(target=self._pass, daemon=True)
            self._thread.start()
            self._await()
        for _ in range(steps):
            if not self.in_pass:
                return
            self.steps += 1
            self._go.release()
            self._await()

    def kill(self) -> None:
        """End it where it is."""
        self._killed = True
        while self._thread is not None:
            self._go.release()
            self._await()

    def _await(self) -> None:
        assert self._stopped.acquire(timeout=PATIENCE)
        if self._ended:
            self._thread = None

    def _pass(self) -> None:
        self._ended = False
        try:
            self.game.make_pass()
        except _KilledError:
            pass
        finally:
            self._ended = True
            self._stopped.release()

    def _step(self, what: str = "") -> None:
        self._stopped.release()
        self._go.acquire()
        if self._killed:
            raise _KilledError(what)

    def _record(self, change: Change) -> bool:
        self._step("record")
        self.requested.append(change)
        self._step("recorded")
        return True

    def _told(self, change: Change) -> None:
        if not self._killed:  # a process that has ended tells nothing more
            self.told.append(change)

    def _wrap(self, store: object, name: str) -> None:
        inner = getattr(store, name)

        def wrapped(*given: object) -> object:
            self._step(name)
            result = inner(*given)
            self._step(f"after {name}")
            return result

        setattr(store, name, wrapped)


class _SteppedTable:
    """The table as one supervisor sees it, with a step before and after each claim."""

    def __init__(self, table: LeaseTable, step: object) -> None:
        self._table, self._step = table, step
        self.claim_slack = table.claim_slack

    def claim(self, *given: object) -> bool:
        self._step("claim")  # type: ignore[operator]
        granted = self._table.claim(*given)  # type: ignore[arg-type]
        self._step("claimed")  # type: ignore[operator]
        return granted


def too_close(platform: Platform, cooldown: float = COOLDOWN) -> list[float]:
    """Return the times between restarts of one instance that are shorter than its cooldown."""
    found: list[float] = []
    for key in platform.instances_of:
        mine = [at for each, at in platform.restarts if each == key]
        found += [later - earlier for earlier, later in itertools.pairwise(mine) if later - earlier < cooldown]
    return found


def play(one: Stepped, passes: int) -> None:
    for _ in range(passes):
        one.lease.turn()
        one.go()
        one.game.clock.move(5)


STEPS = 26
"""Steps of the pass that restarts, or a few more."""


def test_the_steps_are_all_there(tmp_path: Path) -> None:
    """Rule: the tests below stop at every step: the pass that restarts has no more of them."""
    clock = ManualClock()
    platform = Platform(clock, {"web": ["web-1", "web-2"]})
    one = Stepped("one", tmp_path, WEB, platform, LeaseTable(clock))
    platform.all_run(FAILS)
    play(one, 17)
    assert len(platform.restarts) == 1
    assert 15 <= one.steps <= STEPS


@pytest.mark.parametrize("step", range(STEPS))
def test_ended_at_any_step(tmp_path: Path, step: int) -> None:
    """AR-5.3, AR-5.5, AR-4.5: ended at any step of the pass that restarts: once a cooldown, and no event is alone."""
    clock = ManualClock()
    platform, table = Platform(clock, {"web": ["web-1"]}), LeaseTable(clock)
    one_web = declaration(module())
    first = Stepped("one", tmp_path, one_web, platform, table)
    platform.all_run(FAILS)
    play(first, 16)
    first.lease.turn()
    first.go(step)
    first.kill()
    clock.move(1)
    done = bool(platform.restarts)
    table.grant = None
    second = Stepped("two", tmp_path, one_web, platform, table)
    play(second, 130)
    assert too_close(platform) == []
    assert 1 <= len(platform.restarts) <= 3
    ends = [change for change in first.told + second.told if "restart" in change.what]
    alone = len(first.requested) + len(second.requested) - len(ends)
    # Ended before it was kept, nothing has been done, and so nothing ends. Ended after it was told and before that was
    # kept, it is told once more, as not known.
    assert alone in ({0, -1} if done else {0, 1})


class TwoSupervisors(RuleBasedStateMachine):
    """Two supervisors on one host that share a lease's store, paused, ended and begun again at any step."""

    hosts = 1

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=IN_MEMORY)
        self.clock = ManualClock()
        self.platform = Platform(self.clock, {"web": ["web-1", "web-2"]})
        self.table = LeaseTable(self.clock)
        self.both = [self.new("one"), self.new("two")]
        self.platform.all_run(FAILS)

    def new(self, name: str) -> Stepped:
        folder = Path(self.folder.name) / (name if self.hosts > 1 else "both")
        return Stepped(name, folder, WEB, self.platform, self.table)

    @rule(who=st.integers(0, 1), passes=st.integers(1, 20))
    def supervise(self, who: int, passes: int) -> None:
        """One makes passes; the other stands where it is."""
        one = self.both[who]
        one.go()
        play(one, passes)

    @rule(who=st.integers(0, 1), steps=st.integers(1, 40))
    def some_steps(self, who: int, steps: int) -> None:
        """One goes on for a few steps, and is paused there."""
        self.both[who].go(steps)

    @rule(who=st.integers(0, 1))
    def renew(self, who: int) -> None:
        self.both[who].lease.turn()

    @rule(seconds=st.sampled_from([1, 5, 13, 16, 60, 301]))
    def wait(self, seconds: int) -> None:
        self.clock.move(seconds)

    @rule(who=st.integers(0, 1))
    def end(self, who: int) -> None:
        """One is killed, and another one takes its name."""
        self.both[who].kill()
        self.both[who] = self.new(("one", "two")[who])

    @precondition(lambda self: self.platform.restarts)
    @rule(name=st.sampled_from(["web-1", "web-2"]), well=st.booleans())
    def mend(self, name: str, well: bool) -> None:
        self.platform[f"web/{name}"].run = PASSES if well else FAILS

    @invariant()
    def never_too_close(self) -> None:
        """AR-5.1, AR-5.3: never two restarts of one instance within a cooldown."""
        assert too_close(self.platform) == []

    def teardown(self) -> None:
        for each in self.both:
            each.kill()
        self.folder.cleanup()


TestTwoSupervisors = TwoSupervisors.TestCase
TestTwoSupervisors.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


class TwoHosts(TwoSupervisors):
    """The same on two hosts: neither has the other's trackers, and the claims alone are shared."""

    hosts = 2


TestTwoHosts = TwoHosts.TestCase
TestTwoHosts.settings = TestTwoSupervisors.settings


@pytest.mark.parametrize("hosts", [1, 2])
def test_two_that_are_paused_in_turn(tmp_path: Path, hosts: int) -> None:
    """AR-5.2, AR-5.3, AR-6.3: the first is paused at each step of the pass that restarts, and the second acts."""
    for step in range(STEPS):
        clock = ManualClock()
        platform, table = Platform(clock, {"web": ["web-1", "web-2"]}), LeaseTable(clock)
        folder = tmp_path / str(step)
        first = Stepped("one", folder, WEB, platform, table)
        second = Stepped("two", folder if hosts == 1 else folder / "two", WEB, platform, table)
        platform.all_run(FAILS)
        play(first, 16)
        first.lease.turn()
        first.go(step)
        clock.move(16)
        play(second, 20)
        first.go()
        play(second, 50)
        first.kill()
        assert too_close(platform) == [], step
        close = [b - a for (_, a), (_, b) in itertools.pairwise(platform.restarts)]
        assert all(each >= COOLDOWN for each in close), step
        assert platform.restarts, step
