"""How the processes of one store wake each other, and how one of them at a time opens it (EV-2.9, EV-2.6).

Beside the store stands a folder with a FIFO for each process that waits. After a commit a process writes a byte to each
FIFO of the others; a FIFO that nobody has open any more is removed by whoever finds it. Nobody polls the store.

What lies in the folder: ``lock``, which is locked while a store is opened and holds a word of who has it; a new store
until it gets its name (:mod:`~idkmesh.events.quarantine`); FIFOs, whose names are 16 hexadecimal
digits; for a moment, under the lock, a FIFO whose name begins with a dot, which is not yet open and so must not be
taken for a dead one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import selectors
import socket
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.events.errors import StoreBusyError, StoreError
from idkmesh.events.place import CAREFULLY, beside, identity_of, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform != "win32":
    import fcntl

OPENING_SECONDS: Final = 15.0
"""How long one process waits for another to have opened the store, which it may be checking (EV-2.7). It waits as long
again each time that the lock changes hands: several that are opened at once take their turns."""

_LOOK_AGAIN_SECONDS: Final = 0.02
_NAME: Final = re.compile(r"[0-9a-f]{16}")
_HIDDEN: Final = re.compile(r"\.[0-9a-f]{16}")
_HOLDER_BYTES: Final = 16
_ENOUGH: Final = 65_536
_PERHAPS_FULL: Final = 4096
"""A FIFO that holds so much may have taken no more: one page is the least that Linux gives, pipe(7)."""

_NO_FIFOS: Final = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)
"""What mkfifo() says where the file system has none; all else is trouble of the store's place."""

OWN: Final = b"o"
OTHERS: Final = b"c"


class Bell(Protocol):
    """What wakes the one thread that waits at it."""

    name: str | None

    def ring(self) -> None:
        """Wake the thread. From any thread; never waits."""

    def wait(self, timeout: float | None) -> bool:
        """Wait until somebody rings, at most ``timeout`` seconds. Say whether another process has rung."""

    def stands(self) -> bool:
        """Say whether others still find it: its name may have been removed with its folder."""

    def close(self) -> None:
        """Take it down."""


def bell_folder(path: Path) -> Path:
    """Return the folder of the bells of the store at ``path``."""
    return beside(path, "-bells")


def make_bell_folder(path: Path) -> Path:
    """Make the folder for this user alone, unless it is there. Raises :class:`StoreError` where it is no folder."""
    folder = bell_folder(path)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        sync_folder(folder.parent)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{folder} is no folder, but the event store beside it needs one there; remove or rename it")
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise StoreError(
            f"{folder} belongs to user id {found.st_uid}, not to this one; remove it, or name another place with "
            "--store"
        )
    return folder


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Keep other processes from opening the same store. Raises :class:`StoreBusyError` if one keeps it for 15 s.

    Where the file system knows no such locks there is none, and SQLite's own lock decides who makes the tables.
    """
    if sys.platform == "win32":
        yield
        return
    flags = os.O_RDWR | os.O_CREAT | CAREFULLY
    descriptor = os.open(folder / "lock", flags, 0o600)
    try:
        _wait_for_lock(descriptor, folder)
        with contextlib.suppress(OSError):  # without room the others wait for 15 s all in all
            os.pwrite(descriptor, secrets.token_hex(_HOLDER_BYTES // 2).encode(), 0)
        yield
    finally:
        # Not by closing alone: a child that was forked meanwhile holds the same lock.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _wait_for_lock(descriptor: int, folder: Path) -> None:
    holder = os.pread(descriptor, _HOLDER_BYTES, 0)
    deadline = time.monotonic() + OPENING_SECONDS
    while not _locked(descriptor):
        seen = os.pread(descriptor, _HOLDER_BYTES, 0)
        if seen != holder:
            holder, deadline = seen, time.monotonic() + OPENING_SECONDS
        elif time.monotonic() > deadline:
            raise StoreBusyError(
                f"another process has been opening the event store beside {folder} for {OPENING_SECONDS:.0f} s; "
                "end it if it hangs"
            )
        time.sleep(_LOOK_AGAIN_SECONDS)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in {errno.EWOULDBLOCK, errno.EINTR}
    return True


def ring_others(folder: Path, own: str | None) -> None:
    """Wake every other process that waits for the store's commits. Never waits and never raises."""
    if not hasattr(os, "mkfifo"):
        return
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name != own and _NAME.fullmatch(path.name):
                _ring(path)


def _ring(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | CAREFULLY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # its reader is gone; a name is never used again
            with contextlib.suppress(OSError):
                path.unlink()
        return
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            with contextlib.suppress(OSError):  # full: it rings already
                os.write(descriptor, OTHERS)
    finally:
        os.close(descriptor)


def new_bell(folder: Path) -> Bell:
    """Return a bell that other processes can ring, or, where there are no FIFOs, one for this process alone.

    Raises :class:`OSError` where the folder takes no file, and :class:`StoreBusyError`.
    """
    if not hasattr(os, "mkfifo"):
        return LocalBell()
    with one_at_a_time(folder):
        for left in folder.iterdir():  # by processes that died here; the lock is ours
            if _HIDDEN.fullmatch(left.name):
                with contextlib.suppress(OSError):
                    left.unlink()
        name = secrets.token_hex(8)
        hidden = folder / f".{name}"
        try:
            os.mkfifo(hidden, 0o600)
        except OSError as error:
            if error.errno in _NO_FIFOS:
                return LocalBell()
            raise
        return FifoBell(hidden, folder / name)


class FifoBell:
    """A bell with a name in the folder: the FIFO ``hidden``, which gets the name ``path`` once it is open."""

    __slots__ = ("_descriptor", "_identity", "_lock", "_path", "_selector", "name")

    def __init__(self, hidden: Path, path: Path) -> None:
        self.name: str | None = path.name
        self._lock = threading.Lock()  # so that nobody rings at a number that is somebody else's by now
        self._path = path
        self._selector = selectors.DefaultSelector()
        self._descriptor = -1
        try:
            # For reading and writing: with its own writer a FIFO never ends, so it is not readable for ever.
            self._descriptor = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | CAREFULLY)
            found = os.fstat(self._descriptor)
            self._identity = (found.st_dev, found.st_ino)
            self._selector.register(self._descriptor, selectors.EVENT_READ)
            hidden.rename(path)
        except BaseException:
            self.close()
            raise

    def ring(self) -> None:
        """Wake the thread."""
        with self._lock, contextlib.suppress(OSError):  # full: it rings already; closed: nobody waits
            os.write(self._descriptor, OWN)

    def wait(self, timeout: float | None) -> bool:
        """Wait, and say whether another process has rung."""
        if not self._selector.select(timeout):
            return False
        try:
            rung = os.read(self._descriptor, _ENOUGH)
        except BlockingIOError:
            return False
        return OTHERS in rung or len(rung) >= _PERHAPS_FULL  # what finds it full is lost

    def stands(self) -> bool:
        """Say whether others still find it."""
        try:
            return identity_of(self._path) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Remove it."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        self._selector.close()
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LocalBell:
    """A bell that only this process rings."""

    __slots__ = ("_inner", "_outer", "_selector", "name")

    def __init__(self) -> None:
        self.name: str | None = None
        self._outer, self._inner = socket.socketpair()
        self._outer.settimeout(0)
        self._inner.settimeout(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._inner, selectors.EVENT_READ)

    def ring(self) -> None:
        """Wake the thread."""
        with contextlib.suppress(OSError):
            self._outer.send(OWN)

    def wait(self, timeout: float | None) -> bool:
        """Wait. No other process has rung."""
        if self._selector.select(timeout):
            with contextlib.suppress(BlockingIOError):
                self._inner.recv(_ENOUGH)
        return False

    def stands(self) -> bool:
        """Others never find it."""
        return True

    def close(self) -> None:
        """Close both ends."""
        self._selector.close()
        self._outer.close()
        self._inner.close()
