"""What goes wrong with a store, each as one line for a person: what happened, where, what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PRIMARY: Final = 0xFF
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_READ_ONLY_MOVED: Final = 1032
"""SQLITE_READONLY_DBMOVED, which the module has no name for in every version."""


class Kind(NamedTuple):
    """How errors speak of a store: what it is, and what names its place."""

    noun: str
    option: str


EVENT_STORE: Final = Kind("event store", "--store")


class StoreError(Exception):
    """The store cannot do what it was asked. A retry may help, unless a subclass says otherwise."""


class StoreFullError(StoreError):
    """No room is left on its file system."""


class StoreBusyError(StoreError):
    """Another process has held the store for longer than the bounded wait (EV-2.1)."""


class StoreDamagedError(StoreError):
    """The file does not hold what was written to it. It has to be put aside (EV-2.7)."""


class StoreMovedError(StoreError):
    """Another file stands under the store's name, or none: it was put aside, replaced or removed. Open it again."""


class StoreNewerError(StoreError):
    """A newer version has written it (EV-2.6). A retry does not help."""


class StoreForeignError(StoreError):
    """Another program's database (EV-2.6). A retry does not help."""


class StoreForkedError(StoreError):
    """A forked child has used its parent's store (EV-2.12): the program's fault."""


@contextlib.contextmanager
def told(path: Path, kind: Kind = EVENT_STORE) -> Iterator[None]:
    """Turn what SQLite and the system raise within into a :class:`StoreError` about the store at ``path``."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path, kind) from None
    except OSError as error:
        raise translated_system(error, path, kind) from None


def translated_system(error: OSError, path: Path, kind: Kind = EVENT_STORE) -> StoreError:
    """Return the :class:`StoreError` that says what an error of the system means for the store at ``path``."""
    if error.errno in _NO_ROOM:
        return StoreFullError(f"the {kind.noun} {path} has no room left; make room on its file system")
    where = f" ({error.filename})" if error.filename is not None and str(error.filename) != str(path) else ""
    advice = "make its folder and files writable for this user" if error.errno in _NO_RIGHT else "look at that place"
    return StoreError(
        f"the {kind.noun} {path} cannot be used: {error.strerror or error}{where}; {advice}, or name another with "
        f"{kind.option}"
    )


def translated(error: sqlite3.Error, path: Path, kind: Kind = EVENT_STORE) -> StoreError:
    """Return the :class:`StoreError` that says what an error of SQLite means for the store at ``path``."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    match code & _PRIMARY:
        # A constraint too: what is appended fits the tables, unless somebody has changed what they count by.
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CONSTRAINT:
            return StoreDamagedError(f"the {kind.noun} {path} is damaged: {error}")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusyError(f"the {kind.noun} {path} is locked by another process; end what holds it")
        case sqlite3.SQLITE_FULL:
            return StoreFullError(f"the {kind.noun} {path} has no room left; make room on its file system")
    if code == _READ_ONLY_MOVED:
        return StoreMovedError(f"the {kind.noun} {path} is no longer the file that was opened")
    if code & _PRIMARY == sqlite3.SQLITE_IOERR and _no_room(path):
        return StoreFullError(f"the {kind.noun} {path} has no room left; make room on its file system")
    rights = "" if code & _PRIMARY == sqlite3.SQLITE_IOERR else " and at the rights of its files"
    return StoreError(f"the {kind.noun} {path} cannot be used: {error}; look at its file system{rights}")


def _no_room(path: Path) -> bool:
    """Say whether the file system is full: SQLite says so of the file alone, of its index it says that I/O failed."""
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except (OSError, AttributeError):  # AttributeError: Windows
        return False
