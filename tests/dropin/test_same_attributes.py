"""What a handler sees, on the standard library's own classes and on ours, for the same bytes.

The number of examples is the environment's ``IDKMESH_EXAMPLES`` where it is set.
"""

from __future__ import annotations

import functools
import io
import os
import re
import socket
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from idkmesh.httpd.request_rules import HeadLimits, read_head
from tests.functional.support import PATIENCE, Running, SiteServer, read_to_end, running

if TYPE_CHECKING:
    import email.message
    from collections.abc import Callable, Iterator

EXAMPLES = settings(max_examples=int(os.environ.get("IDKMESH_EXAMPLES", "400")))
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


def describe_message(message: email.message.Message[Any, Any]) -> dict[str, Any]:
    """Return everything that a header object, or a part of it, holds and says."""
    payload: Any = message.get_payload()
    state = vars(message) | {"_payload": None}
    return {
        "type": type(message),
        "state": state | {"defects": [repr(defect) for defect in message.defects]},
        "items": message.items(),
        "payload": [describe_message(part) for part in payload] if isinstance(payload, list) else payload,
        "multipart": message.is_multipart(),
        "content": (message.get_content_type(), message.get_content_charset(), message.get_params()),
        "bytes": message.as_bytes(),
    }


def describe(handler: Any) -> dict[str, Any]:
    """Return what a handler can see of its request; read the body last."""
    attributes = vars(handler).copy()
    names = sorted(attributes)
    for name in ("server", "request", "connection", "client_address", "rfile", "wfile", "headers"):
        del attributes[name]
    return {
        "names": names,
        "attributes": attributes,
        "headers": describe_message(handler.headers),
        "one connection": handler.request is handler.connection,
        "socket": (isinstance(handler.request, socket.socket), handler.request.gettimeout(), handler.request.timeout),
        "address": (type(handler.client_address), handler.address_string() != ""),
        "rfile": (handler.rfile.readable(), handler.rfile.closed, isinstance(handler.rfile, io.BufferedIOBase)),
        "wfile": (
            handler.wfile.writable(),
            handler.wfile.readable(),
            handler.wfile.seekable(),
            handler.wfile.closed,
            isinstance(handler.wfile, io.BufferedIOBase),
        ),
        "body": handler.rfile.read(),
    }


class Telling(BaseHTTPRequestHandler):
    """Tells its server what it sees. What it does with the request is the server's `look`."""

    def do_GET(self) -> None:
        server: Any = self.server
        server.told.append(server.look(self))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_POST = do_OPTIONS = do_CONNECT = do_TRACE = do_GET  # noqa: N815 (the standard library's names)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "a date"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the standard library's name)
        """Say nothing."""


class TellingOneOne(Telling):
    protocol_version = "HTTP/1.1"


class TellingTimeout(Telling):
    timeout = 5
    disable_nagle_algorithm = False


def overriding(step: str, base: type[Telling]) -> Any:
    """Return a class that overrides one step and does nothing else in it."""

    def override(self: Any, *arguments: Any) -> Any:
        return getattr(super(cls, self), step)(*arguments)

    cls: Any = type(f"Overriding_{step}", (base,), {step: override})
    return cls


STEPS = ("setup", "handle", "handle_one_request", "parse_request", "finish", "handle_expect_100")
FAST = (Telling, TellingOneOne, TellingTimeout)
SLOW = tuple(overriding(step, TellingOneOne) for step in STEPS)


class TellingServer(SiteServer):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.told: list[Any] = []
        self.look: Callable[[Any], Any] = describe
        super().__init__(*arguments, **options)


@pytest.fixture(scope="module")
def ours() -> Iterator[Running]:
    """Return one server for all examples."""
    with running(Telling, server_class=TellingServer) as here:
        yield here


class Standard:
    """What a handler knows as its server."""

    server_name, server_port = "127.0.0.1", 80

    def __init__(self, look: Callable[[Any], Any]) -> None:
        self.told: list[Any] = []
        self.look = look


def on_standard(handler: Any, request: bytes, look: Callable[[Any], Any]) -> tuple[list[Any], bytes]:
    """Run a handler as `socketserver` does: constructed on a socket, which then closes."""
    client, side = socket.socketpair()
    server = Standard(look)
    with client:
        client.settimeout(PATIENCE)
        with side:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            handler(side, ("127.0.0.1", 1), server)
        return server.told, read_to_end(client)


def on_ours(here: Running, handler: Any, request: bytes, look: Callable[[Any], Any]) -> tuple[list[Any], bytes]:
    here.server.told = []
    here.server.look = look
    here.server.RequestHandlerClass = handler
    with here.connect(request) as client:
        client.shutdown(socket.SHUT_WR)
        response = read_to_end(client)
    here.clients.clear()
    return here.server.told, response


def without_expect(told: dict[str, Any]) -> dict[str, Any]:
    """Leave out the one field that ours has honoured itself, and what is left of the standard library's answer."""
    if told["attributes"].pop("_headers_buffer", None) is not None:
        told["names"].remove("_headers_buffer")
    headers = told["headers"]
    headers["items"] = [item for item in headers["items"] if item[0].lower() != "expect"]
    headers["state"]["_headers"] = [item for item in headers["state"]["_headers"] if item[0].lower() != "expect"]
    headers["bytes"] = re.sub(rb"(?im)^expect:[^\n]*\n", b"", headers["bytes"])
    return told


def response_alike(response: bytes) -> bytes:
    """Leave out what the two may say differently: the interim response, and ``Connection: close``."""
    return response.removeprefix(INTERIM).replace(b"Connection: close\r\n", b"")


def compare(here: Running, handler: Any, request: bytes) -> None:
    told, response = on_ours(here, handler, request, describe)
    assert response, "ours has refused or dropped it"
    expected, standard_response = on_standard(handler, request, describe)
    assert not any(name.lower() == "expect" for one in told for name, _ in one["headers"]["items"])
    assert [without_expect(one) for one in told] == [without_expect(one) for one in expected]
    assert response_alike(response) == response_alike(standard_response)
    assert b"Connection: close\r\n" in response


TOKENS = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=8)
VISIBLE = st.text([chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"#<>'], max_size=10)
ORIGIN_FORMS = st.tuples(st.sampled_from(["/", "//", "///", "/\\", "/%2f", "//h/"]), VISIBLE).map("".join)
METHODS = st.one_of(st.sampled_from(["GET", "POST", "HEAD", "TRACE"]), TOKENS)
VALUES = st.one_of(
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=12),
    st.text(' \tab:;,="\\\x85\xa0\x80\xff', max_size=8),
)
FIELDS = st.one_of(
    st.tuples(TOKENS, VALUES),
    st.tuples(
        st.sampled_from(["Connection", "CONNECTION"]),
        st.sampled_from(["close", "Close", "keep-alive", "Keep-Alive", "close, te", " close ", "", "upgrade"]),
    ),
    st.tuples(
        st.sampled_from(["Content-Type", "content-type"]),
        st.one_of(
            st.sampled_from(
                [
                    "multipart/form-data; boundary=b",
                    "multipart/mixed",
                    'Multipart/Mixed; boundary="a b"',
                    "\xa0multipart/mixed; boundary=b",
                    "message/rfc822",
                    "message/delivery-status",
                    "message/http",
                    "text/plain; charset=utf-8",
                    "multipart/",
                    "message",
                    "",
                ]
            ),
            VALUES,
        ),
    ),
    st.tuples(st.just("Expect"), st.sampled_from(["100-continue", "100-Continue", "nothing"])),
    st.tuples(st.sampled_from(["Accept", "Cookie", "X-A", "X_A"]), VALUES),
    st.tuples(st.just("Content-Transfer-Encoding"), st.sampled_from(["base64", "quoted-printable", "7bit"])),
)
NOT_ANY = {"host", "content-length", "transfer-encoding", "upgrade"}
SPACES = st.sampled_from(["", " ", "\t", "  ", " \t "])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw a request that the rules accept."""
    minor = draw(st.sampled_from(["1", "1", "1", "0", "0", "2", "9"]))
    method, target = draw(
        st.one_of(
            st.tuples(METHODS.filter(lambda name: name != "CONNECT"), ORIGIN_FORMS),
            st.tuples(METHODS.filter(lambda name: name != "CONNECT"), VISIBLE.map(lambda text: "http://h/" + text)),
            st.sampled_from([("OPTIONS", "*"), ("CONNECT", "h:80")]),
        )
    )
    fields = draw(st.lists(FIELDS, max_size=6).map(lambda drawn: [f for f in drawn if f[0].lower() not in NOT_ANY]))
    fields.append(("Host", "h"))
    body = draw(st.one_of(st.none(), st.binary(max_size=20)))
    if body is not None:
        fields.append((draw(st.sampled_from(["Content-Length", "content-length"])), str(len(body))))
    fields = draw(st.permutations(fields))
    lines = [f"{method} {target} HTTP/1.{minor}"]
    lines += [f"{name}:{draw(SPACES)}{value}{draw(SPACES)}" for name, value in fields]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


@EXAMPLES
@given(request=requests(), handler=st.sampled_from([*FAST, *SLOW]))
def test_every_attribute_is_the_same(ours: Running, request: bytes, handler: Any) -> None:
    """HS-10.3: a handler sees what it sees on the standard library, `Expect` alone excepted, whichever way it goes."""
    assume(isinstance(read_head(request, HeadLimits()), tuple))
    event("fast" if handler in FAST else "slow")
    compare(ours, handler, request)


NAMED = {
    "plain": b"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n",
    "old": b"GET /a HTTP/1.0\r\n\r\n",
    "newer": b"GET /a HTTP/1.7\r\nHost: h\r\n\r\n",
    "collapsed": b"GET //evil.example/%2e%2e HTTP/1.1\r\nHost: h\r\n\r\n",
    "absolute": b"GET http://h//a HTTP/1.1\r\nHost: h\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "authority": b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n",
    "unknown method": b"BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n",
    "lower-case method": b"get / HTTP/1.1\r\nHost: h\r\n\r\n",
    "closing": b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "keeping": b"GET / HTTP/1.0\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n",
    "twice": b"GET / HTTP/1.1\r\nHost: h\r\nX: 1\r\nx: 2\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n",
    "trailing space": b"GET / HTTP/1.1\r\nHost: h\r\nX: a \t\r\nY:\t \r\n\r\n",
    "latin-1": b"GET / HTTP/1.1\r\nHost: h\r\nX: \xe9\x85\xa0\r\n\r\n",
    "form": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/a; boundary=x\r\nContent-Length: 3\r\n\r\nabc",
    "message": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: message/rfc822\r\nContent-Length: 3\r\n\r\nabc",
    "odd space": b"GET / HTTP/1.1\r\nHost: h\r\nContent-Type: \xa0multipart/mixed; boundary=b\r\n\r\n",
    "two types": b"GET / HTTP/1.1\r\nHost: h\r\nContent-Type: a/b\r\nContent-Type: multipart/mixed\r\n\r\n",
    "expecting": b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "no colon space": b"POST / HTTP/1.1\r\nHost:h\r\nContent-Length:3\r\n\r\nabc",
    "most fields": b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 98 + b"\r\n",
}


@pytest.mark.parametrize("handler", [*FAST, *SLOW])
@pytest.mark.parametrize("name", NAMED)
def test_named_requests_are_the_same(ours: Running, name: str, handler: Any) -> None:
    """HS-10.3: the cases that an attribute has gone wrong in elsewhere."""
    compare(ours, handler, NAMED[name])


class Constructed(Telling):
    def __new__(cls, *_: Any) -> Constructed:  # noqa: PYI034 (as plain as can be)
        return super().__new__(cls)


class Buffered(Telling):
    wbufsize = -1


@pytest.mark.parametrize("handler", [*FAST, *SLOW, Constructed, Buffered])
def test_fast_way_is_taken_where_no_step_is_overridden(ours: Running, handler: Any) -> None:
    """HS-10.3: the fast way is for classes that leave its steps alone; all others are run by the standard library."""

    def way(seen: Any) -> str:
        return type(seen.wfile).__name__

    writers = {Buffered: "BufferedWriter"} | dict.fromkeys(FAST, "ResponseWriter")
    assert on_ours(ours, handler, NAMED["plain"], way)[0] == [writers.get(handler, "_SocketWriter")]


def read_into(read: Callable[[bytearray], int]) -> tuple[int, bytes]:
    buffer = bytearray(4)
    return read(buffer), bytes(buffer)


def read_text(file: Any) -> str:
    wrapper = io.TextIOWrapper(file, "latin-1")
    text = wrapper.read()
    wrapper.detach()
    return text


READINGS: dict[str, Callable[[Any], Any]] = {
    "read": lambda file: file.read(),
    "read some": lambda file: [file.read(2), file.read(0), file.read(3)],
    "read past": lambda file: [file.read(100), file.read(1), file.read()],
    "read1": lambda file: b"".join(iter(lambda: file.read1(4), b"")),
    "readline": lambda file: [file.readline(), file.readline(2), file.readline(), file.readline(), file.readline()],
    "readlines": lambda file: file.readlines(),
    "iteration": list,
    "readinto": lambda file: read_into(file.readinto),
    "readinto1": lambda file: read_into(file.readinto1),
    "peek": lambda file: [file.peek(3)[:3], file.read(3)],
    "text": read_text,
}


@pytest.mark.parametrize("handler", [Telling, SLOW[0]])
@pytest.mark.parametrize("reading", READINGS)
def test_body_is_read_in_every_way(ours: Running, reading: str, handler: Any) -> None:
    """HS-10.1: `rfile` gives the same as the standard library's, however it is read."""
    request = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\none\ntwo\n\nthree"

    def look(seen: Any) -> Any:
        return READINGS[reading](seen.rfile)

    assert on_ours(ours, handler, request, look)[0] == on_standard(handler, request, look)[0]


def test_partial_with_arguments_is_the_same(ours: Running) -> None:
    """HS-10.1: a partial of a handler class gets its arguments, and the request is the same."""

    class Configured(Telling):
        def __init__(self, colour: str, *arguments: Any, size: int) -> None:
            self.colour, self.size = colour, size
            super().__init__(*arguments)

    compare(ours, functools.partial(Configured, "red", size=3), NAMED["form"])
