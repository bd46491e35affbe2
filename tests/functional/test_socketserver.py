"""What the standard library's server classes promise, on this one."""

from __future__ import annotations

import http.client
import socket
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd import BoundedHTTPServer
from idkmesh.service_runtime import ServiceLimits
from tests.functional.support import (
    GET,
    PATIENCE,
    Site,
    SiteServer,
    closed_by_peer,
    get,
    parse,
    post,
    read_to_end,
    running,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.functional.support import Running


def ask(address: Any, data: bytes = GET) -> bytes:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if len(address) == 4 else socket.AF_INET
    with socket.socket(family) as client:
        client.settimeout(PATIENCE)
        client.connect(address)
        client.sendall(data)
        return read_to_end(client)


def address_of(server: Any) -> tuple[str, int]:
    host, port = server.server_address
    return host, port


def in_background(function: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


class Counting(SiteServer):
    timeouts = 0

    def handle_timeout(self) -> None:
        self.timeouts += 1


def test_handle_request_serves_one_connection() -> None:
    """HS-10.2: handle_request() serves one connection to its end and no second one; the next call serves the next."""
    with Counting(("127.0.0.1", 0), Site) as server:
        answers: list[bytes] = []
        clients = [in_background(lambda: answers.append(ask(server.server_address))) for _ in range(3)]
        time.sleep(0.1)  # all three wait in the backlog
        for number in range(3):
            server.handle_request()
            assert len(server.calls) == number + 1
        for client in clients:
            client.join(PATIENCE)
        assert [parse(answer).status for answer in answers] == [200] * 3


def test_handle_request_times_out() -> None:
    """HS-10.2: handle_timeout() is called when nobody comes within `timeout`."""
    with Counting(("127.0.0.1", 0), Site) as server:
        server.timeout = 0.1
        began = time.monotonic()
        server.handle_request()
        assert server.timeouts == 1
        assert 0.09 <= time.monotonic() - began < 5.0


def test_handle_request_after_serving() -> None:
    """HS-10.2: connections that serve_forever() has served do not count for handle_request()."""
    with Counting(("127.0.0.1", 0), Site) as server:
        loop = in_background(server.serve_forever)
        for _ in range(3):
            assert ask(server.server_address)
        server.shutdown()
        loop.join(PATIENCE)
        server.timeout = 0.1
        server.handle_request()
        assert server.timeouts == 1


def when_running(server: Counting, step: Callable[[], Any], accepted: int = 0) -> threading.Thread:
    """Do `step` in another thread once this one's loop runs and has accepted so many connections."""

    def wait_and_do() -> None:
        until(lambda: server._front_thread is not None and server._core.accepted == accepted)
        step()

    return in_background(wait_and_do)


def test_handle_request_ends_with_shutdown() -> None:
    """HS-9.4, HS-10.2: shutdown() in another thread ends handle_request() while nobody comes; the next one serves."""
    with Counting(("127.0.0.1", 0), Site) as server:
        for _ in range(3):
            stopper = when_running(server, server.shutdown)
            server.handle_request()
            stopper.join(PATIENCE)
            assert not stopper.is_alive()
        assert server.timeouts == 0
        assert not server._core.attentive
        client = in_background(lambda: ask(server.server_address))
        server.handle_request()
        client.join(PATIENCE)
        assert server.calls == ["GET /"]


def test_shutdown_leaves_the_connection_of_handle_request_open() -> None:
    """HS-9.4: shutdown() ends handle_request() though its client is silent; that one is served by the next loop."""
    with Counting(("127.0.0.1", 0), Site) as server, socket.create_connection(address_of(server)) as client:
        client.settimeout(PATIENCE)
        stopper = when_running(server, server.shutdown, accepted=1)
        server.handle_request()
        stopper.join(PATIENCE)
        assert server._core.connections == 1
        loop = in_background(server.serve_forever)
        client.sendall(GET)
        assert parse(read_to_end(client)).status == 200
        server.shutdown()
        loop.join(PATIENCE)


def test_handle_request_ends_with_server_close() -> None:
    """HS-9.5, HS-10.2: server_close() in another thread ends handle_request(); a further one is told that."""
    with Counting(("127.0.0.1", 0), Site) as server:
        closer = when_running(server, server.server_close)
        server.handle_request()
        closer.join(PATIENCE)
        assert not closer.is_alive()
        assert server.timeouts == 0
        with pytest.raises(RuntimeError, match="the server is closed"):
            server.handle_request()


def test_handle_request_does_not_wait_for_older_connections() -> None:
    """HS-10.2: a silent connection that is there already keeps handle_request() from neither serving nor ending."""
    with (
        Counting(("127.0.0.1", 0), Site) as server,
        socket.create_connection(address_of(server)) as silent,
        socket.create_connection(address_of(server)) as client,
    ):
        loop = when_running(server, server.shutdown, accepted=1)
        server.handle_request()
        loop.join(PATIENCE)
        client.settimeout(PATIENCE)
        client.sendall(GET)
        server.handle_request()
        assert parse(read_to_end(client)).status == 200
        assert server._core.connections == 1
        assert not closed_by_peer(silent)
        assert not server._core.attentive


def test_handle_request_leaves_no_attention_behind() -> None:
    """HS-10.2: a handle_timeout() that raises ends handle_request(), and later loops are woken no more than before."""

    class Raising(SiteServer):
        def handle_timeout(self) -> None:
            raise LookupError("nobody came")

    with Raising(("127.0.0.1", 0), Site) as server:
        server.timeout = 0.01
        with pytest.raises(LookupError, match="nobody came"):
            server.handle_request()
        assert not server._core.attentive
        assert server._front_thread is None


def test_no_loop_after_a_drain() -> None:
    """HS-9.3: a drain has closed the listener: a further loop is refused with a reason, and closing still works."""
    with Counting(("127.0.0.1", 0), Site) as server:
        server.request_drain(15)
        server.serve_forever()
        with pytest.raises(RuntimeError, match="the server has drained: make a new one"):
            server.serve_forever()
        with pytest.raises(RuntimeError, match="the server is closed"):
            server.handle_request()
        assert server._front_thread is None


def test_context_manager_closes() -> None:
    """HS-10.2: leaving the block closes the port."""
    with BoundedHTTPServer(("127.0.0.1", 0), Site) as server:
        address = server.server_address
        assert server.fileno() == server.socket.fileno()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=1)  # type: ignore[arg-type]


def test_unix_socket(tmp_path: Path) -> None:
    """HS-10.2: a server on AF_UNIX serves; its clients have no address, and handlers that log one still work."""

    class UnixServer(SiteServer):
        address_family = socket.AF_UNIX

    class Logging(Site):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
            server: Any = self.server
            server.calls.append(self.address_string())

    path = str(tmp_path / "s")
    with running(Logging, server_class=UnixServer, address=path) as here:
        assert parse(ask(path)).status == 200
        assert parse(ask(path, post("/echo", 4) + b"body")).body == b"body"
        assert parse(ask(path, b"GET / HTTP/1.1\r\n\r\n")).status == 400
        assert "" in here.server.calls


@pytest.mark.skipif(not socket.has_ipv6, reason="this interpreter has no IPv6")
def test_ipv6() -> None:
    """HS-10.2: a server on AF_INET6 serves, and tells its address."""

    class V6Server(SiteServer):
        address_family = socket.AF_INET6

    with running(Site, server_class=V6Server, address=("::1", 0)) as here:
        assert parse(ask(here.server.server_address)).status == 200
        assert here.server.server_name == "::1"
        assert here.server.server_port == here.server.server_address[1]


class Choosy(SiteServer):
    verdict: Any = True

    def verify_request(self, request: Any, client_address: Any) -> bool:
        assert request.fileno() >= 0
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return bool(self.verdict)


def test_verify_request(serve: Callable[..., Running]) -> None:
    """HS-10.2: a connection that verify_request() denies is closed; what it raises is told, and counts as no."""
    here = serve(server_class=Choosy)
    assert here.ask().status == 200
    for verdict in (False, ValueError("no")):
        here.server.verdict = verdict
        client = here.connect()
        assert read_to_end(client) == b""
    here.server.verdict = True
    assert here.ask().status == 200
    until(lambda: len(here.log.about("ValueError: no")) == 1)


@pytest.mark.parametrize(
    "step", ["get_request", "process_request", "process_request_thread", "shutdown_request", "close_request"]
)
def test_override_of_a_replaced_step_is_refused(step: str) -> None:
    """HS-10.2: a step that this server has not is refused at construction, with one clear error."""
    cls = type("Own", (BoundedHTTPServer,), {step: lambda self, *arguments: None})
    with pytest.raises(TypeError, match=f"Own overrides {step}"):
        cls(("127.0.0.1", 0), Site)


def test_other_steps_can_be_overridden() -> None:
    """HS-10.2: server_bind, server_activate, finish_request, service_actions and server_close are called."""
    called: list[str] = []

    class Own(BoundedHTTPServer):
        def server_bind(self) -> None:
            called.append("server_bind")
            super().server_bind()

        def server_activate(self) -> None:
            called.append("server_activate")
            super().server_activate()

        def service_actions(self) -> None:
            called.append("service_actions")

        def finish_request(self, request: Any, client_address: Any) -> None:
            called.append("finish_request")
            super().finish_request(request, client_address)

        def server_close(self) -> None:
            called.append("server_close")
            super().server_close()

    class Plain(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
            """Say nothing."""

    with Own(("127.0.0.1", 0), Plain) as server:
        loop = in_background(server.serve_forever)
        assert ask(server.server_address).startswith(b"HTTP/1.0 204")
        server.shutdown()
        loop.join(PATIENCE)
    for step in ("server_bind", "server_activate", "service_actions", "finish_request", "server_close"):
        assert step in called


def test_bind_later() -> None:
    """HS-10.2: bind_and_activate=False leaves both steps to the caller."""
    server = SiteServer(("127.0.0.1", 0), Site, False)
    server.server_bind()
    server.server_activate()
    with server:
        loop = in_background(server.serve_forever)
        assert parse(ask(server.server_address)).status == 200
        server.shutdown()
        loop.join(PATIENCE)


def test_class_is_what_programs_expect() -> None:
    """HS-1.1: a subclass of ThreadingHTTPServer, and a class's own request_queue_size is its backlog."""
    assert issubclass(BoundedHTTPServer, ThreadingHTTPServer)
    assert issubclass(BoundedHTTPServer, socketserver.BaseServer)

    class Deep(BoundedHTTPServer):
        request_queue_size = 77

    with Deep(("127.0.0.1", 0), Site) as deep:
        assert deep.limits.listen_backlog == 77
    with BoundedHTTPServer(("127.0.0.1", 0), Site) as server:
        assert server.limits == ServiceLimits()
        assert server.request_queue_size == 16


def test_serial_profile(serve: Callable[..., Running]) -> None:
    """HS-2.8: one connection at a time, no worker; handlers run in the front, others wait in the backlog."""
    here = serve(serial=True, max_connections=1)
    threads = threading.active_count()
    first = here.connect(GET[:9])
    here.wait_for_state("reading_head", 1)
    second = here.connect(GET)
    time.sleep(0.05)
    assert here.core.connections == 1
    first.sendall(GET[9:])
    assert parse(read_to_end(first)).status == 200
    assert parse(read_to_end(second)).status == 200
    assert here.ask(get("/large?300000")).status == 200
    assert here.ask(post("/echo", 4) + b"body").body == b"body"
    assert threading.active_count() == threads
    here.server.shutdown()
    here.server.server_close()


def test_serial_profile_in_the_main_thread() -> None:
    """HS-2.8, HS-9.5: a serial server that has run a handler in this very thread can be closed by it."""
    with SiteServer(("127.0.0.1", 0), Site, limits=ServiceLimits(serial=True)) as server:
        answers: list[bytes] = []
        client = in_background(lambda: answers.append(ask(server.server_address)))
        server.handle_request()
        client.join(PATIENCE)
        assert server.usage().admitted_total == 1
    assert parse(answers[0]).status == 200
    assert server.fileno() == -1


def test_serial_profile_survives_failing_handlers(serve: Callable[..., Running]) -> None:
    """HS-2.8, HS-7.6: an exception, sys.exit() included, is a 500 in the front too."""

    class Exits(Site):
        def at_exit(self) -> None:
            raise SystemExit

    here = serve(Exits, serial=True)
    for _ in range(3):
        assert here.ask(get("/exit")).status == 500
    assert here.ask().status == 200


def test_standard_client(serve: Callable[..., Running]) -> None:
    """HS-7.1: http.client, which offers keep-alive, sees that there is none and connects anew by itself."""
    here = serve()
    connection = http.client.HTTPConnection("127.0.0.1", here.server.server_port, timeout=PATIENCE)
    for _ in range(3):
        connection.request("POST", "/echo", body=b"body")
        response = connection.getresponse()
        assert response.read() == b"body"
        assert response.getheader("Connection") == "close"
    connection.close()


def test_shutdown_by_a_handlers_thread_while_the_server_closes() -> None:
    """HS-9.4: who waits for the loop's end does not wait for the drain after it, which may wait for him."""

    class Asking(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asking = in_background(self.server.shutdown)
            asking.join(PATIENCE)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
            pass

    for _ in range(5):
        answers: list[bytes] = []
        with BoundedHTTPServer(("127.0.0.1", 0), Asking, limits=ServiceLimits(drain_timeout=30)) as server:
            address = server.server_address
            client = in_background(lambda address=address, answers=answers: answers.append(ask(address)))  # type: ignore[misc]
            began = time.monotonic()
            server.serve_forever()
        assert time.monotonic() - began < PATIENCE / 2
        client.join(PATIENCE)
        assert parse(answers[0]).status == 200
