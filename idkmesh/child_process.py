"""A child process that leads a group of its own: how it is started, signalled, waited for and reaped.

Laws of this module:

1. What a child leaves in its group is killed, however it ended, and only then its leader is reaped (where the system
   has pidfds): until then the id of the group is nobody else's, so a signal to it cannot reach a stranger.
2. Only this group is waited for: no signal handler, no wait for any child.
3. What left the group (``setsid``) is nobody's here. Once its parent has died it is process 1 that reaps it.
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
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

POLL_SECONDS: Final = 0.01
"""How often the end of a child is looked for, where no descriptor tells it."""

SPAWN_WORDS: Final = {
    errno.ENOENT: "no such program",
    errno.ENOTDIR: "no such program",
    errno.EACCES: "not executable",
    errno.EPERM: "not executable",
    errno.ENOEXEC: "no program of this system",
    errno.E2BIG: "too many arguments",
    **dict.fromkeys((errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE), "the machine is full"),
}

OUR_VARIABLES: Final = "IDKMESH_"
"""How the variables begin that a declared command does not get: tokens are among them."""

STATUS_LOST: Final = "its exit status is lost: this process ignores SIGCHLD, or waits for any child"
"""What is said of a child that ended without a code."""

MAX_UID: Final = 2**32 - 2
"""The number above it means "as before" to the kernel: the child would run as root."""


class SpawnError(Exception):
    """A child could not be started, in a few words that repeat nothing of its arguments."""


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a declared command gets: all but ours."""
    return {name: value for name, value in environ.items() if not name.startswith(OUR_VARIABLES)}


def spawn(  # noqa: PLR0913  where it runs, as whom and what it writes to, a keyword each
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    cwd: str | None = None,
    uid: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Child:
    """Start a program by its argument list, without a shell, in a session and group of its own.

    Its standard input is the null device, and so are its output and error where they are no descriptors. It starts in
    ``cwd``, by default where this process is, and as the user ``uid`` with the group of the same number and no other,
    by default as this process. :func:`touch` the program before. Raises :class:`SpawnError`.
    """
    if uid is not None and not 0 <= uid <= MAX_UID:
        raise SpawnError(f"{uid} is no user of this system")
    user: dict[str, Any] = {} if uid is None else {"user": uid, "group": uid, "extra_groups": ()}
    try:
        process = subprocess.Popen(  # noqa: S603  whoever calls names it, and no shell reads it
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if stdout is None else stdout,
            stderr=subprocess.DEVNULL if stderr is None else stderr,
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
            **user,
        )
    except OSError as error:
        raise SpawnError(_reason(error, cwd)) from None
    except (ValueError, subprocess.SubprocessError):  # a NUL, or what the child could not say
        raise SpawnError("no valid arguments") from None
    return Child(process)


def _reason(error: OSError, cwd: str | None) -> str:
    if cwd is not None and error.filename == cwd:
        return f"its working directory {cwd} cannot be entered"
    return SPAWN_WORDS.get(error.errno or 0, f"the system refuses it: {error.strerror}")


class Child:
    """A child that leads its group, and is reaped here and nowhere else. Any thread may signal the group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._done = False
        self._reaped = False
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """The number of the leader, and of its group."""
        return self._process.pid

    def signal_group(self, number: signal.Signals) -> None:
        """Signal all of the group, unless this run is done with it."""
        with self._lock:
            if not self._done:
                # Nobody is left, or all of them run as somebody else: the wait will tell.
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, number)

    def descriptor(self) -> int | None:
        """Return a descriptor that can be read from once the leader has ended, the caller's to close.

        None where the system has none: not Linux, or an old one, or a sandbox.
        """
        try:
            return os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            return None

    def wait(self, seconds: float | None) -> bool:
        """Wait until the leader has ended, for that long or without an end, and say whether it has. Does not reap."""
        descriptor = self.descriptor()
        if descriptor is None:
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


def hear_signals() -> None:
    """Have the ends of children, SIGTERM and SIGINT arrive, whatever the parent ignored or blocked.

    For the main thread. Where SIGCHLD is ignored the system reaps children itself, and each exit code is lost (POSIX,
    _exit).
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))


def touch(program: str, environ: Mapping[str, str]) -> None:
    """Read a byte of the program, and ignore every error.

    :func:`spawn` holds the interpreter's lock until the child has its program. Where that lies on a file system that
    hangs, it is this thread that must hang, before, and not the process.
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
