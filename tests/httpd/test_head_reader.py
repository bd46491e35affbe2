"""Heads in pieces: limits at n and n + 1, refusals as soon as the bytes prove them, and linear work."""

from __future__ import annotations

import http.client
import io
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, cast

import pytest

from idkmesh.httpd.request_rules import HeadLimits, HeadReader, Refusal, Request, read_head
from idkmesh.service_runtime import MAX_HEADER_LINE_BYTES, MAX_REQUEST_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

LIMITS = HeadLimits()
SMALL = HeadLimits(max_header_fields=3, max_header_bytes=40)
HOST_ONLY = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


def request_line(size: int) -> bytes:
    """Return a head whose request line has ``size`` bytes with its CRLF."""
    return b"GET /" + b"a" * (size - len("GET / HTTP/1.1\r\n")) + b" HTTP/1.1\r\nHost: h\r\n\r\n"


def field_line(size: int) -> bytes:
    """Return a head whose second field line has ``size`` bytes with its CRLF."""
    return b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"a" * (size - len("A: \r\n")) + b"\r\n\r\n"


def field_count(count: int) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: h\r\n" + b"".join(b"A%d: b\r\n" % at for at in range(count - 1)) + b"\r\n"


def verdicts(data: bytes, limits: HeadLimits) -> set[object]:
    """Return the verdicts on ``data`` at once, in two pieces and byte by byte, as status or 200."""
    whole = read_head(data, limits)
    halves = HeadReader(limits)
    in_two = halves.feed(data[: len(data) // 2]) or halves.feed(data[len(data) // 2 :])
    reader = HeadReader(limits)
    bytewise = next(filter(None, (reader.feed(data[at : at + 1]) for at in range(len(data)))), None)
    return {
        verdict.status if isinstance(verdict, Refusal) else (verdict and 200) for verdict in (whole, in_two, bytewise)
    }


def reason(verdict: object) -> str | None:
    assert isinstance(verdict, Refusal)
    return verdict.reason


@pytest.mark.parametrize(
    ("build", "limit", "status"),
    [
        pytest.param(request_line, MAX_REQUEST_LINE_BYTES, 414, id="request line"),
        pytest.param(field_line, MAX_HEADER_LINE_BYTES, 431, id="field line"),
        pytest.param(field_count, LIMITS.max_header_fields, 431, id="field count"),
    ],
)
def test_limits_at_n_and_beyond(build: Callable[[int], bytes], limit: int, status: int) -> None:
    """HS-2.5, HS-3.9: a limit's own value is accepted, one more is refused, whole and in pieces."""
    assert verdicts(build(limit), LIMITS) == {200}
    assert verdicts(build(limit + 1), LIMITS) == {status}


def test_header_bytes_at_n_and_beyond() -> None:
    """HS-3.9: max_header_bytes counts the field lines with their CRLFs, not the request line nor the empty line."""
    size = len(b"Host: h\r\nA: bcd\r\n")
    data = b"GET / HTTP/1.1\r\nHost: h\r\nA: bcd\r\n\r\n"
    assert verdicts(data, HeadLimits(max_header_bytes=size)) == {200}
    assert verdicts(data, HeadLimits(max_header_bytes=size - 1)) == {431}
    assert reason(read_head(data, HeadLimits(max_header_bytes=size - 1))) == "header_too_large"


def test_header_bytes_at_the_default() -> None:
    """HS-3.9: 256 KiB of field lines are accepted, one byte more is refused (HTTP-14)."""
    lines = b"Host: h\r\n" + b"".join(b"A%d: " % at + b"x" * 60_000 + b"\r\n" for at in range(4))
    for size, expected in ((256 * 1024, 200), (256 * 1024 + 1, 431)):
        last = b"B: " + b"x" * (size - len(lines) - len("B: \r\n")) + b"\r\n"
        assert verdicts(b"GET / HTTP/1.1\r\n" + lines + last + b"\r\n", LIMITS) == {expected}


@pytest.mark.parametrize(
    ("start", "proof", "why"),
    [
        (b"GET /" + b"a" * (65_534 - 5), b"a", "request_line_too_long"),
        (b"x" * 65_534, b"x", "request_line_too_long"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * (65_534 - 3), b"a", "field_line_too_long"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 99, b"A", "too_many_fields"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 99, b" ", "too_many_fields"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 99, b"\n", "bare_lf"),
        (b"GET / HTTP/1.1\r\n" + (b"A: " + b"b" * 65_531 + b"\r\n") * 4, b"A", "header_too_large"),
        (b"GET", b"\n", "bare_lf"),
        (b"GET\r", b"x", "bare_cr"),
        (b"\r", b"\n", "empty_line"),
        (b"", b"\x16", "tls_to_plain_port"),
        (b"PRI * HTTP/2.0\r", b"\n", "unsupported_version"),
        (b"GET / HTTP/1.1\r\nA\x00: b\r", b"\n", "bad_field_name"),
    ],
)
def test_refused_by_the_byte_that_proves_it(start: bytes, proof: bytes, why: str) -> None:
    """HS-3.9: before the proving byte there is no verdict, with it there is, whole and in pieces."""
    reader = HeadReader(LIMITS)
    assert reader.feed(start) is None
    assert read_head(start, LIMITS) is None
    verdict = reader.feed(proof)
    assert reason(verdict) == why
    assert read_head(start + proof, LIMITS) == verdict


@pytest.mark.parametrize(
    ("limits", "size"),
    [(LIMITS, MAX_HEADER_LINE_BYTES), (HeadLimits(max_header_bytes=1024), 1024)],
    ids=["line", "all lines together"],
)
def test_a_cr_in_the_last_place_may_end_the_line(limits: HeadLimits, size: int) -> None:
    """HS-3.9: at the very limit a CR is the line's end or a bare CR, but not yet a line that is too long."""
    start = b"GET / HTTP/1.0\r\nA: " + b"a" * (size - len("A: \r\n")) + b"\r"
    for following, why in ((b"x", "bare_cr"), (b"\r", "bare_cr")):
        reader = HeadReader(limits)
        assert reader.feed(start) is None
        assert reason(reader.feed(following)) == why
    assert isinstance(HeadReader(limits).feed(start + b"\n\r\n"), Request)


def test_which_limit_is_named() -> None:
    """HS-3.9: the limit that is reached first is the one that the refusal names, with its value."""
    many = read_head(b"GET / HTTP/1.1\r\n" + b"A:\r\n" * 4, SMALL)
    large = read_head(b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"a" * 40, SMALL)
    assert isinstance(many, Refusal)
    assert isinstance(large, Refusal)
    assert many.message == "There are more than 3 header fields."
    assert large.message == "The header lines together are longer than 40 bytes."


def test_reader_state() -> None:
    """A reader says what it holds, keeps what follows the head, and repeats its verdict."""
    reader = HeadReader(LIMITS)
    assert reader.buffered == 0
    assert reader.feed(b"") is None
    assert reader.feed(HOST_ONLY[:10]) is None
    assert reader.buffered == 10
    request = reader.feed(HOST_ONLY[10:] + b"rest")
    assert isinstance(request, Request)
    assert request.head == HOST_ONLY
    assert (reader.rest, reader.buffered) == (b"rest", 0)
    assert reader.feed(b"more") is request
    assert reader.rest == b"rest"

    refused = HeadReader(LIMITS)
    refusal = refused.feed(b"\n")
    assert isinstance(refusal, Refusal)
    assert refused.feed(HOST_ONLY) is refusal
    assert refused.buffered == 1


class _Wire:
    """A socket that has received ``data`` and keeps what is sent."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.sent = b""

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)

    def sendall(self, data: bytes) -> None:
        self.sent += data


class _StandardHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def standard_status(data: bytes) -> int:
    wire = _Wire(data)
    _StandardHandler(cast("socket", wire), ("127.0.0.1", 0), cast("Any", None))
    return int(wire.sent.split()[1])


def test_bounds_are_the_standard_library_s() -> None:
    """HS-2.5: the installed standard library's constants; its field count takes the empty line for one."""
    assert vars(http.client)["_MAXLINE"] == MAX_REQUEST_LINE_BYTES == MAX_HEADER_LINE_BYTES
    assert vars(http.client)["_MAXHEADERS"] - 1 == LIMITS.max_header_fields


@pytest.mark.parametrize(
    ("build", "limit"),
    [(request_line, MAX_REQUEST_LINE_BYTES), (field_line, MAX_HEADER_LINE_BYTES), (field_count, 99)],
)
def test_bounds_behave_as_the_standard_library_s(build: Callable[[int], bytes], limit: int) -> None:
    """HS-2.5: http.server gives the same status at each bound and one beyond it."""
    assert {standard_status(build(limit))} == verdicts(build(limit), LIMITS) == {200}
    assert {standard_status(build(limit + 1))} == verdicts(build(limit + 1), LIMITS)


def cost(data: bytes, piece: int, rounds: int) -> float:
    """Return the CPU time that judging ``data`` in pieces takes ``rounds`` times, the best of seven."""
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    times = []
    for _ in range(7):
        start = time.thread_time()
        for _ in range(rounds):
            if len(pieces) == 1:
                read_head(data, LIMITS)
            reader = HeadReader(LIMITS)
            for part in pieces:
                reader.feed(part)
        times.append(time.thread_time() - start)
    return min(times)


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "spaces": lambda size: b"A:" + b" " * size,
    "tabs": lambda size: b"A:" + b"\t" * size,
    "spaces and tabs": lambda size: b"A:" + b" \t" * (size // 2),
    "words": lambda size: b"A:" + b"a " * (size // 2),
    "words and spaces": lambda size: b"A:" + (b"a" + b" " * 63) * (size // 64),
    "spaces, then a control byte": lambda size: b"A:" + b" " * size + b"\0",
    "spaces before the colon": lambda size: b"A" + b" " * size + b":",
    "a name without a colon": lambda size: b"A" * size,
    "colons": lambda size: b"A" + b":" * size,
    "a long host": lambda size: b"Host: " + b"a%20" * (size // 4) + b"\xff",
    "a long port": lambda size: b"Host: a:" + b"0" * size + b"x",
    "a long length": lambda size: b"Content-Length: " + b"0" * size + b"x",
    "a long expectation": lambda size: b"Expect: " + b"," * size,
    "many fields": lambda size: b"\r\n".join([b"A:" + b" " * (size // 90)] * 90),
}


@pytest.mark.parametrize("build", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("size", "piece", "rounds"),
    [(7_500, 1 << 20, 20), (7_500, 64, 5), (2_000, 1, 1)],
    ids=["whole", "in pieces of 64", "byte by byte"],
)
def test_work_is_linear(build: Callable[[int], bytes], size: int, piece: int, rounds: int) -> None:
    """HS-3.12: eight times the input takes about eight times the work; quadratic would be 64, cubic 512."""
    small, large = (b"GET / HTTP/1.1\r\n" + build(times * size) + b"\r\n\r\n" for times in (1, 8))
    ratios: list[float] = []
    while len(ratios) < 3 and (not ratios or ratios[-1] > 24):  # a busy machine gets another chance
        ratios.append(cost(large, piece, rounds) / cost(small, piece, rounds))
    assert min(ratios) <= 24


def test_a_byte_is_searched_once() -> None:
    """HS-3.12: after each piece the next search starts at its end, or at a CR that waits for its LF (white box).

    Time alone would not show a search from the line's start: it is quadratic, but 64 KiB of it take a few milliseconds.
    """
    reader = HeadReader(LIMITS)
    for piece in (b"GET /", b"a" * 1000, b" HTTP/1.1", b"\r", b"\nHost: h", b"\r\n", b"A", b": b\r"):
        assert reader.feed(piece) is None
        assert reader._scan == reader.buffered - piece.endswith(b"\r")
