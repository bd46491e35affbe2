"""Reading a request head piece by piece: line ends, limits, and the verdict as soon as the bytes prove it.

Laws:

1. The bytes are judged in their order and the first fault decides: the verdict is that of the shortest prefix which
   proves one, however the bytes were split (HS-3.10).
2. A line that is over a limit is refused before it has ended (HS-3.9). How many bytes a line may have is known when it
   starts: every limit is turned into this one number, ``_room``.
3. Every byte is searched once and copied a bounded number of times: the work is linear (HS-3.12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.httpd.head_faults import refuse
from idkmesh.httpd.head_lines import FieldLine, judge_field_line, judge_request_line, judge_whole
from idkmesh.httpd.request import Refusal, Request
from idkmesh.service_runtime import MAX_HEADER_LINE_BYTES, MAX_REQUEST_LINE_BYTES

if TYPE_CHECKING:
    from idkmesh.httpd.head_lines import RequestLine
    from idkmesh.httpd.request import HeadLimits

_CRLF_BYTES = 2
_TLS_HANDSHAKE = 0x16  # ContentType.handshake, the first byte of a ClientHello's record (RFC 8446 5.1)


class HeadReader:
    """Judges one head that arrives in pieces.

    Feed it what arrives until it answers. After an answer it gives the same one again; the bytes fed meanwhile are
    kept in neither ``rest`` nor ``buffered``.
    """

    def __init__(self, limits: HeadLimits) -> None:
        """Start before the first byte of a connection."""
        self.rest = b""
        """What followed the head, once a request was returned."""
        self._limits = limits
        self._buffer = bytearray()
        self._verdict: Request | Refusal | None = None
        self._request_line: RequestLine | None = None
        self._fields: list[FieldLine] = []
        self._fields_start = 0
        self._start = 0  # of the current line
        self._scan = 0  # before it, the current line has no line end
        self._room = MAX_REQUEST_LINE_BYTES - _CRLF_BYTES  # bytes that the current line may have without its CRLF

    @property
    def buffered(self) -> int:
        """The bytes held."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Request | Refusal | None:
        """Take the next bytes; return the verdict, or None while it depends on what follows."""
        if self._verdict is None:
            self._buffer += data
            self._verdict = self._advance()
        return self._verdict

    def _advance(self) -> Request | Refusal | None:
        if self._buffer[:1] == bytes((_TLS_HANDSHAKE,)):
            return refuse("tls_to_plain_port", 0)
        while True:
            end = self._find_line_end()
            if end is None or isinstance(end, Refusal):
                return end
            verdict = self._take_line(end)
            if verdict is not None:
                return verdict

    def _find_line_end(self) -> int | Refusal | None:
        """Return the offset of the CR that ends the current line, or why there is none, or None for not yet."""
        buffer = self._buffer
        limit = self._start + self._room + 1  # a line end has to start before it
        cr = buffer.find(b"\r", self._scan, limit)
        lf = buffer.find(b"\n", self._scan, limit if cr < 0 else cr)
        if lf >= 0:
            return refuse("bare_lf", lf)
        if cr < 0:
            self._scan = min(len(buffer), limit)
            return self._over_limit(limit - 1) if len(buffer) >= limit else None
        self._scan = cr
        if cr + 1 == len(buffer):
            return None
        if buffer[cr + 1] != ord("\n"):
            return refuse("bare_cr", cr)
        return cr

    def _take_line(self, end: int) -> Request | Refusal | None:
        """Judge the line that ends at ``end``, and the head if it was the last."""
        line = bytes(self._buffer[self._start : end])
        start, self._start = self._start, end + _CRLF_BYTES
        self._scan = self._start
        if self._request_line is None:
            request_line = judge_request_line(line)
            if isinstance(request_line, Refusal):
                return request_line
            self._request_line = request_line
            self._fields_start = self._start
        elif not line:
            return self._finish(self._request_line)
        else:
            field = judge_field_line(line, start, first=not self._fields)
            if isinstance(field, Refusal):
                return field
            self._fields.append(field)
        self._room = self._room_for_field()
        return None

    def _finish(self, request_line: RequestLine) -> Request | Refusal:
        self.rest = bytes(self._buffer[self._start :])
        head = bytes(self._buffer[: self._start])
        self._buffer.clear()
        return judge_whole(request_line, self._fields, head)

    def _room_for_field(self) -> int:
        """Return how long a field line may be; 0 leaves room for nothing but the end of the head."""
        if len(self._fields) >= self._limits.max_header_fields:
            return 0
        together = self._limits.max_header_bytes - (self._start - self._fields_start)
        return max(0, min(MAX_HEADER_LINE_BYTES, together) - _CRLF_BYTES)

    def _over_limit(self, offset: int) -> Refusal:
        """Return which limit the current line broke; ``offset`` is its first byte that has no room."""
        if self._request_line is None:
            return refuse("request_line_too_long", offset, limit=MAX_REQUEST_LINE_BYTES)
        if len(self._fields) >= self._limits.max_header_fields:
            return refuse("too_many_fields", offset, limit=self._limits.max_header_fields)
        if self._room == MAX_HEADER_LINE_BYTES - _CRLF_BYTES:
            return refuse("field_line_too_long", offset, limit=MAX_HEADER_LINE_BYTES)
        return refuse("header_too_large", offset, limit=self._limits.max_header_bytes)
