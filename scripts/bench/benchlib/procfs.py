"""What the kernel counts in /proc: processor time, memory and threads of a process tree, and idle time of a core.

Processor time comes in clock ticks (10 ms), so a figure per request needs seconds of load to be exact to a percent.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

PROC = Path("/proc")
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
# Indices into the fields of /proc/PID/stat that follow the command's closing parenthesis (proc(5) numbers from 3).
PARENT, USER, SYSTEM, CHILD_USER, CHILD_SYSTEM = 4 - 3, 14 - 3, 15 - 3, 16 - 3, 17 - 3
# Columns of a core's line in /proc/stat, its name being column 0.
IDLE, IOWAIT = 4, 5


def fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command, which may itself hold spaces and parentheses."""
    try:
        return (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def tree(root: int) -> list[int]:
    """Return the process ids of a process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and (read := fields(int(entry.name))):
            children.setdefault(int(read[PARENT]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """Return the user and system time of a process tree since its start, children that ended included."""
    ticks = 0
    for pid in tree(root):
        if read := fields(pid):
            ticks += sum(int(read[index]) for index in (USER, SYSTEM, CHILD_USER, CHILD_SYSTEM))
    return ticks * TICK_SECONDS


@dataclass(frozen=True)
class CoreIdle:
    """How long one core has been idle since boot, and the moment of reading, both in seconds.

    The kernel measures idle time exactly and samples the rest at its clock ticks, so idle time is set against elapsed
    time and not against the sum of the line's figures, from which bursts shorter than a tick are missing.
    """

    idle: float
    moment: float

    @classmethod
    def read(cls, core: int) -> CoreIdle:
        """Read the core's line of /proc/stat."""
        lines = (PROC / "stat").read_text(encoding="ascii").splitlines()
        fields = next(line.split() for line in lines if line.startswith(f"cpu{core} "))
        return cls((int(fields[IDLE]) + int(fields[IOWAIT])) * TICK_SECONDS, time.monotonic())

    def share_since(self, earlier: CoreIdle) -> float:
        """Return which part of the time between two readings the core was idle (0-1)."""
        elapsed = self.moment - earlier.moment
        return min(1.0, (self.idle - earlier.idle) / elapsed) if elapsed > 0 else 0.0


@dataclass(frozen=True)
class Footprint:
    """Threads and resident bytes of a process tree at one moment."""

    threads: int
    resident_bytes: int

    @classmethod
    def read(cls, root: int) -> Footprint:
        """Add up /proc/PID/status over the tree. Pages that processes share are counted in each."""
        return cls.of(tree(root))

    @classmethod
    def of(cls, pids: Iterable[int]) -> Footprint:
        """Add up /proc/PID/status over some processes; one that has ended counts nothing."""
        threads = resident = 0
        for pid in pids:
            try:
                status = (PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            threads += int(values.get("Threads", "0"))
            resident += int(values.get("VmRSS", "0 kB").split()[0]) * 1024
        return cls(threads, resident)


class Sampler:
    """Follows a process tree's footprint while its block runs; ``peak`` holds the largest of each value seen."""

    def __init__(self, root: int, interval: float = 0.25) -> None:
        """Sample the tree below ``root`` each ``interval`` seconds."""
        self._root = root
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="footprint", daemon=True)
        self.peak = Footprint(0, 0)

    def __enter__(self) -> Self:
        """Start sampling."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sampling, with one last sample."""
        self._stop.set()
        self._thread.join()
        self._sample()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        now = Footprint.read(self._root)
        self.peak = Footprint(
            max(self.peak.threads, now.threads),
            max(self.peak.resident_bytes, now.resident_bytes),
        )
