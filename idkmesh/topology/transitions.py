"""What follows what (RT-2): one table, and the one function that applies it. Pure.

Laws of this module:

1. A session ends in ``unavailable``: its row is empty, and whatever else comes returns the same observation.
2. The revision grows where the state or the set of endpoints is another one, by one, and nowhere else.
3. A failure drops the endpoints and keeps the revision. Nothing brings them back but a later snapshot of a new session.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from idkmesh.topology.model import MAX_ENDPOINTS, Cause, Failed, Observation, State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from idkmesh.topology.model import ProviderEvent


class Word(enum.Enum):
    """What an observation hears."""

    MISSING = enum.auto()
    EMPTY = enum.auto()
    POPULATED = enum.auto()
    FAILED = enum.auto()

    __hash__ = object.__hash__


_HEARD: Final[Mapping[Word, State]] = {
    Word.MISSING: State.MISSING,
    Word.EMPTY: State.EMPTY,
    Word.POPULATED: State.POPULATED,
    Word.FAILED: State.UNAVAILABLE,
}

TRANSITIONS: Final[Mapping[State, Mapping[Word, State]]] = {
    State.INITIALIZING: _HEARD,
    State.MISSING: _HEARD,
    State.EMPTY: _HEARD,
    State.POPULATED: _HEARD,
    State.UNAVAILABLE: {},
}
"""The table of RT-2.1. A snapshot is the whole truth of its instant, so what it follows does not matter; but for a
session that is over, to which nothing can be added."""


def opened(now: datetime) -> Observation:
    """Return the observation of a session that begins now (RT-2.2). ``now`` is the wall clock, aware: a label."""
    return Observation(State.INITIALIZING, 0, now)


def heard(event: ProviderEvent) -> tuple[Word, Cause | None]:
    """Return the word that an event is, and of a failure the cause (RT-2.6)."""
    if isinstance(event, Failed):
        return Word.FAILED, event.cause
    if not event.declared:
        return Word.MISSING, None
    if len(event.endpoints) > MAX_ENDPOINTS or (event.unreadable and not event.endpoints):
        return Word.FAILED, Cause.MALFORMED
    return (Word.POPULATED, None) if event.endpoints else (Word.EMPTY, None)


def accept(observation: Observation, event: ProviderEvent, now: datetime) -> Observation:
    """Return what is known after an event; the same object where nothing has changed (RT-2.3)."""
    word, cause = heard(event)
    state = TRANSITIONS[observation.state].get(word)
    if state is None:
        return observation
    if state is State.UNAVAILABLE:
        return Observation(state, observation.revision, now, (), cause)
    endpoints = () if isinstance(event, Failed) or state is not State.POPULATED else event.endpoints
    if state is observation.state and endpoints == observation.endpoints:
        return observation
    return Observation(state, observation.revision + 1, now, endpoints)
