"""What a stretch of load cost: processor time of the server, idle time of both cores, and what disturbed them."""

from __future__ import annotations

import resource
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .procfs import CoreIdle, cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Usage:
    """Filled in when the measured block ends; shares are parts of the block's duration (0-1).

    ``others`` is the share of the server's core that was neither idle nor running this server: other programs, the
    hypervisor, interrupts. ``load_others`` is the same for the load's core; load that outlives the block is in it.
    A quiet machine shows a few percent.
    """

    seconds: float = 0.0
    server_cpu_seconds: float = 0.0
    server_core_idle: float = 0.0
    load_core_idle: float = 0.0
    others: float = 0.0
    load_others: float = 0.0

    def cpu_microseconds(self, requests: int) -> float:
        """Return the server's processor time for each request."""
        return self.server_cpu_seconds / requests * 1e6 if requests else float("nan")


def _load_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


@contextmanager
def measured(server_pid: int, cores: tuple[int, int]) -> Iterator[Usage]:
    """Measure the block. Load is whatever child process ends inside it; the server must not end inside it."""
    usage = Usage()
    before = [CoreIdle.read(core) for core in cores]
    server, load, began = cpu_seconds(server_pid), _load_seconds(), time.monotonic()
    yield usage
    usage.seconds = time.monotonic() - began
    usage.server_cpu_seconds = cpu_seconds(server_pid) - server
    loaded = (_load_seconds() - load) / usage.seconds
    idle = [CoreIdle.read(core).share_since(earlier) for core, earlier in zip(cores, before, strict=True)]
    usage.server_core_idle, usage.load_core_idle = idle
    usage.others = max(0.0, 1 - idle[0] - usage.server_cpu_seconds / usage.seconds)
    usage.load_others = max(0.0, 1 - idle[1] - loaded)
