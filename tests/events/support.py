"""What the tests of events share: events, clocks, stores and recorders that end with the test."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idkmesh.clock import SystemClock
from idkmesh.events.envelope import Event
from idkmesh.events.recorder import EventRecorder
from idkmesh.events.retention import Retention
from idkmesh.events.store import EventStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.clock import Clock
    from idkmesh.events.envelope import StoredEvent

ROOT = Path(__file__).parents[2]
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, dt.UTC)
PATIENCE = 60.0


def event(number: int = 0, /, **more: Any) -> Event:
    given: dict[str, Any] = {"type": "test.numbered", "source": "/test", "time": NOW, "data": {"number": number}}
    return Event(**(given | more))


def events(count: int, **more: Any) -> list[Event]:
    return [event(number, **more) for number in range(count)]


def numbers(found: list[StoredEvent]) -> list[int]:
    return [each.sequence for each in found]


@contextlib.contextmanager
def opened(path: Path, **retention: Any) -> Iterator[EventStore]:
    store = EventStore.open(path, retention=Retention(**retention), now=NOW)
    try:
        yield store
    finally:
        store.close()


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> dt.datetime:
        return NOW + dt.timedelta(seconds=self.now - 1000.0)


class Harness:
    """A recorder, and what it has told. Without a thread :meth:`turn` does what the thread would."""

    def __init__(self, path: Path, clock: Clock, **retention: Any) -> None:
        self.lines: list[tuple[int, str]] = []
        self.told: list[StoredEvent | None] = []
        self.sizes: list[int] = []
        self.recorder = EventRecorder(
            path,
            Retention(**retention),
            clock=clock,
            published=self.published_now,
            replaced=lambda _epoch, _position: self.told.append(None),
            log=lambda line, level: self.lines.append((level, line)),
        )

    def published_now(self, found: list[StoredEvent]) -> None:
        self.sizes.append(len(found))
        self.told.extend(found)

    @property
    def published(self) -> list[StoredEvent]:
        return [each for each in self.told if each is not None]

    def turn(self, *, others: bool = False) -> None:
        self.recorder._turn(others=others)


@contextlib.contextmanager
def recording(path: Path, clock: Clock | None = None, **retention: Any) -> Iterator[Harness]:
    """Give a recorder; with a clock of its own it has no thread, else it has started."""
    # By the system's clock the events of these tests, of a fixed time, are old.
    kept = retention or {"event_retention_age": 3650 * 86_400.0}
    harness = Harness(path, clock or SystemClock(), **kept)
    if clock is None:
        harness.recorder.start()
    try:
        yield harness
    finally:
        harness.recorder.close(5)


def until(happened: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def quick_check(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found: str = connection.execute("PRAGMA quick_check").fetchone()[0]
        return found


def python(program: str, *arguments: str | Path) -> list[str]:
    """Return the command that runs a program of the tests, with as little start as there can be."""
    return [
        sys.executable,
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}",
        *map(str, arguments),
    ]


def descriptors(pid: int | str = "self") -> list[str]:
    """Return what each open descriptor of a process leads to."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(each.readlink()))
    return found
