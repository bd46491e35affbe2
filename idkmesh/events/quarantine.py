"""How a store is made, and how a damaged one is put aside for a new one (EV-2.7).

Laws of this module, whose caller has the lock of :func:`~idkmesh.events.bells.one_at_a_time`:

1. A file gets the store's name when it is whole and on the disk. Until then it stands in the folder of the bells.
2. The new store, with the event that tells of the old one, is on the disk before anything is renamed: a full disk moves
   nothing, and after a kill at any moment the next to open the store finishes what was begun.
3. Nothing is deleted but a new store that never got its name.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.events.bells import bell_folder
from idkmesh.events.connecting import connect
from idkmesh.events.envelope import Event
from idkmesh.events.place import BESIDE, CAREFULLY, beside, sync_folder
from idkmesh.events.schema import APPLICATION_ID, SCHEMA_VERSION, bring_up, insert, marks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

_QUARANTINED: Final = "idkmesh.events.quarantined"
_ENDS: Final = ("", *BESIDE)
_ASIDE: Final = re.compile(r"(\.damaged-[0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?)(?:-wal|-shm|-journal)?\Z")


class _Telling(NamedTuple):
    """What the event says that stands in a new store: why, and what follows the store's name in the chosen one."""

    reason: str
    ending: str | None


def make_store(path: Path) -> None:
    """Make an empty store where there is none."""
    _build(path, ())
    _give_name(path)


def put_aside(path: Path, now: datetime, source: str, reason: str) -> str:
    """Rename the store with all that lies beside it, begin a new one, and return the line that tells of it."""
    aside = _free_name(path, now)
    files = [_text(str(beside(aside, end))) for end in _ENDS if os.path.lexists(beside(path, end))]
    data = {"reason": _text(reason), "files": files}
    _build(path, [Event(type=_QUARANTINED, source=source, time=now, data=data)])
    _move(path, aside)
    return _line(reason, aside)


def finish(path: Path, now: datetime) -> str | None:
    """Finish what a process has begun that died while it put the store aside, and return the line that tells of it.

    None where there is nothing to finish. The store's name must be free.
    """
    telling = _telling(new_place(path))
    if telling is None:
        return None
    aside = _free_name(path, now)
    if telling.ending is not None:
        chosen = path.with_name(path.name + telling.ending)
        left = [end for end in _ENDS if os.path.lexists(beside(path, end))]
        if not any(os.path.lexists(beside(chosen, end)) for end in left):  # nothing is written over
            aside = chosen
    _move(path, aside)
    return _line(telling.reason, aside)


def discard_new(path: Path) -> None:
    """Remove a new store that never got its name."""
    for end in ("", "-journal"):
        beside(new_place(path), end).unlink(missing_ok=True)


def new_place(path: Path) -> Path:
    """Return where a new store stands until it gets its name: where nobody has files of their own."""
    return bell_folder(path) / "new.sqlite3"


def _build(path: Path, events: Sequence[Event]) -> None:
    """Make a store with the first events in it, whole and on the disk, at its :func:`new_place`."""
    new = new_place(path)
    discard_new(path)
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | CAREFULLY, 0o600))
    try:
        with contextlib.closing(connect(new, "rw")) as connection:
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            epoch = secrets.token_hex(8)
            bring_up(connection, epoch=epoch)
            insert(connection, epoch, events)
            connection.execute("COMMIT")
    except BaseException:
        discard_new(path)
        raise
    sync_folder(new.parent)


def _give_name(path: Path) -> None:
    new_place(path).rename(path)
    sync_folder(path.parent)
    sync_folder(bell_folder(path))


def _move(path: Path, aside: Path) -> None:
    """Rename the store, the database first, and give its name to the new one."""
    for end in _ENDS:
        with contextlib.suppress(FileNotFoundError):
            beside(path, end).rename(beside(aside, end))
    sync_folder(path.parent)
    _give_name(path)


def _free_name(path: Path, now: datetime) -> Path:
    name = f"{path.name}.damaged-{now:%Y%m%dT%H%M%SZ}"
    number = 1
    aside = path.with_name(name)
    while any(os.path.lexists(beside(aside, end)) for end in _ENDS):
        number += 1
        aside = path.with_name(f"{name}-{number}")
    return aside


def _telling(new: Path) -> _Telling | None:
    """Return what a whole new store tells of the one before it, None where it is not whole or tells of none."""
    if not new.exists() or beside(new, "-journal").exists():
        return None
    try:
        with contextlib.closing(connect(new, "ro", "immutable=1")) as connection:
            if marks(connection) != (APPLICATION_ID, SCHEMA_VERSION):
                return None
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return None
            query = "SELECT data FROM event WHERE sequence = 1 AND type = ?"
            row = connection.execute(query, (_QUARANTINED,)).fetchone()
    except sqlite3.Error:
        return None
    if row is None:
        return None
    data = json.loads(row[0])
    found = _ASIDE.search(data["files"][0].rpartition("/")[2]) if data["files"] else None
    return _Telling(data["reason"], found[1] if found else None)


def _line(reason: str, aside: Path) -> str:
    return (
        f"{reason}; it was put aside as {aside} and a new store with a new epoch begins; "
        "nothing was deleted: keep it for a rescue with the sqlite3 shell's .recover, or remove it"
    )


def _text(text: str) -> str:
    """Return a text that may hold a file's name, as one that an event can have."""
    return text.encode("utf-8", "backslashreplace").decode()
