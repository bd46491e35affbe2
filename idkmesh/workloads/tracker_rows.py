"""Records as rows of the tracker store, and rows as what was kept. Pure. Instants are seconds of the boot clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from idkmesh.workloads.ages import Stamp
from idkmesh.workloads.model import Word
from idkmesh.workloads.record import Kept, Key, Restart, RestartEnd
from idkmesh.workloads.tracker import NEVER, Health, Tracker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.workloads.record import Record

MAX_RESTARTS: Final = 2**53 - 1
"""What JSON's readers count to exactly."""

MAX_WAIT_SECONDS: Final = 90_000.0
"""How far ahead a restart may be held up at most: the longest cooldown (AR-5.1), and time to spare."""

MAX_SECONDS: Final = 1e11
"""Three thousand years: how old what was written can be."""

MAX_CHARACTERS: Final = 1000
"""Of a text: reasons have 200."""

COLUMNS: Final = {
    "module": "module TEXT NOT NULL",
    "name": "name TEXT NOT NULL",
    "basis": "basis TEXT NOT NULL",
    "identity": "identity TEXT NOT NULL",
    "health": "health TEXT NOT NULL",
    "since": "since REAL NOT NULL",
    "word": "word TEXT",
    "first": "first REAL",
    "newest": "newest REAL",
    "detail": "detail TEXT NOT NULL",
    "opened": "opened INTEGER NOT NULL",
    "restart_at": "restart_at REAL",
    "restart_end": "restart_end TEXT",
    "restart_detail": "restart_detail TEXT",
    "restarts": "restarts INTEGER NOT NULL CHECK (restarts >= 0)",
    "not_before": "not_before REAL",
}
"""The columns of the table ``instance`` and their definitions, in the order of a row."""


def row_of_record(record: Record) -> tuple[Any, ...]:
    """Return a record as a row."""
    tracker, restart = record.tracker, record.restart
    return (
        record.key.module,
        record.key.name,
        record.basis,
        tracker.identity,
        tracker.health.value,
        tracker.since,
        None if tracker.word is None else tracker.word.value,
        _column(tracker.first),
        _column(tracker.newest),
        tracker.detail,
        int(tracker.opened),
        None if restart is None else restart.at,
        None if restart is None else restart.end.value,
        None if restart is None else restart.detail,
        record.restarts,
        _column(record.not_before),
    )


def kept_of_row(row: Sequence[Any], written: float) -> Kept:
    """Return what a row keeps that was written at the instant ``written``.

    Raises ``ValueError`` for one that this program would not write. SQLite keeps whatever type it is given in any
    column, and infinities too: an instant that lies ahead would hold up restarts for ever.
    """
    column = dict(zip(COLUMNS, row, strict=True))
    word = None if column["word"] is None else Word(column["word"])
    restarts, opened = column["restarts"], column["opened"]
    if type(restarts) is not int or not 0 <= restarts <= MAX_RESTARTS or opened not in {0, 1}:
        raise ValueError("a count that is none")
    if word is Word.NOTHING or (word is None) is not (column["newest"] is None):
        raise ValueError("a run without evidence")
    tracker = Tracker(
        since=_seconds(column["since"], written),
        identity=_text(column["identity"]),
        health=Health(column["health"]),
        word=word,
        first=_instant(column["first"], written),
        newest=_instant(column["newest"], written),
        detail=_text(column["detail"]),
        opened=bool(opened),
    )
    restart = None
    if column["restart_at"] is not None:
        at, end = _seconds(column["restart_at"], written), RestartEnd(column["restart_end"])
        restart = Restart(at, end, _text(column["restart_detail"]))
    return Kept(
        key=Key(_name(column["module"]), _name(column["name"])),
        basis=_text(column["basis"]),
        tracker=tracker,
        restart=restart,
        restarts=restarts,
        not_before=_instant(column["not_before"], written + MAX_WAIT_SECONDS),
    )


def stamp_of_row(row: Sequence[Any]) -> Stamp:
    """Return when all rows were written: ``boot_id, boot, wall``. Raises ``ValueError`` as :func:`kept_of_row`."""
    boot_id, boot, wall = row
    return Stamp(None if boot_id is None else _text(boot_id), _seconds(boot, MAX_SECONDS), _seconds(wall, MAX_SECONDS))


def _column(instant: float) -> float | None:
    return instant if math.isfinite(instant) else None


def _instant(column: object, latest: float) -> float:
    return NEVER if column is None else _seconds(column, latest)


def _seconds(value: object, latest: float) -> float:
    if not isinstance(value, float) or not latest - MAX_SECONDS <= value <= latest:
        raise ValueError("an instant that cannot have been")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
        raise ValueError("a text that is none")
    return value


def _name(value: object) -> str:
    text = _text(value)
    if not text or not text.isprintable():
        raise ValueError("a name that is none")
    return text
