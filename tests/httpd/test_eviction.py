"""Who gives way, on a clock of its own."""

from __future__ import annotations

from typing import Any, cast

import pytest

from idkmesh.httpd.connection import Connection, State
from idkmesh.httpd.eviction import GRACE_SECONDS, ORDER, Evictor

NOW = 1000.0
Held = dict[State, dict[Connection, None]]


def connection(state: State) -> Connection:
    return Connection(cast("Any", None), None, NOW, state)


def holding(*connections: Connection) -> Held:
    held: Held = {state: {} for state in State}
    for one in connections:
        held[one.state][one] = None
    return held


def writer(rate: float, since: float = NOW - 10) -> Connection:
    one = connection(State.WRITING)
    one.writing_since = since
    one.taken = int(rate * (NOW - since))
    return one


def test_order() -> None:
    """HS-8.1: lingering, handshake, head, body, writer; never one in a worker; then nobody."""
    states = [State.HANDLING, State.WRITING, State.READING_BODY, State.READING_HEAD, State.HANDSHAKE, State.LINGERING]
    held = holding(*map(connection, states))
    evictor = Evictor()
    gone = []
    while (victim := evictor.victim(held, NOW)) is not None:
        gone.append(victim.state)
        del held[victim.state][victim]
        victim.state = State.CLOSED
    assert gone == [*ORDER, State.WRITING]
    assert len(held[State.HANDLING]) == 1


@pytest.mark.parametrize("state", ORDER)
def test_within_a_state_the_first_goes(state: State) -> None:
    """HS-8.1: who has waited longest goes first; for bodies the front keeps the order of their last progress."""
    ones = [connection(state) for _ in range(3)]
    assert Evictor().victim(holding(*ones), NOW) is ones[0]


def test_slowest_writer_goes() -> None:
    """HS-8.1: among writers the slowest goes."""
    fast, slow, middle = writer(5000), writer(10), writer(500)
    held = holding(fast, slow, middle)
    evictor = Evictor()
    gone = []
    for _ in range(3):
        victim = evictor.victim(held, NOW)
        assert victim is not None
        gone.append(victim)
        del held[State.WRITING][victim]
        victim.state = State.CLOSED
    assert gone == [slow, middle, fast]
    assert evictor.victim(held, NOW) is None


def test_who_has_just_begun_counts_as_fast() -> None:
    """HS-8.1: a response that has begun to wait within the last second does not go before one that trickles."""
    slow, young = writer(2000), writer(0, since=NOW - GRACE_SECONDS / 2)
    assert Evictor().victim(holding(young, slow), NOW) is slow
    older = writer(0, since=NOW - GRACE_SECONDS * 0.9)
    assert Evictor().victim(holding(older, young), NOW) is older


def test_a_look_is_kept_for_a_while() -> None:
    """HS-8.3: a flood of newcomers does not look at every writer each time; who has left is not chosen again."""
    held = holding(*(writer(rate) for rate in range(10, 20)))
    evictor = Evictor()
    first = evictor.victim(held, NOW)
    newcomer = writer(1)
    held[State.WRITING][newcomer] = None
    assert evictor.victim(held, NOW + evictor.LOOK_SECONDS / 2) is first
    assert evictor.victim(held, NOW + evictor.LOOK_SECONDS * 2) is newcomer


def test_reserve() -> None:
    """HS-8.2: in the reserve lingering connections give way, and writers below 1 KiB/s after a second's grace."""
    evictor = Evictor()
    assert evictor.laggard(holding(connection(State.READING_HEAD), connection(State.READING_BODY)), NOW) is None
    assert evictor.laggard(holding(writer(1024)), NOW) is None
    assert Evictor().laggard(holding(writer(0, since=NOW - GRACE_SECONDS / 2)), NOW) is None
    slow = writer(1000)
    assert Evictor().laggard(holding(slow, writer(5000)), NOW) is slow
    lingering = connection(State.LINGERING)
    assert Evictor().laggard(holding(slow, lingering), NOW) is lingering


def test_who_has_just_come_is_spared() -> None:
    """HS-8.1: a newcomer whose head is on its way does not go before a stalled or trickling body, or a slow writer."""
    fresh, stalled, slow = connection(State.READING_HEAD), connection(State.READING_BODY), writer(10)
    stalled.progress_at = NOW - GRACE_SECONDS
    assert Evictor().victim(holding(fresh, stalled, slow), NOW) is stalled
    assert Evictor().victim(holding(fresh, slow), NOW) is slow
    assert Evictor().victim(holding(fresh, writer(5000, since=NOW)), NOW) is fresh
    assert Evictor().victim(holding(fresh, stalled), NOW + GRACE_SECONDS) is fresh
    trickling = connection(State.READING_BODY)
    trickling.progress_at = NOW - GRACE_SECONDS / 2
    assert Evictor().victim(holding(fresh, trickling), NOW) is trickling
