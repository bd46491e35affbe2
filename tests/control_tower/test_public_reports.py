"""What users of such software have reported of requests and health probes, over sockets: each with its right value."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.control_tower import inspection_routes
from idkmesh.health.model import Command, File, Http, Python, Refresh, Tcp
from idkmesh.httpd.inspection import inspect_request
from idkmesh.service_runtime import ServiceLimits
from scripts.bench.benchlib.processes import free_port
from tests.control_tower.conftest import PATIENCE, TOKEN, Tower, parse, until
from tests.control_tower.test_health import matrix, readiness, row
from tests.functional.health_support import matrix_text, probed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from idkmesh.health.model import ProbeSpec

SECRET = "a-password-of-the-test-suite"


class Silent:
    """Accepts and never answers, or hangs up on the first ``hasty`` that come; counts who came."""

    def __init__(self, listener: socket.socket, hasty: int) -> None:
        self._hasty = hasty
        self.port: int = listener.getsockname()[1]
        self.came: list[socket.socket] = []
        self._listener = listener

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.came.append(self._listener.accept()[0])
                if len(self.came) <= self._hasty:
                    self.came[-1].close()

    def hang_up(self) -> None:
        for connection in self.came:
            connection.close()


@contextlib.contextmanager
def silent(hasty: int = 0) -> Iterator[Silent]:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        dependency = Silent(listener, hasty)
        thread = threading.Thread(target=dependency.accept)
        thread.start()
        try:
            yield dependency
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(30)
            dependency.hang_up()


def test_liveness_opens_nothing_to_a_dependency(start: Any) -> None:
    """PROBE-01, HL-1.1, HL-1.5: with every critical dependency down or hanging liveness is 200, and asks nobody."""
    with silent() as dependency:
        rows = [
            row("hung", Http(url=f"http://127.0.0.1:{dependency.port}/"), timeout_ms=100, interval_ms=60_000),
            row("down", Tcp(host="127.0.0.1", port=free_port()), interval_ms=60_000, cache_ms=120_000),
        ]
        with start(matrix=matrix(*rows)) as tower:
            until(lambda: readiness(tower) == (503, "not_ready", ["hung", "down"], []))
            for _ in range(100):
                for path in ("/healthz", "/livez"):
                    assert (tower.ask(f"GET {path}").status, tower.ask(f"GET {path}").body) == (200, b"ok")
            assert readiness(tower)[0] == 503
            # The one run of the probe itself.
            assert len(dependency.came) == 1


def test_two_hundred_ask_while_a_dependency_is_slow(start: Any) -> None:
    """PROBE-05, HL-4.6: all are answered before it is, and it has seen one connection more."""
    with silent(hasty=1) as dependency:
        url = f"http://127.0.0.1:{dependency.port}/"
        asked = row("slow", Http(url=url), refresh=Refresh.REQUEST, timeout_ms=20_000, interval_ms=1, cache_ms=1)
        # Two hundred at once are more than the default backlog holds; whom the kernel turns away heard no server.
        limits = ServiceLimits(listen_backlog=256)
        with start(limits=limits, matrix=matrix(asked, row("file", File(path=__file__)))) as tower:
            until(lambda: readiness(tower)[0] == 503 and len(dependency.came) == 2)
            answers: list[int] = []
            threads = [threading.Thread(target=lambda: answers.append(readiness(tower)[0])) for _ in range(200)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            assert answers == [503] * 200
            assert len(dependency.came) == 2
            assert tower.server.health.snapshot().records["slow"].running
            dependency.hang_up()


def test_every_outcome_beside_every_weight(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROBE-13, HL-1.2, HL-4.2, HL-4.12: critical and not ok is 503, noncritical a warning; no secret in any body."""
    monkeypatch.setenv("PROBE_PASSWORD", SECRET)
    with silent() as dependency:
        outcomes: dict[str, ProbeSpec] = {
            "ok": File(path=__file__),
            "failed": Tcp(host="127.0.0.1", port=free_port()),
            "timeout": Http(
                url=f"http://127.0.0.1:{dependency.port}/{SECRET}", headers_from_env={"Authorization": "PROBE_PASSWORD"}
            ),
            "cannot": Command(argv=(f"no-such-program-{SECRET}", SECRET)),
            "raised": Python(target="json:loads"),
        }
        times = {"timeout_ms": 100, "interval_ms": 60_000, "cache_ms": 120_000}
        for name, probe in outcomes.items():
            for critical in (True, False):
                with start(matrix=matrix(row(name, probe, critical=critical, **times))) as tower:
                    names = [] if name == "ok" else [name]
                    expected = (200, "ready", [], names) if not critical or not names else (503, "not_ready", names, [])
                    # Started is when each has run.
                    assert readiness(tower) == expected
                    bodies = [tower.ask(f"GET {path}").body for path in ("/readyz", "/startupz", "/livez")]
                    bodies += [tower.api(f"GET {path}").body for path in ("/api/v1/dependencies", "/metrics")]
                    assert not any(SECRET.encode() in body for body in bodies)


def test_a_probe_is_no_connection_that_is_kept(start: Any) -> None:
    """PROBE-14, HS-7.1: each answer closes, whatever a client asks for, so that none is lost to an idle time."""
    with start() as tower:
        for path in ("/livez", "/readyz", "/startupz"):
            head = f"GET {path} HTTP/1.1\r\nHost: pod\r\nConnection: keep-alive\r\n\r\n"
            for _ in range(30):
                answer = tower.send(head.encode() * 2)
                assert b" 200 " in answer.splitlines()[0]
                assert b"\r\nConnection: close\r\n" in answer
                # The second one is not answered: a client sees that it has to ask anew.
                assert answer.count(b"HTTP/1.") == 1


def test_probes_that_are_well_are_no_lines(tmp_path: Path) -> None:
    """PROBE-11, HL-5.4, HS-13.3: a thousand good probes, some bad ones, and a recovery: each change is told once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (tmp_path / "m.yaml").write_text(matrix_text(db=port), encoding="utf-8")
        store = f"--store={tmp_path / 'e.sqlite3'}"
        flags = ("--port=0", store, "--matrix=m.yaml", "--probe-listen=127.0.0.1:0")
        with probed("control-tower", *flags, cwd=tmp_path, IDKMESH_HTTP_ACCESS_LOG="1") as tower:
            tower.wait_for("/readyz", 200)
            time.sleep(0.2)  # what was told of the start is written
            before = len(tower.errors)
            for _ in range(500):
                assert tower.get("/readyz")[0] == tower.get("/livez")[0] == 200
            assert tower.errors[before:] == []
            server.close()
            tower.wait_for("/readyz", 503)
            for _ in range(3):
                assert tower.get("/readyz")[0] == 503
            with socket.create_server(("127.0.0.1", port)):
                tower.wait_for("/readyz", 200)
                tower.wait_for_line("ready again")
                assert tower.get("/readyz")[0] == 200
                assert tower.end() == 0
        told = tower.errors[before:]
        lines = [line.rstrip("\n") for line in told if not line.startswith("{")]
        assert [line for line in lines if "db" in line or "ready" in line] == [
            "dependency db (critical) is failing: refused",
            "not ready: db",
            "dependency db is ok again",
            "ready again",
        ]
        probes = [json.loads(line) for line in told if line.startswith("{")]
        assert [each["status"] for each in probes if each["path"] == "/readyz"] == [503, 200]


# --- requests that are refused early ---------------------------------------------------------------------------------

INSPECT = "POST /api/v1/inspect/http-request"
WITH_TOKEN = f"Authorization: Bearer {TOKEN}"
EARLY = [
    ("POST /no-such", (WITH_TOKEN,), None, 404),
    ("POST /api/v1/status", (WITH_TOKEN,), None, 405),
    (INSPECT, ("Content-Type: message/http",), None, 401),
    (INSPECT, (WITH_TOKEN, "Content-Type: message/http"), "evil.example", 403),
    (INSPECT, (WITH_TOKEN, "Content-Type: text/plain"), None, 415),
]
"""A request that is refused before its body is read: line, fields, another Host, status."""


def head_of(tower: Tower, line: str, fields: tuple[str, ...], host: str | None, length: int) -> bytes:
    lines = [f"{line} HTTP/1.1", f"Host: {host or tower.host}", *fields, f"Content-Length: {length}", "", ""]
    return "\r\n".join(lines).encode()


@pytest.mark.parametrize(("line", "fields", "host", "status"), EARLY)
def test_a_body_that_is_a_request_is_never_one(
    tower: Tower, line: str, fields: tuple[str, ...], host: str | None, status: int
) -> None:
    """HTTP-04, HS-7.1: behind an early answer the body stays a body: one status line comes back, and the end."""
    smuggled = f"GET /api/v1/status HTTP/1.1\r\nHost: {tower.host}\r\n{WITH_TOKEN}\r\n\r\n".encode()
    data = tower.send(head_of(tower, line, fields, host, len(smuggled)) + smuggled)
    assert parse(data).status == status
    assert data.count(b"HTTP/1.") == 1


@pytest.mark.parametrize(("line", "fields", "host", "status"), [*EARLY, (INSPECT, (WITH_TOKEN,), None, 413)])
def test_nobody_is_asked_for_a_body_that_is_refused(
    tower: Tower, line: str, fields: tuple[str, ...], host: str | None, status: int
) -> None:
    """HTTP-05, HS-6.4: who waits for permission has the refusal at once, without a 100 and without sending anything."""
    length = 10**9 if status == 413 else 10
    if status == 413:
        fields = (*fields, "Content-Type: message/http")
    with socket.create_connection(tower.address[:2], timeout=PATIENCE) as client:
        client.sendall(head_of(tower, line, (*fields, "Expect: 100-continue"), host, length))
        data = b"".join(iter(lambda: client.recv(65536), b""))
    assert parse(data).status == status
    assert b"100 Continue" not in data


@pytest.mark.parametrize(
    ("target", "status"), [("http://evil.example/", 403), ("http://{host}/", 200), ("/?next=//e", 200)]
)
def test_a_target_is_judged_by_its_own_authority(tower: Tower, target: str, status: int) -> None:
    """HTTP-08, HTTP-11, CT-2.2: a loopback Host beside another site's address helps nobody; nothing is redirected."""
    answer = tower.ask(f"GET {target.format(host=tower.host)}")
    assert answer.status == status
    assert "location" not in answer.fields


def test_probes_while_work_and_streams_are_full(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """OVER-07, HS-2.6: with every place for work and every stream taken, fifty of fifty probes are answered."""
    begun, leave = threading.Event(), threading.Event()

    def hold(*arguments: Any) -> Any:
        begun.set()
        leave.wait(PATIENCE)
        return inspect_request(*arguments)

    monkeypatch.setattr(inspection_routes, "inspect_request", hold)
    limits = ServiceLimits(max_concurrent_requests=1, max_sse_clients=1)
    with start(limits=limits) as tower, contextlib.ExitStack() as held:
        held.callback(leave.set)
        head = head_of(tower, INSPECT, (WITH_TOKEN, "Content-Type: message/http"), None, 1)
        stream = f"GET /api/v1/events/stream HTTP/1.1\r\nHost: {tower.host}\r\n{WITH_TOKEN}\r\n\r\n".encode()
        work, reader = (held.enter_context(socket.create_connection(tower.address[:2], PATIENCE)) for _ in range(2))
        work.sendall(head + b"G")
        assert begun.wait(PATIENCE)
        reader.sendall(stream)
        assert b" 200 " in reader.recv(65536)
        assert tower.api("GET /api/v1/status").code == "overloaded"
        assert tower.api("GET /api/v1/events/stream").code == "too_many_streams"
        for _ in range(50):
            assert tower.ask("GET /healthz").status == 200
            assert tower.ask("GET /readyz").status == 200
