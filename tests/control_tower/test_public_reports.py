"""What users of such software have reported of health probes, over sockets: each case with its right value."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from idkmesh.health.model import Command, File, Http, Python, Refresh, Tcp
from idkmesh.service_runtime import ServiceLimits
from scripts.bench.benchlib.processes import free_port
from tests.control_tower.conftest import until
from tests.control_tower.test_health import matrix, readiness, row
from tests.functional.health_support import matrix_text, probed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

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
