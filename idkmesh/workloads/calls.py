"""Calls that may never come back, a few at once, where one group's silence must not hold up the others (AR-3.2).

Laws of this module:

1. Each call has a daemon thread of its own: one that never comes back cannot keep the process.
2. One thread makes calls and waits. It beats several times a second, whatever the calls do.
3. A call that has overstayed is given up: its slot is free again, its answer is dropped when it comes. Until then
   nothing more is asked under its key, and nothing at all of its group where as many are out as run at once. So a
   group leaves no more threads behind than that, and costs its time once.
4. The group that has the fewest running is the next: none takes all slots while others have something to do.
"""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

T = TypeVar("T")

AT_ONCE: Final = 8
"""Calls that run at once over all (AR-3.2)."""

BEAT_SECONDS: Final = 0.25
"""The longest time between two beats."""


class Ended(enum.Enum):
    """How a call ended."""

    RETURNED = "returned"
    RAISED = "raised"
    GIVEN_UP = "given up"
    """It has not come back in its time."""
    REFUSED = "refused"
    """It was not begun: an earlier one of its key, or too many of its group, have not come back."""
    NOT_BEGUN = "not begun"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A call of ``function``, which comes back within ``limit`` seconds. ``key`` is its own within ``group``."""

    key: Hashable
    group: str
    function: Callable[[], T]
    limit: float


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What came of a call: the value where it has returned, the error where it has raised."""

    ended: Ended
    value: T | None = None
    error: BaseException | None = None


class Calls:
    """``size`` calls at once. One thread calls :meth:`make`."""

    def __init__(self, size: int = AT_ONCE, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._monotonic = monotonic
        self._out: dict[tuple[str, Hashable], threading.Thread] = {}

    @property
    def out(self) -> int:
        """How many calls were given up and have not come back."""
        self._out = {place: thread for place, thread in self._out.items() if thread.is_alive()}
        return len(self._out)

    def make(
        self, calls: Sequence[Call[T]], *, go: Callable[[], bool], beat: Callable[[], None]
    ) -> dict[tuple[str, Hashable], Answer[T]]:
        """Make the calls, and return what came of each, by group and key.

        Before each one ``go`` is asked: from the first no on none is begun, and those that run are waited for.
        """
        batch = _Batch(calls, self._size)
        while True:
            beat()
            while (call := batch.next(self._groups_out())) is not None:
                if not go():
                    batch.drop(call)
                elif self._is_out(call):
                    batch.answers[call.group, call.key] = Answer(Ended.REFUSED)
                else:
                    batch.begin(call, self._monotonic())
            if not batch.running:
                return batch.answers
            now = self._monotonic()
            self._out.update(batch.give_up(now))
            batch.take(min(BEAT_SECONDS, max(0.0, batch.next_deadline(now) - now)))

    def _groups_out(self) -> Counter[str]:
        return Counter(group for group, _ in self._out) if self.out else Counter()

    def _is_out(self, call: Call[T]) -> bool:
        return (call.group, call.key) in self._out or self._groups_out()[call.group] >= self._size


class _Batch(Generic[T]):
    """The calls of one :meth:`Calls.make`: those that wait, those that run, and the answers."""

    def __init__(self, calls: Sequence[Call[T]], size: int) -> None:
        self._size = size
        self._waiting: dict[str, deque[Call[T]]] = {}
        for call in calls:
            self._waiting.setdefault(call.group, deque()).append(call)
        self.running: dict[tuple[str, Hashable], tuple[threading.Thread, float]] = {}
        self.answers: dict[tuple[str, Hashable], Answer[T]] = {}
        self._done: queue.SimpleQueue[tuple[tuple[str, Hashable], Answer[T]]] = queue.SimpleQueue()

    def next(self, out: Counter[str]) -> Call[T] | None:
        """Return a call that may begin, or that is to be refused; ``out`` counts those of each group that are out."""
        waiting = [group for group, calls in self._waiting.items() if calls]
        if len(self.running) >= self._size:
            return None
        running = Counter(group for group, _ in self.running)
        for group in sorted(waiting, key=lambda each: running[each]):
            if out[group] >= self._size or running[group] < self._size - out[group]:
                return self._waiting[group].popleft()
        return None

    def begin(self, call: Call[T], now: float) -> None:
        place = (call.group, call.key)

        def run() -> None:
            try:
                answer = Answer(Ended.RETURNED, call.function())
            except BaseException as error:  # noqa: BLE001  whatever it raises is its answer, SystemExit too
                answer = Answer(Ended.RAISED, error=error)
            self._done.put((place, answer))

        thread = threading.Thread(target=run, name=f"workload-{call.group}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the machine is out of threads
            self.answers[place] = Answer(Ended.RAISED, error=error)
            return
        self.running[place] = (thread, now + call.limit)

    def drop(self, call: Call[T]) -> None:
        """Let go of a call, and of all that wait."""
        for each in (call, *(one for waiting in self._waiting.values() for one in waiting)):
            self.answers[each.group, each.key] = Answer(Ended.NOT_BEGUN)
        self._waiting.clear()

    def give_up(self, now: float) -> dict[tuple[str, Hashable], threading.Thread]:
        late = {place: thread for place, (thread, deadline) in self.running.items() if deadline <= now}
        for place in late:
            del self.running[place]
            self.answers[place] = Answer(Ended.GIVEN_UP)
        return late

    def next_deadline(self, now: float) -> float:
        return min((deadline for _, deadline in self.running.values()), default=now)

    def take(self, seconds: float) -> None:
        """Wait for an answer, and take all that are there."""
        try:
            place, answer = self._done.get(timeout=seconds)
            while True:
                if self.running.pop(place, None) is not None:
                    self.answers[place] = answer
                place, answer = self._done.get_nowait()
        except queue.Empty:
            return
