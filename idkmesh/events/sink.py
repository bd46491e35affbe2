"""What a producer of events sees of whoever takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from idkmesh.events.envelope import Event


class EventSink(Protocol):
    """Takes events (EV-3.1)."""

    def emit(self, event: Event) -> None:
        """Take one. Never waits, and never raises because of what becomes of it."""
