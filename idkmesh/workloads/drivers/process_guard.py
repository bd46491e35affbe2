"""A program that outlives its supervisor for a moment and ends what that has started (AR-8.5). Standard library alone.

It is told of each process group on its standard input: ``+PID START`` when one begins, ``-PID`` when one has ended. The
end of the input means that the supervisor is gone, by SIGKILL too: TERM to every group that is left, CONT for those
that are stopped and would not hear it, KILL 10 s later.

START is when the leader began, in the kernel's ticks, 0 where that is not known: a number that is somebody else's by
now is left alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

GRACE_SECONDS = 10.0
"""Between TERM and KILL, as with a restart (AR-5.6)."""


def started_at(pid: int) -> int:
    """Return when a process began, in ticks since the machine started, proc(5); 0 where there is none, or no /proc."""
    try:
        return int(
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
        )
    except (OSError, IndexError, ValueError):
        return 0


def is_ours(pid: int, start: int) -> bool:
    """Say whether the group is the one that was begun: its leader is the same, or has ended and left the group."""
    return start == 0 or started_at(pid) in {0, start}


def signal_all(groups: dict[int, int], number: int) -> dict[int, int]:
    """Signal the groups that are left, and return them."""
    left = {}
    for pid, start in groups.items():
        if is_ours(pid, start):
            with contextlib.suppress(OSError):  # nobody is left in it
                os.killpg(pid, number)
                left[pid] = start
    return left


def main() -> None:
    """Follow the input to its end, then end what is left."""
    groups: dict[int, int] = {}
    for line in sys.stdin:
        if not line.endswith("\n"):  # the supervisor was killed in the middle of it: half a number is another one
            break
        pid, _, start = line[1:].strip().partition(" ")
        if line.startswith("+"):
            groups[int(pid)] = int(start)
        else:
            groups.pop(int(pid), None)
    groups = signal_all(groups, signal.SIGTERM)
    groups = signal_all(groups, signal.SIGCONT)
    until = time.monotonic() + GRACE_SECONDS
    while groups and time.monotonic() < until:
        time.sleep(0.05)
        groups = signal_all(groups, 0)
    signal_all(groups, signal.SIGKILL)


if __name__ == "__main__":
    main()
