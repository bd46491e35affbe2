"""Where a store lies: its folder, what else may stand under its name, and its file system (EV-2.5, EV-2.11)."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from idkmesh.events.errors import EVENT_STORE, StoreError

if TYPE_CHECKING:
    from idkmesh.events.errors import Kind

if sys.platform != "win32":
    import fcntl

MOUNTS: Final = Path("/proc/self/mountinfo")
"""Where Linux tells what is mounted, proc(5). Elsewhere nothing is known, and WAL is taken."""

BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite lays beside a database, by the ends of the names."""

# fmt: off
_NETWORK: Final = frozenset((
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncp", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
))
# fmt: on
CAREFULLY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags of each open(): follow no link under the name, and give nothing to programs that are started."""

LONGEST_NAME: Final = 200
"""Bytes of the store's name: file systems allow 255, and a damaged store's is longer by the time and ``-journal``."""

_ESCAPE: Final = re.compile(r"\\([0-7]{3})")

Identity: TypeAlias = tuple[int, int]
"""Device and inode: what tells one file from every other."""


def identity_of(path: Path) -> Identity | None:
    """Return the identity of what stands under the name, None where nothing does."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def beside(path: Path, end: str) -> Path:
    """Return the path with something at the end of its name, ``events.sqlite3-wal``."""
    return path.with_name(path.name + end)


def refuse_other_kinds(path: Path, store: Kind = EVENT_STORE) -> None:
    """Raise :class:`StoreError` where something else than a file stands under the store's name (EV-2.5, EV-2.7)."""
    with contextlib.suppress(FileNotFoundError):
        found = os.lstat(path)
        mode = found.st_mode
        if stat.S_ISLNK(mode):
            raise StoreError(f"the {store.noun} {path} is a symbolic link, which is refused; name the file itself")
        if not stat.S_ISREG(mode):
            kind = "folder" if stat.S_ISDIR(mode) else "device, FIFO or socket"
            raise StoreError(
                f"the {store.noun} {path} is a {kind}, which is refused; name another place with {store.option}"
            )
        if found.st_nlink > 1:  # the log lies beside each name, so that two would be two stores in one file
            raise StoreError(
                f"the {store.noun} {path} has {found.st_nlink} names (hard links), which is refused; copy it to a file "
                "of its own"
            )


def refuse_other_kinds_beside(path: Path, store: Kind = EVENT_STORE) -> None:
    """Raise :class:`StoreError` where a link, FIFO or folder has the name of a journal, which SQLite would open."""
    for each in (beside(path, end) for end in BESIDE):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(each).st_mode):
                raise StoreError(
                    f"{each}, where a journal of the {store.noun} would be, is no file, which is refused; remove it, "
                    f"or name another place with {store.option}"
                )


def refuse_long_name(path: Path, store: Kind = EVENT_STORE) -> None:
    """Raise :class:`StoreError` for a name that leaves no room for what a damaged store would be called (EV-2.7)."""
    size = len(os.fsencode(path.name))
    if size > LONGEST_NAME:
        raise StoreError(
            f"the {store.noun} {path} has a name of {size} bytes, it must be at most {LONGEST_NAME}; name another with "
            f"{store.option}"
        )


def make_folders(folder: Path) -> None:
    """Make the folder and those above it, for this user alone. One that is there keeps its mode (EV-2.5)."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        if folder == folder.parent:
            break
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)  # a store that is on the disk under no name is lost


def absolute(path: Path, store: Kind = EVENT_STORE) -> Path:
    """Return the path from the root on, without following links. Raises :class:`StoreError` where there is no root."""
    try:
        return Path(os.path.abspath(path))  # noqa: PTH100  Path.absolute() keeps "..", resolve() follows links
    except FileNotFoundError:
        raise StoreError(
            f"the {store.noun} {path} cannot be found: the working directory was removed; name the whole path with "
            f"{store.option}"
        ) from None


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            if hasattr(fcntl, "F_FULLFSYNC"):  # macOS, whose fsync() leaves it to the disk's cache
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            else:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def network_kind(path: Path) -> str | None:
    """Return the kind of the network file system that the path lies on, None for a local or an unknown one."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = filesystem_kind(os.path.realpath(path), mounts)
    return kind if kind is not None and is_network(kind) else None


def is_network(kind: str) -> bool:
    """Say whether shared memory and locks of a file system of this kind end at the machine (EV-2.11)."""
    return kind in _NETWORK or kind.partition(".")[0] in {"fuse", "fuseblk"}


def filesystem_kind(path: str, mounts: str) -> str | None:
    """Return the kind of file system that ``path`` lies on by the text of ``mountinfo``, None where none fits. Pure.

    The longest mount point wins, and of two at one place the later, which covers the other.
    """
    best, kind = -1, None
    for line in mounts.splitlines():
        fields, _, tail = line.partition(" - ")
        parts = fields.split(" ")
        if len(parts) < 5 or not tail:  # noqa: PLR2004  the mount point is the fifth field, proc(5)
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), parts[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), tail.split(" ")[0]
    return kind
