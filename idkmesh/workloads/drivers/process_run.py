"""Runs the readiness command of one local instance (AR-3.2 to AR-3.4).

Laws of this module:

1. The command has a group of its own, which is killed whole, however it ended.
2. Its output goes to a pipe that is read and dropped: what still holds the pipe after the end was left behind. It is
   killed with the group; what has left the group is waited for, and nothing is started here while it lives.
3. A run lives in a thread that can be abandoned, as in :mod:`idkmesh.health.probes.command`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

from idkmesh.child_process import STATUS_LOST, SpawnError, environment, spawn, touch
from idkmesh.clock import SystemClock
from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.probe import Deadline
from idkmesh.health.probes.words import ProbeError
from idkmesh.workloads.checks import shown
from idkmesh.workloads.model import Run, RunEnd

if TYPE_CHECKING:
    from idkmesh.child_process import Child
    from idkmesh.workloads.model import Readiness

GRACE_SECONDS: Final = 0.1
"""Between TERM and KILL at the limit, and for the end of an output after the end of its command."""

SPARE_SECONDS: Final = 2.0
"""After the limit, until a run is given up that cannot be ended: it waits for a device or a file system."""

LOOK_SECONDS: Final = 0.05
PIECE_BYTES: Final = 65_536
LEAST_BYTES: Final = 4096
"""What a piece counts for at least: many small ones cost as much time as a few large ones."""

FREE_BYTES: Final = 1024 * 1024
PACE_SECONDS: Final = 0.002
"""A pause after each :data:`PIECE_BYTES` beyond what is free: 32 MiB a second, as with LXD (AR-8.3)."""


class HeldOutput:
    """The reading end of an output. Nothing of what comes is kept, and a flood is taken slowly: who writes it waits."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._taken = 0
        self.ended = False

    def drop(self, seconds: float) -> None:
        """Drop what comes, waiting for it for at most that long."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not self.ended and poll.poll(max(0.0, seconds) * 1000):
            with contextlib.suppress(BlockingIOError):
                size = len(os.read(self._descriptor, PIECE_BYTES))
                self.ended = not size
                self._taken += max(size, LEAST_BYTES)
            if self._taken > FREE_BYTES:
                self._taken -= PIECE_BYTES
                time.sleep(PACE_SECONDS)

    def ends_within(self, seconds: float) -> bool:
        """Wait until nobody holds it any more, and say whether that came about."""
        until = time.monotonic() + seconds
        while not self.ended and (left := until - time.monotonic()) > 0:
            self.drop(left)
        return self.ended

    def close(self) -> None:
        """Give it back."""
        os.close(self._descriptor)


class CommandRunner:
    """The runs of one instance, one at a time. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._out = Abandonable("readiness-command")
        self._held: HeldOutput | None = None
        self._child: Child | None = None
        self._closed = False

    def run(self, readiness: Readiness, uid: int | None, cwd: str, variables: dict[str, str]) -> Run:
        """Run it once, as the user ``uid`` with the group of the same number, None: as this process. Never raises."""
        began = time.monotonic()
        if not self._lock.acquire(blocking=False):
            return Run(RunEnd.COULD_NOT_RUN, "the run before is not over")
        try:
            deadline = Deadline(SystemClock(), began + readiness.timeout_secs + SPARE_SECONDS)
            end, reason, code = self._out.call(lambda: self._ran(readiness, uid, cwd, variables), deadline)
        except ProbeError as error:
            end, reason, code = RunEnd.COULD_NOT_RUN, f"it cannot be ended: {error.detail}", None
        except Exception as error:  # noqa: BLE001  a fault of ours says nothing of the instance (AR-1.2)
            end, reason, code = RunEnd.COULD_NOT_RUN, f"a fault of the driver: {type(error).__name__}", None
        finally:
            self._lock.release()
        return Run(end, reason, code, time.monotonic() - began)

    def close(self) -> None:
        """Kill what runs, and start nothing more. Does not wait."""
        self._closed = True
        if (child := self._child) is not None:
            child.signal_group(signal.SIGKILL)
        if self._lock.acquire(blocking=False):
            with contextlib.ExitStack() as stack:
                stack.callback(self._lock.release)
                self._let_go()

    def _ran(
        self, readiness: Readiness, uid: int | None, cwd: str, variables: dict[str, str]
    ) -> tuple[RunEnd, str, int | None]:
        if self._held is not None:
            if not self._held.ends_within(0.01):
                return RunEnd.LEFT_BEHIND, "what it has left behind still lives; it is not started again", None
            self._let_go()
        started = self._started(list(readiness.command), uid, cwd, variables)
        if isinstance(started, str):
            return RunEnd.COULD_NOT_RUN, started, None
        child, output = started
        try:
            ended = _waited(child, output, readiness.timeout_secs)
            if not ended:
                child.signal_group(signal.SIGTERM)
                _waited(child, output, GRACE_SECONDS)
            clean = not ended or output.ends_within(GRACE_SECONDS)
        finally:
            child.signal_group(signal.SIGKILL)
            child.wait(None)
            code = child.end()
            self._child = None
        if not output.ends_within(GRACE_SECONDS * 5):
            self._held = output
            return RunEnd.LEFT_BEHIND, "a process that it has started holds its output and has left its group", None
        output.close()
        if not clean:
            return RunEnd.LEFT_BEHIND, "a process that it has started held its output, and was killed", None
        return (RunEnd.TIMED_OUT, "timeout", None) if not ended else _exited(code)

    def _started(
        self, argv: list[str], uid: int | None, cwd: str, variables: dict[str, str]
    ) -> tuple[Child, HeldOutput] | str:
        """Start it, or return why that cannot be done."""
        environ = environment(os.environ.copy()) | variables
        touch(argv[0], environ)
        if self._closed:
            return "the driver is closed"
        reading, writing = os.pipe()
        try:
            child = spawn(argv, environ, cwd=cwd, uid=uid, stdout=writing, stderr=writing)
        except SpawnError as error:
            os.close(reading)
            return shown(str(error))
        finally:
            os.close(writing)
        self._child = child
        if self._is_closed():  # while it was started
            child.signal_group(signal.SIGKILL)
        return child, HeldOutput(reading)

    def _is_closed(self) -> bool:
        return self._closed

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def _waited(child: Child, output: HeldOutput, seconds: float) -> bool:
    """Wait for the leader's end for that long, dropping what comes, and say whether it has ended."""
    until = time.monotonic() + seconds
    while not child.wait(0):
        left = until - time.monotonic()
        if left <= 0:
            return False
        if output.ended:
            return child.wait(left)
        output.drop(min(left, LOOK_SECONDS))
    return True


def _exited(code: int | None) -> tuple[RunEnd, str, int | None]:
    if code is None:
        return RunEnd.COULD_NOT_RUN, STATUS_LOST, None
    if code < 0:
        return RunEnd.EXITED, f"signal {-code}", 128 - code
    return RunEnd.EXITED, f"exit {code}", code
