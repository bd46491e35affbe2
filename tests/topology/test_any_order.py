"""Whatever happens to a selector, in whatever order: states are legal, revisions of a session never go back."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from idkmesh.topology.errors import TooManyObservationsError
from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, ProviderEvent, State
from idkmesh.topology.sessions import Now, Sessions
from idkmesh.topology.transitions import TRANSITIONS, Word, heard
from tests.topology.support import EMPTY, START, UTC, HandWatch, at, other

if TYPE_CHECKING:
    from idkmesh.changes import Change
    from idkmesh.topology.held import Session
    from idkmesh.topology.model import Observation, Target

MOST = 3
EVENTS: list[ProviderEvent] = [NOT_DECLARED, EMPTY, at(1), at(2), at(1, 2), *(Failed(cause) for cause in Cause)]


class Course(RuleBasedStateMachine):
    """Uses, events of any watch that there ever was, and time that passes, with the wall clock jumping."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.wall = 0
        self.told: list[Change] = []
        chance = random.Random(0)
        self.sessions = Sessions(MOST, START, take=lambda *_: None, tell=self.told.append, chance=chance.random)
        self.watches: list[tuple[Session, HandWatch]] = []
        self.newest: dict[Session, ProviderEvent] = {}
        self.before: dict[Target, tuple[Session | None, Observation]] = {}

    def instant(self) -> Now:
        return Now(self.now, UTC + dt.timedelta(seconds=self.wall))

    def opened(self, session: Session) -> None:
        watch = HandWatch(session.held.target, session)
        session.watch = watch
        self.watches.append((session, watch))

    @rule(number=st.integers(0, MOST))
    def use(self, number: int) -> None:
        target = other(number)
        full = len(self.sessions.held) == MOST and target not in self.sessions.held
        try:
            _, session = self.sessions.used(target, self.instant())
        except TooManyObservationsError:
            assert full
            return
        assert not full
        if session is not None:
            self.opened(session)

    @precondition(lambda self: self.watches)
    @rule(data=st.data(), event=st.sampled_from(EVENTS))
    def say(self, data: st.DataObject, event: ProviderEvent) -> None:
        session, _ = data.draw(st.sampled_from(self.watches[-6:]))
        dropped, over = self.sessions.tallies.dropped, session.over
        known = list(self.sessions.held.items())
        seen = [held.observation for _, held in known]
        for watch in self.sessions.hear(session, event, self.instant()):
            watch.close()
        assert self.sessions.tallies.dropped == dropped + over
        if over:
            assert [held.observation for _, held in known] == seen
        elif heard(event)[0] is not Word.FAILED:
            self.newest[session] = event

    @rule(seconds=st.sampled_from([0.1, 0.5, 2.0, 5.0, 11.0, 61.0, 3600.0]), wall=st.integers(-5, 5))
    def pass_time(self, seconds: float, wall: int) -> None:
        self.now += seconds
        self.wall += wall
        attempts, over = self.sessions.look(self.instant())
        for session in attempts:
            self.opened(session)
        for watch in over:
            watch.close()
        assert self.sessions.due_at() > self.now

    @invariant()
    def legal(self) -> None:
        """RT-13.4, RT-2.1, RT-2.2: by the table within a session; from revision 1 in another one; never from memory."""
        assert len(self.sessions.held) <= MOST
        for target, held in self.sessions.held.items():
            after = held.observation
            assert bool(after.endpoints) is (after.state is State.POPULATED)
            if held.session is not None:
                event = self.newest.get(held.session)
                assert after.endpoints == getattr(event, "endpoints", ())
            else:
                assert after.state is State.UNAVAILABLE
            session, before = self.before.get(target, (held.session, after))
            if after is before:
                continue
            if session is held.session or held.session is None:
                assert after.state in TRANSITIONS[before.state].values()
                assert after.revision - before.revision == (after.state is not State.UNAVAILABLE)
            else:
                assert after.revision in {0, 1}
        self.before = {target: (held.session, held.observation) for target, held in self.sessions.held.items()}

    @invariant()
    def watches_are_closed_once(self) -> None:
        """RT-3.7, RT-5.3: what is over is closed, what is not is open, and no two are open for one target."""
        assert all(watch.closed == session.over for session, watch in self.watches)
        current = [session for session, _ in self.watches if not session.over]
        assert len({session.held.target for session in current}) == len(current)


Course.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_any_order() -> None:
    """RT-13.4: 60 courses of 40 steps, each with what :class:`Course` says after each step."""
    Course.TestCase("runTest").runTest()
