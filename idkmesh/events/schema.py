"""The tables of a store, what they refuse, and how an older file is brought up (EV-2.2, EV-2.3, EV-2.6).

Laws of the tables, whoever writes to them:

1. An event never changes. It goes only when the floor has risen to it.
2. The floor only rises, and never beyond the newest event. The epoch never changes.
3. Each sequence follows the one before it: there is no gap, and none is used twice.

Each event carries its epoch too: the write-ahead log of another store, laid beside this one, would else pass for this
one's events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from idkmesh.events.envelope import Event

APPLICATION_ID: Final = int.from_bytes(b"idmE")
"""In the header of each store's file; ``file`` shows it."""

_VERSION_1: Final = (
    """
    CREATE TABLE meta (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        epoch TEXT NOT NULL CHECK (length(epoch) = 16),
        floor INTEGER NOT NULL CHECK (floor >= 0)
    )""",
    """
    CREATE TABLE event (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        epoch TEXT NOT NULL,
        type TEXT NOT NULL,
        source TEXT NOT NULL,
        subject TEXT,
        time TEXT NOT NULL,
        data TEXT NOT NULL,
        datadigest TEXT NOT NULL
    )""",
    "CREATE INDEX event_type ON event (type)",
    "CREATE INDEX event_source ON event (source)",
    "CREATE INDEX event_subject ON event (subject) WHERE subject IS NOT NULL",
    """
    CREATE TRIGGER event_never_changes BEFORE UPDATE ON event BEGIN
        SELECT RAISE(ABORT, 'an event never changes');
    END""",
    """
    CREATE TRIGGER event_goes_by_retention BEFORE DELETE ON event
    WHEN OLD.sequence > (SELECT floor FROM meta) BEGIN
        SELECT RAISE(ABORT, 'an event goes only when the floor has risen to it');
    END""",
    # INSERT OR REPLACE deletes without asking the trigger above.
    """
    CREATE TRIGGER event_is_new BEFORE INSERT ON event
    WHEN EXISTS (SELECT 1 FROM event WHERE sequence = NEW.sequence) BEGIN
        SELECT RAISE(ABORT, 'an event never changes');
    END""",
    """
    CREATE TRIGGER event_follows AFTER INSERT ON event
    WHEN NEW.epoch IS NOT (SELECT epoch FROM meta)
        OR NEW.sequence <= (SELECT floor FROM meta)
        OR (
            NEW.sequence > (SELECT floor FROM meta) + 1
            AND NOT EXISTS (SELECT 1 FROM event WHERE sequence = NEW.sequence - 1)
        )
    BEGIN
        SELECT RAISE(ABORT, 'an event follows the newest one of its epoch');
    END""",
    """
    CREATE TRIGGER floor_only_rises BEFORE UPDATE ON meta
    WHEN NEW.one IS NOT OLD.one OR NEW.epoch IS NOT OLD.epoch OR NEW.floor < OLD.floor
        OR NEW.floor > max(OLD.floor, (SELECT coalesce(max(sequence), 0) FROM event))
    BEGIN
        SELECT RAISE(ABORT, 'the floor only rises, and the epoch never changes');
    END""",
    """
    CREATE TRIGGER meta_stays BEFORE DELETE ON meta BEGIN
        SELECT RAISE(ABORT, 'the epoch never changes');
    END""",
    """
    CREATE TRIGGER meta_is_one BEFORE INSERT ON meta WHEN EXISTS (SELECT 1 FROM meta) BEGIN
        SELECT RAISE(ABORT, 'the epoch never changes');
    END""",
)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_VERSION_1,)
"""What brings a file of version N to version N + 1, by N. Version 0 is an empty file."""

SCHEMA_VERSION: Final = len(MIGRATIONS)


def marks(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return application id and schema version of a database."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def made_new(connection: sqlite3.Connection, tables: Sequence[str], application: int, version: int) -> bool:
    """Make another kind of store of an open transaction's file where that is empty, and say whether it was."""
    (found,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (*marks(connection), found) != (0, 0, 0):
        return False
    for table in tables:
        connection.execute(table)
    connection.execute(f"PRAGMA application_id = {application}")
    connection.execute(f"PRAGMA user_version = {version}")
    return True


def bring_up(
    connection: sqlite3.Connection,
    *,
    epoch: str | None = None,
    migrations: Sequence[Sequence[str]] = MIGRATIONS,
) -> None:
    """Bring an open transaction's file to the newest version; with ``epoch`` it is a new one.

    The version is read within the transaction: of several processes the first has already done it for the others.
    """
    _, version = marks(connection)
    for statements in migrations[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {max(version, len(migrations))}")
    if epoch is not None:
        connection.execute("INSERT INTO meta (one, epoch, floor) VALUES (1, ?, 0)", (epoch,))


def insert(connection: sqlite3.Connection, epoch: str, events: Sequence[Event]) -> int:
    """Insert events within a transaction, and return the sequence of the last one, 0 without events."""
    statement = "INSERT INTO event (epoch, type, source, subject, time, data, datadigest) VALUES (?, ?, ?, ?, ?, ?, ?)"
    last = 0
    for event in events:
        row = (epoch, event.type, event.source, event.subject, event.time_text, event.data_text, event.digest)
        last = connection.execute(statement, row).lastrowid or 0
    return last


def expected_names() -> frozenset[str]:
    """Return the names of every table, index and trigger that a file of this version has."""
    words = [statement.split() for statements in MIGRATIONS for statement in statements]
    return frozenset(each[2] for each in words if each[0] == "CREATE")
