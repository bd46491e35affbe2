"""Each limit at n and at n + 1, through a socket."""

from __future__ import annotations

import resource
import sys
from typing import TYPE_CHECKING

import pytest

from idkmesh.httpd import BoundedHTTPServer
from idkmesh.service_runtime import MAX_HEADER_LINE_BYTES, MAX_REQUEST_LINE_BYTES, ServiceLimits, SettingError
from tests.functional.support import GET, Site, closed_by_peer, get, parse, post, read_to_end, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.functional.support import Running


@pytest.mark.parametrize("cap", [1, 3, 16])
def test_cap_is_exact(serve: Callable[..., Running], cap: int) -> None:
    """HS-5.4, HS-5.2, HS-2.7, HS-12.2: N requests at a cap of N; the next one is a whole 503 and never a 429."""
    here = serve(max_concurrent_requests=cap)
    held = [here.connect(get("/wait")) for _ in range(cap)]
    until(lambda: here.server.now_running == cap)
    for _ in range(3):
        refused = here.ask(get("/", "X-Request-ID: caller-1"))
        assert (refused.status, refused.code) == (503, "overloaded")
        assert refused.fields["x-request-id"] == "caller-1"
    here.server.gate.set()
    assert [parse(read_to_end(client)).body for client in held] == [b"waited"] * cap
    assert here.ask().body == b"ok"
    assert here.server.most_running == cap
    usage = here.server.usage()
    assert (usage.admitted_total, usage.overloaded_total, usage.in_flight) == (cap + 1, 3, 0)


def test_a_second_request_at_once_is_not_refused_by_the_first(serve: Callable[..., Running]) -> None:
    """HS-5.5: the slot is back before the last byte of the response leaves."""
    here = serve(max_concurrent_requests=1)
    assert {here.ask().status for _ in range(300)} == {200}


def test_cap_is_judged_before_the_body(serve: Callable[..., Running]) -> None:
    """HS-5.2: a full server answers a head at once, before any byte of the body, and runs nothing."""
    here = serve(max_concurrent_requests=1)
    here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    with here.connect(post("/echo", 1000)) as client:
        assert parse(read_to_end(client)).code == "overloaded"
    assert here.server.calls == ["GET /wait"]


def test_slot_is_taken_when_the_body_is_complete(serve: Callable[..., Running]) -> None:
    """HS-5.3, HS-1.2: a body that is being read holds no slot; if the server is full when it ends, it is 503."""
    here = serve(max_concurrent_requests=1)
    slow = here.connect(post("/echo", 4) + b"12")
    here.wait_for_state("reading_body", 1)
    assert here.ask().status == 200
    here.connect(get("/wait"))
    until(lambda: here.server.now_running == 1)
    slow.sendall(b"34")
    assert parse(read_to_end(slow)).code == "overloaded"


def test_connections_at_the_limit(serve: Callable[..., Running]) -> None:
    """HS-8.1: with every connection in a worker nobody gives way, and the newcomer is closed."""
    here = serve(max_concurrent_requests=16, max_connections=32)
    held = [here.connect(get("/wait")) for _ in range(16)]
    until(lambda: here.server.now_running == 16)
    silent = [here.connect() for _ in range(16)]
    here.wait_for_state("reading_head", 16)
    assert not any(map(closed_by_peer, silent))
    assert here.ask().code == "overloaded"  # the oldest silent one gave way
    until(lambda: sum(map(closed_by_peer, silent)) == 1)
    assert closed_by_peer(silent[0])
    here.server.gate.set()
    assert {parse(read_to_end(client)).status for client in held} == {200}
    assert here.server.usage().evicted_total == 1


def test_newcomers_of_one_turn_give_way_to_each_other(serve: Callable[..., Running]) -> None:
    """HS-8.3: a burst of silent connections that arrives in one turn does not keep those after it out."""
    here = serve(max_concurrent_requests=2, max_connections=18, listen_backlog=128)
    with here.paused():
        silent = [here.connect() for _ in range(60)]
        asking = here.connect(GET)
    assert parse(read_to_end(asking)).status == 200
    until(lambda: sum(map(closed_by_peer, silent)) >= 60 - 18)
    assert here.server.usage().evicted_total >= 60 - 18


@pytest.mark.parametrize(("length", "status"), [(1000, 200), (1001, 413), (10**15, 413), (10**30, 413)])
def test_body_limit(serve: Callable[..., Running], length: int, status: int) -> None:
    """HS-6.2, HTTP-01: a declared length at the limit is read, one beyond it is 413 before any byte of the body."""
    here = serve(max_body_bytes=1000)
    body = b"b" * length if status == 200 else b""
    answer = here.ask(post("/echo", length) + body)
    assert answer.status == status
    if status == 413:
        assert answer.code == "payload_too_large"
        assert here.server.calls == []
    else:
        assert answer.body == body


def test_no_body_at_all(serve: Callable[..., Running]) -> None:
    """HS-6.2: a limit of 0 still serves requests without a body and with an empty one."""
    here = serve(max_body_bytes=0)
    assert here.ask().status == 200
    assert here.ask(post("/", 0)).status == 200
    assert here.ask(post("/", 1)).code == "payload_too_large"


def request_line(size: int) -> bytes:
    return b"GET /?" + b"q" * (size - len(b"GET /? HTTP/1.1\r\n")) + b" HTTP/1.1\r\nHost: h\r\n\r\n"


def field_line(size: int) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"v" * (size - len(b"X: \r\n")) + b"\r\n\r\n"


def field_count(count: int) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: v\r\n" * (count - 1) + b"\r\n"


def field_sum(size: int) -> bytes:
    first = b"Host: h\r\n" + b"X: " + b"v" * 40_000 + b"\r\n"
    return b"GET / HTTP/1.1\r\n" + first + b"Y: " + b"v" * (size - len(first) - len(b"Y: \r\n")) + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("build", "limit", "status", "code"),
    [
        pytest.param(request_line, MAX_REQUEST_LINE_BYTES, 414, "uri_too_long", id="request line"),
        pytest.param(field_line, MAX_HEADER_LINE_BYTES, 431, "headers_too_large", id="field line"),
        pytest.param(field_count, 99, 431, "headers_too_large", id="fields"),
        pytest.param(field_sum, 100_000, 431, "headers_too_large", id="sum"),
    ],
)
def test_head_limits(
    serve: Callable[..., Running], build: Callable[[int], bytes], limit: int, status: int, code: str
) -> None:
    """HS-2.5, HS-3.9, HTTP-14: at the bound it is served, one byte or field beyond it is 414 or 431."""
    here = serve(max_header_bytes=100_000)
    assert here.ask(build(limit)).status == 200
    refused = here.ask(build(limit + 1))
    assert (refused.status, refused.code) == (status, code)


def test_limits_in_force_are_those_published() -> None:
    """HS-2.4: the descriptor limit lowers max_connections, and the lowered one is what the server tells."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        with BoundedHTTPServer(("127.0.0.1", 0), Site) as server:
            assert server.limits.max_connections == 200 - 32 - 16
            assert server.limits.replace(max_connections=1000) == ServiceLimits()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_limits_without_a_descriptor_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-2.4: where the system sets no limit of descriptors, or knows none, max_connections stays as it is."""
    limits = ServiceLimits(max_connections=65_536)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with BoundedHTTPServer(("127.0.0.1", 0), Site, limits=limits) as server:
        assert server.limits == limits
    monkeypatch.setitem(sys.modules, "resource", None)
    with BoundedHTTPServer(("127.0.0.1", 0), Site, limits=limits) as server:
        assert server.limits == limits


def test_too_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-2.4, HS-2.3: a descriptor limit that leaves too little room is one clear error."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 64))
    with pytest.raises(SettingError, match=r"limit of open files leaves room for 16 connections"):
        BoundedHTTPServer(("127.0.0.1", 0), Site)


@pytest.mark.parametrize("allowed", [33, 20])
def test_no_descriptor_for_a_connection(
    allowed: int, serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HS-2.4: a server that could take no connection is none, serial or not; one that can take one serves."""
    serial = ServiceLimits(serial=True, max_concurrent_requests=1, max_connections=4)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (allowed, allowed))
    with pytest.raises(SettingError, match=r"limit of open files leaves room for 0 connections; raise it"):
        BoundedHTTPServer(("127.0.0.1", 0), Site, limits=serial)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (34, 34))
    here = serve(serial=True, max_concurrent_requests=1, max_connections=4)
    assert here.server.limits.max_connections == 1
    assert here.ask().status == 200


def test_backlog_is_set(serve: Callable[..., Running]) -> None:
    """HS-5.8, OVER-13: 64 clients at once, 20 times: all answered, none reset, and 64 wait in a backlog of 128."""
    here = serve(max_concurrent_requests=16, listen_backlog=128)
    for _ in range(20):
        clients = [here.connect() for _ in range(64)]
        for client in clients:
            client.sendall(GET)
        assert {parse(read_to_end(client)).status for client in clients} <= {200, 503}
        for client in clients:
            client.close()
