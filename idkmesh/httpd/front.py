"""The front: one thread that owns every connection which is not being handled.

Here are its loop, what it reads, and what it decides about a complete head (HS-3.13). What it holds is in `keeper.py`,
how a connection comes in `acceptor.py` or back from a worker in `returned.py`, how it ends in `answers.py`.

Laws
    * The front never waits for a client, a worker or a log. It waits in `select` alone.
    * Handing over is: unregister, remove, enqueue. Taking back is: append, then wake (`returned.py`).
    * No user code runs here but `verify_request`, `subscribe` of a stream (and, in the serial profile, the handler).
"""

from __future__ import annotations

import collections
import contextvars
import itertools
import math
import selectors
import time
from logging import ERROR
from typing import TYPE_CHECKING

from idkmesh.httpd import tls
from idkmesh.httpd.acceptor import PAUSE_SECONDS, Acceptor
from idkmesh.httpd.answers import Answers
from idkmesh.httpd.application import Subscription
from idkmesh.httpd.connection import FREE_BYTES, Connection, Event, State, body_deadline
from idkmesh.httpd.core import Limit
from idkmesh.httpd.exchange import Exchange, failure_line, request_name
from idkmesh.httpd.keeper import Keeper
from idkmesh.httpd.outbox import WOULD_BLOCK
from idkmesh.httpd.output import FLUSH_SECONDS
from idkmesh.httpd.refusals import (
    BODY_TOO_LARGE,
    DENIED,
    INCOMPLETE,
    INTERNAL_ERROR,
    NO_THREAD,
    OUT_OF_MEMORY,
    TOO_SLOW,
)
from idkmesh.httpd.request_rules import HeadLimits, HeadReader, Refusal, Request, read_head
from idkmesh.httpd.responses import Response
from idkmesh.httpd.returned import Returned
from idkmesh.httpd.wakeup import WakeUp
from idkmesh.service_runtime import Denial

if TYPE_CHECKING:
    import socket

    from idkmesh.httpd.application import Application
    from idkmesh.httpd.core import Core
    from idkmesh.httpd.stream_hub import StreamHub

LONGEST_SILENCE = 0.5
"""Seconds between two beats of a front that has nothing to do; less where its budget is small."""
READ_BYTES = 64 * 1024
BODY_READ_BYTES = 256 * 1024

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
        self.keeper = Keeper(core)
        self._answers = Answers(core, self.keeper)
        self._selector = self.keeper.selector
        self._wake_up = WakeUp()
        self._selector.register(self._wake_up.receiver, selectors.EVENT_READ, None)
        self.acceptor = Acceptor(core, listener, self._selector, self)
        self._returned = Returned(core, self.keeper, self._answers, self.wake)
        self._admitted: collections.deque[Exchange] = collections.deque()
        """What this turn has admitted. Handed over at its end: workers that ran during it would only take turns with
        the front, at the price of two thread switches for each socket call."""
        self.hub: StreamHub | None = None
        if application.channel is not None:
            from idkmesh.httpd import stream_hub  # noqa: PLC0415  most servers have no stream

            self.hub = stream_hub.StreamHub(
                core, self.keeper, self._answers, application.channel, limits.max_sse_clients
            )
            application.channel.connect(self.wake, core.log)
        self._drain_noted = False
        self._flushed_at = 0.0

    # --- for other threads and signal handlers ---------------------------------------------------------------------

    def wake(self) -> None:
        """End the front's wait. Safe in any thread and in a signal handler."""
        self._wake_up.wake()

    def give_back(self, connection: Connection) -> None:
        """Worker: return a connection."""
        self._returned.give_back(connection)

    # --- the loop --------------------------------------------------------------------------------------------------

    def turn(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for something to do, and do it. Beat first (HL-2.1)."""
        pulse = self._core.pulse
        if pulse is not None:
            pulse.beat()
            timeout = min(timeout, LONGEST_SILENCE, pulse.budget / 2)
        now = time.monotonic()
        events = self._selector.select(self._wait(now, timeout))
        now = time.monotonic()
        self._core.note_levels(now)
        ready = [key.data for key, _ in events]
        if self._listener in ready:
            ready.remove(self._listener)
            self._accept(now)
        self._returned.take(now)
        handshakes = tls.HANDSHAKES_PER_TURN
        for connection in ready:
            if connection is None:
                self._wake_up.clear()
            elif connection.state is not State.HANDSHAKE:
                self._ready(connection, now)
            elif handshakes:
                handshakes -= 1
                self._handshake(connection, now)
        self._returned.take(now)
        self._expire(now)
        if self._core.limiter.draining and not self._drain_noted:
            self.note_drain(now)
        if self.hub is not None:
            self.hub.pump(now)
        if self._admitted:
            self._submit(now)
        self.acceptor.settle(now)
        self.keeper.end_batch()

    def _wait(self, now: float, timeout: float) -> float:
        until = self.keeper.deadlines.wait(now)
        if until is not None:
            timeout = min(timeout, until)
        if self.keeper.held[State.HANDLING]:
            timeout = min(timeout, FLUSH_SECONDS)
        if self.acceptor.paused:
            timeout = min(timeout, PAUSE_SECONDS)
        if self._core.crossed:
            timeout = min(timeout, 1.0)
        if self.hub is not None:
            timeout = self.hub.wait(now, timeout)
        return 0.0 if self._returned else timeout

    def note_drain(self, now: float, latest: float = math.inf) -> None:
        """Tell the observer of a drain, once, and begin to end the streams, by `latest` at the latest."""
        if self.hub is not None:
            self.hub.drain(now, latest)
        if not self._drain_noted:
            self._drain_noted = True
            usage = self._core.usage()
            self._core.observe(
                "drain.started", in_flight=usage.in_flight, connections=usage.connections, streams=usage.sse_clients
            )

    def _expire(self, now: float) -> None:
        for connection in self.keeper.deadlines.due(now):
            self._overdue(connection, now)
        if self._core.crossed:
            self._core.end_crossings(now)
        handling = self.keeper.held[State.HANDLING]
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
            self._answers.refuse(connection, TOO_SLOW, now)
        elif state is State.LINGERING:
            self.keeper.drop(connection)
        elif state is State.STREAMING and self.hub is not None:
            self.hub.overdue(connection, now)
        elif state is not State.WRITING or not self._answers.still_taken(connection, now):
            self._core.timed_out += 1
            self.keeper.drop(connection)

    # --- accepting -------------------------------------------------------------------------------------------------

    def _accept(self, now: float) -> None:
        self.take_in(self.acceptor.accept(now))

    def take_in(self, fresh: list[Connection]) -> None:
        """Read what newcomers have sent, and hold those whose request is not complete.

        They may have come long after this turn began, on a machine that is busy: their time counts from here.

        Once this turn itself has taken the last slots, the others are read in the next: short handlers have ended by
        then, and a burst is not refused for the sake of a turn that hands over at its end.
        """
        now = time.monotonic()
        for connection in fresh:
            full = self._admitted and self._core.limiter.would_deny() is Denial.OVERLOADED
            if full or connection.state is State.HANDSHAKE:
                self.keeper.hold(connection, now + self._limits.request_timeout)
            else:
                self._read_first(connection, now)

    def make_room(self, now: float) -> bool:
        """Say whether one more connection may come; another may have given way to it (HS-8)."""
        if not self.keeper.near_full:
            return True
        self._returned.take(now)
        return self.keeper.make_room(now)

    def shed(self, now: float) -> None:
        """Free descriptors: the machine is full."""
        self.keeper.shed(now)

    # --- reading ---------------------------------------------------------------------------------------------------

    def _ready(self, connection: Connection, now: float) -> None:
        state = connection.state
        if state is State.READING_HEAD:
            self._read_head(connection, now)
        elif state is State.READING_BODY:
            self._read_body(connection, now)
        elif state is State.WRITING:
            self._answers.write(connection, now)
        elif state is State.LINGERING:
            self._answers.discard(connection)
        elif state is State.STREAMING and self.hub is not None:
            self.hub.ready(connection, now)

    def _handshake(self, connection: Connection, now: float) -> None:
        outcome = tls.handshake(connection.sock)  # type: ignore[arg-type]  # a socket in HANDSHAKE is an SSLSocket
        if outcome is None:
            self.keeper.drop(connection)
        elif outcome == "done":
            self.keeper.release(connection)
            connection.advance(Event.SECURED)
            self._read_first(connection, now)
        else:
            self.keeper.watch(connection, selectors.EVENT_READ if outcome == "read" else selectors.EVENT_WRITE)

    def _read_first(self, connection: Connection, now: float) -> None:
        """Read a connection that has just been accepted: most send their whole head at once."""
        try:
            data = connection.sock.recv(READ_BYTES, connection.flags)
        except WOULD_BLOCK:
            self.keeper.hold(connection, now + self._limits.request_timeout)
            return
        except OSError:
            self.keeper.drop(connection)
            return
        if not data:
            self.keeper.drop(connection)
            return
        verdict = read_head(data, self._head_limits)
        if type(verdict) is tuple:
            self._head_complete(connection, verdict[0], verdict[1], now)
        elif isinstance(verdict, Refusal):
            self._answers.refuse(connection, verdict, now)
        else:
            connection.reader = HeadReader(self._head_limits)
            self.keeper.hold(connection, now + self._limits.request_timeout)
            self._feed(connection, data, now)

    def _read_head(self, connection: Connection, now: float) -> None:
        data = self._receive(connection, READ_BYTES)
        if data is None:
            return
        if not data:
            if connection.reader is not None and connection.reader.buffered:
                self._answers.refuse(connection, INCOMPLETE, now)
            else:
                self.keeper.drop(connection)
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
            if self._charge(connection, reader.buffered, now) and tls.has_pending(connection.sock):
                self._read_head(connection, now)
        elif isinstance(verdict, Refusal):
            self._answers.refuse(connection, verdict, now)
        else:
            self._head_complete(connection, verdict, reader.rest, now)

    def _receive(self, connection: Connection, size: int) -> bytes | None:
        """Read; None where nothing is there yet or the connection is gone."""
        try:
            return connection.sock.recv(size, connection.flags)
        except WOULD_BLOCK:
            return None
        except OSError:
            self.keeper.drop(connection)
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
                self._answers.answer(connection, answer, now)
            else:
                self._answers.refuse(connection, answer, now)
            return
        denial = core.limiter.would_deny()
        if denial is not None and not (denial is Denial.OVERLOADED and self._application.streams(request)):
            core.deny(denial, now)
            self._answers.refuse(connection, DENIED[denial], now)
            return
        self._admit(connection, request, rest, now)

    def _admit(self, connection: Connection, request: Request, rest: bytes, now: float) -> None:
        """Begin what the program gives for a request that the cap and a drain let pass, or refuse it."""
        length = request.content_length or 0
        try:
            responder = self._application.judge(request)
        except Exception:  # noqa: BLE001  a program's own `subscribe`; the server must outlive it
            self._core.log.write(f"{failure_line()}, judging {request_name(request)}", ERROR)
            responder = INTERNAL_ERROR
        if isinstance(responder, Refusal):
            self._answers.refuse(connection, responder, now)
        elif length > self._limits.max_body_bytes:
            self._answers.refuse(connection, BODY_TOO_LARGE, now)
        elif isinstance(responder, Subscription):
            assert self.hub is not None  # noqa: S101  made with the application that has the stream
            self.hub.open(connection, responder, now)
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
                connection.sock.send(_CONTINUE, connection.flags)  # 25 bytes into an empty buffer: all or nothing
            except OSError:
                self.keeper.drop(connection)
                return
        self.keeper.release(connection)
        connection.advance(Event.BODY_AWAITED)
        connection.progress_at = now
        self.keeper.hold(connection, body_deadline(now, length, self._limits.request_timeout))
        if self._charge(connection, connection.kept, now):
            self._read_body(connection, now)

    def _read_body(self, connection: Connection, now: float) -> None:
        while True:
            data = self._receive(connection, min(connection.body_missing, BODY_READ_BYTES))
            if data is None:
                return
            if not data:
                self._answers.refuse(connection, INCOMPLETE, now)
                return
            connection.body += data
            connection.body_missing -= len(data)
            connection.progress_at = now
            if not self._charge(connection, connection.kept, now):
                return
            if connection.body_missing == 0:
                self._hand_over(connection, now)
                return
            bodies = self.keeper.held[State.READING_BODY]
            bodies[connection] = bodies.pop(connection)  # the first is the one whose progress is oldest
            if not tls.has_pending(connection.sock):
                return

    def _charge(self, connection: Connection, size: int, now: float) -> bool:
        """Account for `size` bytes of a request; where the budget is full, who made the least progress goes (HS-6.3).

        That may be this one, which returns False.
        """
        core = self._core
        while not core.budget.hold(connection, size):
            if self._returned:  # what ended exchanges held is free
                self._returned.take(now)
                continue
            reading = itertools.chain(self.keeper.held[State.READING_HEAD], self.keeper.held[State.READING_BODY])
            charged = [other for other in reading if other.charged and other is not connection]
            charged.append(connection)  # which is held nowhere where its head came at once
            victim = min(charged, key=lambda other: (other.progress_at, other.charged))
            core.limiter.count_denied(Denial.OVERLOADED)
            core.hit(Limit.BYTES, now)
            self._answers.refuse(victim, OUT_OF_MEMORY, now)
            if victim is connection:
                return False
        return True

    def _hand_over(self, connection: Connection, now: float) -> None:
        """Take a slot and give the complete request to a worker."""
        core = self._core
        if connection.kept > FREE_BYTES and not self._charge(connection, connection.kept, now):
            return
        admission = core.limiter.admit(connection, promised=connection.state is State.READING_BODY)
        if isinstance(admission, Denial):
            if admission is Denial.OVERLOADED:
                core.hit(Limit.REQUESTS, now)
            self._answers.refuse(connection, DENIED[admission], now)
            return
        core.in_flight_peak.note(core.limiter.in_flight, now)
        self.keeper.release(connection)
        connection.advance(Event.ADMITTED)
        connection.progress_at = connection.writing_since = now
        exchange = Exchange(core, connection, admission, core.server)
        connection.output = exchange.output
        self.keeper.held[State.HANDLING][connection] = None
        if self._limits.serial:
            contextvars.Context().run(exchange.run)
            if exchange.interrupt is not None:
                raise exchange.interrupt
        else:
            self._admitted.append(exchange)

    def _submit(self, now: float) -> None:
        """Give this turn's requests to the workers."""
        while self._admitted:  # taken out one by one: Ctrl-C may end this turn anywhere
            exchange = self._admitted.popleft()
            try:
                self._core.workers.submit(exchange)
            except RuntimeError:
                self._no_thread(exchange, now)

    def _no_thread(self, exchange: Exchange, now: float) -> None:
        """Answer 503 for want of a thread; the slot comes back (HS-5.7)."""
        exchange.cancel()
        connection = exchange.connection
        del self.keeper.held[State.HANDLING][connection]
        connection.output = None
        self._core.declined()
        self._answers.refuse(connection, NO_THREAD, now)

    def refuse_bodies(self, now: float) -> None:
        """Answer 503 to whoever is still sending a body when a drain has used up its time."""
        for connection in list(self.keeper.held[State.READING_BODY]):
            self._core.deny(Denial.DRAINING, now)
            self._answers.refuse(connection, DENIED[Denial.DRAINING], now)

    def close(self) -> None:
        """Close every connection that is not in a worker, and the loop's own descriptors."""
        self._returned.take(time.monotonic())
        self.keeper.close()
        self.acceptor.close()
        if self.hub is not None:
            self.hub.close()
        self._wake_up.close()
        self._returned.close()
