"""The states of a connection, and what is measured of it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from idkmesh.httpd.connection import (
    BODY_BYTES_PER_SECOND,
    READING,
    TRANSITIONS,
    Connection,
    Event,
    State,
    TransitionError,
    body_deadline,
)
from idkmesh.httpd.outbox import queued_bytes
from idkmesh.httpd.request_rules import HeadLimits, Request, read_head

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1000.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.settimeout(0)
    yield near, far
    near.close()
    far.close()


def test_every_pair_of_state_and_event_is_in_the_table_or_a_fault(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-4.1: an event follows its row; one that is not in the row is a fault of the program and changes nothing."""
    for state in State:
        for event in Event:
            connection = Connection(pair[0], None, NOW, state)
            following = TRANSITIONS[state].get(event)
            if following is None:
                with pytest.raises(TransitionError, match="cannot happen"):
                    connection.advance(event)
                assert connection.state is state
            else:
                connection.advance(event)
                assert connection.state is following


def test_every_state_but_the_last_can_end() -> None:
    """HS-4.7: whatever a client does, whenever it leaves, its connection can be closed; closed is the end."""
    assert set(TRANSITIONS) == set(State)
    for state, row in TRANSITIONS.items():
        assert (Event.CLOSE in row) is (state is not State.CLOSED)
    assert TRANSITIONS[State.CLOSED] == {}


def test_every_state_can_be_reached() -> None:
    """HS-4.1: the table has no row that nothing leads to."""
    reached = {State.HANDSHAKE}
    while True:
        more = {following for state in reached for following in TRANSITIONS[state].values()} | reached
        if more == reached:
            break
        reached = more
    assert reached == set(State)


def test_front_waits_for_input_in_the_reading_states() -> None:
    """HS-4.1: in each state the front waits for input, or for room, or does not own the connection."""
    assert READING.isdisjoint({State.HANDLING, State.WRITING, State.CLOSED})
    assert len(READING) + 3 == len(State)


@pytest.mark.parametrize(("length", "seconds"), [(0, 10.0), (65_536, 11.0), (2_097_152, 42.0), (1, 10 + 1 / 65_536)])
def test_body_deadline(length: int, seconds: float) -> None:
    """HS-4.3: request_timeout, and one second more for each 64 KiB declared."""
    assert BODY_BYTES_PER_SECOND == 65_536
    assert body_deadline(NOW, length, 10.0) == NOW + seconds


def test_progress_is_what_the_client_takes(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-4.4, HS-8.2: bytes that lie in the socket are no progress; those that the client has read are."""
    near, far = pair
    connection = Connection(near, None, NOW, State.WRITING)
    connection.written = near.send(b"x" * 30_000)
    connection.await_reader(NOW)
    assert queued_bytes(near) >= 30_000
    connection.look(NOW + 1)
    assert connection.progress_at == NOW
    assert connection.write_rate(NOW + 1) == 0
    read = len(far.recv(100_000))
    connection.look(NOW + 2)
    assert connection.progress_at == NOW + 2
    assert connection.write_rate(NOW + 2) >= read / 2
    connection.look(NOW + 3)
    assert connection.progress_at == NOW + 2


def test_rate_has_no_division_by_zero(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-8.2: a writer that has just begun has a rate too."""
    connection = Connection(pair[0], None, NOW, State.WRITING)
    assert connection.write_rate(NOW) == 0


def test_closed_socket_holds_nothing() -> None:
    """HS-4.7: asking a socket that has gone is no error."""
    near, far = socket.socketpair()
    far.close()
    near.close()
    assert queued_bytes(near) == 0


def test_what_is_kept_of_a_request(pair: tuple[socket.socket, socket.socket]) -> None:
    """HS-6.3: the head counts while it is kept, and the body."""
    connection = Connection(pair[0], None, NOW, State.READING_BODY)
    assert connection.kept == 0
    head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"
    verdict = read_head(head, HeadLimits())
    assert type(verdict) is tuple
    assert isinstance(verdict[0], Request)
    connection.request = verdict[0]
    connection.body = bytearray(b"abc")
    assert connection.kept == len(head) + 3
