"""Processes under test and load processes: each pinned to its core, started, awaited and ended by its own id."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOST = "127.0.0.1"
BENCH_DIR = Path(__file__).resolve().parents[1]
REPOSITORY = BENCH_DIR.parents[1]


SERVER_PORTS = range(20_000, 32_000)


class StartError(RuntimeError):
    """A server did not become ready; the text is one line."""


def cores() -> tuple[int, int]:
    """Return the core for servers and the core for load: the first and the last that this process may use."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """Return a command that runs on one core with as many descriptors as the machine allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return ["prlimit", f"--nofile={hard}:{hard}", "taskset", "--cpu-list", str(core), *command]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this environment with the benchmark's modules and the repository importable."""
    return {**os.environ, "PYTHONPATH": f"{BENCH_DIR}:{REPOSITORY}", "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}


def python(*arguments: str) -> list[str]:
    """Return a command for the interpreter that runs the benchmark."""
    return [sys.executable, *arguments]


def free_port() -> int:
    """Return a loopback port that was free a moment ago, below the range from which load takes its own ports."""
    for port in random.sample(SERVER_PORTS, 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            return port
    raise StartError("no free loopback port")


def end(process: subprocess.Popen[Any], patience: float = 4.0) -> None:
    """End a process and the group it leads: politely, then for good."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_load(core: int, module: str, spec: Mapping[str, object], timeout: float) -> dict[str, Any]:
    """Run one load module to its end and return the JSON object that it prints."""
    done = subprocess.run(
        pinned(core, python("-m", f"benchlib.{module}", json.dumps(spec))),
        env=environment(),
        stdout=subprocess.PIPE,
        timeout=timeout,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


class LoadProcess:
    """A load module that runs beside others: it prints one JSON line when it is ready and one at its end."""

    def __init__(self, core: int, module: str, spec: Mapping[str, object]) -> None:
        """Start the module; it ends when its standard input closes."""
        self._process = subprocess.Popen(
            pinned(core, python("-m", f"benchlib.{module}", json.dumps(spec))),
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def report(self) -> dict[str, Any]:
        """Wait for the module's next report."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the load process ended early")
        result: dict[str, Any] = json.loads(line)
        return result

    def tell(self) -> None:
        """Let a module that waits for its input go on."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> dict[str, Any]:
        """Ask the module to stop and return its last report."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.close()
        last = self.report()
        self._process.wait(10)
        return last

    def stop(self) -> None:
        """Ask a module that has nothing more to report to stop."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.close()
        self._process.wait(10)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process if it is still there, and close its pipes."""
        with self._process:
            self._process.kill()
