"""More than the server can do: requests, bytes, threads."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd.connection import FREE_BYTES
from idkmesh.httpd.crossing import QUIET_SECONDS
from idkmesh.httpd.responses import Response
from tests.functional.support import (
    GET,
    SiteServer,
    ending,
    get,
    parse,
    post,
    read_to_end,
    readable,
    resident_bytes,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.request_rules import Refusal, Request
    from tests.functional.support import Running


class Probed:
    """An application with a probe before the cap; the rest is the handler class's."""

    channel = None

    def __init__(self, server: Any, handlers: Any) -> None:
        self._server = server
        self._handlers = handlers

    def preempt(self, request: Request) -> Response | Refusal | None:
        if request.path == "/livez":
            return Response(200, body=b"ok", content_type="text/plain")
        if request.path == "/readyz":
            return Response(503 if self._server.limiter.draining else 200, body=b"{}")
        return None

    def judge(self, request: Request) -> Any:
        return self._handlers.judge(request)

    def streams(self, request: Request) -> bool:
        return False


class ProbedServer(SiteServer):
    def _make_application(self) -> Any:
        return Probed(self, super()._make_application())


@pytest.mark.alone
def test_probes_answer_at_the_cap(serve: Callable[..., Running]) -> None:
    """HS-2.6, HS-3.13, OVER-07: with every worker busy 50 of 50 probes answer within a second; 500 add no thread."""
    here = serve(server_class=ProbedServer, max_concurrent_requests=4, listen_backlog=128)
    for _ in range(4):
        here.connect(get("/wait"))
    until(lambda: here.server.now_running == 4)
    threads = threading.active_count()
    for path in ("/livez", "/readyz"):
        for _ in range(50):
            began = time.monotonic()
            assert here.ask(get(path)).status == 200
            assert time.monotonic() - began < 1.0
    for _ in range(5):
        crowd = [here.connect(get("/livez")) for _ in range(100)]
        assert {parse(read_to_end(client)).status for client in crowd} == {200}
    assert threading.active_count() == threads
    assert here.ask().code == "overloaded"


def test_probes_in_a_drain(serve: Callable[..., Running]) -> None:
    """HS-9.1: in a drain readiness says so, liveness holds, and the rest is 503 shutting_down."""
    here = serve(server_class=ProbedServer)
    here.server.begin_drain()
    assert here.ask(get("/livez")).status == 200
    assert here.ask(get("/readyz")).status == 503
    assert here.ask().code == "shutting_down"


def test_timeline_of_a_drain(serve: Callable[..., Running]) -> None:
    """HS-9.1, HS-9.3, DRAIN-07: while a request is in flight readiness is 503 at once and liveness 200."""
    here = serve(server_class=ProbedServer, drain_timeout=30)
    held = here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    here.server.request_drain(15)
    began = time.monotonic()
    until(lambda: here.ask(get("/readyz")).status == 503)
    assert time.monotonic() - began < 5.0, "long before the drain ends"
    for _ in range(20):
        assert here.ask(get("/livez")).status == 200
        assert here.ask(get("/readyz")).status == 503
        assert here.ask().code == "shutting_down"
        time.sleep(0.01)
    here.server.gate.set()
    assert parse(read_to_end(held)).status == 200
    here.thread.join(30)
    assert not here.thread.is_alive()


def test_overload_of_slow_handlers(serve: Callable[..., Running]) -> None:
    """HS-5.2, HS-5.6: of forty clients on two workers each gets a whole answer, 200 or 503; nobody is queued."""
    here = serve(max_concurrent_requests=2, listen_backlog=128)
    clients = [here.connect(get("/wait")) for _ in range(40)]
    until(lambda: sum(map(readable, clients)) == 38)
    refused = [client for client in clients if readable(client)]
    assert {parse(read_to_end(client)).code for client in refused} == {"overloaded"}
    here.server.gate.set()
    assert [parse(read_to_end(client)).status for client in clients if client not in refused] == [200, 200]
    assert here.server.usage().overloaded_total == 38


def test_crossing_of_the_cap_is_two_lines(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-13.2: hundreds of refusals are one log line when they begin and one when they are over."""
    monkeypatch.setattr("idkmesh.httpd.crossing.QUIET_SECONDS", 0.2)
    assert QUIET_SECONDS > 1
    here = serve(max_concurrent_requests=1)
    here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    for _ in range(200):
        assert here.ask().status == 503
    until(lambda: len(here.log.lines) == 2)
    assert here.log.lines[0] == "max_concurrent_requests (1) is reached: requests beyond it are answered 503"
    assert here.log.lines[1].startswith("max_concurrent_requests is no longer reached: 200 refused within ")


def test_thread_that_cannot_start(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-5.7, OVER-10: 20 requests without a thread are 503, the slots come back, and later the whole cap works."""
    here = serve(max_concurrent_requests=3)
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if "idkmesh-httpd" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for _ in range(20):
            answer = here.ask(post("/echo", 4) + b"body")
            assert (answer.status, answer.code) == (503, "overloaded")
        assert here.server.usage().in_flight == 0
    held = [here.connect(get("/wait")) for _ in range(3)]
    until(lambda: here.server.now_running == 3)
    assert here.ask().status == 503
    here.server.gate.set()
    assert {parse(read_to_end(client)).status for client in held} == {200}
    until(lambda: here.log.about("cannot start a worker"))
    assert len(here.log.about("cannot start a worker")) == 1


def test_budget_of_bytes(serve: Callable[..., Running]) -> None:
    """HS-6.3: 50 bodies of 5 MB under a budget of 1 MiB: 503 to who made least progress, and memory stays bounded."""
    here = serve(max_buffered_bytes=1024 * 1024, max_body_bytes=8 * 1024 * 1024, listen_backlog=64, request_timeout=2.0)
    before = resident_bytes()
    clients = [here.connect(post("/echo", 5_000_000)) for _ in range(50)]
    here.wait_for_state("reading_body", 50)
    highest = 0
    for client in clients:
        client.sendall(b"b" * 8 * 65_536)
        highest = max(highest, here.core.budget.used)
    assert highest <= 1024 * 1024
    assert resident_bytes() - before < 24 * 1024 * 1024
    until(lambda: here.server.usage().overloaded_total >= 48)
    for client in clients:
        if not readable(client):  # one of the two that are left: it does not fit either
            client.sendall(b"b" * (5_000_000 - 8 * 65_536))
        raw, end = ending(client)
        assert (parse(raw).code, end) == ("overloaded", "eof")
    until(lambda: here.core.budget.used == 0)
    until(lambda: here.log.about("max_buffered_bytes (1048576) is reached"))
    assert len(here.log.about("max_buffered_bytes (1048576) is reached")) == 1


def test_least_progress_goes_first(serve: Callable[..., Running]) -> None:
    """HS-6.3: room is made by the body whose last byte is oldest; small bodies always have their 8 KiB."""
    here = serve(max_buffered_bytes=1024 * 1024, max_body_bytes=8 * 1024 * 1024)
    old = here.connect(post("/echo", 1_000_000) + b"o" * 600_000)
    until(lambda: here.core.budget.used > 500_000)
    new = here.connect(post("/echo", 700_000) + b"n" * 600_000)
    assert parse(read_to_end(old)).code == "overloaded"
    assert here.ask(post("/echo", 4000) + b"s" * 4000).status == 200
    new.sendall(b"n" * 100_000)
    assert parse(read_to_end(new)).body == b"n" * 700_000


def test_heads_are_on_the_budget(serve: Callable[..., Running]) -> None:
    """HS-6.3, HTTP-14: 50 heads of 200 KB that never end stay within the budget, each refusal whole."""
    here = serve(max_buffered_bytes=1024 * 1024, listen_backlog=64, request_timeout=1.0)
    head = b"GET / HTTP/1.1\r\nHost: h\r\n" + b"".join(b"X%d: %s\r\n" % (at, b"v" * 50_000) for at in range(4))
    before = resident_bytes()
    clients = [here.connect(head) for _ in range(50)]
    codes = [parse(raw).code if raw else "" for raw, _ in map(ending, clients)]
    assert codes.count("overloaded") > 40
    assert set(codes) <= {"overloaded", ""}  # the rest had their time, and end without a response
    assert resident_bytes() - before < 24 * 1024 * 1024


def test_heads_stay_on_the_budget_while_bodies_are_read(serve: Callable[..., Running]) -> None:
    """HS-6.3: a head that is kept while its body is awaited is charged too, and given back with its answer."""
    here = serve(max_buffered_bytes=1024 * 1024)
    head = post("/echo", 10, *(f"X{at}: {'v' * 50_000}" for at in range(4)))
    clients = [here.connect(head + b"1") for _ in range(8)]
    until(lambda: sum(map(readable, clients)) == 3)
    refused = [client for client in clients if readable(client)]
    here.wait_for_state("reading_body", 5)  # the front may have been kept from reading the last of a head
    assert here.core.budget.used == 5 * (len(head) + 1 - FREE_BYTES)
    assert {parse(read_to_end(client)).code for client in refused} == {"overloaded"}
    assert here.server.usage().overloaded_total == 3
    for client in clients:
        if client not in refused:
            client.sendall(b"234567890")
            assert parse(read_to_end(client)).body == b"1234567890"
    until(lambda: here.core.budget.used == 0)


def test_heads_are_on_the_budget_while_requests_are_handled(serve: Callable[..., Running]) -> None:
    """HS-6.3: eight heads of 60 KB in workers' hands are charged, the 8 KiB of each left out, and then given back."""
    here = serve(max_concurrent_requests=8)
    head = get("/wait", f"X: {'v' * 60_000}")
    clients = [here.connect(head) for _ in range(8)]
    until(lambda: here.server.now_running == 8)
    assert here.core.budget.used == 8 * (len(head) - FREE_BYTES)
    here.server.gate.set()
    assert {parse(read_to_end(client)).body for client in clients} == {b"waited"}
    until(lambda: here.core.budget.used == 0)


def test_heads_of_handled_requests_leave_no_room(serve: Callable[..., Running]) -> None:
    """HS-6.3: where they have filled the budget a further large head is 503, and a small request is served."""
    here = serve(max_buffered_bytes=1024 * 1024, max_concurrent_requests=64, listen_backlog=64)
    head = get("/wait", f"X: {'v' * 60_000}")
    room = 1024 * 1024 // (len(head) - FREE_BYTES)
    clients = [here.connect(head) for _ in range(room)]
    until(lambda: here.server.now_running == room)
    for _ in range(3):
        assert here.ask(head).code == "overloaded"
        assert here.ask().status == 200
    here.server.gate.set()
    assert {parse(read_to_end(client)).body for client in clients} == {b"waited"}


def test_responses_are_on_the_budget(serve: Callable[..., Running]) -> None:
    """HS-6.3, HS-7.5: unsent responses fill the budget, then files: memory stays bounded, every byte arrives."""
    here = serve(max_buffered_bytes=1024 * 1024, max_concurrent_requests=2)
    clients = []
    for _ in range(6):
        clients.append(here.connect(get("/large?8000000"), receive_buffer=65_536))
        until(lambda: here.held("writing") == len(clients))
        assert here.core.budget.used <= 1024 * 1024
    assert [len(parse(read_to_end(client)).body) for client in clients] == [8_000_000] * 6


def test_front_goes_on_beside_a_flood_of_refusals(serve: Callable[..., Running]) -> None:
    """HS-1.2: refusals cost no worker: the one that is busy ends undisturbed."""
    here = serve(max_concurrent_requests=1, listen_backlog=128)
    held = here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    crowd = [here.connect(GET) for _ in range(100)]
    assert {parse(read_to_end(client)).status for client in crowd} == {503}
    here.server.gate.set()
    assert parse(read_to_end(held)).status == 200
