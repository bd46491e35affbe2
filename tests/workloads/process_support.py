"""Modules of local processes, and what is left of them."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idkmesh.workloads.model import DesiredModule, Instance, ModuleKind, Readiness

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.workloads.drivers.process import ProcessDriver

RUN = "PYTEST_XDIST_WORKER"
"""The variable by which tests that run at once tell their processes apart."""

SLEEPER = ("tail", "-f", "/dev/null")
STUBBORN = (
    sys.executable,
    "-c",
    """
import pathlib, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "3600"])
pathlib.Path("stubborn").touch()
time.sleep(3600)
""",
)


def module(name: str = "worker", argv: tuple[str, ...] = SLEEPER, replicas: int = 1, **more: Any) -> DesiredModule:
    return DesiredModule(name=name, kind=ModuleKind.STATELESS, driver="process", argv=argv, replicas=replicas, **more)


def one(driver: ProcessDriver, declared: DesiredModule) -> Instance:
    (instance,) = driver.instances([declared])
    return instance


def command(*argv: str, seconds: int = 5) -> Readiness:
    return Readiness(argv, seconds)


def pid_of(instance: Instance) -> int:
    return int(instance.identity.partition("-")[0])


def alive(pid: int) -> bool:
    """Say whether there is such a process that has not ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in {"Z", "X"}


def group_of(pid: int) -> int:
    """Return the process group; 0 when the process has ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(pid)
    return 0


def program_of(pid: int) -> bytes:
    """Return the command line, each word with a zero byte behind it; nothing when the process has ended meanwhile."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def with_variable(word: str) -> list[int]:
    """Return the processes that inherited this ``NAME=value`` and have not ended; of this one of the parallel runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if word in words and _of_this_run(words) and alive(int(path.parent.name)):
                found.append(int(path.parent.name))
    return found


def _of_this_run(words: list[str]) -> bool:
    """Leave out what other tests started that run at the same time: their modules have the same names."""
    runs = [each for each in words if each.startswith(f"{RUN}=")]
    return runs in ([], [f"{RUN}={os.environ.get(RUN)}"])


def waited(condition: Callable[[], bool], seconds: float = 60) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
