"""Records as rows of the tracker store, and rows as what was kept. Pure. Instants are seconds of the boot clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from idkmesh.workloads.model import Word
from idkmesh.workloads.record import Kept, Key, Restart, RestartEnd
from idkmesh.workloads.tracker import NEVER, Health, Tracker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.workloads.record import Record

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


def kept_of_row(row: Sequence[Any]) -> Kept:
    """Return what a row keeps. Raises ``ValueError`` for one that this program would not write."""
    column = dict(zip(COLUMNS, row, strict=True))
    word = None if column["word"] is None else Word(column["word"])
    if word is Word.NOTHING or (word is None) is not (column["newest"] is None):
        raise ValueError("a run without evidence")
    tracker = Tracker(
        since=float(column["since"]),
        identity=column["identity"],
        health=Health(column["health"]),
        word=word,
        first=_instant(column["first"]),
        newest=_instant(column["newest"]),
        detail=column["detail"],
        opened=bool(column["opened"]),
    )
    restart = None
    if column["restart_at"] is not None:
        restart = Restart(float(column["restart_at"]), RestartEnd(column["restart_end"]), column["restart_detail"])
    return Kept(
        key=Key(column["module"], column["name"]),
        basis=column["basis"],
        tracker=tracker,
        restart=restart,
        restarts=int(column["restarts"]),
        not_before=_instant(column["not_before"]),
    )


def _column(instant: float) -> float | None:
    return instant if math.isfinite(instant) else None


def _instant(column: float | None) -> float:
    return NEVER if column is None else float(column)
