"""What a snapshot of a store says. Whoever has a connection calls these within a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from idkmesh.events.envelope import FILTERS, StoredEvent, digest_of, time_text
from idkmesh.events.errors import StoreDamagedError
from idkmesh.events.state import Batch, Bounds

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

_COLUMNS: Final = "sequence, epoch, type, source, subject, time, data, datadigest"


def read_bounds(connection: sqlite3.Connection) -> Bounds:
    """Return floor and newest sequence of a connection's snapshot."""
    floor, newest = connection.execute("SELECT floor, (SELECT max(sequence) FROM event) FROM meta").fetchone()
    return Bounds(floor, floor if newest is None else newest)


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
    floor, newest = read_bounds(connection)
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
    texts = all(isinstance(value, str) for value in (kind, source, time, data))
    if own_epoch != epoch or not texts or digest_of(data) != digest:
        raise StoreDamagedError(f"the event store {path} is damaged: event {sequence} is not what was written")
    return StoredEvent(epoch, sequence, kind, source, subject, time, data, digest)
