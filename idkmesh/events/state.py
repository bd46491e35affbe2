"""What a store and a recorder tell of themselves, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from idkmesh.events.envelope import StoredEvent


class Bounds(NamedTuple):
    """The sequences of the last event that is gone and of the newest one, both 0 in a new store (EV-2.4)."""

    floor: int
    newest: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What one read found, all of it of one snapshot of the store that has this ``epoch`` (EV-2.10).

    ``position`` is how far the read got: the sequence of its last event where a limit ended it, else, upwards,
    ``newest``, and downwards ``floor``. So a reader with a filter that matches little makes progress too.
    """

    epoch: str
    events: list[StoredEvent]
    position: int
    floor: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderState:
    """A recorder at one instant.

    ``failing`` is why the store takes no events, None while it does (EV-2.8). ``warning`` is what became of a damaged
    one since the start (EV-2.7). ``refused_total`` counts events whose write failed, ``dropped_total`` those that found
    the queue full or the recorder closed; ``queued`` wait. ``wal_bytes`` is the write-ahead log's size (EV-2.10).
    """

    epoch: str
    floor: int
    newest: int
    failing: str | None
    warning: str | None
    refused_total: int
    dropped_total: int
    queued: int
    wal_bytes: int
