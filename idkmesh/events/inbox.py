"""The bounded queue between those who emit events and the one thread that writes them (EV-3.1)."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.events.envelope import Event

CAPACITY: Final = 1024
"""Events that wait at most; one more is dropped and counted."""

CAPACITY_BYTES: Final = 8 * 1024 * 1024
"""Bytes of data that wait at most: 1,024 of the largest events would be 64 MiB."""


class Inbox:
    """Events that wait, in the order in which they came. Any thread; the lock is held for no longer than a copy."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._waiting: deque[Event] = deque()
        self._bytes = 0
        self._closed = False
        self._taken_in = 0
        self._settled = 0
        self._dropped = 0

    def put(self, event: Event) -> bool:
        """Take an event in, or drop and count it. Say whether the writer has to be woken."""
        with self._lock:
            full = len(self._waiting) >= CAPACITY or self._bytes + event.size > CAPACITY_BYTES
            if self._closed or full:
                self._dropped += 1
                return False
            self._waiting.append(event)
            self._bytes += event.size
            self._taken_in += 1
            return len(self._waiting) == 1

    def first(self, count: int) -> list[Event]:
        """Return the oldest events, which go on waiting until they are settled."""
        with self._lock:
            return [self._waiting[index] for index in range(min(count, len(self._waiting)))]

    def settle(self, events: Sequence[Event]) -> None:
        """Take out the oldest events, that :meth:`first` has returned: they are stored, or refused."""
        with self._lock:
            for _ in events:
                self._bytes -= self._waiting.popleft().size
            self._settled += len(events)
            self._lock.notify_all()

    def wait_settled(self, timeout: float) -> bool:
        """Wait until all that was taken in before is settled; say whether that came about in time (seconds)."""
        deadline = time.monotonic() + timeout
        with self._lock:
            goal = self._taken_in
            while self._settled < goal:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._lock.wait(left)
            return True

    def close(self) -> None:
        """Take nothing in from now on."""
        with self._lock:
            self._closed = True

    @property
    def dropped(self) -> int:
        """How many events were dropped."""
        return self._dropped

    def __len__(self) -> int:
        return len(self._waiting)
