"""What the tests of the topology share: a clock that stands still, a provider that says what it is told to, names."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from typing import TYPE_CHECKING

from idkmesh.clock import SystemClock
from idkmesh.topology.errors import AgentUnavailableError
from idkmesh.topology.model import Snapshot, Target, endpoint_of, snapshot_of
from idkmesh.topology.provider import Usability
from idkmesh.topology.selector import WatchSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.changes import Change
    from idkmesh.clock import Clock
    from idkmesh.topology.model import ProviderEvent
    from idkmesh.topology.provider import Provider, Sink

UTC = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, dt.UTC)
START = 1000.0
WAIT = 60.0

ECHO = Target("echo", "1.0.0", "r1")


def other(number: int) -> Target:
    return Target(f"agent-{number}", "1.0.0", "r1")


def at(*ports: int) -> Snapshot:
    """Return a snapshot with these endpoints."""
    return snapshot_of([endpoint_of(f"http://127.0.0.1:{port}") for port in ports])


EMPTY = snapshot_of([])


class ManualClock:
    """Stands still until it is moved, both clocks alike."""

    def __init__(self) -> None:
        self.now = START

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> dt.datetime:
        return UTC + dt.timedelta(seconds=self.now - START)


class HandWatch:
    """A watch whose events a test makes."""

    def __init__(self, target: Target, sink: Sink) -> None:
        self.target = target
        self.say = sink
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class HandProvider:
    """A provider in a test's hands. ``at_once`` is said within `observe`; ``refuses`` is raised by it."""

    name = "etcd"

    def __init__(self, *at_once: ProviderEvent, continuous: bool = True) -> None:
        self.continuous = continuous
        self.at_once = at_once
        self.refuses: Exception | None = None
        self.watches: list[HandWatch] = []
        self.answer: Snapshot | Exception = EMPTY
        self.asked: list[tuple[Target, float]] = []
        self.calls = 0

    def snapshot(self, target: Target, seconds: float) -> Snapshot:
        self.calls += 1
        self.asked.append((target, seconds))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def observe(self, target: Target, sink: Sink) -> HandWatch:
        self.calls += 1
        if self.refuses is not None:
            raise self.refuses
        watch = HandWatch(target, sink)
        self.watches.append(watch)
        for event in self.at_once:
            sink(event)
        return watch

    def usable(self) -> Usability:
        self.calls += 1
        return Usability(usable=True)

    def counted(self) -> None:
        self.calls += 1

    def close(self) -> None:
        self.calls += 1


class Site:
    """A selector over a provider in a test's hands, and all that it tells."""

    def __init__(self, provider: HandProvider, clock: Clock, most: int = 1024) -> None:
        self.provider = provider
        self.told: list[Change] = []
        self.lines: list[str] = []
        self.selector = WatchSelector(
            provider,
            clock=clock,
            changed=self.told.append,
            line=lambda line, _: self.lines.append(line),
            max_observations=most,
        )

    @property
    def watch(self) -> HandWatch:
        """The watch that was opened last."""
        return self.provider.watches[-1]

    def types(self) -> list[str]:
        return [change.what.removeprefix("idkmesh.topology.") for change in self.told]

    def seen(self, target: Target = ECHO) -> tuple[str, int]:
        """Return state and revision of a target."""
        (found,) = (each.observation for each in self.selector.statuses() if each.target == target)
        return found.state.value, found.revision


def eventually(condition: Callable[[], bool], seconds: float = WAIT) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


class Heard:
    """A sink that keeps what it hears, and whether it was called by two threads at a time."""

    def __init__(self) -> None:
        self.events: list[ProviderEvent] = []
        self.beside = False
        self._busy = threading.Lock()

    def __call__(self, event: ProviderEvent) -> None:
        if not self._busy.acquire(blocking=False):
            self.beside = True
            return
        self.events.append(event)
        self._busy.release()

    def last(self) -> ProviderEvent | None:
        return self.events[-1] if self.events else None


@contextlib.contextmanager
def selecting(provider: Provider) -> Iterator[WatchSelector]:
    """Have a selector over a real provider."""
    selector = WatchSelector(provider, clock=SystemClock(), changed=lambda _: None, line=lambda *_: None)
    with selector:
        yield selector


def chosen(selector: WatchSelector, target: Target) -> str:
    """Return the endpoint that is selected, or the state in which none is."""
    try:
        return selector.select(target).endpoint.url
    except AgentUnavailableError as error:
        return error.state.value
