"""Whoever tries to lock others out, in each state, gives way to who comes."""

from __future__ import annotations

import ssl
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.functional.support import GET, Running, Site, SiteServer, get, parse, post, read_to_end, running, until
from tests.functional.tls_support import client_context, server_context

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

LIMITS = {"max_connections": 30, "max_concurrent_requests": 2, "listen_backlog": 64}
CROWD = 45


def in_head(here: Running) -> socket.socket:
    return here.connect(GET[:9])


def silent(here: Running) -> socket.socket:
    return here.connect()


def in_body(here: Running) -> socket.socket:
    return here.connect(post("/echo", 5000) + b"part")


def unread(here: Running) -> socket.socket:
    before = here.server.usage().admitted_total
    client = here.connect(get("/whole?3000000"), receive_buffer=4096)
    until(lambda: here.server.usage().admitted_total > before and here.server.usage().in_flight == 0)
    return client


def lingering(here: Running) -> socket.socket:
    return here.connect(post("/echo", 10**9) + b"u" * 100)


@pytest.mark.parametrize("behave", [silent, in_head, in_body, unread, lingering])
def test_no_lock_out(serve: Callable[..., Running], behave: Callable[[Running], socket.socket]) -> None:
    """HS-8.1, HS-8.3, OVER-01, OVER-08: hostile ones beyond the room there is, renewed; each newcomer is answered."""
    here = serve(**LIMITS)
    hostile = []
    for round_ in range(3):
        hostile += [behave(here) for _ in range(CROWD)]
        answer = here.ask()
        assert answer.status == 200, round_
        assert here.ask(post("/echo", 4) + b"body").body == b"body"
    usage = here.server.usage()
    assert usage.connections <= LIMITS["max_connections"]
    assert usage.evicted_total > CROWD
    until(lambda: here.log.about("max_connections (30) is reached"))
    assert len(here.log.about("max_connections (30) is reached")) == 1


def test_no_lock_out_by_trickling_readers(serve: Callable[..., Running]) -> None:
    """HS-8.1, HS-8.2, HS-8.3: readers that take a little now and then do not keep newcomers out either."""
    here = serve(**LIMITS)
    readers = [unread(here) for _ in range(CROWD)]
    ends = threading.Event()

    def trickle() -> None:
        while not ends.wait(0.05):
            for reader in readers:
                try:
                    reader.recv(10, 0x40)  # MSG_DONTWAIT
                except OSError:
                    continue

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        for _ in range(20):
            assert here.ask().status == 200
            time.sleep(0.01)
    finally:
        ends.set()
        thread.join()


@pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_no_lock_out_by_handshakes(serve: Callable[..., Running], hello: bytes) -> None:
    """HS-8.1, HS-8.3, HS-11.1: handshakes that do not go on give way."""
    here = serve(ssl_context=server_context(), **LIMITS)
    for _ in range(3):
        for _ in range(CROWD):
            here.connect(hello)
        with client_context().wrap_socket(here.connect()) as client:
            client.sendall(GET)
            assert parse(read_to_end(client)).status == 200


def test_an_evicted_response_is_cut(serve: Callable[..., Running]) -> None:
    """HS-8.1, HS-7.6: a client whose response is dropped for a newcomer sees a reset, not an end."""
    here = serve(max_connections=18, max_concurrent_requests=2)
    writers = [unread(here) for _ in range(20)]
    until(lambda: here.server.usage().evicted_total > 0)
    ends = []
    for writer in writers:
        try:
            ends.append(len(read_to_end(writer)) > 3_000_000)
        except ConnectionResetError:
            ends.append(False)
    assert not all(ends)
    assert sum(ends) >= 17


class Slow(Site):
    timeout = None


def test_tls_eviction_is_no_clean_end() -> None:
    """HS-8.1, HS-11.3: over TLS a cut response has no close_notify."""
    with running(Slow, server_class=SiteServer, ssl_context=server_context()) as here:
        client = client_context().wrap_socket(here.connect(receive_buffer=4096), suppress_ragged_eofs=False)
        client.sendall(get("/whole?9000000"))
        here.wait_for_state("writing", 1)
        keeper = here.front.keeper
        keeper.drop(next(iter(keeper.held[next(state for state in keeper.held if state.value == "writing")])))
        here.front.wake()
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            read_to_end(client)
        client.close()
