"""One connection: its states, the table of what may follow what, and what is held for it.

Laws
    * A connection has one owner at a time: the front, or, while HANDLING, one worker. Only the owner touches it.
    * The state changes through :meth:`Connection.advance` alone. An event that is not in a state's row of
      :data:`TRANSITIONS` is a fault of this program (HS-4.1); whatever a client does has a row.
    * Deadlines are absolute monotonic seconds; one a phase. Reset rules: HANDSHAKE, READING_HEAD, READING_BODY and
      LINGERING never extend theirs; in WRITING the client has `request_timeout` from the last byte that it took
      (HS-4.2 to HS-4.6); in STREAMING the deadline is the next look at the stream (EV-5.7, EV-5.10).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from idkmesh.httpd.outbox import no_wait, queued_bytes

if TYPE_CHECKING:
    import socket

    from idkmesh.httpd.application import Responder
    from idkmesh.httpd.head_reader import HeadReader
    from idkmesh.httpd.outbox import Outbox
    from idkmesh.httpd.output import Output
    from idkmesh.httpd.request_rules import Request
    from idkmesh.httpd.stream_hub import Stream

BODY_BYTES_PER_SECOND = 64 * 1024
"""A body's deadline grows by one second for each of these many bytes declared (HS-4.3)."""
LINGER_SECONDS = 2.0
LINGER_BYTES = 16 * 1024 * 1024
FREE_BYTES = 8 * 1024
"""What each connection may hold whatever the others hold (HS-6.3)."""
MINIMUM_WRITE_RATE = 1024.0
"""Bytes a second below which a writer gives way under pressure (HS-8.2)."""


class State(enum.Enum):
    """Where a connection stands."""

    HANDSHAKE = "handshake"
    READING_HEAD = "reading_head"
    READING_BODY = "reading_body"
    HANDLING = "handling"
    STREAMING = "streaming"
    WRITING = "writing"
    LINGERING = "lingering"
    CLOSED = "closed"

    # Members are dictionary keys on every request; the enum's own Python-level hash is measurable there.
    __hash__ = object.__hash__


class Event(enum.Enum):
    """What happens to a connection."""

    SECURED = "secured"
    """The TLS handshake is done."""
    BODY_AWAITED = "body_awaited"
    """The head is complete and accepted, and it declares a body."""
    ADMITTED = "admitted"
    """The request is complete and has a slot: a worker owns the connection now."""
    STREAMED = "streamed"
    """The head is complete, and the answer is a stream of events."""
    ANSWERED = "answered"
    """The front, or the worker that hands the connection back, has bytes for the client."""
    SENT = "sent"
    """The response is gone, and input may be unread."""
    CLOSE = "close"
    """The connection ends, for whatever reason."""

    __hash__ = object.__hash__


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.HANDSHAKE: {Event.SECURED: State.READING_HEAD, Event.CLOSE: State.CLOSED},
    State.READING_HEAD: {
        Event.BODY_AWAITED: State.READING_BODY,
        Event.STREAMED: State.STREAMING,
        Event.ADMITTED: State.HANDLING,
        Event.ANSWERED: State.WRITING,
        Event.CLOSE: State.CLOSED,
    },
    State.READING_BODY: {
        Event.ADMITTED: State.HANDLING,
        Event.ANSWERED: State.WRITING,
        Event.CLOSE: State.CLOSED,
    },
    # ANSWERED with nothing left to send passes through WRITING too: one way out, one place to account for it.
    State.HANDLING: {Event.ANSWERED: State.WRITING, Event.CLOSE: State.CLOSED},
    State.STREAMING: {Event.SENT: State.LINGERING, Event.CLOSE: State.CLOSED},
    State.WRITING: {Event.SENT: State.LINGERING, Event.CLOSE: State.CLOSED},
    State.LINGERING: {Event.CLOSE: State.CLOSED},
    State.CLOSED: {},
}

READING = frozenset({State.HANDSHAKE, State.READING_HEAD, State.READING_BODY, State.STREAMING, State.LINGERING})
"""The states in which the front waits for input, in STREAMING for the client's leaving. In WRITING it waits for room,
and in HANDLING it does not own."""


class TransitionError(RuntimeError):
    """An event met a state that has no row for it: a fault of this program."""


class Connection:
    """What the server knows of one client. Times are monotonic seconds, sizes bytes."""

    __slots__ = (
        "accepted_at",
        "address",
        "body",
        "body_missing",
        "charged",
        "cut",
        "deadline",
        "discarded",
        "early",
        "events",
        "exposed",
        "files",
        "flags",
        "outbox",
        "output",
        "progress_at",
        "reader",
        "request",
        "request_id",
        "responder",
        "sock",
        "state",
        "status",
        "stream",
        "taken",
        "taken_before",
        "unread",
        "writing_since",
        "written",
    )

    def __init__(self, sock: socket.socket, address: Any, now: float, state: State) -> None:
        """Start in HANDSHAKE or READING_HEAD, at `now`."""
        self.sock = sock
        self.flags = no_wait(sock)
        """Flags for each read and write, so that none waits."""
        self.exposed = False
        """Whether other code has had the descriptor: whether it blocks is then not known for good."""
        self.address = address
        self.accepted_at = now
        self.state = state
        self.deadline = 0.0
        self.events = 0
        """The selector's mask this connection is registered with; 0 when it is not."""
        self.reader: HeadReader | None = None
        self.request: Request | None = None
        self.request_id = ""
        self.responder: Responder | None = None
        self.body: bytearray | bytes = b""
        self.body_missing = 0
        self.early = b""
        """What a client that asks for an upgrade sent beyond its request, for a handler that answers 101."""
        self.unread = False
        """Whether input may be left unread when the response is gone: then the connection lingers."""
        self.outbox: Outbox | None = None
        """What is still to be sent, once the handler has ended."""
        self.files = 0
        """Descriptors beside the socket's own that its unsent response takes."""
        self.output: Output | None = None
        """What the handler writes, while it runs."""
        self.charged = 0
        """Bytes of the common budget that stand on this connection's account."""
        self.progress_at = now
        self.writing_since = now
        self.written = 0
        """Bytes of the response that the socket has taken."""
        self.taken = 0
        """Bytes of it that the client had taken at the last look: see :meth:`look`."""
        self.taken_before = 0
        """What `taken` was when the response began to wait for the client."""
        self.cut = False
        """Whether the response ends before its end, so that the connection is to end in a reset."""
        self.discarded = 0
        self.stream: Stream | None = None
        """What the connection is to be sent, while it is STREAMING."""
        self.status = 0
        """Status of the response, for the access log; 0 before there is one and when it is logged."""

    def advance(self, event: Event) -> None:
        """Move to the state that follows; :class:`TransitionError` where the table has none."""
        try:
            self.state = TRANSITIONS[self.state][event]
        except KeyError:
            msg = f"{event} cannot happen to a connection that is {self.state}"
            raise TransitionError(msg) from None

    @property
    def kept(self) -> int:
        """Bytes of the request that are held: its head, its body, and what came beyond them."""
        return (len(self.request.head) if self.request is not None else 0) + len(self.body) + len(self.early)

    def await_reader(self, now: float) -> None:
        """Begin to measure how fast the client takes the response."""
        self.progress_at = self.writing_since = now
        self.taken = self.taken_before = self.written - queued_bytes(self.sock)

    def look(self, now: float) -> None:
        """Note what the client has taken by now. The socket's room alone would not tell.

        A socket counts as writable when a third of its buffer is free, which is megabytes: a slow but steady reader
        frees them in many seconds.
        """
        taken = self.written - queued_bytes(self.sock)
        if taken > self.taken:
            self.taken = taken
            self.progress_at = now

    def write_rate(self, now: float) -> float:
        """Bytes a second that the client has taken since the response began to wait for it."""
        return (self.taken - self.taken_before) / max(now - self.writing_since, 1e-3)


def body_deadline(now: float, length: int, request_timeout: float) -> float:
    """Return the instant by which a body of `length` declared bytes must be complete (HS-4.3)."""
    return now + request_timeout + length / BODY_BYTES_PER_SECOND
