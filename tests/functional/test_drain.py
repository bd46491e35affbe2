"""Drains, shutdowns and closings inside one process."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd import BoundedHTTPServer
from idkmesh.service_runtime import ServiceLimits
from tests.functional.support import (
    GET,
    PATIENCE,
    Site,
    SiteServer,
    ending,
    get,
    parse,
    post,
    read_to_end,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.functional.support import Running

SIGTERM = 15


def ended(here: Running) -> float:
    """Wait until serve_forever() has returned, and return how many seconds that took."""
    began = time.monotonic()
    here.thread.join(PATIENCE)
    assert not here.thread.is_alive()
    return time.monotonic() - began


@pytest.mark.alone
def test_idle_drain_ends_within_a_second(serve: Callable[..., Running]) -> None:
    """HS-9.2, HS-9.1, DRAIN-05: idle, silent and trickling connections are not waited for."""
    here = serve(drain_timeout=30)
    clients = [here.connect(), here.connect(GET[:9]), here.connect(GET[:-2])]
    here.wait_for_state("reading_head", 3)
    time.sleep(0.3)
    here.server.request_drain(SIGTERM)
    assert ended(here) < 1.0
    here.server.server_close()
    assert [ending(client)[0] for client in clients] == [b""] * 3
    assert here.log.lines == []


def test_in_flight_requests_finish(serve: Callable[..., Running]) -> None:
    """HS-9.2, HS-5.3, DRAIN-04: a handler, an upload and a response under way end whole; what is new is 503."""
    here = serve(drain_timeout=30)
    handled = here.connect(get("/wait"))
    uploading = here.connect(post("/echo", 8) + b"half")
    reading = here.connect(get("/whole?9000000"), receive_buffer=4096)
    until(lambda: here.server.now_running == 1)
    here.wait_for_state("reading_body", 1)
    here.wait_for_state("writing", 1)
    here.server.request_drain(SIGTERM)
    until(lambda: here.server.limiter.draining)
    refused = here.ask()
    assert (refused.status, refused.code) == (503, "shutting_down")
    uploading.sendall(b"half")
    assert parse(read_to_end(uploading)).body == b"halfhalf"
    reading.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert len(parse(read_to_end(reading)).body) == 9_000_000
    assert here.ask().code == "shutting_down"  # the listener is open while a handler runs
    assert here.thread.is_alive()
    here.server.gate.set()
    assert parse(read_to_end(handled)).body == b"waited"
    assert ended(here) < 5.0
    assert here.log.lines == []


def test_accept_queue_is_answered(serve: Callable[..., Running]) -> None:
    """HS-9.3: whoever waits in the accept queue when the drain begins and ends is answered, not reset."""
    here = serve(listen_backlog=64)
    with here.paused():
        waiting = [here.connect(GET) for _ in range(30)]
        here.server.request_drain(SIGTERM)
    assert {parse(read_to_end(client)).code for client in waiting} == {"shutting_down"}
    ended(here)


@pytest.mark.alone
def test_who_has_just_connected_is_answered(serve: Callable[..., Running]) -> None:
    """HS-9.3: a client that connects as the listener closes, and whose request is on the way, is answered too."""
    here = serve()
    with here.paused():
        client = here.connect()
        here.server.request_drain(SIGTERM)
    time.sleep(0.03)
    client.sendall(GET)
    assert parse(read_to_end(client)).code == "shutting_down"
    ended(here)


LOADERS = 8


@pytest.mark.alone
def test_no_answer_is_lost_in_a_drain(serve: Callable[..., Running]) -> None:
    """HS-9.3: under load each client gets a whole 200 or 503 or cannot connect any more; hardly one is cut.

    A connection that the kernel completes between the last accept and the close cannot be told from a refused one: that
    is a moment. Over many drains it is a few clients; any answer between the two makes it most of them.
    """
    results = [result for _ in range(15) for result in results_of_a_drain(serve)]
    assert "200" in results
    assert set(results) <= {"200", "503", "refused", "reset"}
    ends = [result for result in results if result in {"refused", "reset"}]
    assert len(ends) == 15 * LOADERS
    assert ends.count("reset") <= len(ends) * 0.15


def results_of_a_drain(serve: Callable[..., Running]) -> list[str]:
    """Return what clients that ask without pause get until they cannot connect."""
    here = serve(max_concurrent_requests=4, listen_backlog=128)
    results: list[str] = []

    def load() -> None:
        while True:
            try:
                client = socket.create_connection(here.server.server_address, timeout=PATIENCE)
            except OSError:
                results.append("refused")
                return
            with client:
                try:
                    client.sendall(GET)
                    raw = read_to_end(client)
                except OSError:
                    results.append("reset")
                    return
            results.append(str(parse(raw).status) if raw else "empty")

    threads = [threading.Thread(target=load) for _ in range(LOADERS)]
    for thread in threads:
        thread.start()
    until(lambda: results.count("200") > LOADERS)
    here.server.request_drain(SIGTERM)
    ended(here)
    here.server.server_close()
    for thread in threads:
        thread.join()
    return results


def test_stuck_handlers_are_abandoned(serve: Callable[..., Running]) -> None:
    """HS-9.2, HS-9.8, DRAIN-10: at drain_timeout what is stuck is abandoned, counted, and named in one line.

    A body that is still on its way by then is answered 503: nothing of it was handled.
    """
    here = serve(drain_timeout=0.5)
    stuck = here.connect(get("/wait?token=secret"))
    uploading = here.connect(post("/echo", 100) + b"part")
    reading = here.connect(get("/whole?9000000"), receive_buffer=4096)
    until(lambda: here.server.now_running == 1)
    here.wait_for_state("reading_body", 1)
    here.wait_for_state("writing", 1)
    here.server.request_drain(SIGTERM)
    assert 0.4 < ended(here) < 5.0
    here.server.server_close()
    assert here.core.abandoned == 2
    (line,) = here.log.about("abandoned")
    assert "2 request(s) did not end within drain_timeout (0.5 s)" in line
    assert "GET '/wait'" in line
    assert "GET '/whole'" in line
    assert "secret" not in line
    assert ending(reading)[1] == "reset"
    assert parse(read_to_end(uploading)).code == "shutting_down"
    here.server.gate.set()  # the abandoned handler ends some time, and what it held goes then
    ending(stuck)
    until(lambda: here.core.connections == 0)


def test_server_close_drains(serve: Callable[..., Running]) -> None:
    """HS-9.5: server_close() after a plain shutdown() lets what is in flight end, then closes the port."""
    here = serve(drain_timeout=30)
    client = here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    here.server.shutdown()
    threading.Timer(0.2, here.server.gate.set).start()
    here.server.server_close()
    assert parse(read_to_end(client)).body == b"waited"
    here.server.server_close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(here.server.server_address, timeout=1)


def test_server_close_without_shutdown(serve: Callable[..., Running]) -> None:
    """HS-9.5: closing a server whose loop runs in another thread ends the loop first."""
    here = serve()
    assert here.ask().status == 200
    here.server.server_close()
    ended(here)


class Stopping(Site):
    def at_shutdown(self) -> None:
        server: Any = self.server
        server.shutdown()
        self.answer(b"asked")

    def at_close(self) -> None:
        server: Any = self.server
        with pytest.raises(RuntimeError, match="not in a handler"):
            server.server_close()
        self.answer(b"refused")


def test_shutdown_from_a_handler(serve: Callable[..., Running]) -> None:
    """HS-9.4: a handler asks and returns; its own answer goes out."""
    here = serve(Stopping)
    client = here.connect(get("/shutdown"))
    assert parse(read_to_end(client)).body == b"asked"
    assert ended(here) < 5.0


def test_close_from_a_handler_is_refused(serve: Callable[..., Running]) -> None:
    """HS-9.5: a handler cannot wait for its own end; it is told so, and the server goes on."""
    here = serve(Stopping)
    assert here.ask(get("/close")).body == b"refused"
    assert here.ask().status == 200


def test_shutdown_from_service_actions(serve: Callable[..., Running]) -> None:
    """HS-9.4: the loop itself asks and returns."""
    here = serve()
    here.server.service_actions = here.server.shutdown
    assert ended(here) < 5.0
    del here.server.service_actions


def test_shutdown_from_another_thread_waits(serve: Callable[..., Running]) -> None:
    """HS-9.4: any other thread waits until the loop has ended; a second call returns at once."""
    here = serve()
    here.server.shutdown()
    assert here.server._front_thread is None
    here.server.shutdown()
    ended(here)


def test_shutdown_before_the_loop() -> None:
    """HS-9.4: a shutdown that comes before serve_forever() is not lost."""
    with BoundedHTTPServer(("127.0.0.1", 0), Site) as server:
        server.shutdown()
        server.serve_forever()
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        server.shutdown()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_close_before_and_during_the_start() -> None:
    """HS-9.5: whatever the order of start, shutdown and close, nothing hangs and no thread dies."""
    for pause in (0.0, 0.0001, 0.001, 0.01) * 10:
        server = BoundedHTTPServer(("127.0.0.1", 0), Site)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        time.sleep(pause)
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_never_started() -> None:
    """HS-9.5: a server that never served closes at once, twice, and serves no more."""
    server = BoundedHTTPServer(("127.0.0.1", 0), Site)
    server.server_close()
    server.server_close()
    server.serve_forever()
    with pytest.raises(RuntimeError, match="is closed"):
        server.handle_request()


def test_loop_runs_once(serve: Callable[..., Running]) -> None:
    """HS-9.4: a second loop on the same server is refused with one clear error."""
    here = serve()
    with pytest.raises(RuntimeError, match="running in another thread"):
        here.server.serve_forever()
    assert here.ask().status == 200


def test_loop_can_go_on_after_shutdown() -> None:
    """HS-10.2: serve_forever() after a shutdown() serves again, as the standard library's does."""
    with SiteServer(("127.0.0.1", 0), Site, limits=ServiceLimits(max_concurrent_requests=2)) as server:
        for _ in range(3):
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            with socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE) as client:
                client.sendall(GET)
                assert parse(read_to_end(client)).status == 200
            server.shutdown()
            thread.join(PATIENCE)


def test_begin_drain_goes_on_serving(serve: Callable[..., Running]) -> None:
    """HS-9.1: begin_drain() refuses what is new, from any thread, and leaves the loop running."""
    here = serve()
    here.server.begin_drain()
    for _ in range(3):
        assert here.ask().code == "shutting_down"
    assert here.thread.is_alive()
    assert here.server.usage().draining_total == 3


@pytest.mark.alone
def test_lingering_does_not_outlast_a_drain(serve: Callable[..., Running]) -> None:
    """HS-4.6, HS-9.2: a refused client that lingers holds a drain up for half a second at the most."""
    here = serve(max_body_bytes=10, drain_timeout=30)
    here.connect(post("/echo", 10**9))
    here.wait_for_state("lingering", 1)
    here.server.request_drain(SIGTERM)
    assert ended(here) < 1.2


def test_drain_under_hostile_clients(serve: Callable[..., Running]) -> None:
    """HS-9.2, DRAIN-10: silent clients, stalled uploads and unread responses end with the drain, within its time."""
    here = serve(drain_timeout=0.5, request_timeout=60, listen_backlog=64)
    for _ in range(10):
        here.connect()
        here.connect(post("/echo", 10_000) + b"x")
        here.connect(get("/whole?3000000"), receive_buffer=4096)
    here.wait_for_state("reading_body", 10)
    here.wait_for_state("writing", 10)
    here.server.request_drain(SIGTERM)
    assert ended(here) < 10.0
