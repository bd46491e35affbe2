"""Clients that stall and trickle, in each phase."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd.connection import body_deadline
from tests.functional.support import GET, PATIENCE, Site, SiteServer, ending, get, parse, post, read_to_end

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from tests.functional.support import Running

TIMEOUT = 0.4
LATE = 3.0
"""Seconds that a busy machine may add to a deadline. Bytes that trickle go on for longer."""


def trickle(client: socket.socket, pieces: Iterable[bytes], pause: float) -> threading.Thread:
    """Send pieces, one each `pause` seconds, until they end or the server has closed."""

    def send() -> None:
        for piece in pieces:
            try:
                client.sendall(piece)
            except OSError:
                return
            time.sleep(pause)

    thread = threading.Thread(target=send, name="trickle")
    thread.start()
    return thread


def silent(client: socket.socket) -> list[threading.Thread]:
    return []


def stalled(client: socket.socket) -> list[threading.Thread]:
    client.sendall(GET[:10])
    return []


def trickling_line(client: socket.socket) -> list[threading.Thread]:
    return [trickle(client, (b"G" for _ in range(1000)), 0.02)]


def trickling_fields(client: socket.socket) -> list[threading.Thread]:
    return [trickle(client, [GET[:-2], *[b"X: y\r\n"] * 90], 0.05)]


@pytest.mark.parametrize("behave", [silent, stalled, trickling_line, trickling_fields])
def test_slow_head(serve: Callable[..., Running], behave: Callable[[socket.socket], list[threading.Thread]]) -> None:
    """HS-4.2, OVER-01: a head that is not complete in time is closed without a response; trickling extends nothing."""
    here = serve(request_timeout=TIMEOUT)
    began = time.monotonic()
    client = here.connect()
    threads = behave(client)
    data, _ = ending(client)
    took = time.monotonic() - began
    for thread in threads:
        thread.join()
    assert data == b""
    assert TIMEOUT - 0.01 <= took < TIMEOUT + LATE
    assert here.server.usage().timed_out_total == 1
    assert here.server.calls == []


def test_head_in_time_is_served(serve: Callable[..., Running]) -> None:
    """HS-4.2: a head that trickles and is complete in time is served."""
    here = serve(request_timeout=5.0)
    client = here.connect()
    thread = trickle(client, [GET[at : at + 1] for at in range(len(GET))], 0.002)
    assert parse(read_to_end(client)).status == 200
    thread.join()


class Held(SiteServer):
    """The front waits at the first connection, as it may on a machine that is busy."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.entered = threading.Event()
        super().__init__(*arguments, **options)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        if not self.entered.is_set():
            self.entered.set()
            assert self.gate.wait(PATIENCE)
        return True


@pytest.mark.parametrize("data", [GET[:10], post("/echo", 100)])
def test_time_counts_from_when_a_client_came(serve: Callable[..., Running], data: bytes) -> None:
    """HS-4.2, HS-4.3: who is accepted late in a long turn of the front has the whole request_timeout all the same."""
    here = serve(server_class=Held, request_timeout=TIMEOUT)
    here.connect()
    assert here.server.entered.wait(PATIENCE)
    time.sleep(TIMEOUT)
    began = time.monotonic()
    client = here.connect(data)
    here.server.gate.set()
    read_to_end(client)
    assert time.monotonic() - began >= TIMEOUT


def test_stalled_bodies(serve: Callable[..., Running]) -> None:
    """HS-4.3, HS-1.2, OVER-02: 50 clients that promise 20 KB and send 7 bytes get 408; no handler saw a part of it."""
    before = threading.active_count()
    here = serve(request_timeout=TIMEOUT, listen_backlog=64)
    began = time.monotonic()
    clients = [here.connect(post("/echo", 20_000) + b"7 bytes") for _ in range(50)]
    here.wait_for_state("reading_body", 50)
    assert threading.active_count() <= before + 5  # the front and what the pool keeps, whatever the crowd
    assert {parse(read_to_end(client)).code for client in clients} == {"request_timeout"}
    took = time.monotonic() - began
    expected = body_deadline(0.0, 20_000, TIMEOUT)
    assert expected - 0.01 <= took < expected + LATE
    assert here.server.calls == []
    assert here.server.usage().timed_out_total == 50


def test_trickling_body(serve: Callable[..., Running]) -> None:
    """HS-4.3: a body that trickles is 408 at its deadline; no byte extends it."""
    here = serve(request_timeout=TIMEOUT)
    began = time.monotonic()
    client = here.connect(post("/echo", 10_000))
    thread = trickle(client, (b"b" for _ in range(1000)), 0.02)
    assert parse(read_to_end(client)).status == 408
    took = time.monotonic() - began
    thread.join()
    assert body_deadline(0.0, 10_000, TIMEOUT) - 0.01 <= took < body_deadline(0.0, 10_000, TIMEOUT) + LATE


def test_large_body_has_more_time(serve: Callable[..., Running]) -> None:
    """HS-4.3: each 64 KiB declared gives a second more."""
    assert body_deadline(100.0, 0, 10.0) == 110.0
    assert body_deadline(100.0, 64 * 1024, 10.0) == 111.0
    here = serve(request_timeout=0.2)
    client = here.connect(post("/echo", 100_000))
    thread = trickle(client, [b"b" * 10_000] * 10, 0.08)
    assert len(parse(read_to_end(client)).body) == 100_000
    thread.join()


@pytest.mark.parametrize("path", ["/large?33554432", "/whole?33554432"])
def test_unread_response_is_dropped(serve: Callable[..., Running], path: str) -> None:
    """HS-4.4, HS-7.4, OVER-04: a client that takes nothing is dropped in time, as a cut, and holds no slot."""
    here = serve(request_timeout=TIMEOUT, max_concurrent_requests=1)
    client = here.connect(get(path), receive_buffer=4096)
    here.wait_for_state("writing", 1)
    began = time.monotonic()
    assert here.ask().status == 200
    here.wait_for_state("writing", 0)
    assert time.monotonic() - began < TIMEOUT * 1.25 + LATE
    data, end = ending(client)
    assert end == "reset"
    assert len(data) < 33_554_432
    assert here.server.usage().timed_out_total == 1


def test_slow_but_steady_reader_gets_all(serve: Callable[..., Running]) -> None:
    """HS-4.4, OVER-05: 64 KB each 20 ms, 32 MiB, which takes four times the timeout: the whole response arrives."""
    here = serve(request_timeout=2.5)
    client = here.connect(get("/large?33554432"))
    received = 0
    tail = b""
    while data := client.recv(65_536):
        received += len(data)
        tail = data
        time.sleep(0.02 * len(data) / 65_536)
    assert tail
    assert received > 33_554_432
    assert here.server.usage().timed_out_total == 0


def test_very_slow_but_steady_reader_gets_all(serve: Callable[..., Running]) -> None:
    """HS-4.4: progress is what the client takes, not what the socket has room for, which is seen only in megabytes."""
    timeout, size = 1.5, 3_000_000
    here = serve(request_timeout=timeout)
    client = here.connect(get(f"/whole?{size}"), receive_buffer=16_384)
    received = 0
    began = time.monotonic()
    while data := client.recv(8192):
        received += len(data)
        if time.monotonic() - began < 3 * timeout:
            time.sleep(0.05)  # about 160 KB a second: the send buffer has no room again for seconds
    assert received > size
    assert here.server.usage().timed_out_total == 0


def test_hostile_crowd_costs_no_thread(serve: Callable[..., Running]) -> None:
    """HS-1.2, HS-8.3, OVER-01, OVER-08: 300 silent, stalled and unread connections; each healthy request is served."""
    before = threading.active_count()
    here = serve(max_connections=600, max_concurrent_requests=4, listen_backlog=128)
    for number in range(100):
        here.connect()
        here.connect(post("/echo", 5000) + b"part")
        here.connect(get("/whole?3000000"), receive_buffer=4096)
        here.wait_for_state("writing", number + 1)
    here.wait_for_state("reading_body", 100)
    slowest = 0.0
    for _ in range(50):
        began = time.monotonic()
        assert here.ask().status == 200
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 5.0, "half of what one of the crowd may take"
    assert threading.active_count() <= before + 4 + 2  # the workers, the front, the writer of the log


class Pausing(Site):
    def at_pause(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"first")
        time.sleep(0.3)
        self.wfile.write(b"last")


def test_handler_time_is_not_the_clients(serve: Callable[..., Running]) -> None:
    """HS-4.4: a handler that takes longer than request_timeout is no stall of the client."""
    here = serve(Pausing, request_timeout=0.1)
    assert here.ask(get("/pause")).body == b"firstlast"


def test_steps_of_the_wall_clock_change_nothing(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-4.2: deadlines are monotonic; a wall clock that jumps a day neither ends nor extends one."""
    here = serve(request_timeout=TIMEOUT)
    real = time.time
    began = time.monotonic()
    client = here.connect(GET[:5])
    here.wait_for_state("reading_head", 1)
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    time.sleep(0.1)
    assert here.held("reading_head") == 1
    monkeypatch.setattr(time, "time", lambda: real() - 86_400)
    assert ending(client)[0] == b""
    assert TIMEOUT - 0.01 <= time.monotonic() - began < TIMEOUT + LATE
