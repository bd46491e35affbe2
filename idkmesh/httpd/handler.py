"""Running a `BaseHTTPRequestHandler` on a request that has already been read.

There are two ways. The slow way replays the request to the standard library's own parser, for handlers that override a
step of it. The fast way (HS-10.3) sets every attribute that the standard library would have set, from the request that
the rules have parsed: the header parser of the standard library, an e-mail parser, is half of its cost.
"""

from __future__ import annotations

import functools
import http.client
import io
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from idkmesh.httpd.application import WithoutRoutes
from idkmesh.httpd.handler_socket import HandlerSocket, RequestReader, head_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from idkmesh.httpd.application import Responder
    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.request_rules import Request
    from idkmesh.service_runtime import LineLog

_STEPS = {
    step: getattr(BaseHTTPRequestHandler, step)
    for step in ("setup", "handle", "handle_one_request", "parse_request", "finish", "handle_expect_100")
}
"""What the fast way stands for. Kept from the start: a program may have put something else into the class since."""
_COPYFILE = SimpleHTTPRequestHandler.copyfile


class HandlerApplication(WithoutRoutes):
    """An application without a path of its own: every request goes to the handler class."""

    def __init__(self, log: LineLog) -> None:
        """Tell of what handlers cannot do in `log`."""
        self._log = log

    def judge(self, request: Request) -> Responder:  # noqa: ARG002 (the handler judges)
        """Give every request to the handler."""
        return self._respond

    def _respond(self, exchange: Exchange) -> None:
        sock = HandlerSocket(exchange, self._log)
        try:
            exchange.server.finish_request(sock, exchange.client_address)
        finally:
            sock.retire()


def run_handler(handler_class: Any, sock: Any, client_address: Any, server: Any, log: LineLog) -> None:
    """Construct the handler, which handles the request in its constructor, as `socketserver` has it."""
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}
    cls: Any = handler_class
    if isinstance(handler_class, functools.partial):
        cls, arguments, keywords = handler_class.func, handler_class.args, handler_class.keywords
    if not (isinstance(sock, HandlerSocket) and _is_plain(cls) and sock.exchange.request.get("upgrade") is None):
        handler = handler_class(sock, client_address, server)
    else:
        handler = cls.__new__(cls)
        # Found before the class's own, and taken away by the first step that runs.
        handler.setup = functools.partial(_setup, handler, log)
        handler.handle = functools.partial(_handle, handler)
        handler.__init__(*arguments, sock, client_address, server, **keywords)
    if not getattr(handler, "close_connection", True):
        log.once("keep-alive", "a handler offers keep-alive; this server answers one request a connection")


@functools.cache
def _is_plain(cls: object) -> bool:
    """Say whether the class leaves every step that the fast way replaces as the standard library has it."""
    return (
        isinstance(cls, type)
        and issubclass(cls, BaseHTTPRequestHandler)
        and all(getattr(cls, step) is original for step, original in _STEPS.items())
        and type(cls).__call__ is type.__call__
        and cls.__new__ is object.__new__
        and cls.__setattr__ is object.__setattr__
        and cls.__getattribute__ is object.__getattribute__
        and cls.MessageClass is http.client.HTTPMessage
        and (cls.rbufsize, cls.wbufsize) == (-1, 0)
    )


@functools.cache
def _sends_files(cls: object) -> bool:
    """Say whether the class sends files as the standard library does."""
    return isinstance(cls, type) and issubclass(cls, SimpleHTTPRequestHandler) and cls.copyfile is _COPYFILE


class ResponseWriter(io.BufferedIOBase):
    """``wfile`` of a handler: unbuffered as far as the handler can tell."""

    def __init__(self, sock: HandlerSocket) -> None:
        """Write to the response of the socket's exchange."""
        self._sock = sock
        self._write = sock.exchange.output.write

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Append to the response.

        :raises BrokenPipeError: the client has left.
        """
        return self._write(data if type(data) is bytes else bytes(memoryview(data)))

    def close(self) -> None:
        """Close: what is written after the handler has returned is refused, and told."""
        super().close()
        self._write = self._write_late

    def _write_late(self, data: bytes) -> int:
        return self._sock.exchange.output.write(data)

    def fileno(self) -> int:
        """Return the live descriptor: see :meth:`HandlerSocket.fileno`."""
        return self._sock.fileno()


def _setup(handler: Any, log: LineLog) -> None:
    """Do what `StreamRequestHandler.setup` does."""
    del handler.setup
    sock: HandlerSocket = handler.request
    handler.connection = sock
    if handler.timeout is not None:
        sock.settimeout(handler.timeout)
    handler.rfile = RequestReader(sock.take_body(), log)
    handler.wfile = ResponseWriter(sock)
    if _sends_files(handler.__class__):
        handler.copyfile = functools.partial(_copyfile, handler)


def _copyfile(handler: Any, source: Any, outputfile: Any) -> None:
    """Send a file by its descriptor where that can be, else as `SimpleHTTPRequestHandler.copyfile` does."""
    if outputfile is not handler.wfile or handler.request.exchange.output.send_file(source) is None:
        SimpleHTTPRequestHandler.copyfile(handler, source, outputfile)


def _handle(handler: Any) -> None:
    """Do what `BaseHTTPRequestHandler.handle`, `handle_one_request` and `parse_request` do for an accepted request."""
    del handler.handle
    _set_attributes(handler, handler.request.exchange.request)
    try:
        method = getattr(handler, "do_" + handler.command, None)
        if method is None:
            handler.send_error(HTTPStatus.NOT_IMPLEMENTED, f"Unsupported method ({handler.command!r})")
            return
        method()
        handler.wfile.flush()  # as it stands there: a handler may have put a writer of its own in its place
    except TimeoutError as error:
        handler.log_error("Request timed out: %r", error)
        handler.close_connection = True
    finally:
        vars(handler).pop("copyfile", None)


def _set_attributes(handler: Any, request: Request) -> None:
    """Set what `parse_request` sets, with the same values (compared with the standard library's by a test)."""
    head = request.head
    raw = head[: head.index(b"\n") + 1]
    handler.raw_requestline = raw
    handler.requestline = line = str(raw[:-2], "iso-8859-1")
    handler.request_version = version = line[-8:]
    handler.command = request.method
    target = request.target
    handler.path = "/" + target.lstrip("/") if target.startswith("//") else target
    handler.headers = headers = message(request)
    keeps = handler.protocol_version >= "HTTP/1.1"
    close = not (keeps and version >= "HTTP/1.1")
    connection = headers.get("Connection", "").lower()
    if connection == "close":
        close = True
    elif connection == "keep-alive" and keeps:
        close = False
    handler.close_connection = close


def message(request: Request) -> http.client.HTTPMessage:
    """Return the header fields as the standard library gives them to a handler, `Expect` left out."""
    structured = (request.get("content-type") or "").strip().lower().startswith(("multipart", "message"))
    # The e-mail parser keeps white space at the end of a value, and reads structure into these two types.
    if structured or b" \r\n" in request.head or b"\t\r\n" in request.head:
        lines = head_of(request)
        return http.client.parse_headers(io.BytesIO(lines[lines.index(b"\n") + 1 :]))
    headers = http.client.HTTPMessage()
    for name, value in request.fields:
        if name.lower() != "expect":
            headers.set_raw(name, value)
    headers.set_payload("")
    return headers
