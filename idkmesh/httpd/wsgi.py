"""Running a WSGI application (PEP 3333) on a request that has already been read."""

from __future__ import annotations

import io
import re
import sys
from logging import WARNING
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from idkmesh.httpd.application import WithoutRoutes
from idkmesh.httpd.responses import header_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from wsgiref.types import WSGIApplication

    from idkmesh.httpd.application import Responder
    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.request_rules import Request

    ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]

_STATUS = re.compile(r"[2-9][0-9]{2} [ -~\x80-\xff]*")
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection"}
)
_TOO_LONG = "a WSGI application gave more than the Content-Length it had promised: what is beyond it is cut off"
_BODILESS = ("204", "304")
_LENGTH = re.compile(r"[0-9]{1,18}")


class FileWrapper:
    """``wsgi.file_wrapper``: a regular file is sent by its descriptor, anything else in blocks."""

    def __init__(self, filelike: Any, block_size: int = 64 * 1024) -> None:
        """Send what is left of `filelike`."""
        self.filelike = filelike
        self._block_size = block_size
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def __iter__(self) -> FileWrapper:
        """Iterate over blocks."""
        return self

    def __next__(self) -> bytes:
        """Return the next block."""
        data: bytes = self.filelike.read(self._block_size)
        if data:
            return data
        raise StopIteration


class WSGIRunner(WithoutRoutes):
    """An application (of the front) whose every request goes to one WSGI callable."""

    def __init__(self, app: WSGIApplication) -> None:
        """Serve `app`."""
        self.app = app
        self._environ: dict[str, Any] = {}

    def bind(self, name: str, port: int, *, secure: bool, multithread: bool) -> None:
        """Tell the name and port that the server got, whether it speaks TLS, and whether it has workers."""
        self._environ = {
            "SCRIPT_NAME": "",
            "SERVER_NAME": name,
            "SERVER_PORT": str(port),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https" if secure else "http",
            "wsgi.multithread": multithread,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "wsgi.file_wrapper": FileWrapper,
        }

    def judge(self, request: Request) -> Responder:  # noqa: ARG002 (the callable judges)
        """Give every request to the callable."""
        return self._respond

    def _respond(self, exchange: Exchange) -> None:
        WSGICall(exchange).run(self.app, environ_of(exchange, self._environ))


def environ_of(exchange: Exchange, base: dict[str, Any]) -> dict[str, Any]:
    """Return the environment of one request.

    A field whose name has an underscore is left out: it could not be told from the same name with a hyphen. Fields of
    the same name are joined by a comma (RFC 9110 5.2), cookies by a semicolon (RFC 6265 5.4).
    """
    request = exchange.request
    environ = base.copy()
    path = request.path
    if "%" in path:
        path = str(unquote_to_bytes(path), "latin-1")
    if path.startswith("//"):  # an absolute URI to whoever puts it into a Location
        path = "/" + path.lstrip("/")
    environ["REQUEST_METHOD"] = request.method
    environ["PATH_INFO"] = path
    environ["QUERY_STRING"] = request.query
    environ["SERVER_PROTOCOL"] = request.version
    address = exchange.client_address
    environ["REMOTE_ADDR"] = address[0] if isinstance(address, tuple) else ""
    environ["wsgi.input"] = io.BytesIO(exchange.body)
    environ["wsgi.errors"] = sys.stderr
    for name, value in request.fields:
        if "_" in name:
            continue
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = "HTTP_" + key
        joint = "; " if key == "HTTP_COOKIE" else ", "
        environ[key] = environ[key] + joint + value if key in environ else value
    if not request.target.startswith("/") and request.authority:
        environ["HTTP_HOST"] = request.authority  # RFC 9112 3.2.2: the target's wins over the field
    return environ


class WSGICall:
    """One call of the application: `start_response`, the head, the body counted against its promise."""

    __slots__ = ("_dated", "_exchange", "_fields", "_head_sent", "_left", "_length", "_status")

    def __init__(self, exchange: Exchange) -> None:
        """Answer `exchange`."""
        self._exchange = exchange
        self._status = ""
        self._fields = ""
        self._length: int | None = None
        self._dated = False
        self._head_sent = False
        self._left: int | None = None
        """Bytes that the promised Content-Length still allows; None where the end of the connection ends the body."""

    def run(self, app: WSGIApplication, environ: dict[str, Any]) -> None:
        """Call the application and write what it gives."""
        result = app(environ, self.start_response)
        try:
            if isinstance(result, FileWrapper) and self._send_file(result):
                return
            self._send(result)
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        """Note status and fields.

        :raises ValueError: a status or field that is not one line of HTTP, or two lengths.
        :raises RuntimeError: a second call without `exc_info`.
        """
        if exc_info is not None:
            try:
                if self._head_sent and exc_info[1] is not None:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # PEP 3333: no circular reference
        elif self._status:
            raise RuntimeError("start_response was called twice without exc_info")
        if not _STATUS.fullmatch(status):
            raise ValueError(f"not a status line: {status!r}")
        names = [name.lower() for name, _ in headers]
        if not _HOP_BY_HOP.isdisjoint(names):
            headers = [field for field in headers if field[0].lower() not in _HOP_BY_HOP]
        lines = header_lines(headers)
        length = None
        if "content-length" in names:
            length = _length_of(headers)
        self._status, self._fields, self._length, self._dated = status, lines, length, "date" in names
        return self._write

    def _send(self, result: Iterable[bytes]) -> None:
        alone = isinstance(result, (list, tuple)) and len(result) == 1
        for data in result:
            if data:
                self._write(data, whole=alone)
        # A short answer to HEAD says nothing about the answer to GET.
        self._send_head(0 if self._bodied else None)
        if self._left:
            raise ValueError(f"the application promised {self._left} bytes more than it gave")

    def _send_file(self, result: FileWrapper) -> bool:
        self._send_head(None)
        if not self._bodied:
            return True
        taken = self._exchange.output.send_file(result.filelike, self._left)
        if taken is None:
            return False
        if self._left is not None and taken < self._left:
            raise ValueError(f"the application promised {self._left - taken} bytes more than the file has")
        return True

    @property
    def _bodied(self) -> bool:
        return self._exchange.request.method != "HEAD" and not self._status.startswith(_BODILESS)

    def _write(self, data: object, *, whole: bool = False) -> None:
        if not isinstance(data, bytes):
            raise TypeError(f"the application gave {type(data).__name__} as a body, which is bytes")
        if not self._head_sent:
            self._send_head(len(data) if whole else None)
        if not self._bodied:
            self._left = None
            return
        if self._left is not None:
            if len(data) > self._left:
                self._exchange.log.once("body-too-long", _TOO_LONG, WARNING)
                data = data[: self._left]  # beyond the promise nothing can be told from another response
            self._left -= len(data)
        self._exchange.output.write(data)

    def _send_head(self, length: int | None) -> None:
        """Write the head; `length` is that of the whole body where it is known."""
        if self._head_sent:
            return
        if not self._status:
            raise RuntimeError("the application wrote a body before it called start_response")
        self._head_sent = True
        extra = ""
        if not self._dated:
            extra = f"Date: {self._exchange.http_date}\r\n"
        if self._length is not None:
            self._left = self._length
        elif length is not None and not self._status.startswith(_BODILESS):
            extra += f"Content-Length: {length}\r\n"
        if not self._bodied:
            self._left = None
        head = f"HTTP/1.0 {self._status}\r\n{self._fields}{extra}Connection: close\r\n\r\n"
        self._exchange.output.write_head(head.encode("latin-1"), int(self._status[:3]))


def _length_of(headers: list[tuple[str, str]]) -> int:
    """Return the promised Content-Length, of which there is one."""
    lengths = [value for name, value in headers if name.lower() == "content-length"]
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise ValueError(f"not a length: {', '.join(lengths)!r}")
    return int(lengths[0])
