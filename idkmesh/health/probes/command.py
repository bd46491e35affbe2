"""``command``: run an argument list and want exit status 0 (HL-4.8).

Laws of this module:

1. Both outputs are the null device. The kernel drops what comes: there is no pipe that could fill up and block the
   command, none that a grandchild could keep open, no reader, no memory and nothing to decode.
2. A run lives in a thread that can be abandoned: a program on a hanging file system does not start, and one in an
   uninterruptible wait does not die. While it has not been reaped no second one is started.
3. What a command leaves in its group is killed, however it ended, and only then its leader is reaped (where the system
   has pidfds): until then the id of the group is nobody else's, so a signal to it cannot reach a stranger.
4. Only this group is waited for: no signal handler, no wait for any child.

Near the deadline, with g = 50 ms or an eighth of a shorter timeout: TERM to the group at 2 g before it, KILL at g
before it, and the last g is for reaping. What left the group (``setsid``) is not waited for; once its parent has died
it is process 1 that reaps it, so a container whose commands do that needs an init.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Final

from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.health.model import Command
    from idkmesh.health.probes.probe import Deadline
    from idkmesh.health.probes.words import ProbeError

GRACE_SECONDS: Final = 0.05
"""Between TERM and KILL, and again for reaping."""

GRACE_SHARE: Final = 1 / 8
"""The same as a share of the timeout, where that is shorter."""

POLL_SECONDS: Final = 0.01
"""How often the end of a command is looked for, where no descriptor tells it."""

OUR_VARIABLES: Final = "IDKMESH_"
"""How the variables begin that a command does not get: tokens are among them."""

SPAWN_WORDS: Final = {
    errno.ENOENT: "no such program",
    errno.ENOTDIR: "no such program",
    errno.EACCES: "not executable",
    errno.EPERM: "not executable",
    errno.ENOEXEC: "no program of this system",
    errno.E2BIG: "too many arguments",
}


class CommandProbe(DeadlineProbe):
    """Runs a program in ``/``, with nothing on its standard input."""

    def __init__(self, spec: Command) -> None:
        self._spec = spec
        self._out = Abandonable("probe-command")
        self._child: _Child | None = None
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

    def _spawned(self) -> _Child:
        argv, environ = list(self._spec.argv), environment(os.environ.copy())
        _touch(argv[0], environ)
        if self._is_closed():
            raise could_not_run("closed")
        try:
            process = subprocess.Popen(  # noqa: S603  the matrix names it, and no shell reads it
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            raise could_not_run(SPAWN_WORDS.get(error.errno or 0, "the machine is full")) from None
        except ValueError:  # a NUL
            raise could_not_run("no valid arguments") from None
        child = _Child(process)
        self._child = child
        if self._is_closed():  # while it was started
            child.signal_group(signal.SIGKILL)
        return child

    def _is_closed(self) -> bool:
        return self._closed


class _Child:
    """A child that leads its group, and is reaped here and nowhere else. Any thread may signal the group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._done = False
        self._reaped = False
        self._code: int | None = None

    def signal_group(self, number: signal.Signals) -> None:
        """Signal all of the group, unless this run is done with it."""
        with self._lock:
            if not self._done:
                # Nobody is left, or all of them run as somebody else: the wait will tell.
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, number)

    def wait(self, seconds: float | None) -> bool:
        """Wait until the leader has ended, for that long or without an end, and say whether it has. Does not reap."""
        try:
            descriptor = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old one, or a sandbox
            return self._reaped_within(seconds)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(None if seconds is None else max(0.0, seconds) * 1000))
        finally:
            os.close(descriptor)

    def end(self) -> int | None:
        """Be done with it: reap the leader, which has ended. Return its exit code, None where somebody else has it.

        Its group was killed, and those of the group that have become children of this process are reaped too: it is
        process 1, or has asked to adopt orphans.
        """
        with self._lock:
            self._done = True
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-self._process.pid, 0)
                self._note(pid, status)
        self._process.returncode = self._code or 0  # or Popen would look for it, and take a lost status for 0
        return self._code

    def _note(self, pid: int, status: int) -> None:
        if pid == self._process.pid:
            self._code = os.waitstatus_to_exitcode(status)

    def _reaped_within(self, seconds: float | None) -> bool:
        """Wait where no descriptor tells the end. To learn of it is to reap; the group's id is free a moment early."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._reaped:
            try:
                pid, status = os.waitpid(self._process.pid, os.WNOHANG)
            except ChildProcessError:
                self._reaped = True
                break
            self._note(pid, status)
            self._reaped = bool(pid)
            if not pid and until is not None and time.monotonic() >= until:
                break
            if not pid:
                time.sleep(POLL_SECONDS)
        return self._reaped


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command gets."""
    return {name: value for name, value in environ.items() if not name.startswith(OUR_VARIABLES)}


def word_of_exit(code: int | None) -> str:
    """Return the word of a success, or raise what another end says. Without a code nothing is known (HL-4.2)."""
    if code is None:
        raise could_not_run("its exit status is lost: this process ignores SIGCHLD, or waits for any child")
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


def _touch(program: str, environ: Mapping[str, str]) -> None:
    """Read a byte of the program, and ignore every error.

    Popen holds the interpreter's lock until the child has its program. Where that lies on a file system that hangs, it
    is this thread that must hang, before, and not the process.
    """
    path = shutil.which(program, path=environ.get("PATH", os.defpath))
    if path is None:
        return
    try:
        # Not a FIFO's other end: opening one waits for it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.read(descriptor, 1)
    except OSError:
        return
    finally:
        os.close(descriptor)
