"""What a snapshot of a store says. Whoever has a connection calls these within a transaction."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from idkmesh.events.envelope import FILTERS, MAX_ATTRIBUTE_CHARACTERS, StoredEvent, digest_of, time_text
from idkmesh.events.errors import StoreDamagedError
from idkmesh.events.state import Batch, Bounds

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from pathlib import Path

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
TIMED_EVENTS: Final = 100_000
"""Events whose times are compared at a start: all that are kept by default, which takes some 20 ms. Ten million may be
kept, for which no start is to wait."""

_COLUMNS: Final = "sequence, epoch, type, source, subject, time, data, datadigest"


def read_bounds(connection: sqlite3.Connection, path: Path) -> Bounds:
    """Return floor and newest sequence of a connection's snapshot."""
    row = connection.execute("SELECT floor, (SELECT max(sequence) FROM event) FROM meta").fetchone()
    if row is None:
        raise _damaged(path, "it has no epoch")
    floor, newest = row
    return Bounds(floor, floor if newest is None else newest)


def read_epoch(connection: sqlite3.Connection, path: Path) -> str:
    """Return the epoch, and check that the newest event is of it."""
    rows = connection.execute("SELECT epoch FROM meta").fetchall()
    if len(rows) != 1 or len(str(rows[0][0])) != 16:  # noqa: PLR2004  digits of an epoch, EV-1.2
        raise _damaged(path, "it has no epoch")
    epoch = str(rows[0][0])
    newest = connection.execute("SELECT epoch FROM event ORDER BY sequence DESC LIMIT 1").fetchone()
    if newest is not None and newest[0] != epoch:
        raise _damaged(path, "its write-ahead log is another store's")
    return epoch


def check_counts(connection: sqlite3.Connection, path: Path) -> None:
    """Raise :class:`StoreDamagedError` where the events are not those above the floor, or the next has a wrong place.

    In one snapshot: others append meanwhile.
    """
    floor, newest, count, last = connection.execute(
        "SELECT (SELECT floor FROM meta), (SELECT max(sequence) FROM event), (SELECT count(*) FROM event), "
        "(SELECT max(seq) FROM sqlite_sequence WHERE name = 'event')"
    ).fetchone()
    if floor is None:
        raise _damaged(path, "it has no epoch")
    top = floor if newest is None else newest
    if count != top - floor:
        raise _damaged(path, f"it has {count} events and not those from {floor + 1} to {top}")
    if (last or 0) != top:
        raise _damaged(path, f"the event after {top} would be {(last or 0) + 1}")


def newest_time(connection: sqlite3.Connection, path: Path) -> datetime | None:
    """Return the time of the event that was appended last, None where there is none."""
    row = connection.execute("SELECT time FROM event ORDER BY sequence DESC LIMIT 1").fetchone()
    if row is None:
        return None
    time = parsed_time(row[0])
    if time is None:
        raise _damaged(path, "the time of its newest event is none")
    return time


def latest_time(connection: sqlite3.Connection, path: Path) -> str:
    """Return the latest time of the newest :data:`TIMED_EVENTS`, as it is written, "" where there is none."""
    newest = "SELECT time FROM event ORDER BY sequence DESC LIMIT ?"
    (text,) = connection.execute(f"SELECT max(time) FROM ({newest})", (TIMED_EVENTS,)).fetchone()  # noqa: S608  constants
    if text is not None and parsed_time(text) is None:
        raise _damaged(path, "the latest time of its events is none")
    return text or ""


def parsed_time(text: object) -> datetime | None:
    """Return the instant that a stored time names, None where it is not written as a store writes it (EV-1.4)."""
    if not isinstance(text, str) or _TIME.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def read_batch(
    connection: sqlite3.Connection,
    path: Path,
    query: tuple[int, int, Mapping[str, str]],
    *,
    descending: bool,
    max_bytes: int,
) -> Batch:
    """Read what :meth:`EventStore.read` returns, within a connection's snapshot; ``query`` is after, limit, wanted."""
    after, limit, wanted = query
    floor, newest = read_bounds(connection, path)
    (epoch,) = connection.execute("SELECT epoch FROM meta").fetchone()
    conditions = "".join(f" AND {name} = ?" for name in FILTERS if name in wanted)
    sign, order = ("<", "DESC") if descending else (">", "ASC")
    statement = (
        f"SELECT {_COLUMNS} FROM event WHERE sequence {sign} ?{conditions} "  # noqa: S608  made of constants alone
        f"ORDER BY sequence {order} LIMIT ?"
    )
    values = [_bound(wanted[name]) for name in FILTERS if name in wanted]
    events: list[StoredEvent] = []
    size = 0
    for row in connection.execute(statement, (after, *values, limit)):
        events.append(_stored(row, epoch, path))
        size += len(events[-1].data.encode())
        if size >= max_bytes:
            break
    cut = len(events) == limit or size >= max_bytes
    end = floor if descending else max(after, newest)
    return Batch(epoch, events, events[-1].sequence if cut else end, floor, newest)


def _bound(value: str) -> str | bytes:
    """Return a value as SQLite takes it. What is no text, an argument in another encoding, equals none as bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def first_young(connection: sqlite3.Connection, window: int, newest: int, oldest: datetime) -> int | None:
    """Return the first sequence that is not too old, None where there is none.

    Sequences beyond ``window`` are not looked at: the first of them counts as young, since this time none of them goes.
    """
    row = connection.execute(
        "SELECT sequence FROM event WHERE sequence <= ? AND time >= ? ORDER BY sequence LIMIT 1",
        (window, time_text(oldest)),
    ).fetchone()
    if row is not None:
        return int(row[0])
    return window + 1 if newest > window else None


def _stored(row: tuple[Any, ...], epoch: str, path: Path) -> StoredEvent:
    """Return a row as an event. Raises :class:`StoreDamagedError` where it is not what was written."""
    sequence, own_epoch, kind, source, subject, time, data, digest = row
    attributes = (kind, source) if subject is None else (kind, source, subject)
    # Only what no version has ever stored: which characters are printable is another question in each Python.
    fit = all(isinstance(value, str) and 1 <= len(value) <= MAX_ATTRIBUTE_CHARACTERS for value in attributes)
    whole = isinstance(data, str) and digest_of(data) == digest
    if own_epoch != epoch or not fit or not whole or parsed_time(time) is None:
        raise _damaged(path, f"event {sequence} is not what was written")
    return StoredEvent(epoch, sequence, kind, source, subject, time, data, digest)


def _damaged(path: Path, what: str) -> StoreDamagedError:
    return StoreDamagedError(f"the event store {path} is damaged: {what}")
