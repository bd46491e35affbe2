"""The threads that run probes: started when first needed, each with one run at a time (HL-4.4).

They are daemons: a probe that never comes back cannot keep the process. One thread owns the crew; workers only take
runs from its queue and give results to ``done``.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from idkmesh.health.model import Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.clock import Clock
    from idkmesh.health.rounds import Run

MAX_DETAIL_CHARACTERS: Final = 200
"""Bound of the word on a result (HL-4.12)."""


class Crew:
    """As many workers as there have been runs at once, at most ``size``, and one more for each run that was given up.

    ``done`` gets each run and its result in the worker's thread; it must not wait. Where a probe has raised, the third
    argument is the exception.
    """

    def __init__(self, size: int, clock: Clock, done: Callable[[Run, Result, BaseException | None], None]) -> None:
        self._size = size
        self._clock = clock
        self._done = done
        self._runs: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._threads: set[threading.Thread] = set()
        self._workers = 0
        self._busy = 0

    def give(self, run: Run) -> None:
        """Have a worker run it, at once.

        :raises RuntimeError: a thread is needed and the system starts none. The run is not kept.
        """
        if self._busy >= self._workers:
            self._recruit()
        self._busy += 1
        self._runs.put(run)

    def free(self) -> None:
        """Count a worker as free: its run has come back."""
        self._busy -= 1

    def give_up(self) -> None:
        """Count a worker as lost: its run has overstayed. Another one may take its place."""
        self._busy -= 1
        self._workers -= 1

    def regain(self) -> None:
        """Take a lost worker back, or send one home where its place has been taken: its run has come back."""
        if self._workers < self._size:
            self._workers += 1
        else:
            self._runs.put(None)

    def dismiss(self) -> None:
        """Send every worker home once it has done what it does, the lost ones too when they come back."""
        # One word a thread is enough for all: each takes one at the most, and what nobody takes says nothing.
        for _ in self._threads:
            self._runs.put(None)
        self._workers = 0

    def join(self, timeout: float) -> int:
        """Wait for the workers to end, at most ``timeout`` seconds, and return how many are left."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return sum(thread.is_alive() for thread in self._threads)

    def _recruit(self) -> None:
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        thread = threading.Thread(target=self._work, name=f"probe-{len(self._threads) + 1}", daemon=True)
        thread.start()
        self._threads.add(thread)
        self._workers += 1

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            began = self._clock.monotonic()
            raised: BaseException | None = None
            try:
                result = _bounded(run.probe.run(run.timeout, self._clock))
            except BaseException as error:  # noqa: BLE001  whatever a probe does, SystemExit too, the worker stays
                raised = error
                latency = self._clock.monotonic() - began
                # The message may hold what nobody should read (HL-4.12): the type alone is told.
                result = Result(began, latency, Outcome.COULD_NOT_RUN, f"probe raised {type(error).__name__}")
            self._done(run, result, raised)


def _bounded(result: Result) -> Result:
    """Return the result with a word of the allowed form (HL-4.12). Raises here for a probe that gives no result."""
    detail = "".join(each if each.isprintable() else "?" for each in result.detail[:MAX_DETAIL_CHARACTERS])
    return replace(result, detail=detail)
