"""Whole rehearsals: a real service, real PostgreSQL and Redis, and the command as people type it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from idkmesh.rehearsal.faults import How
from idkmesh.rehearsal.proxy import Proxies
from idkmesh.rehearsal.reroute import Upstream
from tests.rehearsal.stores import Store, free_port, postgres, redis

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "idkmesh" / "schemas" / "rehearsal.json").read_text(encoding="utf-8"))
WAIT = 60.0

MATRIX = """\
schema_version: "0.1"
kind: idkmesh-probe-matrix
orchestrator:
  startup: {{period_ms: 200, timeout_ms: 200, failure_threshold: 15}}
  liveness: {{period_ms: 300, timeout_ms: 250, failure_threshold: 3}}
  readiness: {{period_ms: 200, timeout_ms: 200, failure_threshold: 2}}
watchdog: {{interval_ms: 200, max_missed_ticks: 5}}
dependencies:
  - {{name: orders-db, critical: true, probe: {{tcp: {{host: 127.0.0.1, port: {database}}}}},
     timeout_ms: 150, interval_ms: 250, cache_ms: 1000, success_threshold: 2}}
  - {{name: cache, critical: false, probe: {{tcp: {{host: 127.0.0.1, port: {cache}}}}},
     timeout_ms: 150, interval_ms: 250, cache_ms: 1000}}
"""


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[Store, Store]]:
    # Not in the folder of the tests, which nobody may not enter.
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as database, redis() as cache:
        yield database, cache


@pytest.fixture
def matrix(stores: tuple[Store, Store], tmp_path: Path) -> Path:
    file = tmp_path / "probe-matrix.yaml"
    file.write_text(MATRIX.format(database=stores[0].port, cache=stores[1].port), encoding="utf-8")
    return file


def command(matrix: Path, *flags: str, service: tuple[str, ...] = ()) -> list[str]:
    port = "{port}" if "rolling-update" in flags else str(free_port())
    target = ["--target", f"http://127.0.0.1:{port}", "--json"]
    run = [sys.executable, str(ROOT / "tests" / "rehearsal" / "service.py"), port, *service]
    return [sys.executable, "-m", "idkmesh", "rehearse", "--matrix", str(matrix), *target, *flags, "--", *run]


def started(argv: list[str]) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(argv, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the document of a rehearsal, by its schema, and in accord with the exit code."""
    out, err = process.communicate(timeout=WAIT)
    assert process.returncode in {0, 1, 3}, err
    document: dict[str, Any] = json.loads(out)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["exit_code"] == process.returncode, err
    return document


def rehearsed(matrix: Path, *flags: str, service: tuple[str, ...] = ()) -> dict[str, Any]:
    return finished(started(command(matrix, *flags, service=service)))


def broken(document: dict[str, Any]) -> list[str]:
    return [f"{check['rule']}: {check['said']}" for check in document["checks"] if check["held"] is False]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "dependency-outage",
        "critical-timeout",
        "noncritical-failure",
        "flap",
        "wedged-watchdog",
        "slow-startup",
        "exhausted-startup",
        "rolling-update",
    ],
)
def test_scenarios_hold_for_a_service_that_keeps_the_contract(matrix: Path, name: str) -> None:
    """HL-8.1 to HL-8.8: each packaged scenario, with real stores behind the proxies, comes out as it expects."""
    document = rehearsed(matrix, "--scenario", name)
    assert (document["verdict"], broken(document)) == ("held", [])
    assert document["scenario"] == name


@pytest.mark.slow
def test_liveness_that_looks_at_a_database_is_found() -> None:
    """HL-1.1, HL-8.7: a restart while a dependency alone was down is exit 1, with the restart named."""
    with tempfile.TemporaryDirectory() as folder, redis() as store:
        file = Path(folder) / "m.yaml"
        file.write_text(MATRIX.format(database=store.port, cache=store.port), encoding="utf-8")
        document = rehearsed(file, "--fail", "orders-db@1.5s..4s", "--for", "5s", service=("--flaw", "liveness"))
    assert document["verdict"] == "not_held"
    assert any(restart["dependency_only"] and restart["cause"] == "liveness" for restart in document["restarts"])
    assert any(line.startswith("no-restart-in-dependency-outage") for line in broken(document))


DEAF = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.mark.slow
def test_a_service_that_reads_nothing_of_a_rehearsal(tmp_path: Path) -> None:
    """HL-8.7: one that goes to its database past the proxy is not blamed: exit 3, and what to look at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        database = listener.getsockname()[1]
        (tmp_path / "m.yaml").write_text(MATRIX.format(database=database, cache=database), encoding="utf-8")
        argv = command(tmp_path / "m.yaml", "--fail", "orders-db@3s..5s", "--for", "6s")
        place = argv.index("--") + 1
        document = finished(started([*argv[:place], sys.executable, "-c", DEAF, argv[place + 2]]))
    assert (document["exit_code"], broken(document)) == (3, [])
    (said,) = (check["said"] for check in document["checks"] if check["rule"] == "reached")
    assert said.endswith("does the service read IDKMESH_MATRIX or IDKMESH_DEP_ORDERS_DB?")


@pytest.mark.slow
def test_a_database_that_really_stops(matrix: Path, stores: tuple[Store, Store]) -> None:
    """HL-8.1: a store that is stopped is refused by its proxy too; the instance leaves and comes back, unrestarted."""
    database, _ = stores
    process = started(command(matrix, "--for", "6s"))
    try:
        time.sleep(2.0)
        database.stop()
        time.sleep(1.5)
    finally:
        database.start()
    document = finished(process)
    whats = [entry["what"] for entry in document["timeline"] if "rotation" in entry["what"]]
    assert whats == ["entered_rotation", "left_rotation", "entered_rotation"]
    assert (document["verdict"], document["restarts"]) == ("held", [])


@pytest.mark.slow
def test_a_paused_cache_answers_late(matrix: Path, stores: tuple[Store, Store]) -> None:
    """HL-1.2, HL-8.1: a store that is paused (SIGSTOP) is connected to by the kernel, so a tcp probe sees nothing."""
    _, cache = stores
    process = started(command(matrix, "--for", "3s"))
    try:
        time.sleep(1.0)
        cache.signal(signal.SIGSTOP)
        time.sleep(1.0)
    finally:
        cache.signal(signal.SIGCONT)
    document = finished(process)
    assert document["out_of_rotation_seconds"] == 0
    assert document["restarts"] == []


def test_a_real_cache_that_is_slow(stores: tuple[Store, Store]) -> None:
    """HL-8.3: what a real store answers comes later by the delay, and at once again when that is over."""
    with Proxies([Upstream("cache", "127.0.0.1", stores[1].port)]) as proxies:

        def ping() -> float:
            began = time.monotonic()
            with socket.create_connection(("127.0.0.1", proxies.ports["cache"]), WAIT) as connection:
                connection.sendall(b"PING\r\n")
                assert connection.recv(100) == b"+PONG\r\n"
            return time.monotonic() - began

        assert min(ping() for _ in range(3)) < 0.3
        proxies.set("cache", How.SLOW, 0.4)
        time.sleep(0.1)
        assert ping() >= 0.4
        proxies.set("cache", None)
        time.sleep(0.1)
        assert min(ping() for _ in range(3)) < 0.3


def test_the_command_is_told_where_its_dependencies_are(matrix: Path, tmp_path: Path) -> None:
    """HL-8.1, HL-8.4: variables and the copy of the matrix; what the command prints goes to the file, with its name."""
    output = tmp_path / "output"
    program = "import os; print(os.environ['IDKMESH_DEP_ORDERS_DB']); print(open(os.environ['IDKMESH_MATRIX']).read())"
    argv = [sys.executable, "-m", "idkmesh", "rehearse", "--matrix", str(matrix), "--target", "http://127.0.0.1:1"]
    argv += ["--output", str(output), "--json", "--backoff", "100ms", "--", sys.executable, "-c", program]
    assert finished(started(argv))["verdict"] == "could_not_tell"
    lines = output.read_text(encoding="utf-8").splitlines()
    assert all(line.startswith("app | ") for line in lines)
    port = lines[0].rpartition(":")[2]
    assert any(f'"port": {port}' in line for line in lines)
