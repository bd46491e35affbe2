"""Looking at a node: the command is run again and again, one child at a time (RA-7). What is decided is the sampler's.

Laws of this module:

1. One thread runs it, and waits in `poll` alone; any thread may stop it.
2. A child's output is a pipe that is never waited for: it is read when it has something, and when the child has ended
   what is in it by then is all. A process that holds it open delays nothing.
3. Whatever ends a look, the child's group is killed before its leader is reaped (:mod:`idkmesh.child_process`).
4. A child gets the variables below and no other: what this program was started with may hold secrets.
5. A client file and a program on a file system that hangs are read by this thread, and keep nobody else.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Final

from idkmesh.adapter import node_get
from idkmesh.adapter.sampling import Phase
from idkmesh.child_process import POLL_SECONDS, SpawnError, spawn, touch
from idkmesh.httpd.wakeup import WakeUp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from idkmesh.adapter.sampling import Sampler
    from idkmesh.child_process import Child

PASSED_VARIABLES: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
"""What a program needs to find its files and libraries, and to write in the language that it is read in."""

READ_BYTES: Final = 64 * 1024

CLIENT_FILE_VARIABLE: Final = "IDKMESH_CLIENT_FILE"
"""Where another program's command finds the path of the client file."""

LAST_SECONDS: Final = 1.0
"""How long a killed child is waited for when this program ends."""


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a child gets."""
    return {name: environ[name] for name in PASSED_VARIABLES if name in environ}


class Looks:
    """Runs ``argv`` for ``sampler``. ``turned`` is called with the time when something may have changed.

    ``client_file`` is for a command that does not judge it itself: it is judged before each run, and the command gets
    its path (RA-7.1).
    """

    def __init__(
        self,
        argv: Sequence[str],
        sampler: Sampler,
        turned: Callable[[float], None],
        *,
        client_file: str | None = None,
    ) -> None:
        self._argv = argv
        self._client_file = client_file
        given = {} if client_file is None else {CLIENT_FILE_VARIABLE: client_file}
        self._environ = child_environment(os.environ) | given
        self._sampler = sampler
        self._turned = turned
        self._wake_up = WakeUp()
        self._stopping = False
        self._child: Child | None = None
        self._end_of_child: int | None = None
        self._output: int | None = None

    def stop(self) -> None:
        """Have :meth:`run` kill what runs and return. Safe in any thread and in a signal handler."""
        self._stopping = True
        self._wake_up.wake()

    def run(self, looks: int | None = None) -> None:
        """Look until :meth:`stop`, or until so many looks are complete."""
        sampler = self._sampler
        try:
            while not self._stopping and (looks is None or sampler.complete < looks):
                self._turn()
        finally:
            self._abandon()

    @property
    def left_behind(self) -> bool:
        """Whether :meth:`run` has ended without its child: the system did not end it in time."""
        return self._child is not None

    def close(self) -> None:
        """Close what wakes it. After :meth:`run`, and when nobody calls :meth:`stop` any more."""
        self._wake_up.close()

    def _turn(self) -> None:
        sampler = self._sampler
        now = time.monotonic()
        if sampler.due(now):
            self._begin(now)
        ready = self._poll(sampler.wait(time.monotonic()))
        now = time.monotonic()
        sampler.expire(now)  # first: whatever has come, it came late
        if self._wake_up.receiver.fileno() in ready:
            self._wake_up.clear()
        if self._output in ready:
            self._read(now)
        ended = self._has_ended(ready)
        if ended:
            self._take_the_rest(now)
            sampler.ended()
        if sampler.phase is Phase.ENDING:
            self._finish(ended=ended, now=now)
        self._turned(now)

    def _begin(self, now: float) -> None:
        if self._client_file is not None:
            try:
                node_get.read_client_file(self._client_file)
            except node_get.NodeGetError as error:
                self._sampler.refused(str(error), now)
                return
        touch(self._argv[0], self._environ)
        try:
            self._output, write_end = os.pipe()
        except OSError as error:
            self._sampler.not_started(error.strerror or "no pipe", now)
            return
        try:
            child = spawn(self._argv, self._environ, stdout=write_end)
        except SpawnError as error:
            self._close_output()
            self._sampler.not_started(str(error), now)
            return
        finally:
            os.close(write_end)
        os.set_blocking(self._output, False)
        self._child = child
        self._end_of_child = child.descriptor()
        self._sampler.started(now)

    def _poll(self, seconds: float | None) -> set[int | None]:
        poll = select.poll()
        for descriptor in (self._wake_up.receiver.fileno(), self._output, self._end_of_child):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        if self._child is not None and self._end_of_child is None:
            seconds = POLL_SECONDS
        return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}

    def _read(self, now: float) -> bool:
        """Take in what the child has printed by now, in one piece; say whether there may be more."""
        if self._output is None:
            return False
        try:
            data = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_output()
            return False
        self._sampler.printed(data, now)
        return self._sampler.phase is Phase.RUNNING

    def _has_ended(self, ready: set[int | None]) -> bool:
        if self._child is None:
            return False
        return self._end_of_child in ready if self._end_of_child is not None else self._child.wait(0.0)

    def _take_the_rest(self, now: float) -> None:
        """Kill what the child has left in its group, and take in what is in the pipe, which is all by then."""
        self._kill()
        while self._read(now):
            pass

    def _finish(self, *, ended: bool, now: float) -> None:
        """Kill the group; reap the child and be ready for the next look if it has ended."""
        self._close_output()
        self._kill()
        if ended and self._child is not None:
            self._sampler.reaped(self._reap(self._child), now)

    def _kill(self) -> None:
        if self._child is not None:
            self._child.signal_group(signal.SIGKILL)

    def _reap(self, child: Child) -> int | None:
        code = child.end()
        self._child = None
        if self._end_of_child is not None:
            os.close(self._end_of_child)
            self._end_of_child = None
        return code

    def _close_output(self) -> None:
        if self._output is not None:
            os.close(self._output)
            self._output = None

    def _abandon(self) -> None:
        """Kill and reap the child of a look that is not complete."""
        self._close_output()
        child = self._child
        if child is not None:
            self._kill()
            if child.wait(LAST_SECONDS):
                self._reap(child)
