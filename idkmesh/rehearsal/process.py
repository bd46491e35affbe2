"""One process of the rehearsed command, with its group and its output (HL-8.4).

Laws of this module:

1. The command leads a session and a process group of its own. Signals go to the group.
2. What it leaves in its group when it ends is killed, and only then its leader is reaped: until then the id of the
   group is nobody else's.
3. Its output is read until its end, by a thread of its own, line by line within a bound: a command never waits for
   whoever reads what it prints.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import BinaryIO

MAX_LINE_BYTES: Final = 8192
"""A longer line is passed on in pieces."""

JOIN_SECONDS: Final = 2.0
"""How long the last output is waited for. What has left the group may keep the pipe open."""


class Process:
    """A command that runs. ``ended`` is called once, from a thread, with how it ended; ``line`` with each line."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        line: Callable[[bytes], None],
        ended: Callable[[str], None],
    ) -> None:
        """Start it. Raises :class:`OSError` where that fails."""
        self._line = line
        self._ended = ended
        self._lock = threading.Lock()
        self._reaped = False
        self._process = subprocess.Popen(  # noqa: S603  what the person who rehearses has asked for
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101  a pipe was asked for
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), name="rehearsal-output")
        self._waiter = threading.Thread(target=self._wait, name="rehearsal-wait")
        for thread in (self._reader, self._waiter):
            thread.daemon = True
            thread.start()

    def signal(self, number: signal.Signals) -> None:
        """Signal all of its group, unless it has been reaped."""
        with self._lock:
            if not self._reaped:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, number)

    def join(self) -> None:
        """Wait for its threads, which end soon after it has."""
        self._waiter.join(JOIN_SECONDS)
        self._reader.join(JOIN_SECONDS)

    def _wait(self) -> None:
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._lock:
            code = self._process.wait()
            self._reaped = True
        self._ended(_word(code))

    def _read(self, pipe: BinaryIO) -> None:
        with pipe:
            while line := pipe.readline(MAX_LINE_BYTES):
                self._line(line)


def _word(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"ended by signal {-code}"
