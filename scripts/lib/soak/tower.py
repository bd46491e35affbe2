"""A full control tower in a folder of its own: matrix, a module of the process driver, router, client file, store."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scripts.bench.benchlib.messages import fetch
from scripts.bench.benchlib.processes import HOST, REPOSITORY, StartError, environment, free_port, python
from scripts.bench.benchlib.procfs import PROC, Footprint, tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUEST_SECONDS: Final = 3.0
"""The tower's --request-timeout: short, so that who is slow does not last; long beside what a busy machine adds."""
STREAMS: Final = 64
PLACES: Final = 128
"""More than the load ever has open at once: so a 503 is wrong."""
BACKLOG: Final = 1024
DRAIN_SECONDS: Final = 10.0
"""Far more than a body takes that follows ``100 Continue``."""
PROBE_MS: Final = 5_000
"""For a file that is always there: a machine that is busy otherwise is to make no tower unready, rightly as that is."""
START_SECONDS: Final = 60.0
AS_A_SERVICE: Final = {"MALLOC_ARENA_MAX": "2"}
"""What `examples/idkmesh.service` sets. Otherwise what glibc keeps in pieces is more with each processor."""
TARGET: Final = {"agentId": "echo", "agentCardVersion": "1.0.0", "releaseId": "r1"}

_MATRIX = """\
schema_version: "0.1"
kind: idkmesh-probe-matrix
orchestrator:
  startup:   {{period_ms: 1000, timeout_ms: 900, failure_threshold: 30}}
  liveness:  {{period_ms: 10000, timeout_ms: 1000, failure_threshold: 3}}
  readiness: {{period_ms: 10000, timeout_ms: 9000, failure_threshold: 3}}
watchdog: {{interval_ms: 1000, max_missed_ticks: 5}}
dependencies:
  - {{name: folder, critical: true, probe: {{file: {{path: {file}}}}}, timeout_ms: {patience},
     interval_ms: 5000, cache_ms: 60000}}
  - {{name: agent, critical: false, probe: {{http: {{url: "http://127.0.0.1:{agent}/"}}}}, timeout_ms: 500,
     interval_ms: 1000, cache_ms: 60000}}
"""

_MODULES = """\
schema_version: "0.1"
kind: idkmesh-modules
supervisor: {{interval_s: 1, cooldown_s: 300, lease: {{sqlite: {{}}}}}}
modules:
  - name: echo
    kind: stateless
    driver: process
    replicas: 1
    process: {{argv: {argv}, cwd: {cwd}}}
    port: {agent}
"""

_ROUTER = """\
schema_version: "0.1"
kind: idkmesh-router
listen: 127.0.0.1:{router}
credentials:
  - {{id: soak, token_file: router.token}}
provider:
  file: {{path: releases.json}}
"""


_giving: Final = threading.Lock()
_given: Final[set[int]] = set()


@dataclass(frozen=True)
class Use:
    """What a process has open and holds."""

    descriptors: int
    threads: int
    resident: int


@dataclass(frozen=True)
class Tower:
    """A tower that runs."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int
    router: int
    token: str

    def use(self) -> Use:
        """Return what the tower's own process uses now."""
        pid = self.process.pid
        held = Footprint.of([pid])
        return Use(len(list((PROC / str(pid) / "fd").iterdir())), held.threads, held.resident_bytes)

    def family(self) -> list[int]:
        """Return the ids of the tower and of what it has started."""
        return tree(self.process.pid)

    def log(self) -> str:
        """Return what it has written to its standard error, the last 64 KiB of it."""
        return (self.folder / "log").read_bytes()[-65_536:].decode("utf-8", "backslashreplace")


def write_site(folder: Path, agent: int, router: int, token: str) -> None:
    """Write the files of a tower, as a user would."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = json.dumps(python("-m", "scripts.lib.soak.agent", str(agent)))
    matrix = folder / "matrix.yaml"
    releases = [{**TARGET, "endpoints": [f"http://{HOST}:{agent}"]}]
    texts = {
        "matrix.yaml": _MATRIX.format(file=json.dumps(str(matrix)), agent=agent, patience=PROBE_MS),
        "modules.yaml": _MODULES.format(argv=argv, cwd=json.dumps(str(REPOSITORY)), agent=agent),
        "router.yaml": _ROUTER.format(router=router),
        "releases.json": json.dumps({"schema_version": "0.1", "kind": "idkmesh-releases", "releases": releases}),
        "router.token": token,
        "tower.token": token,
    }
    for name, text in texts.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")


def command(folder: Path, port: int) -> list[str]:
    """Return the command that starts the tower of a folder."""
    flags = {
        "port": port,
        "port-file": folder / "port",
        "token-file": folder / "tower.token",
        "client-file": folder / "node.json",
        "matrix": folder / "matrix.yaml",
        "modules": folder / "modules.yaml",
        "router": folder / "router.yaml",
        "store": folder / "events.sqlite3",
        "request-timeout": REQUEST_SECONDS,
        "max-concurrent-requests": PLACES,
        "max-sse-clients": STREAMS,
        "sse-heartbeat": 0.2,
        "listen-backlog": BACKLOG,
        "drain-timeout": DRAIN_SECONDS,
    }
    return python("-m", "idkmesh", "control-tower", *(f"--{name}={value}" for name, value in flags.items()))


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Tower]:
    """Run a full tower for the length of a block, ready when it begins; its folder stays for who looks into it."""
    token = secrets.token_urlsafe(32)
    with _ports(3) as (port, agent, router):
        yield from _run(folder, token, (port, agent, router))


def _run(folder: Path, token: str, ports: tuple[int, int, int]) -> Iterator[Tower]:
    port, agent, router = ports
    write_site(folder, agent, router, token)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command(folder, port),
            cwd=folder,
            env=environment({"PYTHONPATH": str(REPOSITORY), "XDG_STATE_HOME": str(folder / "state"), **AS_A_SERVICE}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    tower = Tower(process, folder, port, router, token)
    try:
        _await(tower)
        yield tower
    finally:
        _end(process)


@contextlib.contextmanager
def _ports(many: int) -> Iterator[list[int]]:
    """Give free ports that no other tower of this process has been given: several start at once."""
    mine: list[int] = []
    with _giving:
        while len(mine) < many:
            port = free_port()
            if port not in _given:
                _given.add(port)
                mine.append(port)
    try:
        yield mine
    finally:
        with _giving:
            _given.difference_update(mine)


def _await(tower: Tower) -> None:
    """Wait until tower and router are ready, and the agent answers through the router."""
    deadline = time.monotonic() + START_SECONDS
    waiting = [tower.port, tower.router]
    while waiting:
        if tower.process.poll() is not None or time.monotonic() > deadline:
            raise StartError(f"a control tower did not become ready: {tower.log()[-500:]!r}")
        with contextlib.suppress(OSError):
            answer = fetch(waiting[0], "/readyz")
            if answer is not None and answer.status == 200 and _agent_up(tower):
                waiting.pop(0)
                continue
        time.sleep(0.05)


def _agent_up(tower: Tower) -> bool:
    """Say whether the agent is up: the module has started it, and the tower has seen it."""
    found = fetch(tower.port, "/api/v1/dependencies/agent", [("X-IDKMesh-UI-Token", tower.token)])
    return found is not None and found.status == 200 and json.loads(found.body)["verdict"] == "ok"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a tower that still runs; its guard ends what it had started."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
