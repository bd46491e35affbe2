"""TLS: the handshake as a phase, and what differs on the way."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.functional.support import (
    GET,
    PATIENCE,
    Site,
    SiteServer,
    abort,
    closed_by_peer,
    ending,
    get,
    parse,
    post,
    read_to_end,
    running,
    until,
)
from tests.functional.tls_support import client_context, server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.functional.support import Running

TIMEOUT = 0.4
LATE = 3.0


@pytest.fixture
def secure(serve: Callable[..., Running]) -> Callable[..., Running]:
    def start(*arguments: Any, **options: Any) -> Running:
        return serve(*arguments, ssl_context=server_context(), **options)

    return start


def wrap(client: socket.socket, version: ssl.TLSVersion | None = None) -> ssl.SSLSocket:
    return client_context(version).wrap_socket(client, suppress_ragged_eofs=False)


def ask(here: Running, data: bytes = GET, version: ssl.TLSVersion | None = None) -> Any:
    """Ask over TLS; an end without close_notify raises."""
    with wrap(here.connect(), version) as client:
        client.sendall(data)
        return parse(read_to_end(client))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(secure: Callable[..., Running], version: ssl.TLSVersion) -> None:
    """HS-11.1, HS-11.3: both versions of TLS serve, and end in a close_notify."""
    here = secure()
    assert ask(here, version=version).body == b"ok"
    assert ask(here, post("/echo", 4) + b"body", version).body == b"body"
    assert ask(here, post("/echo", 10**9), version).status == 413


@pytest.mark.parametrize("size", [15_000, 16_384, 16_385, 100_000, 1_500_000])
def test_body_in_large_records(secure: Callable[..., Running], size: int) -> None:
    """HS-11.1: bytes that wait in the TLS layer, where no selector sees them, are read; a record holds up to 16 KiB."""
    here = secure()
    body = bytes(range(256)) * (size // 256 + 1)
    with wrap(here.connect()) as client:
        client.sendall(post("/echo", size))
        client.sendall(body[:size])
        assert parse(read_to_end(client)).body == body[:size]


def test_head_and_body_in_one_record(secure: Callable[..., Running]) -> None:
    """HS-11.1: a head of 15,000 bytes in one record, whole and behind a first byte, is read to its end."""
    here = secure()
    data = get("/", *(f"X{at}: {'v' * 700}" for at in range(20)))
    assert ask(here, data).status == 200
    with wrap(here.connect()) as client:
        client.sendall(data[:1])
        here.wait_for_state("reading_head", 1)
        client.sendall(data[1:])
        assert parse(read_to_end(client)).status == 200


@pytest.mark.parametrize("path", ["/large?9000000", "/whole?9000000"])
def test_large_response(secure: Callable[..., Running], path: str) -> None:
    """HS-7.4, HS-11.3: a response that a client does not read at once arrives whole, with a close_notify behind."""
    here = secure()
    with wrap(here.connect(receive_buffer=8192)) as client:
        client.sendall(get(path))
        here.wait_for_state("writing", 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        assert len(parse(read_to_end(client)).body) == 9_000_000


def test_file_over_tls(secure: Callable[..., Running], tmp_path: Any) -> None:
    """HS-7.4, HS-11.1: a file goes out over TLS too, where sendfile cannot send it."""
    from tests.functional.test_handlers import file_handler  # noqa: PLC0415 - a helper of one test

    (tmp_path / "file").write_bytes(b"f" * 3_000_000)
    here = secure(file_handler(tmp_path))
    assert ask(here, get("/file")).body == b"f" * 3_000_000


@pytest.mark.parametrize("hello", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"])
def test_stalled_handshake(secure: Callable[..., Running], hello: bytes) -> None:
    """HS-11.1, HS-4.2: a handshake that stalls is closed in time, without a response."""
    here = secure(request_timeout=TIMEOUT)
    began = time.monotonic()
    client = here.connect(hello)
    assert ending(client)[0] == b""
    assert TIMEOUT - 0.01 <= time.monotonic() - began < TIMEOUT + LATE
    assert here.server.usage().timed_out_total == 1


def hello_bytes() -> bytes:
    """Return what a client sends first."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_context().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def test_trickled_handshake(secure: Callable[..., Running]) -> None:
    """HS-11.1, HS-4.2: trickling does not extend a handshake, and others are served meanwhile."""
    here = secure(request_timeout=TIMEOUT)
    began = time.monotonic()
    client = here.connect()

    def trickle() -> None:
        for byte in hello_bytes():
            try:
                client.send(bytes((byte,)))
            except OSError:
                return
            time.sleep(0.01)

    thread = threading.Thread(target=trickle)
    thread.start()
    assert ask(here).status == 200
    assert ending(client)[0] == b""
    assert time.monotonic() - began < TIMEOUT + LATE
    thread.join()


def test_head_has_its_own_time_after_the_handshake(secure: Callable[..., Running]) -> None:
    """HS-4.2: after the handshake a head that stalls is closed in time, with a close_notify and without a response."""
    here = secure(request_timeout=TIMEOUT)
    with wrap(here.connect()) as client:
        client.sendall(GET[:9])
        assert read_to_end(client) == b""


def test_many_handshakes_at_once(secure: Callable[..., Running]) -> None:
    """HS-11.1: more handshakes than a turn does are all done."""
    here = secure(listen_backlog=64)
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(ask(here).status)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results) <= {200, 503}
    assert len(results) == 20


def test_plain_text_to_a_tls_port(secure: Callable[..., Running]) -> None:
    """HS-11.2: plain text on a TLS port is closed at once, and nothing is handled."""
    here = secure()
    data, _ = ending(here.connect(GET))
    assert not data.startswith(b"HTTP")
    assert here.server.calls == []
    assert ask(here).status == 200


def test_tls_to_a_plain_port(serve: Callable[..., Running]) -> None:
    """HS-11.2: a TLS hello on a plain port is refused at its first byte."""
    answer = serve().ask(hello_bytes())
    assert (answer.status, answer.code) == (400, "invalid_request")


@pytest.mark.parametrize("when", ["hello", "secured", "handled", "written"])
def test_client_leaves(secure: Callable[..., Running], when: str) -> None:
    """HS-4.7: a reset in the middle of TLS is no traceback, and releases everything."""
    here = secure(request_timeout=2.0)
    for _ in range(3):
        client = here.connect(hello_bytes()[:50] if when == "hello" else b"", receive_buffer=8192)
        if when != "hello":
            client = wrap(client)
            here.clients.append(client)
        if when == "handled":
            client.sendall(get("/wait"))
            until(lambda: here.server.now_running == 1)
        if when == "written":
            client.sendall(get("/whole?9000000"))
            here.wait_for_state("writing", 1)
        abort(client)
        here.server.gate.set()
        until(lambda: here.core.connections == 0)
        here.server.gate.clear()
    assert here.log.lines == []


def test_half_close_over_tls(secure: Callable[..., Running]) -> None:
    """HS-4.5, HS-11.3: a client that has sent close_notify after its request still reads its answer."""
    here = secure()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context().wrap_bio(incoming, outgoing)
    client = here.connect()

    def pump() -> None:
        client.sendall(outgoing.read())
        incoming.write(client.recv(65_536))

    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            pump()
    tls.write(get("/wait"))
    client.sendall(outgoing.read())
    until(lambda: here.server.now_running == 1)
    with pytest.raises(ssl.SSLWantReadError):
        tls.unwrap()  # our half: the server's close_notify is still to come
    client.sendall(outgoing.read())
    here.server.gate.set()
    while data := client.recv(65_536):
        incoming.write(data)
    assert b"waited" in tls.read(65_536)
    with pytest.raises((ssl.SSLZeroReturnError, ssl.SSLEOFError)):
        tls.read(1)


def test_wrapped_listening_socket() -> None:
    """HS-11.1: a listening socket that the caller has wrapped works the same, and its accept never blocks."""

    def wrap_listener(server: Any) -> None:
        server.socket = server_context().wrap_socket(server.socket, server_side=True)

    with running(Site, server_class=SiteServer, prepare=wrap_listener) as here:
        silent = here.connect()
        assert ask(here).status == 200
        assert not closed_by_peer(silent)


def test_refused_upload_over_tls(secure: Callable[..., Running]) -> None:
    """HS-4.6, HS-11.3: a client in the middle of a large upload reads its refusal over TLS too."""
    here = secure(max_body_bytes=1000)
    with wrap(here.connect()) as client:
        client.sendall(post("/echo", 3_000_000))
        client.sendall(b"u" * 3_000_000)
        assert parse(read_to_end(client)).code == "payload_too_large"


class Peer(Site):
    def at_facts(self) -> None:
        connection: Any = self.connection
        real = connection.exchange.connection.sock
        assert connection.context is real.context
        facts = [connection.version(), connection.cipher(), connection.getpeercert(), connection.server_side]
        assert facts == [real.version(), real.cipher(), None, True]
        self.answer(str(connection.version()).encode())

    def at_others(self) -> None:
        connection: Any = self.connection
        names = ("write", "read", "unwrap", "do_handshake", "pending", "verify_client_post_handshake", "_sslobj")
        self.answer(",".join(name for name in names if not hasattr(connection, name)).encode())


def test_handler_sees_tls(secure: Callable[..., Running]) -> None:
    """HS-10.4, HS-10.7: what tells of a TLS connection is there for a handler."""
    assert ask(secure(Peer), get("/facts")).body.startswith(b"TLSv1")


def test_handler_cannot_get_past_its_output(secure: Callable[..., Running]) -> None:
    """HS-10.7: what would read or write beside the replayed request and the response is an AttributeError."""
    expected = b"write,read,unwrap,do_handshake,pending,verify_client_post_handshake,_sslobj"
    assert ask(secure(Peer), get("/others")).body == expected


@pytest.fixture
def drained(secure: Callable[..., Running]) -> Iterator[Running]:
    here = secure(drain_timeout=30)
    yield here
    here.thread.join(PATIENCE)
    assert not here.thread.is_alive()


def test_drain_over_tls(drained: Running) -> None:
    """HS-9.2: unfinished handshakes are not waited for; a request that was complete is answered."""
    drained.connect()
    with wrap(drained.connect()) as client:
        client.sendall(get("/wait"))
        until(lambda: drained.server.now_running == 1)
        drained.server.request_drain(15)
        drained.server.gate.set()
        assert parse(read_to_end(client)).body == b"waited"


def test_slow_but_steady_reader(secure: Callable[..., Running]) -> None:
    """HS-4.4: progress is seen over TLS too, where a socket takes a whole piece or nothing."""
    here = secure(request_timeout=2.0)
    with wrap(here.connect(receive_buffer=4096)) as client:
        client.sendall(get("/large?16000000"))
        end = time.monotonic() + 6.0
        while time.monotonic() < end:
            # Four times what an idle machine needs: the kernel makes room in steps, each to fit into the timeout.
            assert client.recv(3_000)
            time.sleep(0.1)
        assert here.server.usage().timed_out_total == 0
