"""How a store is opened: made where there is none, checked, brought up, and put aside where it is damaged (EV-2.5-2.7).

Laws of this module:

1. One process at a time opens a store (:func:`~idkmesh.events.bells.one_at_a_time`), so one makes it, one brings it up
   and one puts it aside.
2. Nothing but SQLite opens the database: closing a descriptor drops every lock that this process has on the file.
3. A file gets the store's name when it is whole (:mod:`~idkmesh.events.quarantine`): one that is empty was emptied by
   somebody else.
4. A damaged file keeps its log: closing the last connection that may write would write the log into the file and delete
   it. So the file is examined by one that may only read, and one that may write is closed after the renaming.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from idkmesh.events.bells import bell_folder, make_bell_folder, one_at_a_time, ring_others
from idkmesh.events.connecting import BUSY_SECONDS, close_quietly, connect, refuse_inherited, roll_back
from idkmesh.events.errors import StoreDamagedError, StoreError, StoreForeignError, StoreNewerError, told
from idkmesh.events.place import (
    BESIDE,
    beside,
    identity_of,
    make_folders,
    network_kind,
    refuse_long_name,
    refuse_other_kinds,
)
from idkmesh.events.quarantine import discard_new, finish, make_store, put_aside
from idkmesh.events.reading import check_counts, read_epoch
from idkmesh.events.schema import APPLICATION_ID, SCHEMA_VERSION, bring_up, expected_names, marks

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from idkmesh.events.connecting import Connection
    from idkmesh.events.place import Identity

CHECK_SECONDS: Final = 5.0
"""How long ``quick_check`` may take at opening (EV-2.7); it reads some 200 MiB a second."""

LOG_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""The write-ahead log is truncated when it has passed this (EV-2.10)."""

_CHECK_STEP: Final = 10_000
"""Instructions of SQLite's machine between two looks at the clock: about a millisecond."""

_LOOKS: Final = 5
_LOOK_AGAIN_SECONDS: Final = 0.02
"""How often a file that looks damaged without a lock is looked at, and how far apart."""

_LOG_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_LOG_WITH_A_FRAME: Final = 32 + 24 + 512
"""Bytes of a write-ahead log with one frame of the smallest page; its header was on the disk before the frame."""


class Note(NamedTuple):
    """A line for the log about the opening of a store."""

    level: int
    line: str


class Damage(NamedTuple):
    """What was found damaged while it was in use: which file, and why."""

    identity: Identity
    reason: str


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store: its one writing connection, which file it is, and what is to be told of its opening.

    ``wal`` says whether it has a write-ahead log; ``quarantined`` is what became of a damaged one, None where there was
    none.
    """

    connection: Connection
    epoch: str
    identity: Identity
    wal: bool
    notes: tuple[Note, ...]
    quarantined: str | None


def open_store(path: Path, *, now: datetime, source: str, damage: Damage | None = None) -> Opened:
    """Open the store at an absolute path, and make it where there is none.

    ``now`` stands in the name of a file that is put aside and in the event that tells of it, whose source is
    ``source``. ``damage`` is what was found while it was in use: that file is put aside, unless another process has
    done so. Raises :class:`StoreError`.
    """
    with told(path):
        refuse_long_name(path)
        make_folders(path.parent)
        refuse_other_kinds(path)
        if damage is None and not bell_folder(path).exists():
            _refuse_no_store(path)
        folder = make_bell_folder(path)
        with one_at_a_time(folder):
            opened = _open(path, now, source, damage)
    if opened.quarantined is not None:
        ring_others(folder, None)  # who is idle would go on with the file that was put aside
    return opened


def _refuse_no_store(path: Path) -> None:
    """Refuse a file that shows in no way that it was a store: it may be somebody's (EV-2.7)."""
    if identity_of(path) is None:
        return
    try:
        _is_ours(path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB:
            raise
    except StoreDamagedError:
        pass
    else:
        return
    raise StoreForeignError(f"{path} is no event store and is left alone; name another place with --store")


def _open(path: Path, now: datetime, source: str, damage: Damage | None) -> Opened:
    identity = identity_of(path)
    refuse_inherited(path, identity)
    reason = line = None
    if identity is not None:
        discard_new(path)  # its maker died before anything was renamed
        if damage is not None and damage.identity == identity:
            reason = damage.reason
    elif (line := finish(path, now)) is None:
        if damage is not None:
            reason = damage.reason
        elif any(beside(path, end).exists() for end in BESIDE):
            reason = f"the event store {path} is gone, but not what lay beside it"
        else:
            make_store(path)
    held: list[Connection] = []
    try:
        if reason is None:
            try:
                return _told_of(_checked(path, held), line)
            except StoreDamagedError as found:
                reason = str(found)
        line = _put_aside(path, now, source, reason)
    finally:
        for connection in held:  # after the renaming (law 4)
            close_quietly(connection)
    try:
        return _told_of(_checked(path, []), line)
    except StoreError as error:
        raise type(error)(f"{line}; but that cannot be opened: {error}") from None


def _put_aside(path: Path, now: datetime, source: str, reason: str) -> str:
    """Put the store aside; where that fails, say also why it has to be."""
    try:
        with told(path):
            return put_aside(path, now, source, reason)
    except StoreError as error:
        raise type(error)(f"{reason}; it could not be put aside: {error}") from None


def _told_of(opened: Opened, line: str | None) -> Opened:
    """Return an open store with the line on the one before it, if that was put aside."""
    if line is None:
        return opened
    return replace(opened, notes=(Note(logging.ERROR, line), *opened.notes), quarantined=line)


def _checked(path: Path, held: list[Connection]) -> Opened:
    """Open a file that is there, for writing.

    A connection that has failed is left in ``held``, open. Raises :class:`StoreDamagedError` for what has to be put
    aside.
    """
    refuse_other_kinds(path)
    identity = identity_of(path)
    with told(path):
        ours = _is_ours(path)
        _check_log(path)
        notes = _examined(path, ours=ours)
        connection = connect(path, "rw")
        held.append(connection)
        _set(connection)
        _bring_up(connection, path)
        epoch = read_epoch(connection, path)
        wal, more = _choose_journal(connection, path)
    if identity is None or identity_of(path) != identity:
        raise StoreError(f"the event store {path} was replaced while it was opened; start again")
    held.remove(connection)
    return Opened(connection, epoch, identity, wal, (*notes, *more), None)


# Debian's SQLite overwrites what is deleted unless it is told not to: retention would write each event twice.
_SETTINGS: Final = (
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "fullfsync = ON",
    "wal_autocheckpoint = 0",
    "secure_delete = OFF",
)


def _set(connection: Connection) -> None:
    for setting in _SETTINGS:
        connection.execute(f"PRAGMA {setting}")


def _examined(path: Path, *, ours: bool) -> tuple[Note, ...]:
    """Check what the file is with its log, by a connection whose closing leaves both as they are (law 4)."""
    # What a rollback journal holds has to be written back, which a reader cannot; there is no log then.
    mode: Literal["ro", "rw"] = "rw" if beside(path, "-journal").exists() else "ro"
    with contextlib.closing(connect(path, mode)) as connection:
        _set(connection)
        application, version = marks(connection)
        if application != APPLICATION_ID and ours:
            raise StoreDamagedError(f"the event store {path} is damaged: its write-ahead log is another database's")
        _refuse_foreign(path, other=application != APPLICATION_ID)
        _refuse_newer(path, version)
        if version == SCHEMA_VERSION:
            _check_names(connection, path)
        notes = _check_content(connection, path)
        read_epoch(connection, path)
        return notes


def _is_ours(path: Path) -> bool:
    """Say whether the file's header alone, without its log, has a store's marks.

    Raises for another program's database and for a newer version's (EV-2.6): ``immutable`` takes no lock, reads no log
    and writes nothing, so these are left as they are. Neither mark is ever in the log alone.

    Without a lock the file may be seen while another process writes to it, and then looks malformed: after some looks
    the answer is False, and who reads with a lock judges. What stands in the header of any database never changes, so
    that it is none (``SQLITE_NOTADB``) is sure.
    """
    if path.stat().st_size == 0:
        raise StoreDamagedError(f"the event store {path} is damaged: it is empty")
    for _ in range(_LOOKS):
        try:
            with contextlib.closing(connect(path, "ro", "immutable=1")) as connection:
                application, version = marks(connection)
                (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)
            continue
        _refuse_foreign(path, other=application != APPLICATION_ID or (version == 0 and tables > 0))
        _refuse_newer(path, version)
        return True
    return False


def _refuse_foreign(path: Path, *, other: bool) -> None:
    if other:
        raise StoreForeignError(
            f"{path} is another program's database and is left alone; name another place with --store"
        )


def _refuse_newer(path: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise StoreNewerError(
            f"the event store {path} has schema version {version}, this program knows {SCHEMA_VERSION} and leaves it "
            "alone; use the newer idkmesh, or name another place with --store"
        )


def _check_log(path: Path) -> None:
    """Raise where the write-ahead log is missing or is none: what it held was acknowledged, and is lost.

    SQLite would open the file without a word, and give the sequences of what is lost to other events. Only a log that
    stays away beside its index is missing: who opens the store makes the log first, perhaps between two looks.
    """
    for look in range(_LOOKS):
        if look:
            time.sleep(_LOOK_AGAIN_SECONDS)
        try:
            size, head = _log_head(beside(path, "-wal"))
        except FileNotFoundError:
            if beside(path, "-shm").exists():
                continue
            return
        if size >= _LOG_WITH_A_FRAME and head and head not in _LOG_MAGIC:
            raise StoreDamagedError(f"the event store {path} is damaged: its write-ahead log is none")
        return
    raise StoreDamagedError(f"the event store {path} is damaged: its write-ahead log is gone")


def _log_head(log: Path) -> tuple[int, bytes]:
    """Return the log's size and its first bytes, in this order: others write to it meanwhile, and empty it."""
    with log.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return size, file.read(len(_LOG_MAGIC[0]))


def _bring_up(connection: Connection, path: Path) -> None:
    """Bring an older file to this version (EV-2.6)."""
    connection.execute("BEGIN IMMEDIATE")  # fails without the right to write, which is told at once then
    try:
        _, version = marks(connection)
        _refuse_newer(path, version)
        if version < SCHEMA_VERSION:
            bring_up(connection)
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    _check_names(connection, path)


def _check_names(connection: Connection, path: Path) -> None:
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if missing := expected_names() - names:
        raise StoreDamagedError(f"the event store {path} is damaged: it lacks {', '.join(sorted(missing))}")


def _check_content(connection: Connection, path: Path) -> tuple[Note, ...]:
    """Let SQLite look at every page and count the events, for at most :data:`CHECK_SECONDS`."""
    deadline = time.monotonic() + CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_STEP)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise StoreDamagedError(f"the event store {path} is damaged: {' '.join(str(found).split())}")
        check_counts(connection, path)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        line = f"the event store {path} was not checked to its end, which would take more than {CHECK_SECONDS:.0f} s"
        return (Note(logging.WARNING, line),)
    finally:
        connection.set_progress_handler(None, 0)
    return ()


def _choose_journal(connection: sqlite3.Connection, path: Path) -> tuple[bool, tuple[Note, ...]]:
    """Set the journal and how it is brought to the disk; say whether it is a write-ahead log (EV-2.1, EV-2.11)."""
    kind = network_kind(path)
    wanted = "wal" if kind is None else "delete"
    (mode,) = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
    wal = mode == "wal"
    # EXTRA brings the end of a rollback journal to the disk too: without it a commit could be undone by a power cut.
    connection.execute(f"PRAGMA synchronous = {'FULL' if wal else 'EXTRA'}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
    if wal:
        truncate_log(connection)  # also marks the log's index, which a reader without the right to write needs
    if kind is None:
        return wal, ()
    line = f"the event store {path} lies on a network file system ({kind}): it uses a rollback journal, which is slower"
    return wal, (Note(logging.WARNING, line),)


def truncate_log(connection: sqlite3.Connection) -> None:
    """Write the log into the file and empty it, unless somebody reads from it: then do what can be done at once.

    That it cannot be done, for want of room too, harms nothing: what is committed stands in the log.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
