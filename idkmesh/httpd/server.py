"""`BoundedHTTPServer`: `ThreadingHTTPServer` with bounds.

This file is the shell: the names and promises of `socketserver`, on the front (`front.py`), the workers (`workers.py`)
and what both share (`core.py`).
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import socket
import socketserver
import ssl
import sys
import threading
import time
import traceback
from http.server import HTTPServer, ThreadingHTTPServer
from logging import ERROR, WARNING
from typing import TYPE_CHECKING, Any

from idkmesh import __version__
from idkmesh.httpd.core import Core
from idkmesh.httpd.descriptors import descriptor_room, within_descriptors
from idkmesh.httpd.exchange import current_exchange, failure_line, request_name
from idkmesh.httpd.front import Front
from idkmesh.httpd.handler import HandlerApplication, run_handler
from idkmesh.httpd.wsgi import WSGIRunner
from idkmesh.service_runtime import ServiceIdentity, ServiceLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType
    from wsgiref.types import WSGIApplication

    from idkmesh.httpd.application import Application
    from idkmesh.httpd.core import Load, Pulse
    from idkmesh.httpd.peaks import UsagePeaks
    from idkmesh.httpd.stream_hub import StreamStatistics
    from idkmesh.service_runtime import RequestLimiter, ServiceUsage

LINGER_AT_END = 0.5
"""Seconds that a finished drain leaves to clients which are still to read their answer."""
LAST_CALL = 0.2
"""Seconds that a closed listener leaves to clients which had just connected, so that they are answered too."""
TURN_SECONDS = 0.5

IDENTITY = ServiceIdentity(service="idkmesh-httpd", service_version=__version__, read_only=False)
"""Who answers where the program does not say."""

_REPLACED = (
    "get_request",
    "process_request",
    "process_request_thread",
    "shutdown_request",
    "close_request",
)


class BoundedHTTPServer(ThreadingHTTPServer):
    """A drop-in for :class:`http.server.ThreadingHTTPServer` that bounds what clients can take.

    The hooks of `socketserver` that may be overridden are `server_bind`, `server_activate`, `verify_request`,
    `finish_request`, `handle_error`, `handle_timeout`, `service_actions` and `server_close`; those that name a step
    this server has not are refused (HS-10.2). What it promises is `docs/specifications/HTTP_SERVER_V0_1.md`.
    """

    # On Windows it would let a second process bind the same port.
    allow_reuse_address = os.name != "nt"

    def __init__(  # noqa: PLR0913 (the standard library's three, and what a limit cannot express)
        self,
        server_address: Any,
        RequestHandlerClass: Any,  # noqa: N803 (the standard library's name; a class or a partial of one)
        bind_and_activate: bool = True,  # noqa: FBT001, FBT002 (the standard signature)
        *,
        limits: ServiceLimits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        identity: ServiceIdentity | None = None,
    ) -> None:
        """Bind and listen, unless told not to; nothing is accepted before :meth:`serve_forever`.

        :param limits: the defaults where None, with the class's own `request_queue_size` as backlog if it has one.
        :param ssl_context: speak TLS; the handshake is a phase of the front.
        :raises TypeError: the class overrides a step that this server replaces.
        :raises OSError: the address cannot be bound.
        """
        _refuse_overrides(type(self))
        limits = limits if limits is not None else _class_limits(type(self))
        room = descriptor_room(limits)
        limits = within_descriptors(limits, room)
        self._core = Core(self, limits, identity or IDENTITY)
        self._core.descriptors = room
        self._core.tls = ssl_context
        if type(self).verify_request is not socketserver.BaseServer.verify_request:
            self._core.verify = self.verify_request
        self._application = self._make_application()
        self._state = threading.Condition()
        self._front: Front | None = None
        self._front_thread: int | None = None
        self._ended_loops = 0
        self._act: Callable[[], None] | None = None
        self._longest_turn = math.inf
        self._stop = False
        self._signal = 0
        self._interrupted = False
        self._closed = False
        self._drained = False
        self.request_queue_size = limits.listen_backlog
        super().__init__(server_address, RequestHandlerClass, bind_and_activate)

    def _make_application(self) -> Application:
        return HandlerApplication(self._core.log)

    # --- what is in force ------------------------------------------------------------------------------------------

    @property
    def limits(self) -> ServiceLimits:
        """The limits in force."""
        return self._core.limits

    @property
    def limiter(self) -> RequestLimiter:
        """The limiter that admits requests."""
        return self._core.limiter

    def usage(self) -> ServiceUsage:
        """Return what is used right now and was counted since the start."""
        return self._core.usage()

    def load(self, now: float) -> Load:
        """Return what is used at `now` (monotonic seconds) and whether a limit is being met, without waiting."""
        return self._core.load(now)

    def peaks(self) -> UsagePeaks:
        """Return the most that was used at once of late, without waiting."""
        return self._core.peaks(time.monotonic())

    def stream_statistics(self) -> StreamStatistics:
        """Return the event streams' figures: zeros where there is no stream, and before the loop runs."""
        from idkmesh.httpd import stream_hub  # noqa: PLC0415  most servers have no stream

        front = self._front
        return front.hub.statistics() if front is not None and front.hub is not None else stream_hub.StreamStatistics()

    def refusals(self) -> dict[str, int]:
        """Return how often each error code was answered since the start."""
        return self._core.refusals_by_code()

    def tell(self, observer: Callable[[str, Mapping[str, object]], None]) -> None:
        """Tell `observer` of crossings and drains as they happen, beside who is told already.

        It gets a name (``overload.began``, ``drain.started``, ...) and facts, on the front's thread: it must not wait.
        """
        before = self._core.observer

        def both(what: str, facts: Mapping[str, object]) -> None:
            if before is not None:
                before(what, facts)
            observer(what, facts)

        self._core.observer = both

    def log_line(self, line: str, level: int = logging.INFO) -> None:
        """Log one line with the server's own, without waiting for whoever reads them (HS-13.1)."""
        self._core.log.write(line, level)

    def watch_loop(self, register: Callable[[], Pulse]) -> None:
        """Have the loop beat at the top of each turn: `register` gives it its pulse when it begins (HL-2.1).

        The pulse is closed when the loop ends. In the serial profile nothing is registered: there a handler runs in the
        loop, and may wait for a downstream (HL-2.3).
        """
        if not self.limits.serial:
            self._core.register = register

    def at_each_turn(self, act: Callable[[], None], *, longest: float) -> None:
        """Call `act` after each turn of the loop, and have no turn wait longer than `longest` seconds.

        It runs on the loop's thread, also in a drain: it must not wait. One may be set; another one takes its place.
        """
        self._act, self._longest_turn = act, longest

    # --- the steps of socketserver ---------------------------------------------------------------------------------

    def server_bind(self) -> None:
        """Bind, without the name look-up of `HTTPServer.server_bind`, which can take seconds."""
        if os.name == "nt":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)  # type: ignore[attr-defined]
        socketserver.TCPServer.server_bind(self)
        address: Any = self.server_address  # a text for AF_UNIX
        self.server_name, self.server_port = address[:2] if isinstance(address, tuple) else (str(address), 0)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Run the handler class on one request. In a worker; `request` is the handler's socket."""
        run_handler(self.RequestHandlerClass, request, client_address, self, self._core.log)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (the standard signature)
        """Log the exception that is being handled, in one line; its traceback at level DEBUG."""
        self._core.log.write(failure_line(), ERROR)
        if logging.getLogger("idkmesh").isEnabledFor(logging.DEBUG):
            self._core.log.write(traceback.format_exc(), logging.DEBUG)

    def serve_forever(self, poll_interval: float = TURN_SECONDS) -> None:
        """Serve until :meth:`shutdown`, or until a drain that :meth:`request_drain` has asked for is over.

        `service_actions` is called at least every `poll_interval` seconds.
        """
        with self._running() as front:
            if self._closed:
                return  # by another thread before this one came here
            if self._drained:
                raise RuntimeError("the server has drained: make a new one")
            front.acceptor.start()
            while not self._stop and not self._signal:
                self._turn(front, poll_interval)
                self.service_actions()
            if not self._stop:
                self._drain(front)
            self._stop = False

    def handle_request(self) -> None:
        """Serve one connection to its end; `handle_timeout` if none comes within `timeout` seconds.

        :meth:`shutdown` and :meth:`server_close` in another thread end it.
        """
        limits = [limit for limit in (self.timeout, self.socket.gettimeout()) if limit]
        deadline = time.monotonic() + min(limits) if limits else float("inf")
        core = self._core
        with self._running() as front:
            if self._closed or self._drained:  # judged here: another thread may have closed it just now
                raise RuntimeError("the server is closed")
            core.attentive = True
            try:
                front.acceptor.start(most=1)
                before, started = core.accepted, time.monotonic()
                while core.accepted == before and time.monotonic() < deadline and not self._stop:
                    self._turn(front, min(TURN_SECONDS, max(0.0, deadline - time.monotonic())))
                front.acceptor.stop()
                if core.accepted == before and not self._stop:
                    self.handle_timeout()
                while front.keeper.holds_newer(started) and not self._stop:
                    self._turn(front, TURN_SECONDS)
            finally:
                core.attentive = False
                self._stop = False

    def shutdown(self) -> None:
        """End :meth:`serve_forever`. From the loop itself or from a handler it asks and returns (HS-9.4)."""
        ended = self._ended_loops
        self._stop = True
        front = self._front
        if front is not None:
            front.wake()
        if threading.get_ident() == self._front_thread or current_exchange.get() is not None:
            return
        with self._state:
            # Not for a drain that may follow at once: it may wait for the very handler whose thread asks here.
            self._state.wait_for(lambda: self._front_thread is None or self._ended_loops > ended)

    def begin_drain(self) -> None:
        """Answer every new request 503 `shutting_down` from now on. Not for signal handlers: see `request_drain`."""
        self._core.limiter.begin_drain()
        if self._front is not None:
            self._front.wake()

    def request_drain(self, signal_number: int) -> None:
        """Make :meth:`serve_forever` drain and return. Safe in a signal handler (HS-9.6)."""
        self._signal = signal_number
        front = self._front
        if front is not None:
            front.wake()

    def server_close(self) -> None:
        """Drain for at most `drain_timeout`, then close everything. A second call changes nothing."""
        if self._closed:
            return
        if threading.get_ident() == self._front_thread or current_exchange.get() is not None:
            raise RuntimeError(
                "server_close() waits for handlers to end: call it after serve_forever(), not in a handler"
            )
        self._closed = True
        try:
            self.shutdown()
            if self._front is not None and not self._drained:
                with self._running() as front:
                    self._drain(front)
        finally:  # Ctrl-C may end the drain
            if self._front is not None:
                self._front.close()
            self._core.workers.close(timeout=1.0)
            self._core.log.close(timeout=1.0)
            socketserver.TCPServer.server_close(self)

    # --- the loop --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _running(self) -> Any:
        """Make this thread the front."""
        with self._state:
            if self._front_thread is not None:
                msg = "the server is running in another thread already"
                raise RuntimeError(msg)
            self._front_thread = threading.get_ident()
        try:
            with self._interrupt_deferred(), self._beating():
                if self._front is None and not self._closed:
                    self._front = self._core.front = self._make_front()
                yield self._front
        finally:
            with self._state:
                self._front_thread = None
                self._ended_loops += 1
                self._state.notify_all()

    @contextlib.contextmanager
    def _beating(self) -> Iterator[None]:
        """Keep the loop registered with the watchdog, if there is one (HL-2.5)."""
        register = self._core.register
        if register is None:
            yield
            return
        pulse = self._core.pulse = register()
        try:
            yield
        finally:
            self._core.pulse = None
            pulse.close()

    @contextlib.contextmanager
    def _interrupt_deferred(self) -> Iterator[None]:
        """Let Ctrl-C raise between two turns of the loop, where every connection has its place; a second one at once.

        Only where the program has left SIGINT as Python sets it, and the loop runs where signals arrive.
        """
        default = signal.default_int_handler
        if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not default:
            yield
            return
        signal.signal(signal.SIGINT, self._note_interrupt)
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGINT) == self._note_interrupt:  # the program may have set its own meanwhile
                signal.signal(signal.SIGINT, default)

    def _note_interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (the standard signature)
        if self._interrupted:
            self._interrupted = False  # one exception for the two: the drain that follows is not to raise another
            raise KeyboardInterrupt
        self._interrupted = True
        if self._front is not None:
            self._front.wake()

    def _turn(self, front: Front, timeout: float) -> None:
        front.turn(min(timeout, self._longest_turn))
        if self._act is not None:
            self._act()
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    def _make_front(self) -> Front:
        if isinstance(self.socket, ssl.SSLSocket):
            # The caller wrapped the listener. Its accept would do the handshake, and wait for it.
            self._core.tls = self.socket.context
        self.socket.settimeout(0)
        if self.socket.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):  # accepted sockets inherit it where the system allows
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Front(self._core, self.socket, self._application)

    def _drain(self, front: Front) -> None:
        """Answer 503 until what is in flight has ended or `drain_timeout` has passed; the listener closes last."""
        core = self._core
        core.attentive = True
        core.limiter.begin_drain()
        deadline = time.monotonic() + core.limits.drain_timeout
        core.linger_until = deadline + LINGER_AT_END
        began = time.monotonic()
        front.acceptor.start()
        front.note_drain(began, deadline)
        self._turn(front, 0.0)
        while front.keeper.busy and time.monotonic() < deadline:
            self._turn(front, min(TURN_SECONDS, max(0.0, deadline - time.monotonic())))
            self.service_actions()
        front.refuse_bodies(time.monotonic())
        end = min(time.monotonic() + LINGER_AT_END, core.linger_until)
        while front.keeper.settling and time.monotonic() < end:
            self._turn(front, 0.05)
        self._close_listener(front)
        self._drained = True
        abandoned = self._tell_abandoned(front)
        core.observe("drain.ended", seconds=round(time.monotonic() - began, 3), abandoned=abandoned)

    def _close_listener(self, front: Front) -> None:
        """Answer whoever waits in the accept queue, close the listener, and answer whoever came in last."""
        self._turn(front, 0.0)
        closed = time.monotonic()
        # Whoever is answered may come back at once: between the last accept and the close there must be no answer.
        fresh = front.acceptor.accept(closed)
        front.acceptor.stop()
        self.socket.close()
        front.take_in(fresh)
        keeper = front.keeper
        while (keeper.lingering or keeper.newcomers(closed - LAST_CALL)) and time.monotonic() < closed + LAST_CALL:
            self._turn(front, 0.05)

    def _tell_abandoned(self, front: Front) -> int:
        """Log which requests are abandoned, if any; return how many."""
        abandoned = front.keeper.unfinished()
        if not abandoned:
            return 0
        requests = [connection.request for connection in abandoned if connection.request is not None]
        names = ", ".join(request_name(request) for request in requests[:5])
        more = f" and {len(requests) - 5} more" if len(requests) > 5 else ""  # noqa: PLR2004 (as above)
        self._core.abandoned += len(abandoned)
        self._core.log.write(
            f"{len(abandoned)} request(s) did not end within drain_timeout "
            f"({self._core.limits.drain_timeout:g} s) and were abandoned: {names}{more}",
            WARNING,
        )
        return len(abandoned)


class BoundedWSGIServer(BoundedHTTPServer):
    """Serves one WSGI callable with the same bounds."""

    def __init__(
        self,
        server_address: Any,
        app: WSGIApplication,
        bind_and_activate: bool = True,  # noqa: FBT001, FBT002 (as the base class)
        **options: Any,
    ) -> None:
        """Serve `app`; the other arguments are :class:`BoundedHTTPServer`'s."""
        self._runner = WSGIRunner(app)
        super().__init__(server_address, None, bind_and_activate, **options)

    def _make_application(self) -> Application:
        return self._runner

    def _make_front(self) -> Front:
        front = super()._make_front()  # from here on it is known whether the listener speaks TLS
        self._runner.bind(
            self.server_name,
            self.server_port,
            secure=self._core.tls is not None,
            multithread=not self.limits.serial,
        )
        return front


def use_short_switch_interval() -> None:
    """Let threads take turns every 0.1 ms instead of every 5 ms. Process-wide, so it is the program's to call.

    Each socket call gives up the interpreter; with 16 CPU-bound handlers the front then waits 70 ms for its next turn
    at the default interval and 2 ms at this one, for about 3 % of throughput.
    """
    sys.setswitchinterval(0.0001)


def _refuse_overrides(cls: type) -> None:
    for step in _REPLACED:
        if getattr(cls, step) is not getattr(ThreadingHTTPServer, step):
            msg = (
                f"{cls.__name__} overrides {step}(), a step that BoundedHTTPServer does not have; "
                "use verify_request(), finish_request() or ssl_context= instead"
            )
            raise TypeError(msg)


def _class_limits(cls: type[BoundedHTTPServer]) -> ServiceLimits:
    """Return the defaults, with the backlog of a class that was written for `socketserver` and set its own."""
    size = cls.request_queue_size
    if size == HTTPServer.request_queue_size:
        return ServiceLimits()
    return ServiceLimits(listen_backlog=size)
