"""One admitted request in a worker's hands, from the handler's first line to the last byte that can leave at once.

Laws
    * The slot is released exactly once, in a ``finally``, after the handler has ended and before the last byte leaves
      (HS-5.5): a client that has its answer can ask again at once.
    * The worker owns the connection until it gives it back or closes it; it does one of the two, whatever happens.
    * ``BaseException`` stops here: a handler that calls ``sys.exit()`` must not cost a worker.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import socket
import ssl
import struct
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol

from idkmesh.httpd import tls
from idkmesh.httpd.connection import Event, State
from idkmesh.httpd.outbox import DONT_WAIT, send_some
from idkmesh.httpd.output import Output
from idkmesh.httpd.refusals import INTERNAL_ERROR, NO_THREAD
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import stored_for
from idkmesh.service_runtime import log_value

if TYPE_CHECKING:
    from idkmesh.httpd.budget import ByteBudget
    from idkmesh.httpd.connection import Connection
    from idkmesh.httpd.outbox import Outbox
    from idkmesh.httpd.request_rules import Request
    from idkmesh.httpd.responses import Response, ResponseRenderer
    from idkmesh.service_runtime import Admission, LineLog, ServiceLimits

_PEEK: Final = socket.MSG_PEEK | DONT_WAIT
UNWATCHED_SECONDS = 0.001
"""A handler that took longer has left a client the time to send more than it announced, so somebody has to look."""
_RESET = struct.pack("ii", 1, 0)

_LIBRARIES: Final = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(__file__) + os.sep)  # noqa: PTH120 (prefixes of texts)

current_exchange: contextvars.ContextVar[Exchange | None] = contextvars.ContextVar("current_exchange", default=None)
"""The exchange that the current worker runs."""


class Lineage:
    """Tells a forked child from the process that it was forked from."""

    forks: ClassVar[int] = 0
    """How many forks lie between the first process and this one."""


class Service(Protocol):
    """What exchanges share: the parts of one server that both the front and workers use."""

    limits: ServiceLimits
    budget: ByteBudget
    renderer: ResponseRenderer
    log: LineLog

    def http_date(self) -> str:
        """Return the current date in the form of RFC 9110 5.6.7."""

    def handler_failed(self, exchange: Exchange) -> None:
        """Tell of the exception that is being handled."""

    def request_id(self, connection: Connection) -> str:
        """Return the id of a request, the same whenever it is asked."""

    def count_refusal(self, refusal: Refusal) -> None:
        """Count an answer that says no."""

    def declined(self) -> None:
        """Count and tell of a request for which no thread could be started."""

    def cannot_spool(self, error: OSError) -> None:
        """Tell once that what a client has not taken cannot be kept in a file."""

    def give_back(self, connection: Connection) -> None:
        """Take a connection over from a worker: closed, or with something left to send or to discard."""


class Exchange:
    """A request and the way to answer it. Made by the front, used by one worker."""

    __slots__ = ("_admission", "_service", "connection", "interrupt", "output", "server")

    def __init__(self, service: Service, connection: Connection, admission: Admission, server: Any) -> None:
        """Take over `connection`, whose request is complete; `server` is what handlers know as ``self.server``."""
        self._service = service
        self._admission = admission
        self.connection = connection
        self.server = server
        self.output = Output(connection, service.budget, service.limits.request_timeout)
        self.interrupt: KeyboardInterrupt | None = None
        """Ctrl-C met the handler: for whoever runs it on the main thread to go on with."""

    @property
    def request(self) -> Request:
        """The request."""
        request = self.connection.request
        if request is None:
            msg = "an exchange needs a request"
            raise ValueError(msg)
        return request

    @property
    def body(self) -> bytes:
        """The whole body, ``b""`` where there is none."""
        connection = self.connection
        if not isinstance(connection.body, bytes):
            connection.body = bytes(connection.body)
        return connection.body

    @property
    def client_address(self) -> Any:
        """Address of the peer, as accept(2) gave it."""
        return self.connection.address

    @property
    def request_id(self) -> str:
        """The id of this request: a safe caller's own, or a new one."""
        return self._service.request_id(self.connection)

    @property
    def http_date(self) -> str:
        """The current date in the form of RFC 9110 5.6.7."""
        return self._service.http_date()

    @property
    def log(self) -> LineLog:
        """Where the server tells of what programs do wrong."""
        return self._service.log

    def respond(self, answer: Response | Refusal) -> None:
        """Write the whole response; a refusal in the representation that the client prefers."""
        renderer = self._service.renderer
        if isinstance(answer, Refusal):
            self._service.count_refusal(answer)
            answer = renderer.refusal_response(answer, self.request)
        data = renderer.render(answer, self.request, self.request_id, self.http_date)
        stored = stored_for(answer, self.request)
        self.output.write_whole(data if stored is None else data + stored.read(), answer.status)

    def run(self) -> None:
        """Run the responder, release the slot, and send what can be sent at once. Needs a context of its own."""
        current_exchange.set(self)
        responder = self.connection.responder
        forks = Lineage.forks
        try:
            responder(self)  # type: ignore[misc]  # the front sets it before it admits
        except BaseException as error:  # noqa: BLE001 (a law of this module)
            if Lineage.forks != forks:
                _leave_child(error)
            if isinstance(error, KeyboardInterrupt):
                self.interrupt = error
            self._fail()
        finally:
            if Lineage.forks != forks:
                _leave_child(None)
            self._end()

    def decline(self) -> None:
        """Worker: answer 503, since no thread could be started to run this (HS-5.7)."""
        self._service.declined()
        self._service.count_refusal(NO_THREAD)
        answer = self._service.renderer.render_refusal(NO_THREAD, self.request, self.request_id, self.http_date)
        self.output.write_whole(answer, NO_THREAD.status)
        self._end()

    def _end(self) -> None:
        """Release the slot, then send what can be sent at once."""
        remainder: bytes | Outbox | None = None
        try:
            remainder = self.output.settle()
        except BaseException:
            self.output.broken = True
            raise
        finally:
            self._admission.release()
            self._finish(remainder)

    def cancel(self) -> None:
        """Front: release the slot of an exchange that no worker has run."""
        self._admission.release()

    def _fail(self) -> None:
        """Answer for a handler that raised: 500 where nothing has left, a cut where something has (HS-7.6)."""
        output = self.output
        if output.broken and isinstance(sys.exc_info()[1], ConnectionError | TimeoutError | ssl.SSLError):
            return  # the client has left and the handler noticed: nobody's fault
        self._service.handler_failed(self)
        self._service.count_refusal(INTERNAL_ERROR)
        answer = self._service.renderer.render_refusal(INTERNAL_ERROR, self.request, self.request_id, self.http_date)
        if not output.replace(answer, INTERNAL_ERROR.status):
            output.abandon()

    def _finish(self, remainder: bytes | Outbox | None) -> None:
        """Send and give back: what could not be sent to the front, and the connection whatever happens."""
        connection = self.connection
        connection.status = self.output.status
        try:
            if isinstance(remainder, bytes):
                remainder = self._send_once(remainder)
            self._conclude(remainder)
        finally:
            if connection.state is State.HANDLING:  # something has failed that cannot
                connection.cut = True
                connection.advance(Event.CLOSE)
                close(connection)
            self._service.give_back(connection)

    def _conclude(self, remainder: Outbox | None) -> None:
        connection = self.connection
        connection.body = connection.early = b""
        if self.output.fault is not None:
            self._service.cannot_spool(self.output.fault)
        connection.outbox = remainder
        if remainder is None:
            if self.output.broken:
                connection.cut = True
            if connection.unread and not connection.cut:
                connection.advance(Event.ANSWERED)  # the front lingers
            else:
                connection.advance(Event.CLOSE)
                close(connection)
        else:
            connection.advance(Event.ANSWERED)

    def _send_once(self, data: bytes) -> Outbox | None:
        """Send without blocking; return what the socket did not take, None if it took all or the client has left."""
        connection = self.connection
        try:
            sent = send_some(connection.sock, data, connection.flags)
        except OSError:
            self.output.broken = True
            return None
        connection.written += sent
        if sent == len(data):
            now = time.monotonic()
            unwatched, connection.progress_at = now - connection.progress_at, now
            if connection.body or unwatched > UNWATCHED_SECONDS:
                connection.unread = connection.unread or input_waits(connection.sock)
            return None
        return self.output.keep(memoryview(data)[sent:])


def input_waits(sock: socket.socket) -> bool:
    """Say whether bytes have arrived that nobody read. Closing over them would reset the connection."""
    if isinstance(sock, ssl.SSLSocket):
        return True  # at the least its close_notify
    try:
        return bool(sock.recv(1, _PEEK))
    except OSError:
        return False


def close(connection: Connection) -> None:
    """Close: with a reset where the response was cut, else with a close_notify first where there is TLS (HS-11.3)."""
    sock = connection.sock
    if connection.cut:
        with contextlib.suppress(OSError):  # the client has reset it already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    elif isinstance(sock, ssl.SSLSocket):
        tls.notify_close(sock)
    try:
        sock.close()
    except OSError:
        return  # a program has closed a descriptor that was not its own


def _leave_child(error: BaseException | None) -> NoReturn:
    """End a child that a handler forked and that came back from it. Its parent has the connection and answers.

    As on `ThreadingHTTPServer`, where the child has no other thread than the one that ends there.
    """
    failed = error is not None and not isinstance(error, SystemExit)
    try:
        if failed:  # not by the log: a thread of the parent may have held its lock
            os.write(2, f"in a forked child: {failure_line()}\n".encode())
    finally:  # standard error may be closed
        os._exit(int(failed))


def failure_line() -> str:
    """Return one line about the exception that is being handled: what, where, for which request."""
    kind, error, trace = sys.exc_info()
    place = _places(traceback.extract_tb(trace))
    name = kind.__name__ if kind else "error"
    text = log_value(str(error))
    exchange = current_exchange.get()
    if exchange is None:
        return f"{name}: {text}{place}"
    request = exchange.request
    return f"{name}: {text}{place}, answering {request_name(request)} (request {exchange.request_id})"


def _places(frames: traceback.StackSummary) -> str:
    """Return where an exception was raised, and by which line of the program's own if that is another."""
    if not frames:
        return ""
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith(_LIBRARIES) and f"{os.sep}site-packages{os.sep}" not in frame.filename
    ]
    shown = [own[-1], frames[-1]] if own and own[-1] is not frames[-1] else [frames[-1]]
    return " at " + ", raised at ".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in shown)


def request_name(request: Request) -> str:
    """Return what a log line calls a request: its method and path, escaped and cut."""
    return f"{log_value(request.method)} '{log_value(request.path)}'"
