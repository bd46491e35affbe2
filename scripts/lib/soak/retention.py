"""A day's events at 100 a second through retention: by number in the first half, by age in the second.

What stands in: the recorder's clock. It moves by 10 ms an event, however fast events are written, so that the pruning
once a minute comes every 6,000 events, as it would in a day. Recorder, store, thread and disk are the real ones.
A reader beside it reads as a stream of events does. Now and then it sleeps until retention has overtaken it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from idkmesh.events.envelope import Event
from idkmesh.events.recorder import BATCH, HOUSEKEEPING_SECONDS, EventRecorder
from idkmesh.events.retention import Retention
from idkmesh.events.store import MAX_BATCH, PRUNE_ROWS
from scripts.lib.soak.state import Step

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from idkmesh.events.envelope import StoredEvent
    from scripts.lib.soak.state import State

RATE: Final = 100
MINUTE: Final = int(HOUSEKEEPING_SECONDS * RATE)
BURST: Final = 500
"""Emitted before the producer waits: the queue takes 1,024."""
DEFAULT_COUNT: Final = 100_000
AGE_SECONDS: Final = 600
LEAST_AGE: Final = 60
MOST_COUNT: Final = 10_000_000
LONGEST_AGE: Final = 3650 * 86_400.0
BEGIN: Final = datetime(2026, 1, 2, tzinfo=UTC)
EVENT_BYTES: Final = 600
"""What an event of this part takes in the file at most, its indexes included."""
LOG_BYTES: Final = 16 << 20


class DayClock:
    """Stands at an event of the day."""

    def __init__(self, number: int) -> None:
        self.number = number

    def monotonic(self) -> float:
        """Return the seconds of the day."""
        return self.number / RATE

    def utc(self) -> datetime:
        """Return the time of the day."""
        return BEGIN + timedelta(seconds=self.number / RATE)


@dataclass(frozen=True)
class Half:
    """A half of the day: where it ends, what retention is set to, how many events that keeps, and finds at most."""

    end: int
    retention: Retention
    kept: int
    found: int

    @property
    def most(self) -> int:
        """How many may be there: what is kept, a minute more until it is looked at, and what comes meanwhile."""
        return self.kept + _pruned_within(MINUTE)

    @property
    def settled(self) -> int:
        """How many come until what was found, by the setting before, is pruned."""
        return _pruned_within(self.found)


def _pruned_within(rows: int) -> int:
    """Return how many events come until a look, and until it has pruned so many rows, turn by turn."""
    turns = rows // (PRUNE_ROWS - BATCH) + 2
    return MINUTE + turns * BATCH + 2 * BURST


def halves(goal: int) -> tuple[Half, Half]:
    """Return both halves. A short run keeps less, so that retention has something to do."""
    count = max(100, min(DEFAULT_COUNT, goal // 20))
    age = max(LEAST_AGE, min(AGE_SECONDS, goal // RATE // 20))
    by_count = Retention(event_retention_count=count, event_retention_age=LONGEST_AGE)
    by_age = Retention(event_retention_count=MOST_COUNT, event_retention_age=float(age))
    return Half(goal // 2, by_count, count, 0), Half(goal, by_age, age * RATE, count + MINUTE)


class Watch:
    """The recorder's feed and the reader beside it: what each has seen, and what is wrong."""

    def __init__(self, recorder_position: int) -> None:
        self.published = self.read = recorder_position
        self.wrong: list[str] = []
        self.read_total = self.announced = self.gaps = 0
        self._awake = 0
        self._asleep = False

    def on_published(self, events: Sequence[StoredEvent]) -> None:
        """Take a commit: its first sequence follows the last one."""
        for event in events:
            if event.sequence != self.published + 1:
                self.wrong.append(f"the feed has {event.sequence} after {self.published}")
            self.published = event.sequence

    def turn(self, recorder: EventRecorder, nap: int) -> None:
        """Read all that there is, or sleep on until the floor has passed the position."""
        if self._asleep and recorder.snapshot().floor <= self.read + MAX_BATCH:
            return
        self._asleep = False
        while True:
            batch = recorder.read(self.read, MAX_BATCH, {})
            if batch.floor > self.read:
                self.gaps += 1
                self.announced += batch.floor - self.read
                self.read = batch.floor
            if not batch.events:
                break
            for event in batch.events:
                if event.sequence != self.read + 1:
                    self.wrong.append(f"the reader has {event.sequence} after {self.read}, and no gap was announced")
                self.read = event.sequence
            self.read_total += len(batch.events)
            self._awake += len(batch.events)
        if self._awake > nap:
            self._awake, self._asleep = 0, True


def steps(state: State, folder: Path) -> Generator[Step, None, None]:
    """Write what is left of the day."""
    done = state.done
    for half in halves(state.goal):
        if done < half.end:
            yield from _half(half, done, state.goal, folder / "events.sqlite3")
            done = half.end


def _half(half: Half, first: int, goal: int, path: Path) -> Iterator[Step]:
    clock = DayClock(first)
    lines: list[str] = []
    watch: Watch | None = None
    recorder = EventRecorder(
        path,
        half.retention,
        clock=clock,
        published=lambda events: watch.on_published(events) if watch else None,
        replaced=lambda _epoch, position: lines.append(f"the feed was told of another order after {position}"),
        log=lambda line, _level: lines.append(line),
        source="/soak",
    )
    bounds = recorder.snapshot()
    watch = Watch(bounds.newest)
    size = max(BURST, min(20_000, goal // 100))
    settled = first + half.settled
    begun = bounds.floor
    with contextlib.ExitStack() as ends:
        ends.callback(recorder.close, 30)
        recorder.start()
        while clock.number < half.end:
            many = min(size, half.end - clock.number)
            before = recorder.snapshot().newest
            highs = _write(recorder, clock, watch, clock.number + many, (half, settled))
            after = recorder.snapshot()
            if after.newest != before + many:
                watch.wrong.append(f"{many} events were emitted and {after.newest - before} are stored")
            if after.floor > begun and after.newest - after.floor < half.kept:
                watch.wrong.append(f"{after.newest - after.floor} events are kept of {half.kept}: too few")
            yield _taken(watch, lines, many, highs | _sizes(path, after.wal_bytes, half, watch))


def _write(
    recorder: EventRecorder, clock: DayClock, watch: Watch, end: int, bounds: tuple[Half, int]
) -> dict[str, float]:
    """Emit events until there are so many, a burst at a time, and read beside it."""
    half, settled = bounds
    highest = 0
    while clock.number < end:
        for _ in range(min(BURST, end - clock.number)):
            data = {"number": clock.number, "text": "a day's events, one of them"}
            recorder.emit(Event(type="soak.day", source="/soak", time=clock.utc(), data=data))
            clock.number += 1
        if not recorder.flush(60):
            watch.wrong.append("the recorder has not written a burst within a minute")
        watch.turn(recorder, 3 * half.kept)
        now = recorder.snapshot()
        if clock.number > settled:
            highest = max(highest, now.newest - now.floor)
    deadline = time.monotonic() + 30
    while watch.published < recorder.snapshot().newest and time.monotonic() < deadline:
        time.sleep(0.001)
    if highest > half.most:
        watch.wrong.append(f"{highest} events are there, and {half.most} may be")
    return {f"events at once, by {_name(half)}": highest, f"events allowed at once, by {_name(half)}": half.most}


def _sizes(path: Path, log: int, half: Half, watch: Watch) -> dict[str, float]:
    size = path.stat().st_size
    allowed = half.most * EVENT_BYTES + (1 << 20)
    if _name(half) == "number" and size > allowed:
        watch.wrong.append(f"the file has {size} bytes, and {allowed} may be")
    if log > LOG_BYTES:
        watch.wrong.append(f"the write-ahead log has {log} bytes")
    return {"file bytes, highest": size, "log bytes, highest": log}


def _name(half: Half) -> str:
    return "number" if half.retention.event_retention_age == LONGEST_AGE else "age"


def _taken(watch: Watch, lines: list[str], many: int, highs: dict[str, float]) -> Step:
    """Return what a step has found, and begin the next one at nothing."""
    sums = {"events read": watch.read_total, "gaps announced": watch.gaps, "events in these gaps": watch.announced}
    step = Step(count=many, sums=sums, highs=highs, wrong=[*watch.wrong, *lines])
    watch.read_total = watch.gaps = watch.announced = 0
    watch.wrong = []
    lines.clear()
    return step
