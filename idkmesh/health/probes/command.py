"""``command``: run an argument list and want exit status 0 (HL-4.8).

Laws of this module:

1. Both outputs are the null device. The kernel drops what comes: there is no pipe that could fill up and block the
   command, none that a grandchild could keep open, no reader, no memory and nothing to decode.
2. A run lives in a thread that can be abandoned: a program on a hanging file system does not start, and one in an
   uninterruptible wait does not die. While it has not been reaped no second one is started.
3. What a command leaves in its group is killed, however it ended (:mod:`idkmesh.child_process`).

Near the deadline, with g = 50 ms or an eighth of a shorter timeout: TERM to the group at 2 g before it, KILL at g
before it, and the last g is for reaping. What left the group (``setsid``) is not waited for; once its parent has died
it is process 1 that reaps it, so a container whose commands do that needs an init.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final

from idkmesh.child_process import STATUS_LOST, SpawnError, environment, spawn, touch
from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    from idkmesh.child_process import Child
    from idkmesh.health.model import Command
    from idkmesh.health.probes.probe import Deadline
    from idkmesh.health.probes.words import ProbeError

GRACE_SECONDS: Final = 0.05
"""Between TERM and KILL, and again for reaping."""

GRACE_SHARE: Final = 1 / 8
"""The same as a share of the timeout, where that is shorter."""


class CommandProbe(DeadlineProbe):
    """Runs a program in ``/``, with nothing on its standard input."""

    def __init__(self, spec: Command) -> None:
        self._spec = spec
        self._out = Abandonable("probe-command")
        self._child: Child | None = None
        self._closed = False
        super().__init__(self._out)

    def attempt(self, deadline: Deadline) -> str:
        """Run it once, to its end."""
        if not hasattr(os, "killpg"):
            raise could_not_run("needs the process groups of POSIX")
        timeout = deadline.left()
        grace = min(GRACE_SECONDS, timeout * GRACE_SHARE)
        return self._out.call(lambda: self._ran(deadline, grace), deadline)

    def close(self) -> None:
        """Kill what runs now, and start nothing more. Any thread may call it, and it does not wait."""
        self._closed = True
        child = self._child  # set before `_ran` looks at the mark again: one of both sees the other
        if child is not None:
            child.signal_group(signal.SIGKILL)

    def _ran(self, deadline: Deadline, grace: float) -> str:
        child = self._spawned()
        try:
            ended = child.wait(deadline.left() - 2 * grace)
            if not ended:
                child.signal_group(signal.SIGTERM)
                child.wait(grace)
        finally:
            child.signal_group(signal.SIGKILL)
            child.wait(None)
            code = child.end()
            self._child = None
        if not ended:
            raise failed("timeout")
        return word_of_exit(code)

    def _spawned(self) -> Child:
        argv, environ = self._spec.argv, environment(os.environ.copy())
        touch(argv[0], environ)
        if self._is_closed():
            raise could_not_run("closed")
        try:
            child = spawn(argv, environ, cwd="/")
        except SpawnError as error:
            raise could_not_run(str(error)) from None
        self._child = child
        if self._is_closed():  # while it was started
            child.signal_group(signal.SIGKILL)
        return child

    def _is_closed(self) -> bool:
        return self._closed


def word_of_exit(code: int | None) -> str:
    """Return the word of a success, or raise what another end says. Without a code nothing is known (HL-4.2)."""
    if code is None:
        raise could_not_run(STATUS_LOST)
    if code > 0:
        raise failed(f"exit {code}")
    if code < 0:
        raise _signalled(-code)
    return "exit 0"


def _signalled(number: int) -> ProbeError:
    try:
        return failed(f"signal {signal.Signals(number).name}")
    except ValueError:  # a real-time signal has no name
        return failed(f"signal {number}")
