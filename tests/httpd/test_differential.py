"""The two judges against each other, the bytes against their splits, and all of it against h11 and llhttp.

The number of examples is the environment's ``IDKMESH_EXAMPLES`` where it is set: 20,000 take some minutes.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import h11
import httptools
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from idkmesh.httpd import request_rules
from idkmesh.httpd.request_rules import HeadLimits, HeadReader, Refusal, Request, read_head

LIMITS = HeadLimits()
TIGHT = HeadLimits(max_header_fields=4, max_header_bytes=120)
MAX_BODY = 1 << 21
EXAMPLES = settings(
    max_examples=int(os.environ.get("IDKMESH_EXAMPLES", "600")),
    suppress_health_check=[HealthCheck.too_slow],
)
PLAIN = b"POST /a?b HTTP/1.1\r\nHost: h:80\r\nA: b c\r\nContent-Length: 3\r\n\r\n"

TOKENS = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=6).map(str.encode)
# llhttp knows a fixed list of methods; these are the ones of it that a request over HTTP may have.
KNOWN_METHODS = [
    *(b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH", b"PURGE", b"QUERY"),
    *(b"COPY", b"LOCK", b"MKCOL", b"MOVE", b"PROPFIND", b"PROPPATCH", b"SEARCH", b"UNLOCK", b"BIND", b"REBIND", b"ACL"),
    *(b"REPORT", b"MKACTIVITY", b"CHECKOUT", b"MERGE", b"M-SEARCH", b"NOTIFY", b"SUBSCRIBE", b"LINK", b"UNLINK"),
]
HOSTS = st.sampled_from(
    [b"h", b"127.0.0.1:80", b"[::1]:8080", b"a_b%20", b"h:", b"[v1.a]", b"", b"a b", b"[::1", b":1"]
)
VISIBLE = st.text([chr(code) for code in range(0x21, 0x7F)], max_size=12).map(str.encode)
TARGETS = st.one_of(
    VISIBLE.map(lambda text: b"/" + text),
    st.tuples(HOSTS, VISIBLE).map(lambda two: b"http://" + two[0] + b"/" + two[1]),
    HOSTS.map(lambda host: b"HTTPS://" + host),
    st.sampled_from([b"*", b"//a//b", b"/", b"h:443", b"[::1]:443", b"http://h?a", b"ftp://h/", b"http:/h"]),
    VISIBLE,
)
VERSIONS = st.sampled_from(
    [b"HTTP/1.1"] * 6 + [b"HTTP/1.0"] * 2 + [b"HTTP/1.2", b"HTTP/2.0", b"HTTP/1.10", b"http/1.1"]
)
VALUES = st.one_of(
    st.binary(max_size=6),
    st.text(' \taB0,;"\\\xa0\xff\x85', max_size=8).map(lambda text: text.encode("latin-1")),
    st.sampled_from([b"close", b"keep-alive", b"upgrade", b"websocket", b"100-continue", b"chunked", b"5", b"a=b; c"]),
)
LENGTHS = st.sampled_from(
    [b"0", b"3", b"005", b"+5", b"5, 5", b"", b"2097153", b"9" * 25, b"\xb2", b"5_0", b" 7 ", b"0x5"]
)
NAMES = st.one_of(
    st.sampled_from([b"Accept", b"Cookie", b"Connection", b"Upgrade", b"Expect", b"Proxy-Connection", b"Keep-Alive"]),
    TOKENS,
)
SEPARATORS = st.sampled_from([b": "] * 5 + [b":", b":\t", b":  \t", b" :", b"\t: ", b" ", b""])
ENDS = st.sampled_from([b""] * 6 + [b" ", b"\t ", b" \t"])
FIELDS = st.one_of(
    st.tuples(NAMES, SEPARATORS, VALUES, ENDS),
    st.tuples(st.sampled_from([b"Host", b"hOST"]), SEPARATORS, HOSTS, ENDS),
    st.tuples(st.sampled_from([b"Content-Length", b"CONTENT-LENGTH"]), SEPARATORS, LENGTHS, ENDS),
    st.tuples(st.just(b"Transfer-Encoding"), SEPARATORS, st.sampled_from([b"chunked", b"gzip", b""]), ENDS),
).map(b"".join)
PIECES = st.one_of(
    st.sampled_from([b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"\r\n ", b"\r\r\n", b"\n\r", b"\x7f", b"\xff"]),
    st.binary(min_size=1, max_size=3),
)


class Mutation(NamedTuple):
    """One change of a head: at a place, given as a fraction of its length."""

    what: str
    where: float
    piece: bytes

    def apply(self, data: bytes) -> bytes:
        at = int(self.where * len(data))
        if self.what == "insert":
            return data[:at] + self.piece + data[at:]
        if self.what == "delete":
            return data[:at] + data[at + 1 :]
        if self.what == "replace":
            return data[:at] + self.piece + data[at + 1 :]
        lines = data.split(b"\r\n")
        line = int(self.where * len(lines))
        if self.what == "duplicate":
            return b"\r\n".join([*lines[:line], *lines[line : line + 1] * 2, *lines[line + 1 :]])
        return b"\r\n".join(lines[:line]) + self.piece + b"\r\n".join(lines[line:])  # another line end


MUTATIONS = st.builds(
    Mutation,
    st.sampled_from(["insert", "delete", "replace", "duplicate", "line end"]),
    st.floats(0, 1, exclude_max=True),
    PIECES,
)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """Return a head that is valid, nearly valid, or a valid one with up to three changes."""
    method = draw(st.one_of(st.sampled_from([b"GET", b"POST", b"OPTIONS", b"CONNECT"]), st.sampled_from(KNOWN_METHODS)))
    ordinary = draw(st.booleans())
    if ordinary:
        target = (
            b"h:80" if method == b"CONNECT" else draw(st.sampled_from([b"/", b"/a?b", b"/a?", b"//x", b"http://h/a?b"]))
        )
        lines = [method + b" " + target + b" HTTP/1.1", b"Host: h"]
        names = st.tuples(
            NAMES, st.sampled_from([b":", b": ", b":\t "]), st.sampled_from([b"", b"a", b"b c\xff"]), ENDS
        )
        lines += draw(st.lists(names.map(b"".join), max_size=5, unique_by=lambda field: field.split(b":")[0].lower()))
        lines += draw(
            st.sampled_from([[], [], [b"content-length: 3"], [b"Content-Length:0"], [b"Content-Length: 0041 "]])
        )
    else:
        method = draw(st.one_of(st.just(method), TOKENS))
        lines = [b" ".join((method, draw(TARGETS), draw(VERSIONS))), b"Host: h"][: draw(st.integers(1, 2))]
        lines += draw(st.lists(FIELDS, max_size=5))
    data = b"\r\n".join([*lines, b"", b""])
    for mutation in draw(st.lists(MUTATIONS, max_size=3)) if draw(st.booleans()) else []:
        data = mutation.apply(data)
    return data


def parts(verdict: object) -> object:
    """Return what can be compared of a verdict; a request is compared by all its attributes."""
    if isinstance(verdict, tuple):
        return parts(verdict[0])
    return [getattr(verdict, name) for name in Request.__slots__] if isinstance(verdict, Request) else verdict


@EXAMPLES
@given(heads(), st.sampled_from([LIMITS, TIGHT]))
def test_the_judges_agree(data: bytes, limits: HeadLimits) -> None:
    """HS-3.10: what the fast judge accepts, the positional one accepts as the same request."""
    fast = request_rules._judge_ordinary(data, limits) if data.find(b"\r\n\r\n") == len(data) - 4 else None
    event("ordinary" if fast else "not ordinary")
    if fast:
        assert parts(fast) == parts(HeadReader(limits).feed(data))


@EXAMPLES
@given(heads(), st.sampled_from([LIMITS, TIGHT]), st.binary(max_size=5), st.lists(st.integers(1, 40), max_size=8))
def test_splits_change_nothing(data: bytes, limits: HeadLimits, trailing: bytes, sizes: list[int]) -> None:
    """HS-3.10: one verdict for the bytes whole, byte by byte, in random pieces and with bytes after the head."""
    whole = read_head(data, limits)
    bytewise, pieces = HeadReader(limits), HeadReader(limits)
    assert parts([bytewise.feed(data[at : at + 1]) for at in range(len(data))][-1] if data else None) == parts(whole)
    rest = data
    for size in sizes:
        pieces.feed(rest[:size])
        rest = rest[size:]
    assert parts(pieces.feed(rest)) == parts(whole)
    if whole is not None:
        longer = read_head(data + trailing, limits)
        assert parts(longer) == parts(whole)
        if isinstance(whole, tuple) and isinstance(longer, tuple):
            assert longer[1] == whole[1] + trailing
            assert whole[0].head + whole[1] == data


class Reading(NamedTuple):
    """What a parser read: the fields with lower-case names, and the body that followed the head."""

    method: bytes
    target: bytes
    version: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes


def read_by_h11(data: bytes) -> Reading:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    request = connection.next_event()
    assert isinstance(request, h11.Request), request
    body = b""
    while isinstance(part := connection.next_event(), h11.Data):
        body += bytes(part.data)
    assert isinstance(part, h11.EndOfMessage), part
    assert connection.trailing_data == (b"", False)
    return Reading(request.method, request.target, request.http_version, list(request.headers), body)


class _Recorder:
    def __init__(self) -> None:
        self.target = b""
        self.body = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.complete = False

    def on_url(self, part: bytes) -> None:
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        # llhttp leaves a tab at the end of a value, which is OWS and no part of it (RFC 9112 5).
        self.fields.append((name.lower(), value.rstrip(b" \t")))

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.complete = True


def read_by_llhttp(data: bytes) -> Reading:
    recorder = _Recorder()
    parser = httptools.HttpRequestParser(recorder)
    fed = 0
    try:
        parser.feed_data(data[:-1])
        assert not recorder.complete, "llhttp ends the request earlier"
        fed = len(data) - 1
        parser.feed_data(data[-1:])
    except httptools.HttpParserUpgrade as upgrade:
        # httptools leaves all that follows the head of such a request to the new protocol, a body included.
        recorder.body = data[fed + upgrade.args[0] :]
    assert recorder.complete, "llhttp does not see the end of the request"
    version = parser.get_http_version().encode()
    return Reading(parser.get_method(), recorder.target, version, recorder.fields, recorder.body)


def check_against_peers(data: bytes) -> None:
    """Compare a request that is accepted, with a body of the length that was read, to what the peers read."""
    verdict = read_head(data, LIMITS)
    if not isinstance(verdict, tuple):
        return
    request = verdict[0]
    length = request.content_length or 0
    if length > MAX_BODY:
        return  # refused by HS-6.2 before the body; 25 digits are more than llhttp counts
    ours = Reading(
        request.method.encode(),
        request.target.encode(),
        request.version[-3:].encode(),
        [(name.lower().encode(), value.encode("latin-1")) for name, value in request.fields],
        b"b" * length,
    )
    line, rest = request.head.split(b"\r\n", 1)
    # RFC 9110 2.5: a minor version above 1 is read as 1.1. llhttp refuses it, h11 hands it on.
    plain = line[:-3] + ours.version + b"\r\n" + rest + ours.body
    assert read_by_h11(plain) == ours
    if ours.method in KNOWN_METHODS:
        assert read_by_llhttp(plain) == ours


@EXAMPLES
@given(heads())
def test_peers_read_the_same(data: bytes) -> None:
    """HS-3.11: whatever is accepted, h11 and llhttp accept, as the same request with the same body."""
    verdict = read_head(data, LIMITS)
    event(str(verdict.reason) if isinstance(verdict, Refusal) else "accepted" if verdict else "incomplete")
    check_against_peers(data)


@pytest.mark.parametrize("method", KNOWN_METHODS)
def test_every_method_that_llhttp_knows(method: bytes) -> None:
    """HS-3.11: no known method changes how the rest of the request is read."""
    target = b"h:80" if method == b"CONNECT" else b"/a"
    check_against_peers(method + b" " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n")


@pytest.mark.parametrize("at", range(len(PLAIN)))
def test_every_byte_in_every_place(at: int) -> None:
    """HS-3.11: each byte, added and put in place of another everywhere in a head: what is accepted is read alike."""
    for byte in range(256):
        check_against_peers(PLAIN[:at] + bytes((byte,)) + PLAIN[at:])
        check_against_peers(PLAIN[:at] + bytes((byte,)) + PLAIN[at + 1 :])


def test_an_ordinary_head_takes_the_fast_path() -> None:
    """The heads of curl and of a browser are judged by the fast judge: the server's speed rests on it."""
    curl = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:54321\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n"
    form = b"POST /a HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    probe = b"GET /healthz HTTP/1.0\r\n\r\n"
    for head in (curl, form, probe):
        assert request_rules._judge_ordinary(head, LIMITS) is not None
