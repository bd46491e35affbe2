"""Connections to a store's file, and what a forked child must know of them (EV-2.12).

SQLite keeps a table of the files that a process has open, and of their locks. A forked child inherits the table but no
lock: for a file in it, it would take locks that nobody else sees, and events that were acknowledged would be lost. So
each connection is made here, and a child refuses the files that were open when it was forked.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import weakref
from typing import TYPE_CHECKING, Any, Final, Literal

from idkmesh.events.errors import EVENT_STORE, StoreForkedError
from idkmesh.events.place import identity_of

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.events.errors import Kind
    from idkmesh.events.place import Identity

BUSY_SECONDS: Final = 5.0
"""How long a write waits for other writers (EV-2.1)."""


class Connection(sqlite3.Connection):
    """A connection that is known for as long as SQLite has its file in its table."""

    identity: Identity | None = None

    def close(self) -> None:
        """Close it."""
        super().close()
        _OPEN.discard(self)


_OPEN: Final[weakref.WeakSet[Connection]] = weakref.WeakSet()
_OPENING: Final[set[tuple[object, Identity | None]]] = set()
"""Files that a thread is opening at this moment."""

_PARENTS: Final[list[Connection]] = []
"""In a forked child: the parent's connections, so that no destructor closes them."""

_INHERITED: Final[set[Identity | None]] = set()
"""In a forked child: which files these are of."""


def connect(path: Path, mode: Literal["ro", "rw"], *options: str, kind: Kind = EVENT_STORE) -> Connection:
    """Return a connection that never makes the file. Any thread may have it.

    ``options`` are further parameters of SQLite's URIs, ``immutable=1`` for example. Raises :class:`StoreForkedError`
    for a file that this process's parent had open when it forked.
    """
    identity = identity_of(path)
    refuse_inherited(path, identity, kind)
    opening = (object(), identity)
    _OPENING.add(opening)
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?{'&'.join((f'mode={mode}', *options))}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        connection.identity = identity
        _OPEN.add(connection)
    finally:
        _OPENING.discard(opening)
    # Damage is a wrong digest of a text then, and no error of another kind.
    connection.text_factory = _text
    return connection


def refuse_inherited(path: Path, identity: Identity | None, kind: Kind = EVENT_STORE) -> None:
    """Raise :class:`StoreForkedError` for a file that this process's parent had open when it forked."""
    if identity is not None and identity in _INHERITED:
        raise StoreForkedError(
            f"the {kind.noun} {path} was open in the process that has forked this one, so it cannot be opened here; "
            "start a program of its own instead"
        )


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that has failed, if SQLite has not ended it already."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def close_quietly(connection: sqlite3.Connection) -> None:
    """Close a connection, whatever SQLite says of it."""
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def _text(value: bytes) -> Any:  # noqa: ANN401  what the module asks for
    return value.decode("utf-8", "replace")


def _after_fork() -> None:
    _PARENTS.extend(_OPEN)
    _INHERITED.update(connection.identity for connection in _PARENTS)
    _INHERITED.update(identity for _, identity in _OPENING)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
