"""The front: one thread that owns every connection which is not being handled.

Laws
    * The front never waits for a client, a worker or a log. It waits in `select` alone.
    * Handing over is: unregister, remove, enqueue. Taking back is: append, then wake (:meth:`Front.give_back`).
    * A registered connection is closed at the end of the poll batch in which it died, so that no event of the batch
      meets a descriptor that has been given out again. Events are matched by connection object.
    * No user code runs here but `verify_request` (and, in the serial profile, the handler).
"""

from __future__ import annotations

import collections
import contextvars
import itertools
import selectors
import socket
import ssl
import time
from typing import TYPE_CHECKING

from idkmesh.httpd import tls
from idkmesh.httpd.acceptor import PAUSE_SECONDS, Acceptor
from idkmesh.httpd.connection import LINGER_BYTES, LINGER_SECONDS, READING, Connection, Event, State, body_deadline
from idkmesh.httpd.core import Limit
from idkmesh.httpd.deadlines import Deadlines
from idkmesh.httpd.eviction import RESERVE, Evictor
from idkmesh.httpd.exchange import Exchange, close, input_waits
from idkmesh.httpd.outbox import Outbox
from idkmesh.httpd.output import FLUSH_SECONDS
from idkmesh.httpd.refusals import BODY_TOO_LARGE, DENIED, INCOMPLETE, NO_THREAD, OUT_OF_MEMORY, TOO_SLOW
from idkmesh.httpd.request_rules import HeadLimits, HeadReader, Refusal, Request, read_head
from idkmesh.httpd.responses import Response
from idkmesh.httpd.wakeup import WakeUp
from idkmesh.service_runtime import Denial

if TYPE_CHECKING:
    from idkmesh.httpd.application import Application
    from idkmesh.httpd.core import Core

READ_BYTES = 64 * 1024
BODY_READ_BYTES = 256 * 1024
LOOK_SECONDS = 0.5
"""The longest time between two looks at how much a client has taken of its response."""
SHED_AT_ONCE = 16
WRITE_TURN_BYTES = 1024 * 1024
"""The most that one connection is sent before the others have their turn."""

_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Front:
    """The loop and the connections it owns. Every method runs on the front's thread but those that say otherwise."""

    def __init__(self, core: Core, listener: socket.socket, application: Application) -> None:
        """Serve `application` to whoever connects to `listener`, which must not block."""
        self._core = core
        self._listener = listener
        self._application = application
        limits = core.limits
        self._limits = limits
        self._head_limits = HeadLimits(limits.max_header_fields, limits.max_header_bytes)
        self._look_seconds = min(limits.request_timeout / 4, LOOK_SECONDS)
        self._near_full = limits.max_connections - max(1, int(limits.max_connections * RESERVE))
        self._selector = selectors.DefaultSelector()
        self._wake_up = WakeUp()
        self._returned: collections.deque[Connection] = collections.deque()
        self._selector.register(self._wake_up.receiver, selectors.EVENT_READ, None)
        self.acceptor = Acceptor(core, listener, self._selector, self)
        self._held: dict[State, dict[Connection, None]] = {state: {} for state in State}
        self._deadlines = Deadlines()
        self._evictor = Evictor()
        self._doomed: list[Connection] = []
        self._admitted: collections.deque[Exchange] = collections.deque()
        """What this turn has admitted. Handed over at its end: workers that ran during it would only take turns with
        the front, at the price of two thread switches for each socket call."""
        self._flushed_at = 0.0
        self._closed = False

    # --- for other threads and signal handlers ---------------------------------------------------------------------

    def wake(self) -> None:
        """End the front's wait. Safe in any thread and in a signal handler."""
        self._wake_up.wake()

    def give_back(self, connection: Connection) -> None:
        """Worker: return a connection; one that is closed needs no hurry unless somebody waits for it."""
        self._returned.append(connection)
        if self._closed:  # the drain has abandoned it, and nobody takes it back
            self._discard_returned()
            return
        if connection.state is not State.CLOSED or self._core.attentive:
            self.wake()

    # --- the loop --------------------------------------------------------------------------------------------------

    def turn(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for something to do, and do it."""
        now = time.monotonic()
        events = self._selector.select(self._wait(now, timeout))
        now = time.monotonic()
        ready = [key.data for key, _ in events]
        if self._listener in ready:
            ready.remove(self._listener)
            self._accept(now)
        self._take_back(now)
        handshakes = tls.HANDSHAKES_PER_TURN
        for connection in ready:
            if connection is None:
                self._wake_up.clear()
            elif connection.state is not State.HANDSHAKE:
                self._ready(connection, now)
            elif handshakes:
                handshakes -= 1
                self._handshake(connection, now)
        self._take_back(now)
        self._expire(now)
        if self._admitted:
            self._submit(now)
        self.acceptor.settle(now)
        for connection in self._doomed:
            close(connection)
        self._doomed.clear()

    def _wait(self, now: float, timeout: float) -> float:
        until = self._deadlines.wait(now)
        if until is not None:
            timeout = min(timeout, until)
        if self._held[State.HANDLING]:
            timeout = min(timeout, FLUSH_SECONDS)
        if self.acceptor.paused:
            timeout = min(timeout, PAUSE_SECONDS)
        if self._core.crossed:
            timeout = min(timeout, 1.0)
        return 0.0 if self._returned else timeout

    def _expire(self, now: float) -> None:
        for connection in self._deadlines.due(now):
            self._overdue(connection, now)
        if self._core.crossed:
            self._core.end_crossings(now)
        handling = self._held[State.HANDLING]
        if handling and now - self._flushed_at >= FLUSH_SECONDS:
            self._flushed_at = now
            for connection in list(handling):
                output = connection.output
                if output is not None:
                    output.flush_if_old(now)

    def _overdue(self, connection: Connection, now: float) -> None:
        state = connection.state
        if state is State.READING_BODY:
            self._core.timed_out += 1
            self._refuse(connection, TOO_SLOW, now)
        elif state is State.LINGERING:
            self._drop(connection)
        elif state is not State.WRITING or not self._takes_bytes(connection, now):
            self._core.timed_out += 1
            self._drop(connection)

    def _takes_bytes(self, connection: Connection, now: float) -> bool:
        """Say whether a client still takes its response (HS-4.4), and look again soon if so."""
        connection.look(now)
        end = connection.progress_at + self._limits.request_timeout
        if now >= end:
            return False
        self._deadlines.set(connection, min(end, now + self._look_seconds))
        return True

    # --- accepting -------------------------------------------------------------------------------------------------

    def _accept(self, now: float) -> None:
        self.take_in(self.acceptor.accept(now), now)

    def take_in(self, fresh: list[Connection], now: float) -> None:
        """Read what newcomers have sent, and hold those whose request is not complete."""
        for connection in fresh:
            if connection.state is State.HANDSHAKE:
                self._hold(connection, now + self._limits.request_timeout)
            else:
                self._read_first(connection, now)

    def make_room(self, now: float) -> bool:
        """Evict whoever must give way to one newcomer; say whether there is room (HS-8.1, HS-8.2)."""
        core = self._core
        if core.connections < self._near_full:
            return True
        self._take_back(now)
        if core.connections < self._near_full:
            return True
        full = core.connections >= self._limits.max_connections
        victim = self._evictor.victim(self._held, now) if full else self._evictor.laggard(self._held, now)
        if victim is None:
            return not full
        core.evict(now)
        self._drop(victim)
        return True

    def shed(self, now: float) -> None:
        """End those who would give way to newcomers anyhow: each file being sent takes a second descriptor (HS-4.8)."""
        for _ in range(SHED_AT_ONCE):
            victim = self._evictor.laggard(self._held, now)
            if victim is None:
                return
            self._core.evict(now)
            self._drop(victim)

    # --- reading ---------------------------------------------------------------------------------------------------

    def _ready(self, connection: Connection, now: float) -> None:
        state = connection.state
        if state is State.READING_HEAD:
            self._read_head(connection, now)
        elif state is State.READING_BODY:
            self._read_body(connection, now)
        elif state is State.WRITING:
            self._write(connection, now)
        elif state is State.LINGERING:
            self._discard(connection)

    def _handshake(self, connection: Connection, now: float) -> None:
        outcome = tls.handshake(connection.sock)  # type: ignore[arg-type]  # a socket in HANDSHAKE is an SSLSocket
        if outcome is None:
            self._drop(connection)
        elif outcome == "done":
            self._release(connection)
            connection.advance(Event.SECURED)
            self._read_first(connection, now)
        else:
            self._watch(connection, selectors.EVENT_READ if outcome == "read" else selectors.EVENT_WRITE)

    def _read_first(self, connection: Connection, now: float) -> None:
        """Read a connection that has just been accepted: most send their whole head at once."""
        try:
            data = connection.sock.recv(READ_BYTES)
        except _WOULD_BLOCK:
            self._hold(connection, now + self._limits.request_timeout)
            return
        except OSError:
            self._drop(connection)
            return
        if not data:
            self._drop(connection)
            return
        verdict = read_head(data, self._head_limits)
        if type(verdict) is tuple:
            self._head_complete(connection, verdict[0], verdict[1], now)
        elif isinstance(verdict, Refusal):
            self._refuse(connection, verdict, now)
        else:
            connection.reader = HeadReader(self._head_limits)
            self._hold(connection, now + self._limits.request_timeout)
            self._feed(connection, data, now)

    def _read_head(self, connection: Connection, now: float) -> None:
        data = self._receive(connection, READ_BYTES)
        if data is None:
            return
        if not data:
            if connection.reader is not None and connection.reader.buffered:
                self._refuse(connection, INCOMPLETE, now)
            else:
                self._drop(connection)
            return
        if connection.reader is None:
            connection.reader = HeadReader(self._head_limits)
        self._feed(connection, data, now)

    def _feed(self, connection: Connection, data: bytes, now: float) -> None:
        reader = connection.reader
        if reader is None:
            return
        verdict = reader.feed(data)
        if verdict is None:
            if self._charge(connection, reader.buffered, now) and _has_pending(connection.sock):
                self._read_head(connection, now)
        elif isinstance(verdict, Refusal):
            self._refuse(connection, verdict, now)
        else:
            self._head_complete(connection, verdict, reader.rest, now)

    def _receive(self, connection: Connection, size: int) -> bytes | None:
        """Read; None where nothing is there yet or the connection is gone."""
        try:
            return connection.sock.recv(size)
        except _WOULD_BLOCK:
            return None
        except OSError:
            self._drop(connection)
            return None

    # --- deciding --------------------------------------------------------------------------------------------------

    def _head_complete(self, connection: Connection, request: Request, rest: bytes, now: float) -> None:
        """Judge in the order of HS-3.13."""
        connection.request = request
        connection.reader = None
        length = request.content_length or 0
        if rest or length:
            connection.unread = len(rest) != length
            if len(rest) > length and request.get("upgrade") is not None:
                connection.early = rest[length:]
        core = self._core
        answer = self._application.preempt(request)
        if answer is not None:
            if isinstance(answer, Response):
                self._answer(connection, answer, now)
            else:
                self._refuse(connection, answer, now)
            return
        denial = core.limiter.would_deny()
        if denial is not None:
            core.deny(denial, now)
            self._refuse(connection, DENIED[denial], now)
            return
        responder = self._application.judge(request)
        if isinstance(responder, Refusal):
            self._refuse(connection, responder, now)
        elif length > self._limits.max_body_bytes:
            self._refuse(connection, BODY_TOO_LARGE, now)
        else:
            connection.responder = responder
            if length:
                self._begin_body(connection, request, rest, now)
            else:
                self._hand_over(connection, now)

    def _begin_body(self, connection: Connection, request: Request, rest: bytes, now: float) -> None:
        length = request.content_length or 0
        connection.unread = len(rest) > length
        connection.body = bytearray(rest[:length])
        connection.body_missing = length - len(connection.body)
        if connection.body_missing == 0:
            self._hand_over(connection, now)
            return
        if request.expect_continue and not rest:
            try:
                connection.sock.send(_CONTINUE)  # 25 bytes into an empty buffer: taken whole or not at all
            except OSError:
                self._drop(connection)
                return
        self._release(connection)
        connection.advance(Event.BODY_AWAITED)
        connection.progress_at = now
        self._hold(connection, body_deadline(now, length, self._limits.request_timeout))
        if self._charge(connection, connection.kept, now):
            self._read_body(connection, now)

    def _read_body(self, connection: Connection, now: float) -> None:
        while True:
            data = self._receive(connection, min(connection.body_missing, BODY_READ_BYTES))
            if data is None:
                return
            if not data:
                self._refuse(connection, INCOMPLETE, now)
                return
            connection.body += data
            connection.body_missing -= len(data)
            connection.progress_at = now
            if not self._charge(connection, connection.kept, now):
                return
            if connection.body_missing == 0:
                self._hand_over(connection, now)
                return
            bodies = self._held[State.READING_BODY]
            bodies[connection] = bodies.pop(connection)  # the first is the one whose progress is oldest
            if not _has_pending(connection.sock):
                return

    def _charge(self, connection: Connection, size: int, now: float) -> bool:
        """Account for `size` bytes of a request; where the budget is full, who made the least progress goes (HS-6.3).

        That may be this one, which returns False.
        """
        core = self._core
        while not core.budget.hold(connection, size):
            reading = itertools.chain(self._held[State.READING_HEAD], self._held[State.READING_BODY])
            charged = [other for other in reading if other.charged or other is connection]
            victim = min(charged, key=lambda other: (other.progress_at, other.charged))
            core.limiter.count_denied(Denial.OVERLOADED)
            core.hit(Limit.BYTES, now)
            self._refuse(victim, OUT_OF_MEMORY, now)
            if victim is connection:
                return False
        return True

    def _hand_over(self, connection: Connection, now: float) -> None:
        """Take a slot and give the complete request to a worker."""
        core = self._core
        admission = core.limiter.admit(connection, promised=connection.state is State.READING_BODY)
        if isinstance(admission, Denial):
            if admission is Denial.OVERLOADED:
                core.hit(Limit.REQUESTS, now)
            self._refuse(connection, DENIED[admission], now)
            return
        self._release(connection)
        connection.advance(Event.ADMITTED)
        connection.progress_at = connection.writing_since = now
        exchange = Exchange(core, connection, admission, core.server)
        connection.output = exchange.output
        self._held[State.HANDLING][connection] = None
        if self._limits.serial:
            contextvars.Context().run(exchange.run)
        else:
            self._admitted.append(exchange)

    def _submit(self, now: float) -> None:
        """Give this turn's requests to the workers."""
        while self._admitted:  # taken out one by one: Ctrl-C may end this turn anywhere
            exchange = self._admitted.popleft()
            try:
                self._core.workers.submit(exchange.run)
            except RuntimeError as error:
                self._no_thread(exchange, error, now)

    def _no_thread(self, exchange: Exchange, error: RuntimeError, now: float) -> None:
        """Answer 503 for want of a thread; the slot comes back (HS-5.7)."""
        exchange.cancel()
        connection = exchange.connection
        del self._held[State.HANDLING][connection]
        connection.output = None
        self._core.limiter.count_denied(Denial.OVERLOADED)
        self._core.log.once("no-thread", f"cannot start a worker: {error}; the request was answered 503")
        self._refuse(connection, NO_THREAD, now)

    # --- answering -------------------------------------------------------------------------------------------------

    def _refuse(self, connection: Connection, refusal: Refusal, now: float) -> None:
        core = self._core
        core.count_refusal(refusal)
        # What a refused client has still to send is not known, unless it asked for nothing but the answer.
        if connection.request is None or connection.state is State.READING_BODY:
            connection.unread = True
        request_id = core.request_id(connection)
        data = core.renderer.render_refusal(refusal, connection.request, request_id, core.http_date())
        self._begin_write(connection, data, refusal.status, now)

    def _answer(self, connection: Connection, response: Response, now: float) -> None:
        core = self._core
        request_id = core.request_id(connection)
        data = core.renderer.render(response, connection.request, request_id, core.http_date())
        self._begin_write(connection, data, response.status, now)

    def _begin_write(self, connection: Connection, data: bytes, status: int, now: float) -> None:
        connection.status = status
        connection.body = b""
        try:
            sent = connection.sock.send(data)
        except _WOULD_BLOCK:
            sent = 0
        except OSError:
            self._drop(connection)
            return
        connection.written += sent
        if sent == len(data) and not connection.unread:
            self._drop(connection)
            return
        self._release(connection)
        connection.advance(Event.ANSWERED)
        if sent == len(data):
            self._linger(connection, now)
            return
        connection.outbox = Outbox()
        connection.outbox.add(memoryview(data)[sent:])
        self._begin_waiting_to_write(connection, now)

    def _begin_waiting_to_write(self, connection: Connection, now: float) -> None:
        outbox, request = connection.outbox, connection.request
        if outbox is None:
            return
        if request is not None:
            if self._core.access_log:
                self._core.request_id(connection)  # which the fields tell
            connection.request = request_line_of(request)
        # Holding less always succeeds, and the worker has charged more: the head and the body, which are gone.
        self._core.budget.hold(connection, connection.kept + outbox.memory)
        connection.await_reader(now)
        self._hold(connection, now + self._look_seconds)

    def _write(self, connection: Connection, now: float) -> None:
        outbox = connection.outbox
        if outbox is None:
            return
        try:
            sent = outbox.send(connection.sock, WRITE_TURN_BYTES)
        except OSError:
            self._drop(connection)
            return
        if sent:
            connection.written += sent
            connection.progress_at = now
            self._core.budget.hold(connection, connection.kept + outbox.memory)
        if not outbox.remaining:
            self._written(connection, now)

    def _written(self, connection: Connection, now: float) -> None:
        """End or linger, now that the response is gone."""
        if connection.outbox is not None:
            connection.outbox.close()
            connection.outbox = None
        if connection.unread or input_waits(connection.sock):
            self._release(connection)
            self._linger(connection, now)
        else:
            self._drop(connection)

    def _linger(self, connection: Connection, now: float) -> None:
        """Half-close, then read and discard: a client in the middle of a large body still reads its answer."""
        connection.advance(Event.SENT)
        core = self._core
        core.budget.hold(connection, 0)
        core.log_access(connection)
        connection.body = b""
        connection.request = connection.reader = connection.responder = None  # a head may be 320 KiB
        sock = connection.sock
        try:
            if isinstance(sock, ssl.SSLSocket):
                tls.notify_close(sock)
            sock.shutdown(socket.SHUT_WR)  # on an SSLSocket it also ends the TLS layer: what follows is discarded raw
        except OSError:
            self._drop(connection)
            return
        self._hold(connection, min(now + LINGER_SECONDS, core.linger_until))
        self._discard(connection)

    def _discard(self, connection: Connection) -> None:
        while True:
            try:
                data = connection.sock.recv(BODY_READ_BYTES)
            except _WOULD_BLOCK:
                return
            except OSError:
                break
            connection.discarded += len(data)
            if not data or connection.discarded >= LINGER_BYTES:
                break
            if len(data) < BODY_READ_BYTES:
                return
        self._drop(connection)

    def _take_back(self, now: float) -> None:
        """Take the connections that workers have returned."""
        while self._returned:
            connection = self._returned.popleft()
            connection.output = None
            self._held[State.HANDLING].pop(connection, None)
            if connection.state is State.CLOSED:
                self._core.log_access(connection, None if connection.cut else connection.progress_at)
                self._core.budget.hold(connection, 0)
                self._core.connections -= 1
            elif connection.outbox is None:
                self._written(connection, now)
            else:
                self._begin_waiting_to_write(connection, now)

    # --- holding, releasing, ending --------------------------------------------------------------------------------

    def _hold(self, connection: Connection, deadline: float) -> None:
        """Wait for the client, in the connection's state, until `deadline`."""
        self._held[connection.state][connection] = None
        self._deadlines.set(connection, deadline)
        self._watch(connection, selectors.EVENT_READ if connection.state in READING else selectors.EVENT_WRITE)

    def _watch(self, connection: Connection, events: int) -> None:
        if connection.events == events:
            return
        if connection.events:
            self._selector.modify(connection.sock, events, connection)
        else:
            self._selector.register(connection.sock, events, connection)
        connection.events = events

    def _release(self, connection: Connection) -> None:
        """Stop waiting for the client."""
        self._held[connection.state].pop(connection, None)
        self._deadlines.clear(connection)
        if connection.events:
            self._selector.unregister(connection.sock)
            connection.events = 0

    def _drop(self, connection: Connection) -> None:
        """End a connection that the front owns."""
        registered = connection.events
        self._release(connection)
        core = self._core
        if connection.outbox is not None:
            connection.outbox.close()
            connection.cut = True
        core.log_access(connection)
        connection.advance(Event.CLOSE)
        core.budget.hold(connection, 0)
        core.connections -= 1
        if registered:
            self._doomed.append(connection)
        else:
            close(connection)

    # --- draining --------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        """How many connections a drain waits for: bodies in progress, handlers, responses being written."""
        held = self._held
        return len(held[State.READING_BODY]) + len(held[State.HANDLING]) + len(held[State.WRITING])

    @property
    def settling(self) -> int:
        """How many connections have something to finish that no handler holds up."""
        held = self._held
        return len(held[State.READING_BODY]) + len(held[State.WRITING]) + len(held[State.LINGERING])

    @property
    def lingering(self) -> int:
        """How many connections only wait for their client to read the answer."""
        return len(self._held[State.LINGERING])

    def unfinished(self) -> list[Connection]:
        """Return the connections that a drain waits for: see :attr:`busy`."""
        held = self._held
        return [*held[State.HANDLING], *held[State.READING_BODY], *held[State.WRITING]]

    def refuse_bodies(self, now: float) -> None:
        """Answer 503 to whoever is still sending a body when a drain has used up its time."""
        for connection in list(self._held[State.READING_BODY]):
            self._core.deny(Denial.DRAINING, now)
            self._refuse(connection, DENIED[Denial.DRAINING], now)

    def newcomers(self, since: float) -> bool:
        """Say whether a connection without a complete head was accepted after `since`: its request is on the way."""
        return any(connection.accepted_at >= since for connection in self._held[State.READING_HEAD])

    def close(self) -> None:
        """Close every connection that is not in a worker, and the loop's own descriptors."""
        self._take_back(time.monotonic())
        for state, held in self._held.items():
            if state is not State.HANDLING:
                for connection in list(held):
                    self._drop(connection)
        for connection in self._doomed:
            close(connection)
        self._doomed.clear()
        self._selector.close()
        self._wake_up.close()
        self._closed = True
        self._discard_returned()

    def _discard_returned(self) -> None:
        """Close what comes back when there is no loop any more. By whichever thread: popping is atomic."""
        while True:
            try:
                connection = self._returned.popleft()
            except IndexError:
                return
            if connection.outbox is not None:
                connection.outbox.close()
                connection.cut = True
            self._core.budget.hold(connection, 0)
            self._core.connections -= 1
            if connection.state is not State.CLOSED:
                close(connection)


def request_line_of(request: Request) -> Request:
    """Return what a log line needs of a request, without the fields and the bytes of its head."""
    return Request(
        method=request.method,
        target=request.target,
        path=request.path,
        query=request.query,
        version=request.version,
        fields=[],
        index={},
        head=b"",
        content_length=None,
        expect_continue=False,
        authority="",
    )


def _has_pending(sock: socket.socket) -> bool:
    """Say whether the TLS layer holds bytes that the selector cannot see."""
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0
