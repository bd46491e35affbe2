"""The threads that run handlers: at most as many as requests may be handled at once, started when first needed.

They are daemons: a handler that never ends cannot keep the process (HS-9.8). Idle ones end and are joined.
"""

from __future__ import annotations

import collections
import contextvars
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
    worker is woken first.
    """

    def __init__(self, size: int, name: str, failed: Callable[[], None]) -> None:
        """Use at most `size` threads; `failed` is called with the exception being handled when a task raises one."""
        self._size = size
        self._failed = failed
        self._name = name
        self._mutex = threading.Lock()
        self._tasks: collections.deque[Callable[[], None]] = collections.deque()
        self._idle: list[_Worker] = []
        self._searching = 0
        self._workers: set[_Worker] = set()
        self._closed = False

    @property
    def threads(self) -> frozenset[threading.Thread]:
        """The threads that exist."""
        return frozenset(worker.thread for worker in self._workers)

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task` in a worker, soon.

        :raises RuntimeError: a thread is needed and the system starts none. The task is not kept.
        """
        with self._mutex:
            self._tasks.append(task)
            if len(self._tasks) <= len(self._idle) + self._searching or len(self._workers) >= self._size:
                self._wake_one()
                return
            worker = _Worker(self._work, f"{self._name}-{len(self._workers) + 1}")
            self._workers.add(worker)
            self._searching += 1
        try:
            worker.thread.start()
        except RuntimeError:
            with self._mutex:
                self._workers.discard(worker)
                self._searching -= 1
                if task not in self._tasks:
                    return  # a worker that had become idle has taken it
                self._tasks.remove(task)
            raise

    def _wake_one(self) -> None:
        """Send one idle worker to the tasks, unless one is on its way. The mutex is held."""
        if self._idle and not self._searching:
            self._searching += 1
            self._idle.pop().signal.release()

    def _work(self, worker: _Worker) -> None:
        searching = True
        while True:
            with self._mutex:
                if searching:
                    self._searching -= 1
                task = self._tasks.popleft() if self._tasks else None
                if task is not None:
                    searching = False
                    if self._tasks:
                        self._wake_one()
                elif self._closed:
                    self._workers.discard(worker)
                    return
                else:
                    self._idle.append(worker)
            if task is None:
                worker.signal.acquire()
                searching = True
                continue
            try:
                contextvars.Context().run(task)
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
