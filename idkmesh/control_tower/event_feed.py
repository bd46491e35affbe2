"""The tower's events: recorded in the store, sent to the streams, and answered from.

Laws
    * What the front asks (:meth:`EventFeed.subscribe`, :meth:`EventFeed.observe`) reads stored state and waits for
      nothing. Reading the store is for workers and for the streams' helper.
    * An event is sent to the streams after its commit, in the order of the sequences, by the recorder's thread.
"""

from __future__ import annotations

import json
from logging import ERROR, INFO
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.control_tower.event_query import (
    CURSOR_EXPIRED,
    INVALID_LAST_EVENT_ID,
    LIST_PARAMETERS,
    UNKNOWN_CURSOR,
    last_event_id,
    parse_event_query,
)
from idkmesh.events.envelope import FILTERS, Event, Position
from idkmesh.events.errors import StoreError
from idkmesh.events.reading import parsed_time
from idkmesh.events.recorder import EventRecorder
from idkmesh.httpd.application import Subscription
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import Response
from idkmesh.httpd.sse import Message, event_frame
from idkmesh.httpd.stream_window import TAKE_BYTES
from idkmesh.httpd.streams import BATCH, Beginning, Channel, HistoryLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Any

    from idkmesh.clock import Clock
    from idkmesh.control_tower.event_query import EventQuery
    from idkmesh.events.envelope import StoredEvent
    from idkmesh.events.retention import Retention
    from idkmesh.events.state import Batch, RecorderState
    from idkmesh.httpd.request import Request

SOURCE: Final = "/control-tower"
TYPE_PREFIX: Final = "idkmesh."
SCHEMA_VERSION: Final = "0.1"
CLOSE_SECONDS: Final = 2.0
"""How long the end of the service waits for events to be written (EV-3.3)."""
COMMIT_SECONDS: Final = 2.0
"""How long somebody waits who must not go on without a record."""

_FROM_THE_END: Final = 2**63 - 1
_GOODBYE: Final = event_frame('{"reason":"shutting_down"}', event="shutting_down")
_UNREADABLE: Final = Refusal(500, "internal_error", "The event store cannot be read. The log names the reason.")


class Known(NamedTuple):
    """What is known of a store without asking it: its epoch, its floor, and the sequence of its newest event."""

    epoch: str
    floor: int
    newest: int


class EventFeed:
    """Records the tower's own events and answers who asks for them. Any thread may call any method."""

    def __init__(self, path: Path, retention: Retention, *, clock: Clock, log: Callable[[str, int], None]) -> None:
        """Open the store. :raises StoreError: it cannot be used; one line says why and what to do."""
        self._clock = clock
        self._log = log
        self._unreadable = False
        self._recorder = EventRecorder(
            path,
            retention,
            clock=clock,
            published=self._published,
            replaced=self._replaced,
            log=log,
            source=SOURCE,
        )
        state = self._recorder.snapshot()
        self._seen = Known(state.epoch, state.floor, state.newest)
        """What reads have shown: another process may have written, or given up events, a moment ago."""
        self._latest = self._recorder.latest_time()
        """The latest time of an event, as a store writes it: such texts are in the order of their times."""
        self.channel = Channel(self, _beginning(state.epoch, state.newest), _GOODBYE)

    @property
    def path(self) -> Path:
        """The store's file."""
        return self._recorder.path

    def start(self) -> None:
        """Begin to write."""
        self._recorder.start()

    def close(self) -> None:
        """Write what waits, for at most 2 s (EV-3.3)."""
        self._recorder.close(CLOSE_SECONDS)

    def snapshot(self) -> RecorderState:
        """Return the store's state."""
        return self._recorder.snapshot()

    def examine(self) -> str:
        """Open the store anew, read its newest event, and return its epoch. Raises :class:`StoreError`."""
        return self._recorder.examine()

    def latest(self) -> datetime | None:
        """Return the latest time of an event at this start, or published since; None where there was none."""
        return parsed_time(self._latest)

    def emit(self, event: Event) -> None:
        """Take an event of another part of this service (:class:`~idkmesh.events.sink.EventSink`)."""
        self._recorder.emit(event)

    def observe(self, what: str, facts: Mapping[str, Any], subject: str | None = None) -> None:
        """Record that something happened: ``drain.started``, with its facts and what it happened to (EV-1.6)."""
        event = Event(
            type=TYPE_PREFIX + what,
            source=SOURCE,
            time=self._clock.utc(),
            subject=facts.get("limit") if what.startswith("overload.") else subject,
            data=facts,
        )
        self.emit(event)

    def commit(self, what: str, facts: Mapping[str, Any], subject: str | None = None) -> bool:
        """Record that something is about to happen, and say whether that is committed; within 2 s (AR-5.5)."""
        event = Event(type=TYPE_PREFIX + what, source=SOURCE, time=self._clock.utc(), subject=subject, data=facts)
        return self._recorder.commit(event, COMMIT_SECONDS)

    # --- asking ----------------------------------------------------------------------------------------------------

    def list(self, request: Request, _body: bytes) -> Response | Refusal:
        """Answer ``GET /api/v1/events`` (EV-4). In a worker."""
        query = parse_event_query(request.query, LIST_PARAMETERS)
        if isinstance(query, Refusal):
            return query
        try:
            batch = self._page(query)
        except StoreError:
            return _UNREADABLE
        return batch if isinstance(batch, Refusal) else Response(200, (), _list_body(batch, query))

    def _page(self, query: EventQuery) -> Batch | Refusal:
        cursor = query.cursor
        start = cursor.sequence if cursor is not None else _FROM_THE_END if query.descending else 0
        batch = self._read(start, query.limit, query.wanted, descending=query.descending)
        # Judged by the snapshot that was read: what has changed since it was asked for would be a silent gap.
        if cursor is not None and (cursor.epoch != batch.epoch or cursor.sequence > batch.newest):
            return UNKNOWN_CURSOR
        if cursor is not None and not query.descending and cursor.sequence < batch.floor:
            return CURSOR_EXPIRED
        return batch

    def subscribe(self, request: Request) -> Subscription | Refusal:
        """Say where the stream that a request asks for begins (EV-5.3, EV-5.4). On the front."""
        beginning = self.channel.beginning
        query = parse_event_query(request.query, FILTERS)
        if isinstance(query, Refusal):
            return query
        position = last_event_id(request)
        if position is None:
            return Subscription(beginning, None, query.wanted)
        if isinstance(position, Refusal):
            return position
        epoch, floor, newest = self._known()
        if position.epoch != epoch or position.sequence > newest:
            return INVALID_LAST_EVENT_ID
        if position.sequence < floor:
            return CURSOR_EXPIRED
        # A store that is known already, and not announced yet: the stream ends at once, and its client comes again.
        return Subscription(beginning if beginning.name == epoch else None, position.sequence, query.wanted)

    def after(self, beginning: Beginning, position: int, wanted: Mapping[str, str]) -> tuple[Sequence[Message], int]:
        """Read history for a stream (:class:`~idkmesh.httpd.streams.History`)."""
        try:
            batch = self._read(position, BATCH, wanted, max_bytes=TAKE_BYTES)
        except StoreError:
            raise HistoryLostError from None
        if batch.epoch != beginning.name or position < batch.floor:
            raise HistoryLostError
        return [message_of(event) for event in batch.events], batch.position

    def _read(self, start: int, limit: int, wanted: Mapping[str, str], **options: Any) -> Batch:  # noqa: ANN401  those of EventRecorder.read
        """Read the store. That it begins to fail, or no longer does, is told once, not with each request."""
        try:
            batch = self._recorder.read(start, limit, wanted, **options)
        except StoreError as error:
            self._tell(f"events cannot be read: {error}", failing=True)
            raise
        self._tell("events can be read again", failing=False)
        seen = self._seen
        if seen.epoch == batch.epoch:  # reads end in another order than they began
            self._seen = Known(batch.epoch, max(seen.floor, batch.floor), max(seen.newest, batch.newest))
        else:
            self._seen = Known(batch.epoch, batch.floor, batch.newest)
        return batch

    def _tell(self, line: str, *, failing: bool) -> None:
        if failing is not self._unreadable:
            self._unreadable = failing
            self._log(line, ERROR if failing else INFO)

    # --- the recorder's thread -------------------------------------------------------------------------------------

    def _published(self, events: Sequence[StoredEvent]) -> None:
        self._latest = max([self._latest, *(event.time for event in events)])
        self.channel.publish([message_of(event) for event in events])

    def _replaced(self, epoch: str, position: int) -> None:
        self.channel.replace(_beginning(epoch, position))

    # --- for the front ---------------------------------------------------------------------------------------------

    def _known(self) -> Known:
        """Return the store's bounds as far as they are known without asking it."""
        state, seen = self._recorder.snapshot(), self._seen
        if seen.epoch != state.epoch:
            return Known(state.epoch, state.floor, state.newest)
        return Known(state.epoch, max(state.floor, seen.floor), max(state.newest, seen.newest))


def _beginning(epoch: str, position: int) -> Beginning:
    return Beginning(position, lambda sequence: Position(epoch, sequence).text, epoch)


def _list_body(batch: Batch, query: EventQuery) -> bytes:
    more = not query.descending or batch.position > batch.floor
    page = {"next_cursor": Position(batch.epoch, batch.position).text if more else None, "limit": query.limit}
    items = ",".join(event.document_text() for event in batch.events)
    head = f'{{"kind":"idkmesh-list","schema_version":"{SCHEMA_VERSION}","items":[{items}],"page":'
    return f"{head}{json.dumps(page, separators=(',', ':'))}}}".encode()


def message_of(event: StoredEvent) -> Message:
    """Return an event as the streams carry it (EV-5.2)."""
    return Message(event.sequence, event_frame(event.document_text(), event_id=event.id), event.attributes)
