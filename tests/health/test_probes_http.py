"""`http` against real sockets, TLS and Unix sockets."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.health.model import Http
from idkmesh.health.probes import probe_for
from idkmesh.health.probes.http import MAX_READ_BYTES
from idkmesh.health.probes.http_request import request_of
from idkmesh.health.probes.words import ProbeError
from tests.health.certificates import authority_pem, server_context
from tests.health.probe_support import (
    COULD_NOT_RUN,
    FAILED,
    OK,
    Said,
    closed_port,
    descriptors,
    head_of,
    listening,
    said,
    serving,
    settled,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path


def answering(response: bytes, heads: list[bytes] | None = None) -> Callable[[socket.socket], None]:
    """Return a server that reads a head, sends what it is given, and closes."""

    def serve(connection: socket.socket) -> None:
        head = head_of(connection)
        if heads is not None:
            heads.append(head)
        connection.sendall(response)

    return serve


def answer_to(response: bytes, timeout: float = 5.0, **options: object) -> Said:
    """Run a probe against a server that answers so."""
    with serving(answering(response)) as (host, port):
        return said(Http(url=f"http://{host}:{port}/", **options), timeout)  # type: ignore[arg-type]  # as given


def head_for(url: str, environ: Mapping[str, str] | None = None, **options: object) -> list[str]:
    request = request_of(Http(url=url, **options), environ or {})  # type: ignore[arg-type]  # as given
    return request.head.decode("latin-1").split("\r\n")


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system's store be the tests' authority: OpenSSL is told so by its own variable."""
    file = tmp_path / "authority.pem"
    file.write_bytes(authority_pem())
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


@contextlib.contextmanager
def serving_tls(context: ssl.SSLContext) -> Iterator[tuple[str, int]]:
    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            head_of(secured)
            secured.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with serving(serve) as place:
        yield place


# --- the verdict --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expect", "expected"),
    [
        (200, (), (OK, "status 200")),
        (204, (), (OK, "status 204")),
        (302, (), (OK, "status 302")),
        (399, (), (OK, "status 399")),
        (400, (), (FAILED, "status 400")),
        (503, (), (FAILED, "status 503")),
        (503, (200, 503), (OK, "status 503")),
        (204, (200,), (FAILED, "status 204")),
        (101, (), (FAILED, "status 101")),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_status(status: int, expect: tuple[int, ...], expected: Said, method: str) -> None:
    """HL-4.9: 200 to 399 are well unless the matrix names others; a redirect is an answer and is not followed."""
    response = f"HTTP/1.1 {status} secret\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".encode()
    assert answer_to(response, method=method, expect=expect) == expected


def test_informational_responses_are_passed_over() -> None:
    """HL-4.9: the status is that of the final response (RFC 9110 section 15.2)."""
    early = b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" * 3
    assert answer_to(early + b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno") == (FAILED, "status 503")
    assert answer_to(early) == (FAILED, "closed without an answer")


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 5\r\n\r\nwell.",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nwell.\r\n0\r\n\r\n",
        b"\r\nwell, until it closes",
        b"\r\n\xff\xfe\x00\x1b[31m",
        b"\xff: \xfe\r\n\r\n",
    ],
)
def test_bodies_are_read_and_thrown_away(body: bytes) -> None:
    """HL-4.9, HL-4.12: a body of any form and any bytes changes nothing, and shows nowhere."""
    assert answer_to(b"HTTP/1.1 200 OK\r\n" + body) == (OK, "status 200")


@pytest.mark.parametrize("body", [b"Content-Length: 5\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
def test_a_server_that_keeps_the_connection(body: bytes) -> None:
    """HL-4.9: a response that says where it ends has ended there, although the server does not close."""

    def serve(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + body + (b"well." if b"Length" in body else b"1\r\nw\r\n0\r\n\r\n"))
        assert connection.recv(1) == b""

    with serving(serve) as (host, port):
        assert said(Http(url=f"http://{host}:{port}")) == (OK, "status 200")


@pytest.mark.parametrize(
    ("response", "word"),
    [
        (b"", "closed without an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "no HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwel", "cut short"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwe", "cut short"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "cut short"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20 + b"B: " + b"x" * MAX_READ_BYTES, "a head over 64 KiB"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 4000, "a head over 64 KiB"),
    ],
)
def test_what_is_no_answer(response: bytes, word: str) -> None:
    """HL-4.9, HL-4.12: half an answer is none, and none of it is shown."""
    assert answer_to(response) == (FAILED, word)


def test_a_reset() -> None:
    """HL-4.12: `reset` is the word for a connection that the server breaks off."""

    def serve(connection: socket.socket) -> None:
        head_of(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with serving(serve) as (host, port):
        assert said(Http(url=f"http://{host}:{port}")) == (FAILED, "reset")


def test_refused_and_unknown() -> None:
    """HL-4.9, HL-4.12: as for `tcp`."""
    assert said(Http(url=f"http://127.0.0.1:{closed_port()}")) == (FAILED, "refused")
    assert said(Http(url="http://no-such-host.invalid"), 10)[0] is FAILED


def test_at_most_64_kib_are_read() -> None:
    """HL-4.9: what follows is left where it is: an endless body ends the run, and does not fail it."""
    sent = 0

    def serve(connection: socket.socket) -> None:
        nonlocal sent
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        head_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            while sent < 1 << 30:
                sent += connection.send(b"x" * 4096)

    with serving(serve) as (host, port):
        assert said(Http(url=f"http://{host}:{port}")) == (OK, "status 200")
    # The rest lies in the buffers of the system, which are given back with the connection.
    assert sent < 32 * MAX_READ_BYTES


# --- the deadline -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"])
def test_a_byte_at_a_time_extends_nothing(before: bytes) -> None:
    """HL-4.1, HL-4.9: the deadline is a total, in the head as in the body."""

    def serve(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(before)
        for byte in (b"HTTP/1.1 200 OK\r\nA: " if not before else b"A: ") + b"b" * 1000:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    with serving(serve) as (host, port):
        assert said(Http(url=f"http://{host}:{port}"), 0.4) == (FAILED, "timeout")


def test_a_server_that_says_nothing() -> None:
    """HL-4.1: neither one that does not answer nor one that does not accept keeps a run."""
    with listening() as listener:
        assert said(Http(url=f"http://127.0.0.1:{listener.getsockname()[1]}"), 0.3) == (FAILED, "timeout")


def test_a_handshake_has_the_same_deadline(trusted: None) -> None:
    """HL-4.1, HL-4.9: also where the server trickles a TLS record that never ends."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        for byte in b"\x16\x03\x03\x40\x00" + bytes(1000):
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    with serving(serve) as (host, port):
        assert said(Http(url=f"https://{host}:{port}"), 0.4) == (FAILED, "timeout")


# --- TLS ----------------------------------------------------------------------------------------------------------


def test_tls(trusted: None, tmp_path: Path) -> None:
    """HL-4.9: a certificate of the system's store for this host is good; the context is kept for the next run."""
    with serving_tls(server_context(tmp_path)) as (host, port):
        probe = probe_for(Http(url=f"https://{host}:{port}"))
        for _ in range(3):
            assert said(probe) == (OK, "status 204")


def test_tls_without_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.9: one of an authority that the system does not know is a failure."""
    with serving_tls(server_context(tmp_path)) as (host, port):
        assert said(Http(url=f"https://{host}:{port}")) == (FAILED, "certificate")


@pytest.mark.parametrize(("name", "days"), [("example.org", 1), ("127.0.0.2", 1), ("127.0.0.1", -1)])
def test_a_certificate_for_somebody_else(trusted: None, tmp_path: Path, name: str, days: int) -> None:
    """HL-4.9: another name, another address or a date that has passed is a failure."""
    with serving_tls(server_context(tmp_path, name, days)) as (host, port):
        assert said(Http(url=f"https://{host}:{port}")) == (FAILED, "certificate")


def test_tls_to_a_name(trusted: None, tmp_path: Path) -> None:
    """HL-4.9: the name of the URL is what is verified, whatever the header Host says."""
    with serving_tls(server_context(tmp_path, "localhost")) as (_, port):
        assert said(Http(url=f"https://localhost:{port}", headers={"Host": "other.example"})) == (OK, "status 204")


def test_tls_to_a_server_without() -> None:
    """HL-4.9: a server that speaks no TLS is a failure of its own word."""
    with serving(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as (host, port):
        assert said(Http(url=f"https://{host}:{port}")) == (FAILED, "TLS")


# --- Unix sockets -------------------------------------------------------------------------------------------------


def test_unix_socket(tmp_path: Path) -> None:
    """HL-4.9: the URL is asked through a socket, and its host is what Host says; nothing is looked up."""
    heads: list[bytes] = []
    with (
        listening(str(tmp_path / "s")) as listener,
        serving(answering(b"HTTP/1.0 200 OK\r\n\r\n", heads), listener),
    ):
        spec = Http(url="http://no-such-host.invalid/a?b", unix_socket=str(tmp_path / "s"))
        assert said(spec) == (OK, "status 200")
    assert heads[0].startswith(b"GET /a?b HTTP/1.1\r\nHost: no-such-host.invalid\r\n")


def test_unix_sockets_that_are_not_there(tmp_path: Path) -> None:
    """HL-4.2: a missing or deserted socket is the dependency's fault, an impossible path the matrix's."""
    with listening(str(tmp_path / "deserted")):
        pass
    for path, expected in {
        str(tmp_path / "none"): (FAILED, "missing"),
        str(tmp_path / "deserted"): (FAILED, "refused"),
        "/" + "x" * 200: (COULD_NOT_RUN, "no valid path of a socket"),
        "/a\0b": (COULD_NOT_RUN, "no valid path of a socket"),
    }.items():
        assert said(Http(url="http://localhost/", unix_socket=path)) == expected


def test_a_unix_socket_whose_backlog_is_full(tmp_path: Path) -> None:
    """HL-4.1: the run waits for room until its deadline."""
    with listening(str(tmp_path / "s"), backlog=0) as listener, contextlib.ExitStack() as stack:
        with contextlib.suppress(BlockingIOError):
            for _ in range(10):
                filler = stack.enter_context(socket.socket(socket.AF_UNIX))
                filler.setblocking(False)
                filler.connect(listener.getsockname())
        before = descriptors()
        assert said(Http(url="http://localhost/", unix_socket=listener.getsockname()), 0.2) == (FAILED, "timeout")
        assert descriptors() == before


# --- the request --------------------------------------------------------------------------------------------------


def test_what_is_sent() -> None:
    """HL-4.9: one request, which ends the connection, and no credentials."""
    heads: list[bytes] = []
    with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n", heads)) as (host, port):
        said(Http(url=f"http://{host}:{port}/healthz?full=1#part", headers={"X-A": "b"}))
    assert heads[0].decode().split("\r\n") == [
        "GET /healthz?full=1 HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "User-Agent: idkmesh-probe",
        "Accept: */*",
        "X-A: b",
        "Connection: close",
        "",
        "",
    ]


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_no_proxy_of_the_environment(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.9: a proxy's health is not the dependency's."""
    monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    assert answer_to(b"HTTP/1.1 200 OK\r\n\r\n") == (OK, "status 200")


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://example.org", "GET / HTTP/1.1", "Host: example.org"),
        ("http://example.org:8080?a=b", "GET /?a=b HTTP/1.1", "Host: example.org:8080"),
        ("https://[::1]:8443/a%20b", "GET /a%20b HTTP/1.1", "Host: [::1]:8443"),
        ("http://example.org/gr\u00fc\u00df", "GET /gr%C3%BC%C3%9F HTTP/1.1", "Host: example.org"),
        ("http://b\u00fccher.example/", "GET / HTTP/1.1", "Host: xn--bcher-kva.example"),
    ],
)
def test_targets(url: str, line: str, host: str) -> None:
    """HL-4.9: the target is what the URL says, in ASCII (RFC 9112 section 3.2.1)."""
    assert head_for(url)[:2] == [line, host]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:80",
        "ftp://localhost/",
        "http://",
        "http://:80/",
        "http://localhost:0/",
        "http://localhost:99999/",
        "http://localhost:abc/",
        "http://[::1/",
        "http://localhost/\r\nX: y",
        "http://localhost/a b",
        "http://a..b/",
        "http://" + "x" * 70 + "/",
        "http://user:password@localhost/",
    ],
)
def test_urls_that_cannot_be_asked(url: str) -> None:
    """HL-4.2, HL-4.9: they are the matrix's fault, credentials in them too, and none is repeated in the detail."""
    outcome, detail = said(Http(url=url))
    assert outcome is COULD_NOT_RUN
    assert "password" not in detail


def test_headers_from_the_environment() -> None:
    """HL-4.9: credentials come from the variable that the matrix names, byte by byte."""
    environ = {"TOKEN": "Bearer s3cret\udcff"}
    request = request_of(Http(url="http://a", headers_from_env={"Authorization": "TOKEN"}), environ)
    assert b"\r\nAuthorization: Bearer s3cret\xff\r\n" in request.head


def test_a_field_is_sent_once() -> None:
    """HL-4.9: what the matrix says stands for what the probe would have said, however it is written."""
    head = head_for("http://a", {"V": "c"}, headers={"host": "b", "ACCEPT": "d", "X": "e"}, headers_from_env={"x": "V"})
    assert head[1:] == ["host: b", "User-Agent: idkmesh-probe", "ACCEPT: d", "x: c", "Connection: close", "", ""]


def test_a_variable_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.2, HL-4.12: without its credentials a probe asks nothing; a name that is a credential is not repeated."""
    spec = Http(url=f"http://127.0.0.1:{closed_port()}", headers_from_env={"Authorization": "Bearer s3cret"})
    assert said(spec) == (COULD_NOT_RUN, "a variable in headers_from_env is not set")
    monkeypatch.setenv("Bearer s3cret", "now it is")
    assert said(spec) == (FAILED, "refused")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X A", "b"),
        ("X:", "b"),
        ("", "b"),
        ("X", "s3cret\r\nY: z"),
        ("X", "s3cret\n"),
        ("X", "s3cret\0"),
        ("X", "s3cret\ud800"),
        ("Connection", "s3cret"),
        ("content-length", "5"),
        ("Transfer-Encoding", "chunked"),
    ],
)
def test_headers_that_cannot_be_sent(name: str, value: str) -> None:
    """HL-4.2, HL-4.12: a header never begins another, nor says how the connection is used; its value is not shown."""
    for options, environ in (({"headers": {name: value}}, {}), ({"headers_from_env": {name: "V"}}, {"V": value})):
        with pytest.raises(ProbeError) as error:
            request_of(Http(url="http://a", **options), environ)  # type: ignore[arg-type]  # as given
        assert error.value.outcome is COULD_NOT_RUN
        assert "s3cret" not in error.value.detail


def test_a_large_request_to_a_server_that_does_not_read() -> None:
    """HL-4.1: sending has the same deadline as reading."""
    with listening() as listener:
        spec = Http(url=f"http://127.0.0.1:{listener.getsockname()[1]}", headers={"X": "x" * (1 << 24)})
        assert said(spec, 0.5) == (FAILED, "timeout")


def test_nothing_is_left(tmp_path: Path) -> None:
    """HL-4.1: no run leaves a descriptor, however it ends."""
    responses = [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b"x"]
    before = descriptors()
    for response in responses * 5:
        answer_to(response)
    with serving_tls(server_context(tmp_path)) as (host, port):
        for _ in range(5):
            said(Http(url=f"https://{host}:{port}"))
    assert settled(lambda: descriptors() == before)
