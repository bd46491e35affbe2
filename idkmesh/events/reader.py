"""Reads the file of a store that another process may have open, without making, changing or locking out anything.

Laws of this module (EV-4.5):

1. A connection lives for one call: one that stays open would keep a service that ends from tidying up its log.
2. No file is ever made. SQLite makes the log's index where there is a log without one, so that case is refused.
3. It is for a program that has no store open itself: it looks at the file's header, and closing a descriptor drops
   every lock that its process has on the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.events.bells import bell_folder
from idkmesh.events.connecting import connect
from idkmesh.events.errors import StoreDamagedError, StoreError, StoreForeignError, StoreNewerError, told
from idkmesh.events.place import absolute, beside, identity_of, refuse_other_kinds
from idkmesh.events.reading import read_batch
from idkmesh.events.schema import APPLICATION_ID, SCHEMA_VERSION, marks
from idkmesh.events.store import READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from idkmesh.events.state import Batch

_HEADER_BYTES: Final = 100
_READ_VERSION: Final = 19
"""Offset in the header of what a reader must know: 2 for a write-ahead log (SQLite file format, section 1.3.3)."""
_WRITE_AHEAD: Final = 2
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.02
"""Between two tries: a service that starts or ends makes and removes what lies beside the file."""


class _Way(NamedTuple):
    """How a file can be read without making one."""

    options: tuple[str, ...]
    locks: bool


_IN_USE: Final = _Way(("readonly_shm=1",), locks=True)
_WITHOUT_LOG: Final = _Way((), locks=True)
_AT_REST: Final = _Way(("immutable=1",), locks=False)


class StoreAbsentError(StoreError):
    """Nothing is there under the name: not yet, or not any more."""


class _UnsettledError(StoreError):
    """What is there is being made or removed, or was left so."""


_PASSING: Final = (StoreDamagedError, StoreAbsentError, _UnsettledError, FileNotFoundError, sqlite3.DatabaseError)
"""What may be otherwise a moment later."""


def read_file(
    path: Path,
    after: int | None,
    limit: int,
    wanted: Mapping[str, str],
    *,
    descending: bool = False,
) -> Batch:
    """Return what :meth:`EventStore.read` of the store at ``path`` would return.

    ``after`` None is the beginning, or, ``descending``, the end. Raises :class:`StoreError`, which says what is missing
    and what would help.
    """
    path = absolute(path)
    start = after if after is not None else 2**62 if descending else 0
    with _told(path):
        left = _TRIES
        while True:
            left -= 1
            try:
                return _read_once(path, (start, limit, wanted), descending=descending)
            except _PASSING:
                if not left:
                    raise
            time.sleep(_PAUSE_SECONDS)


def _read_once(path: Path, query: tuple[int, int, Mapping[str, str]], *, descending: bool) -> Batch:
    before = _stamp(path)
    way = _way(path)
    try:
        found = _read(path, way, query, descending=descending)
    except (StoreError, sqlite3.DatabaseError):
        _refuse_changed(path, way, before)
        raise
    _refuse_changed(path, way, before)
    return found


def _refuse_changed(path: Path, way: _Way, before: tuple[int, int, int] | None) -> None:
    """Raise where nothing kept a service from writing: what was read may be torn, or be damage that is none."""
    if not way.locks and (_stamp(path) != before or beside(path, "-wal").exists()):
        raise _UnsettledError(f"the event store {path} changed hands at each of {_TRIES} tries; try again")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read(path: Path, way: _Way, query: tuple[int, int, Mapping[str, str]], *, descending: bool) -> Batch:
    with contextlib.closing(connect(path, "ro", *way.options)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")
        application, version = marks(connection)
        if application != APPLICATION_ID:
            raise StoreForeignError(f"{path} is another program's file and no event store; name one with --store")
        if version > SCHEMA_VERSION:
            raise StoreNewerError(
                f"the event store {path} has schema version {version}, this program knows {SCHEMA_VERSION}; "
                "use the newer idkmesh"
            )
        return read_batch(connection, path, query, descending=descending, max_bytes=READ_BYTES)


def _way(path: Path) -> _Way:
    """Return how the file can be read without making one. Raises :class:`StoreError` where it cannot."""
    refuse_other_kinds(path)
    if identity_of(path) is None:
        raise StoreAbsentError(
            f"there is no event store at {path} yet; start idkmesh control-tower, which makes it, or name another "
            "with --store"
        )
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        raise StoreDamagedError(f"the event store {path} is damaged: it is shorter than a header")
    if header[_READ_VERSION] != _WRITE_AHEAD:
        return _WITHOUT_LOG
    log, index = beside(path, "-wal"), beside(path, "-shm")
    if not log.exists():
        return _AT_REST  # nobody has it open: whoever opens it makes the log first
    if index.exists():
        for each in (log, index):
            each.open("rb").close()  # the right to read these is needed too
        return _IN_USE
    raise _UnsettledError(
        f"the event store {path} was left with a log but no index ({index.name}), which reading it would have to make; "
        "start idkmesh control-tower once, which tidies up"
    )


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """As :func:`told`, but of a reader, who needs no right to write."""
    try:
        with told(path), _rights(path):
            yield
    except StoreDamagedError as error:
        if not bell_folder(path).exists():  # as the service itself judges it (EV-2.7)
            line = f"{path} is no event store, or none that is whole; name another with --store"
            raise StoreForeignError(line) from None
        raise StoreDamagedError(f"{error}; idkmesh control-tower puts it aside when it starts") from None


@contextlib.contextmanager
def _rights(path: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        whose = ""
        with contextlib.suppress(OSError):
            whose = f" (user id {path.stat().st_uid})"
        raise StoreError(
            f"no right to read {error.filename or path}; run this as the user whose store it is{whose}, or ask the "
            "running control tower, GET /api/v1/events"
        ) from None
