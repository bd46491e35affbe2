"""Where trackers and restarts outlive a supervisor (AR-4.5): a small SQLite file of one writer.

Laws of this module:

1. Each call opens the file, does one transaction and closes it: nothing is held that could go stale between two passes.
2. It has a rollback journal and no write-ahead log: nobody reads while it is written, one file is easier to move and to
   keep than three, and it holds on network file systems too.
3. Only who has adopted the file last may save: a supervisor that was paused and has lost its lease writes over nothing.
4. A damaged file is put aside and told, never deleted: what is lost with it is evidence, which comes again. The claims
   of restarts are the lease store's.
5. A file of another program or of a newer version is left alone.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from idkmesh.events.connecting import connect, roll_back
from idkmesh.events.errors import Kind, StoreError
from idkmesh.events.place import (
    BESIDE,
    CAREFULLY,
    absolute,
    beside,
    identity_of,
    make_folders,
    refuse_other_kinds,
    refuse_other_kinds_beside,
)
from idkmesh.events.schema import made_new, marks
from idkmesh.time_limiter import LateError, TimeLimiter
from idkmesh.workloads.ages import Stamp, aged
from idkmesh.workloads.tracker_rows import COLUMNS, kept_of_row, row_of_record, stamp_of_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from idkmesh.workloads.record import Kept, Record

APPLICATION_ID: Final = int.from_bytes(b"idmT")
"""In the header of each store's file; ``file`` shows it."""

SCHEMA_VERSION: Final = 1

CALL_SECONDS: Final = 7.0
"""How long a call may take: longer than a lock is waited for (5 s), shorter than its caller may be silent (AR-7.8)."""

TRACKER_STORE: Final = Kind("tracker store", "--store")

_TABLES: Final = (
    """
    CREATE TABLE meta (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        owner TEXT NOT NULL,
        boot_id TEXT,
        boot REAL NOT NULL,
        wall REAL NOT NULL
    )""",
    f"CREATE TABLE instance ({', '.join(COLUMNS.values())}, PRIMARY KEY (module, name))",
)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY: Final = 0xFF

T = TypeVar("T")


class TrackerStoreError(Exception):
    """The store cannot be used. As text it is one line: what happened, where, what to do."""


class _DamagedError(Exception):
    pass


class TrackerStore:
    """The store at ``path``. ``note`` takes a line about what was put aside. Any thread may call any method.

    A call that is not over in ``call_seconds`` raises, and may come about all the same: an owner whose :meth:`adopt`
    has raised does not save under that name.

    A file that is not there is made with mode 0600, and its folders with 0700.
    """

    def __init__(
        self, path: Path, note: Callable[[str], None] = lambda _line: None, *, call_seconds: float = CALL_SECONDS
    ) -> None:
        with _told(path):
            self.path = absolute(path, TRACKER_STORE)
        self._calls = TimeLimiter("tracker-store")
        self._seconds = call_seconds
        self._note = note

    def adopt(self, owner: str, now: Stamp) -> list[Kept]:
        """Become the one who saves, and return what is kept, its ages by the clocks of ``now``.

        Raises :class:`TrackerStoreError`.
        """
        kept, dropped = self._mended(now, lambda connection: _adopt(connection, owner, now))
        if dropped:
            self._note(
                f"the tracker store {self.path} had {dropped:,} rows that this program would not write; they were "
                "dropped, and what is known of these instances begins anew"
            )
        return kept

    def save(self, owner: str, records: Iterable[Record], now: Stamp) -> bool:
        """Keep these records in place of all others, in one transaction that is on the disk when this returns.

        False: somebody else has adopted the store, and nothing is changed. Raises :class:`TrackerStoreError`.
        """
        rows = [row_of_record(record) for record in records]
        return self._mended(now, lambda connection: _save(connection, owner, rows, now))

    def _mended(self, now: Stamp, act: Callable[[sqlite3.Connection], T]) -> T:
        """Do it in time, and where the file is damaged once more with a new one."""
        with _told(self.path):
            return self._calls.call(lambda: self._tried(now, act), self._seconds)

    def _tried(self, now: Stamp, act: Callable[[sqlite3.Connection], T]) -> T:
        with _told(self.path):
            try:
                return self._once(act)
            except _DamagedError as found:
                self._put_aside(now, str(found))
            try:
                return self._once(act)
            except _DamagedError as found:
                raise TrackerStoreError(f"the tracker store {self.path} is damaged again: {found}") from None

    def _once(self, act: Callable[[sqlite3.Connection], T]) -> T:
        make_folders(self.path.parent)
        refuse_other_kinds(self.path, TRACKER_STORE)
        refuse_other_kinds_beside(self.path, TRACKER_STORE)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CAREFULLY, 0o600))
        try:
            with contextlib.closing(connect(self.path, "rw", kind=TRACKER_STORE)) as connection:
                for setting in ("trusted_schema = OFF", "fullfsync = ON", "synchronous = EXTRA"):
                    connection.execute(f"PRAGMA {setting}")
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._bring_up(connection)
                    result = act(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    roll_back(connection)
                    raise
                return result
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _DAMAGED:
                raise _DamagedError(str(error)) from None
            raise

    def _bring_up(self, connection: sqlite3.Connection) -> None:
        if made_new(connection, _TABLES, APPLICATION_ID, SCHEMA_VERSION):
            return
        application, version = marks(connection)
        if application != APPLICATION_ID:
            raise TrackerStoreError(f"{self.path} is another program's database and is left alone; name another place")
        if version > SCHEMA_VERSION:
            raise TrackerStoreError(
                f"the tracker store {self.path} has schema version {version}, this program knows {SCHEMA_VERSION} and "
                "leaves it alone; use the newer idkmesh, or name another place"
            )

    def _put_aside(self, now: Stamp, reason: str) -> None:
        """Rename a damaged store with its journal, if it shows that it was one."""
        if not _shows_our_mark(self.path):
            raise TrackerStoreError(f"{self.path} is no tracker store and is left alone; name another place")
        name = f"{self.path.name}.damaged-{datetime.fromtimestamp(now.wall, UTC):%Y%m%dT%H%M%SZ}"
        aside, number = self.path.with_name(name), 1
        while identity_of(aside) is not None:
            number += 1
            aside = self.path.with_name(f"{name}-{number}")
        for end in ("", *BESIDE):
            with contextlib.suppress(FileNotFoundError):
                beside(self.path, end).rename(beside(aside, end))
        self._note(
            f"the tracker store {self.path} is damaged: {reason}; it was put aside as {aside}, trackers begin anew"
        )


def _adopt(connection: sqlite3.Connection, owner: str, now: Stamp) -> tuple[list[Kept], int]:
    """Return what is kept, and how many rows were dropped."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise _DamagedError(" ".join(str(found).split()))
    meta = connection.execute("SELECT boot_id, boot, wall FROM meta").fetchone()
    found = connection.execute("SELECT * FROM instance")  # in the order of COLUMNS, which makes the table
    if [name for name, *_ in found.description] != list(COLUMNS):
        raise _DamagedError("it has other columns")
    rows = found.fetchall()
    try:
        written = now if meta is None else stamp_of_row(meta)
    except ValueError as error:
        raise _DamagedError(str(error)) from None
    kept = []
    for row in rows:
        with contextlib.suppress(ValueError, TypeError):
            kept.append(aged(kept_of_row(row, written.boot), written, now))
    _write_meta(connection, owner, written)
    return kept, len(rows) - len(kept)


def _save(connection: sqlite3.Connection, owner: str, rows: list[tuple[Any, ...]], now: Stamp) -> bool:
    found = connection.execute("SELECT owner FROM meta").fetchone()
    if found is not None and found[0] != owner:
        return False
    _write_meta(connection, owner, now)
    connection.execute("DELETE FROM instance")
    places = ", ".join("?" for _ in COLUMNS)
    connection.executemany(f"INSERT INTO instance VALUES ({places})", rows)  # noqa: S608  question marks alone
    return True


def _write_meta(connection: sqlite3.Connection, owner: str, stamp: Stamp) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO meta (one, owner, boot_id, boot, wall) VALUES (1, ?, ?, ?, ?)",
        (owner, stamp.boot_id, stamp.boot, stamp.wall),
    )


def _shows_our_mark(path: Path) -> bool:
    """Say whether the header has the mark of a store (SQLite's file format, offset 68), or that of a database."""
    with path.open("rb") as file:
        header = file.read(100)
    return header.startswith(b"SQLite format 3\0") and header[68:72] == APPLICATION_ID.to_bytes(4)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system raise within into a :class:`TrackerStoreError`."""
    try:
        yield
    except (UnicodeError, OverflowError) as error:  # half a surrogate pair, a number beyond 64 bits
        raise TrackerStoreError(
            f"the tracker store {path} cannot keep a name, a text or a number: {type(error).__name__}; "
            "a platform has told of something that is no text, and nothing is kept until it is gone"
        ) from None
    except sqlite3.Error as error:
        raise TrackerStoreError(
            f"the tracker store {path} cannot be used: {error}; look at its file system and at the rights of its files"
        ) from None
    except OSError as error:
        raise TrackerStoreError(
            f"the tracker store {path} cannot be used: {error.strerror or error}; make its folder and files writable"
        ) from None
    except LateError as error:
        raise TrackerStoreError(
            f"the tracker store {path} does not answer: {error}; look at its disk or file system"
        ) from None
    except StoreError as error:  # of what is shared with the event store: a link, no root, a forked child
        raise TrackerStoreError(str(error)) from None
