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

    def __init__(self) -> None:
        self.signal = threading.Lock()
        self.signal.acquire()
        self.thread: threading.Thread | None = None


class WorkerPool:
    """Runs tasks, each in a fresh :class:`contextvars.Context`.

    The most recently idle worker is woken first: under light load the same few threads serve everything.
    """

    def __init__(self, size: int, name: str, failed: Callable[[], None]) -> None:
        """Use at most `size` threads; `failed` is called with the exception being handled when a task raises one."""
        self._size = size
        self._failed = failed
        self._name = name
        self._mutex = threading.Lock()
        self._tasks: collections.deque[Callable[[], None]] = collections.deque()
        self._idle: list[_Worker] = []
        self._workers: set[_Worker] = set()
        self._closed = False

    @property
    def threads(self) -> frozenset[threading.Thread]:
        """The threads that exist."""
        return frozenset(worker.thread for worker in self._workers if worker.thread is not None)

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task` in a worker, soon.

        :raises RuntimeError: a thread is needed and the system starts none. The task is not kept.
        """
        with self._mutex:
            self._tasks.append(task)
            if self._idle:
                self._idle.pop().signal.release()
                return
            if len(self._workers) >= self._size:
                return
            worker = _Worker()
            worker.thread = threading.Thread(
                target=self._work, args=(worker,), name=f"{self._name}-{len(self._workers) + 1}", daemon=True
            )
            self._workers.add(worker)
        try:
            worker.thread.start()
        except RuntimeError:
            with self._mutex:
                self._workers.discard(worker)
                if task not in self._tasks:
                    return  # a worker that became idle meanwhile has taken it
                self._tasks.remove(task)
            raise

    def _work(self, worker: _Worker) -> None:
        while True:
            with self._mutex:
                if self._tasks:
                    task = self._tasks.popleft()
                elif self._closed:
                    self._workers.discard(worker)
                    return
                else:
                    task = None
                    self._idle.append(worker)
            if task is None:
                worker.signal.acquire()
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
        for worker in idle:
            worker.signal.release()
        for worker in idle:
            if worker.thread is not None:
                worker.thread.join(timeout)
