"""The pool of threads."""

from __future__ import annotations

import contextvars
import threading
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.httpd.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 10.0


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
def make(failures: list[str]) -> Iterator[Callable[[int], WorkerPool]]:
    pools = []

    def pool(size: int) -> WorkerPool:
        pools.append(WorkerPool(size, "worker", lambda: failures.append("failed")))
        return pools[-1]

    yield pool
    for one in pools:
        one.close(PATIENCE)
        for thread in one.threads:  # those which were not idle yet end by themselves
            thread.join(PATIENCE)
        assert one.threads == frozenset()


class Gate:
    """Tasks that wait until they are let go."""

    def __init__(self) -> None:
        self.running = threading.Semaphore(0)
        self.go = threading.Event()

    def task(self) -> None:
        self.running.release()
        assert self.go.wait(PATIENCE)

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.running.acquire(timeout=PATIENCE)


def test_size_is_exact(make: Callable[[int], WorkerPool]) -> None:
    """HS-1.2, HS-5.4: as many tasks run at once as the pool is large, no more, and every one of them runs."""
    pool, gate = make(3), Gate()
    for _ in range(7):
        pool.submit(gate.task)
    gate.wait_for(3)
    assert not gate.running.acquire(timeout=0.05)
    assert len(pool.threads) == 3
    gate.go.set()
    gate.wait_for(4)


def test_threads_start_when_they_are_needed(make: Callable[[int], WorkerPool]) -> None:
    """HS-1.2: no thread before the first task, and one after another uses one."""
    pool = make(8)
    assert pool.threads == frozenset()
    done = threading.Semaphore(0)
    for _ in range(20):
        pool.submit(done.release)
        assert done.acquire(timeout=PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while not pool._idle:
            assert time.monotonic() < deadline
    assert len(pool.threads) == 1
    assert all(thread.daemon for thread in pool.threads)


def test_no_task_waits_beside_an_idle_worker(make: Callable[[int], WorkerPool]) -> None:
    """HS-5.4: with idle workers a burst of long tasks runs at once, each in its own."""
    pool = make(6)
    for _ in range(30):
        gate = Gate()
        for _ in range(6):
            pool.submit(gate.task)
        gate.wait_for(6)
        gate.go.set()


def test_each_task_has_a_context_of_its_own(make: Callable[[int], WorkerPool]) -> None:
    """HS-1.2: a context variable that one task sets is not there for the next."""
    pool = make(1)
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[int] = []
    done = threading.Semaphore(0)

    def task() -> None:
        seen.append(variable.get())
        variable.set(1)
        done.release()

    for _ in range(3):
        pool.submit(task)
        assert done.acquire(timeout=PATIENCE)
    assert seen == [0, 0, 0]


def test_whatever_a_task_raises_the_thread_stays(make: Callable[[int], WorkerPool], failures: list[str]) -> None:
    """HS-7.6: an exit in a task ends no worker, and is told."""
    pool = make(1)
    done = threading.Semaphore(0)

    def leave() -> None:
        raise SystemExit

    for _ in range(5):
        pool.submit(leave)
    pool.submit(done.release)
    assert done.acquire(timeout=PATIENCE)
    assert failures == ["failed"] * 5
    assert len(pool.threads) == 1


def test_thread_that_does_not_start(make: Callable[[int], WorkerPool], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-5.7: the task is not kept, the caller is told, and the pool works when threads can be had again."""
    pool, gate = make(2), Gate()

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start"):
                pool.submit(gate.task)
    assert pool.threads == frozenset()
    assert pool._searching == 0
    for _ in range(2):
        pool.submit(gate.task)
    gate.wait_for(2)
    gate.go.set()


def test_task_that_another_worker_takes_before_the_start_fails(
    make: Callable[[int], WorkerPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HS-5.7: where a worker that has become idle takes the task meanwhile, the failed start is nobody's trouble."""
    pool, gate = make(2), Gate()
    pool.submit(gate.task)
    gate.wait_for(1)
    done = threading.Event()

    def fail(thread: threading.Thread) -> None:
        gate.go.set()
        assert done.wait(PATIENCE)
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        pool.submit(done.set)
    assert done.is_set()


def test_close_does_not_wait_for_busy_workers(make: Callable[[int], WorkerPool]) -> None:
    """HS-9.8: closing joins the idle ones; a task that does not end keeps its thread, which is a daemon."""
    pool, gate = make(2), Gate()
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(PATIENCE)
    pool.submit(gate.task)
    gate.wait_for(1)
    began = time.monotonic()
    pool.close(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
    (busy,) = pool.threads
    gate.go.set()
    busy.join(PATIENCE)
    assert pool.threads == frozenset()
