"""The events of a command that serves without a control tower: an event store of its own, for as long as it runs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from idkmesh.clock import SystemClock
from idkmesh.console import CommandError
from idkmesh.events.envelope import Event
from idkmesh.events.errors import StoreError
from idkmesh.events.recorder import EventRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from idkmesh.changes import Change
    from idkmesh.events.retention import Retention

CLOSE_SECONDS: Final = 2.0
"""How long the end waits for events to be written, and who must not go on without one for its commit (EV-3.3)."""


@contextlib.contextmanager
def recording(
    store: Path, retention: Retention, source: str, log: Callable[[str, int], None]
) -> Iterator[EventRecorder]:
    """Record for a while what ``source`` tells. Raises :class:`CommandError` where the store cannot be used."""
    try:
        recorder = EventRecorder(
            store,
            retention,
            clock=SystemClock(),
            published=lambda _events: None,
            replaced=lambda _epoch, _position: None,
            log=log,
            source=source,
        )
    except StoreError as error:
        raise CommandError(str(error)) from None
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.close(CLOSE_SECONDS)


def event_of(change: Change, source: str) -> Event:
    """Return a change as an event of this moment."""
    return Event(
        type=change.what, source=source, time=SystemClock().utc(), subject=change.subject, data=dict(change.facts)
    )
