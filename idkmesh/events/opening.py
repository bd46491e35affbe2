"""How a store is opened: made where there is none, checked, brought up, and put aside where it is damaged (EV-2.5-2.7).

Laws of this module:

1. One process at a time opens a store (:func:`~idkmesh.events.bells.one_at_a_time`), so one makes it, one brings it up
   and one puts it aside.
2. Nothing but SQLite opens the database: closing a descriptor drops every lock that this process has on the file.
3. A file gets the store's name when it is whole: one that is empty was emptied by somebody else.
4. A damaged file is renamed, the database first, before its connections are closed: SQLite then leaves the log alone,
   where closing the last connection would else write it into the damaged file and delete it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh.events.bells import make_bell_folder, one_at_a_time
from idkmesh.events.envelope import Event
from idkmesh.events.errors import StoreDamagedError, StoreError, StoreForeignError, StoreNewerError, told
from idkmesh.events.place import (
    BESIDE,
    CAREFULLY,
    beside,
    identity_of,
    make_folders,
    network_kind,
    refuse_other_kinds,
    sync_folder,
)
from idkmesh.events.schema import APPLICATION_ID, SCHEMA_VERSION, bring_up, expected_names, marks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from idkmesh.events.place import Identity

BUSY_SECONDS: Final = 5.0
"""How long a write waits for other writers (EV-2.1)."""

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

    connection: sqlite3.Connection
    epoch: str
    identity: Identity
    wal: bool
    notes: tuple[Note, ...]
    quarantined: str | None


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection in ``mode`` (a query of SQLite's URIs) that never makes the file. Any thread may have it."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    # Damage is a wrong digest of a text then, and no error of another kind.
    connection.text_factory = _text
    return connection


def open_store(path: Path, *, now: datetime, source: str, damage: Damage | None = None) -> Opened:
    """Open the store at an absolute path, and make it where there is none.

    ``now`` stands in the name of a file that is put aside and in the event that tells of it, whose source is
    ``source``. ``damage`` is what was found while it was in use: that file is put aside, unless another process has
    done so. Raises :class:`StoreError`.
    """
    with told(path):
        make_folders(path.parent)
        refuse_other_kinds(path)
        folder = make_bell_folder(path)
        with one_at_a_time(folder):
            return _open(path, now, source, damage)


def _open(path: Path, now: datetime, source: str, damage: Damage | None) -> Opened:
    reason = None
    identity = identity_of(path)
    if damage is not None and identity in {damage.identity, None}:
        reason = damage.reason
    elif identity is None:
        if any(beside(path, end).exists() for end in BESIDE):
            reason = f"the event store {path} is gone, but not what lay beside it"
        else:
            _make(path, ())
    held: list[sqlite3.Connection] = []
    try:
        if reason is None:
            try:
                return _checked(path, held)
            except StoreDamagedError as found:
                reason = str(found)
        line = _put_aside(path, now, source, reason)
    finally:
        _close_all(held)  # after the renaming (law 4); on success it is empty
    opened = _checked(path, held)
    return Opened(
        opened.connection,
        opened.epoch,
        opened.identity,
        opened.wal,
        (Note(logging.ERROR, line), *opened.notes),
        line,
    )


def _make(path: Path, events: Sequence[Event]) -> None:
    """Make a store with the first events in it, whole, then give it its name (law 3)."""
    new = beside(path, "-new")
    for left in (new, beside(new, "-journal")):  # of a process that died here
        left.unlink(missing_ok=True)
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | CAREFULLY, 0o600))
    try:
        with contextlib.closing(connect(new, "mode=rw")) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            epoch = secrets.token_hex(8)
            bring_up(connection, epoch=epoch)
            insert(connection, epoch, events)
            connection.execute("COMMIT")
        new.rename(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def insert(connection: sqlite3.Connection, epoch: str, events: Sequence[Event]) -> int:
    """Insert events within a transaction, and return the sequence of the last one, 0 without events."""
    statement = "INSERT INTO event (epoch, type, source, subject, time, data, datadigest) VALUES (?, ?, ?, ?, ?, ?, ?)"
    last = 0
    for event in events:
        row = (epoch, event.type, event.source, event.subject, event.time_text, event.data_text, event.digest)
        last = connection.execute(statement, row).lastrowid or 0
    return last


def _put_aside(path: Path, now: datetime, source: str, reason: str) -> str:
    """Rename the store with all that lies beside it, make a new one, and return the line that tells of it (EV-2.7)."""
    name = f"{path.name}.damaged-{now:%Y%m%dT%H%M%SZ}"
    ends = ("", *BESIDE)
    number = 1
    aside = path.with_name(name)
    while any(os.path.lexists(beside(aside, end)) for end in ends):
        number += 1
        aside = path.with_name(f"{name}-{number}")
    files = []
    for end in ends:
        with contextlib.suppress(FileNotFoundError):
            beside(path, end).rename(beside(aside, end))
            files.append(str(beside(aside, end)))
    sync_folder(path.parent)
    told_files = [file.encode("utf-8", "backslashreplace").decode() for file in files]
    told_reason = reason.encode("utf-8", "backslashreplace").decode()
    data = {"reason": told_reason, "files": told_files}
    event = Event(type="idkmesh.events.quarantined", source=source, time=now, data=data)
    _make(path, [event])
    return (
        f"{reason}; it was put aside as {aside} and a new store with a new epoch begins; "
        "nothing was deleted: keep it for a rescue with the sqlite3 shell's .recover, or remove it"
    )


def _checked(path: Path, held: list[sqlite3.Connection]) -> Opened:
    """Open a file that is there, for writing.

    A connection that has failed is left in ``held``, open. Raises :class:`StoreDamagedError` for what has to be put
    aside.
    """
    refuse_other_kinds(path)
    identity = identity_of(path)
    with told(path):
        ours = _is_ours(path)
        _check_log(path)
        connection = connect(path, "mode=rw")
        held.append(connection)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "fullfsync = ON", "wal_autocheckpoint = 0"):
            connection.execute(f"PRAGMA {setting}")
        _check_view(connection, path, ours=ours)
        notes = _quick_check(connection, path)
        epoch = _epoch(connection, path)
        wal, more = _choose_journal(connection, path)
    if identity is None or identity_of(path) != identity:
        raise StoreError(f"the event store {path} was replaced while it was opened; start again")
    held.remove(connection)
    return Opened(connection, epoch, identity, wal, (*notes, *more), None)


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
            with contextlib.closing(connect(path, "immutable=1")) as connection:
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

    SQLite would open the file without a word, and give the sequences of what is lost to other events. It removes
    the index of the log before the log, so the log is looked for first.
    """
    log = beside(path, "-wal")
    try:
        with log.open("rb") as file:
            # In this order: others write to it meanwhile, and empty it, which leaves nothing to read.
            size = os.fstat(file.fileno()).st_size
            head = file.read(len(_LOG_MAGIC[0]))
    except FileNotFoundError:
        if beside(path, "-shm").exists():
            raise StoreDamagedError(f"the event store {path} is damaged: its write-ahead log is gone") from None
        return
    if size >= _LOG_WITH_A_FRAME and head and head not in _LOG_MAGIC:
        raise StoreDamagedError(f"the event store {path} is damaged: its write-ahead log is none")


def _check_view(connection: sqlite3.Connection, path: Path, *, ours: bool) -> None:
    """Check what the file is with its log, and bring it up where it is older (EV-2.6)."""
    application, version = marks(connection)
    if application != APPLICATION_ID and ours:
        raise StoreDamagedError(f"the event store {path} is damaged: its write-ahead log is another database's")
    _refuse_foreign(path, other=application != APPLICATION_ID)
    connection.execute("BEGIN IMMEDIATE")  # fails without the right to write, which is told at once then
    try:
        _refuse_newer(path, marks(connection)[1])
        if version < SCHEMA_VERSION:
            bring_up(connection)
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if missing := expected_names() - names:
        raise StoreDamagedError(f"the event store {path} is damaged: it lacks {', '.join(sorted(missing))}")


def _quick_check(connection: sqlite3.Connection, path: Path) -> tuple[Note, ...]:
    """Let SQLite look at every page, for at most :data:`CHECK_SECONDS`."""
    deadline = time.monotonic() + CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_STEP)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        line = f"the event store {path} was not checked to its end, which would take more than {CHECK_SECONDS:.0f} s"
        return (Note(logging.WARNING, line),)
    finally:
        connection.set_progress_handler(None, 0)
    if found != "ok":
        raise StoreDamagedError(f"the event store {path} is damaged: {' '.join(str(found).split())}")
    return ()


def _epoch(connection: sqlite3.Connection, path: Path) -> str:
    """Return the epoch, and check that the newest event is of it and whole."""
    rows = connection.execute("SELECT epoch FROM meta").fetchall()
    if len(rows) != 1 or len(str(rows[0][0])) != 16:  # noqa: PLR2004  digits of an epoch, EV-1.2
        raise StoreDamagedError(f"the event store {path} is damaged: it has no epoch")
    epoch = str(rows[0][0])
    newest = connection.execute("SELECT epoch FROM event ORDER BY sequence DESC LIMIT 1").fetchone()
    if newest is not None and newest[0] != epoch:
        raise StoreDamagedError(f"the event store {path} is damaged: its write-ahead log is another store's")
    return epoch


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


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that has failed, if SQLite has not ended it already."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        with contextlib.suppress(sqlite3.Error):
            connections.pop().close()


def _text(value: bytes) -> Any:  # noqa: ANN401  what the module asks for
    return value.decode("utf-8", "replace")
