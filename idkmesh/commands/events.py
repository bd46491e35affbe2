"""``idkmesh events``: what the store's file says, for people and for programs (EV-4.5)."""

from __future__ import annotations

import json
import re
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from idkmesh import console
from idkmesh.commands.inputs import store_path
from idkmesh.console import EXIT_USAGE, CommandError
from idkmesh.events.envelope import Position, parse_position
from idkmesh.events.errors import StoreDamagedError, StoreError, StoreForeignError
from idkmesh.events.reader import StoreAbsentError, read_file
from idkmesh.events.store import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from idkmesh.events.envelope import StoredEvent
    from idkmesh.events.state import Batch

EXIT_UNREADABLE: Final = 3
"""The store cannot be read."""

LOOK_SECONDS: Final = 0.5
"""How often the file is looked at: who only reads has no bell that others ring."""

ABSENT_SECONDS: Final = 5.0
"""How long a store may be away while it is followed: one that is put aside is replaced at once."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_SHORT_DATA: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What was asked: the store's file, filters, the position to begin after, and whether documents are printed."""

    store: Path
    wanted: Mapping[str, str]
    after: str | None
    as_json: bool


def list_events(
    store: str | None, filters: Mapping[str, str | None], *, after: str | None, limit: int | None, as_json: bool
) -> int:
    """Print events of a store's file and return the exit code; without ``limit`` go on with what is committed."""
    wanted = {name: value for name, value in filters.items() if value is not None}
    query = Query(store=store_path(store), wanted=wanted, after=after, as_json=as_json)
    return follow_events(query) if limit is None else print_events(query, limit)


def print_events(query: Query, limit: int) -> int:
    """Print the newest events, or the first after a position, oldest first; return the exit code."""
    if query.after is None:
        _print(query, _newest(query, limit))
        return 0
    position = _begin(query, query.after)
    while limit > 0:
        batch = _read(query, position.sequence, min(MAX_BATCH, limit))
        _refuse_epoch(query, position, batch.epoch)
        _tell_gap(position.sequence, batch)
        _print(query, batch.events)
        limit -= len(batch.events)
        position = position._replace(sequence=batch.position)
        if position.sequence >= batch.newest:
            break
    return 0


def follow_events(query: Query) -> int:
    """Print what is committed from now on, or from a position on, until interrupted, which is 0."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is for what a shell starts in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if query.after is None:
            batch = _read(query, None, 1, descending=True)
            epoch, position = batch.epoch, batch.newest
        else:
            epoch, position = _begin(query, query.after)
        _follow(query, epoch, position)
    except KeyboardInterrupt:
        return 0


def _follow(query: Query, epoch: str, position: int) -> NoReturn:
    seen_at = time.monotonic()
    while True:
        try:
            batch = _read(query, position, MAX_BATCH)
        except CommandError as error:
            # A control tower that runs puts a damaged one aside, and its successor takes the name.
            passing = isinstance(error.__cause__, StoreAbsentError | StoreDamagedError)
            if not passing or time.monotonic() - seen_at > ABSENT_SECONDS:
                raise
            time.sleep(LOOK_SECONDS)
            continue
        seen_at = time.monotonic()
        if batch.epoch != epoch:
            console.complain(f"idkmesh: the event store {query.store} was replaced, its epoch is {batch.epoch} now")
            epoch, position = batch.epoch, 0
            continue
        _tell_gap(position, batch)
        _print(query, batch.events)
        position = batch.position
        if position >= batch.newest:
            time.sleep(LOOK_SECONDS)


def _newest(query: Query, limit: int) -> list[StoredEvent]:
    events: list[StoredEvent] = []
    before, epoch = None, None
    while len(events) < limit:
        batch = _read(query, before, min(MAX_BATCH, limit - len(events)), descending=True)
        if batch.epoch != (epoch or batch.epoch):
            break  # replaced meanwhile: what was read is what there was
        events += batch.events
        before, epoch = batch.position, batch.epoch
        if before <= batch.floor:
            break
    return events[::-1]


def _tell_gap(position: int, batch: Batch) -> None:
    """Say so where events after a position are gone: a silent gap would be a lie."""
    if batch.floor > position:
        console.complain(f"idkmesh: events {position + 1} to {batch.floor} are gone: retention has given them up")


def _begin(query: Query, after: str) -> Position:
    """Return the position that ``--after`` names. Raises :class:`CommandError` where the store has no such place."""
    number = after if _NUMBER.fullmatch(after) else None
    position = Position("", int(number)) if number is not None else parse_position(after)
    if position is None:
        raise CommandError(
            f"--after: {after} is no position, which is the id of an event, 0123456789abcdef.000000000042 for example, "
            "or its number",
            EXIT_USAGE,
        )
    batch = _read(query, position.sequence, 1)
    if number is not None:
        position = position._replace(epoch=batch.epoch)
    _refuse_epoch(query, position, batch.epoch)
    if position.sequence > batch.newest:
        raise CommandError(f"--after: {after} is beyond the newest event, {batch.newest}", EXIT_USAGE)
    if position.sequence < batch.floor:
        raise CommandError(
            f"--after: {after} is too old, events up to {batch.floor} are gone; begin after "
            f"{position._replace(sequence=batch.floor)}",
            EXIT_USAGE,
        )
    return position


def _refuse_epoch(query: Query, position: Position, epoch: str) -> None:
    if epoch != position.epoch:
        raise CommandError(
            f"--after: {position} is of another store, the epoch of {query.store} is {epoch}; leave --after out",
            EXIT_USAGE,
        )


def _read(query: Query, after: int | None, limit: int, *, descending: bool = False) -> Batch:
    try:
        return read_file(query.store, after, limit, query.wanted, descending=descending)
    except (StoreDamagedError, StoreForeignError) as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    except StoreError as error:
        raise CommandError(str(error), EXIT_UNREADABLE) from error


def _print(query: Query, events: Sequence[StoredEvent]) -> None:
    for event in events:
        console.say(_line(event, as_json=query.as_json))


def _line(event: StoredEvent, *, as_json: bool) -> str:
    """Return the document, or one line for a person: time in UTC, sequence, type, subject and the start of the data."""
    if as_json:
        return event.document_text()
    data = json.dumps(json.loads(event.data), ensure_ascii=False)
    short = data if len(data) <= _SHORT_DATA else data[:_SHORT_DATA] + " ..."
    # The data may hold what sends a terminal commands; JSON escapes less than that.
    return console.fitted(f"{event.time} {event.sequence:012d} {event.type} {event.subject or '-'} {short}")
