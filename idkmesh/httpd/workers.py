"""The threads that run handlers: at most as many as requests may be handled at once, started when first needed.

They are daemons: a handler that never ends cannot keep the process (HS-9.8). Idle ones end and are joined.
"""

from __future__ import annotations

import collections
import contextvars
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Task(Protocol):
    """What a worker is given."""

    def run(self) -> None:
        """Do it."""

    def decline(self) -> None:
        """Do without it: no thread could be started."""


class _Worker:
    __slots__ = ("signal", "thread")

    def __init__(self, work: Callable[[_Worker], None], name: str) -> None:
        self.signal = threading.Lock()
        self.signal.acquire()
        self.thread = threading.Thread(target=work, args=(self,), name=name, daemon=True)


class WorkerPool:
    """Runs tasks, each in a fresh :class:`contextvars.Context`.

    Waking a thread costs more than a short handler, so at most one worker at a time is on its way to the tasks
    (`_searching`); it wakes the next one if there is more to do when it has taken its own. No task waits while a worker
    is idle, and a burst of short requests is served by the one or two workers that are awake. The most recently idle
    worker is woken first. There is always a spare one, up to the size.
    """

    def __init__(self, size: int, name: str, failed: Callable[[], None]) -> None:
        """Use at most `size` threads; `failed` is called with the exception being handled when a task raises one."""
        self._size = size
        self._failed = failed
        self._name = name
        self._mutex = threading.Lock()
        self._tasks: collections.deque[Task] = collections.deque()
        self._idle: list[_Worker] = []
        self._searching = 0
        self._workers: set[_Worker] = set()
        self._closed = False

    def submit(self, task: Task) -> None:
        """Run `task` in a worker, soon.

        Starting a thread waits for it to run once, which can take long beside CPU-bound ones. So whoever takes the last
        idle worker's place starts a spare one, and the caller has to only where there is none yet.

        :raises RuntimeError: a thread is needed and the system starts none. The task is not kept.
        """
        with self._mutex:
            self._tasks.append(task)
            if len(self._tasks) <= len(self._idle) + self._searching:
                self._wake_one()
                return
            worker = self._recruit()
        if worker is not None and not self._started(worker):
            with self._mutex:
                if task not in self._tasks:
                    return  # a worker that had become idle has taken it
                self._tasks.remove(task)
            raise RuntimeError("cannot start a thread")

    def _wake_one(self) -> None:
        """Send one idle worker to the tasks, unless one is on its way. The mutex is held."""
        if self._idle and not self._searching:
            self._searching += 1
            self._idle.pop().signal.release()

    def _recruit(self) -> _Worker | None:
        """Make one more worker, on its way to the tasks; None where there are enough. The mutex is held."""
        if len(self._workers) >= self._size or self._closed:
            return None
        worker = _Worker(self._work, f"{self._name}-{len(self._workers) + 1}")
        self._workers.add(worker)
        self._searching += 1
        return worker

    def _started(self, worker: _Worker) -> bool:
        try:
            worker.thread.start()
        except RuntimeError:
            with self._mutex:
                self._workers.discard(worker)
                self._searching -= 1
                if self._tasks:
                    self._wake_one()  # which had not been necessary while this one was on its way
            return False
        return True

    def _work(self, worker: _Worker) -> None:
        searching = True
        while True:
            spare = None
            with self._mutex:
                if searching:
                    self._searching -= 1
                task = self._tasks.popleft() if self._tasks else None
                if task is not None:
                    searching = False
                    if self._tasks:
                        self._wake_one()
                    if not self._idle and not self._searching:
                        spare = self._recruit()
                elif self._closed:
                    self._workers.discard(worker)
                    return
                else:
                    self._idle.append(worker)
            if task is None:
                worker.signal.acquire()
                searching = True
                continue
            if spare is not None and not self._started(spare):
                self._run_each(waiting.decline for waiting in self._unattended())
            self._run_each((task.run,))

    def _unattended(self) -> list[Task]:
        """Take the tasks that were left to a thread which could not be started."""
        with self._mutex:
            if self._idle or self._searching:
                return []
            tasks = list(self._tasks)
            self._tasks.clear()
            return tasks

    def _run_each(self, calls: Iterable[Callable[[], None]]) -> None:
        for call in calls:
            try:
                contextvars.Context().run(call)
            except BaseException:  # noqa: BLE001 (whatever a task does, the thread stays)
                self._failed()

    def close(self, timeout: float) -> None:
        """End idle workers and join them, for at most `timeout` seconds each; busy ones end when their handler does."""
        with self._mutex:
            self._closed = True
            idle, self._idle = self._idle, []
            self._searching += len(idle)
        for worker in idle:
            worker.signal.release()
        for worker in idle:
            worker.thread.join(timeout)
