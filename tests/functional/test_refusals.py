"""Every refusal arrives whole, however its request was cut into pieces and whatever follows it."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.functional.support import GET, PATIENCE, ending, get, parse, post, read_to_end, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.functional.support import Answer, Running

SECOND = b"GET /second HTTP/1.1\r\nHost: h\r\n\r\n"

REFUSED = {
    "bare LF": (b"GET / HTTP/1.1\nHost: h\r\n\r\n", 400),
    "bare CR": (b"GET / HTTP/1.1\r\nX: a\rb\r\nHost: h\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n", 400),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400),
    "space before colon": (b"GET / HTTP/1.1\r\nHost: h\r\nX : a\r\n\r\n", 400),
    "folded line": (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", 400),
    "NUL": (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", 400),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "lengths": (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
    "signed length": (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello", 400),
    "length and coding": (
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        400,
    ),
    "chunked": (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 501),
    "too large": (post("/echo", 2001), 413),
    "too many fields": (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: v\r\n" * 99 + b"\r\n", 431),
    "long line": (b"GET /" + b"a" * 65_536 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 414),
    "long field": (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 65_536 + b"\r\n\r\n", 431),
}


def verdict(answer: Answer) -> bytes:
    """Return the answer without what is another one each time: its date and its id."""
    return re.sub(rb"(Date|X-Request-ID): [^\r]*", rb"\1: -", answer.raw)


def ask_bytewise(here: Running, data: bytes) -> Answer:
    with here.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(data)):
            client.send(data[at : at + 1])
        return parse(read_to_end(client))


@pytest.mark.parametrize("name", REFUSED)
def test_same_verdict_whole_bytewise_and_with_more_behind(serve: Callable[..., Running], name: str) -> None:
    """HS-3.10, HS-12.1, HS-12.2, HTTP-04: the same bytes of verdict, whole; what follows is never interpreted."""
    data, status = REFUSED[name]
    here = serve(max_body_bytes=2000)
    whole = here.ask(data)
    assert whole.status == status
    assert whole.code
    assert verdict(ask_bytewise(here, data)) == verdict(whole)
    assert verdict(here.ask(data + SECOND * 50)) == verdict(whole)
    assert here.server.calls == []
    assert here.server.usage().refused_total == 3


def test_refusals_in_the_other_representation(serve: Callable[..., Running]) -> None:
    """HS-12.1: problem+json where Accept prefers it, and with HEAD the fields without the body (HS-7.7)."""
    here = serve(max_body_bytes=10)
    answer = here.ask(post("/", 11, "Accept: application/problem+json"))
    assert (answer.status, answer.fields["content-type"]) == (413, "application/problem+json")
    head = here.ask(post("/", 11).replace(b"POST", b"HEAD"))
    assert (head.status, head.body) == (413, b"")
    assert int(head.fields["content-length"]) > 0


def test_unsafe_request_id_is_replaced(serve: Callable[..., Running]) -> None:
    """HS-12.2: a caller's id is echoed only if it is safe."""
    here = serve(max_body_bytes=10)
    assert here.ask(post("/", 11, "X-Request-ID: abc-1")).fields["x-request-id"] == "abc-1"
    assert here.ask(post("/", 11, "X-Request-ID: a b;c")).fields["x-request-id"] != "a b;c"


# --- large uploads that are refused read their answer -----------------------------------------------------------------

UPLOAD = 10 * 1024 * 1024


class Refusing:
    """A server that refuses every upload for one of three reasons."""

    def __init__(self, serve: Callable[..., Running], why: str) -> None:
        self.here = serve(max_concurrent_requests=1, max_body_bytes=UPLOAD - 1 if why == "size" else UPLOAD)
        self.expected = (413, "payload_too_large") if why == "size" else (503, "overloaded")
        if why == "cap":
            self.here.connect(get("/wait"))
            until(lambda: self.here.server.now_running == 1)
        if why == "drain":
            self.here.server.begin_drain()
            self.expected = (503, "shutting_down")
        self.port = self.here.server.server_port


@pytest.fixture(params=["cap", "drain", "size"])
def refusing(request: pytest.FixtureRequest, serve: Callable[..., Running]) -> Refusing:
    return Refusing(serve, request.param)


def test_raw_upload_reads_its_refusal(refusing: Refusing) -> None:
    """HS-4.6, HS-9.1: a client that sends 10 MB without looking still reads its answer, and then an end, no reset."""
    client = refusing.here.connect(post("/echo", UPLOAD))
    client.sendall(b"u" * UPLOAD)
    raw, end = ending(client)
    assert end == "eof"
    answer = parse(raw)
    assert (answer.status, answer.code) == refusing.expected


def test_http_client_upload_reads_its_refusal(refusing: Refusing) -> None:
    """HS-4.6: the same with `http.client`."""
    connection = http.client.HTTPConnection("127.0.0.1", refusing.port, timeout=PATIENCE)
    connection.request("POST", "/echo", body=b"u" * UPLOAD)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    assert response.status == refusing.expected[0]
    assert refusing.expected[1].encode() in body


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("expect", ["Expect: 100-continue", "Expect:"])
def test_curl_upload_reads_its_refusal(refusing: Refusing, expect: str) -> None:
    """HS-4.6, HS-6.4: the same with curl, which asks for permission to go on, or is told not to."""
    command = ["curl", "-sS", "-H", expect, "--data-binary", "@-", "-w", "%{http_code} %{size_upload}"]
    url = f"http://127.0.0.1:{refusing.port}/echo"
    done = subprocess.run([*command, url], input=b"u" * UPLOAD, capture_output=True, timeout=PATIENCE * 3, check=False)
    assert done.returncode == 0, done.stderr
    assert b'"code":"%s"' % refusing.expected[1].encode() in done.stdout
    status, uploaded = done.stdout.rsplit(b"}", 1)[1].split()
    assert int(status) == refusing.expected[0]
    if "100" in expect:
        assert int(uploaded) == 0


def test_lingering_ends(serve: Callable[..., Running]) -> None:
    """HS-4.6: a refused client that neither reads nor ends is let go after two seconds, not kept."""
    here = serve(max_body_bytes=10)
    client = here.connect(post("/", 11))
    here.wait_for_state("lingering", 1)
    began = time.monotonic()
    here.wait_for_state("lingering", 0)
    assert 1.5 < time.monotonic() - began < 8.0
    assert parse(read_to_end(client)).status == 413


def test_lingering_is_bounded_in_bytes(serve: Callable[..., Running]) -> None:
    """HS-4.6: after 16 MiB of what nobody wants, the connection is closed under the sender."""
    here = serve(max_body_bytes=10)
    client = here.connect(post("/", 10**9))

    def send_for_ever() -> int:
        sent = 0
        try:
            while sent < 200 * 1024 * 1024:
                sent += client.send(b"u" * 65_536)
        except OSError:
            return sent
        return sent

    assert send_for_ever() < 64 * 1024 * 1024
    here.wait_for_state("lingering", 0)


def test_nothing_lingers_without_unread_input(serve: Callable[..., Running]) -> None:
    """HS-4.6: where the request was read whole, the connection is closed with the answer."""
    here = serve(max_concurrent_requests=1)
    here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    for _ in range(20):
        with here.connect(GET) as client:
            assert read_to_end(client)
            assert here.held("lingering") == 0


# --- Expect: 100-continue ---------------------------------------------------------------------------------------------


def test_continue_then_answer(serve: Callable[..., Running]) -> None:
    """HS-6.4, HTTP-05: a body that is welcome is asked for, and then answered."""
    here = serve()
    client = here.connect(post("/echo", 5, "Expect: 100-continue"))
    assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.sendall(b"hello")
    assert parse(read_to_end(client)).body == b"hello"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(post("/echo", 2001, "Expect: 100-continue"), 413, id="too large"),
        pytest.param(post("/echo", 5, "Expect: 100-continue", "Content-Length: 5"), 400, id="syntax"),
        pytest.param(post("/echo", 5, "Expect: 100-continue") + b"hello", 200, id="body is there already"),
        pytest.param(post("/echo", 5, "Expect: 200-ok") + b"hello", 200, id="another expectation"),
        pytest.param(post("/echo", 5, "Expect: 100-continue").replace(b"1.1", b"1.0") + b"hello", 200, id="HTTP/1.0"),
        pytest.param(post("/echo", 0, "Expect: 100-continue"), 200, id="empty body"),
    ],
)
def test_no_continue(serve: Callable[..., Running], data: bytes, status: int) -> None:
    """HS-6.4, HTTP-05: a refusal comes at once and without a 100; so does an answer that needs none."""
    here = serve(max_body_bytes=2000)
    answer = here.ask(data)
    assert answer.status == status
    assert b"100 Continue" not in answer.raw


def test_no_continue_when_full(serve: Callable[..., Running]) -> None:
    """HS-6.4, HS-5.2: a full server does not ask for a body that it will not handle."""
    here = serve(max_concurrent_requests=1)
    here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    assert here.ask(post("/echo", 5, "Expect: 100-continue")).code == "overloaded"


def test_refusals_do_not_wait_for_their_reader(serve: Callable[..., Running]) -> None:
    """HS-1.2, OVER-04: refused clients that never read hold nobody up."""
    threads = threading.active_count()
    here = serve(max_concurrent_requests=1, listen_backlog=128)
    here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    for _ in range(40):
        here.connect(post("/echo", 1000), receive_buffer=2304)
    began = time.monotonic()
    assert here.ask().code == "overloaded"
    assert time.monotonic() - began < 5.0
    assert threading.active_count() <= threads + 1 + 2  # the worker, the front, the writer of the log
