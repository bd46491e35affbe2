"""What is committed, in order and once: the events of this process and those of others (EV-2.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.events.errors import StoreDamagedError
from idkmesh.events.state import Bounds
from idkmesh.events.store import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from idkmesh.events.envelope import StoredEvent
    from idkmesh.events.store import EventStore


class Feed:
    """A position that moves through a store. One thread's.

    ``published`` gets lists of events whose sequences follow each other without a gap. ``replaced`` is called where
    that cannot be: another store begins, or retention has overtaken this process.
    """

    def __init__(
        self,
        position: int,
        *,
        published: Callable[[list[StoredEvent]], None],
        replaced: Callable[[int], None],
    ) -> None:
        self.position = position
        self._published = published
        self._replaced = replaced

    def appended(self, events: Sequence[StoredEvent], store: EventStore) -> None:
        """Publish what this process has just appended, and before it what others have."""
        if events and events[0].sequence == self.position + 1:
            self._publish(list(events))
        else:
            self.catch_up(store)

    def catch_up(self, store: EventStore) -> Bounds:
        """Publish what the store has beyond the position, and return the store's bounds."""
        while True:
            batch = store.read(self.position, MAX_BATCH, {})
            if batch.newest < self.position:
                raise StoreDamagedError(
                    f"the event store {store.path} has gone back: it ends with event {batch.newest}, and event "
                    f"{self.position} was published from it; was an older copy put in its place?"
                )
            if batch.floor > self.position:
                self.restart(batch.floor)
                continue
            if batch.events:
                self._publish(batch.events)
            if self.position >= batch.newest:
                return Bounds(batch.floor, batch.newest)

    def restart(self, position: int) -> None:
        """Begin anew after ``position``, of another store or of what retention has left."""
        self.position = position
        self._replaced(position)

    def _publish(self, events: list[StoredEvent]) -> None:
        self.position = events[-1].sequence
        self._published(events)
