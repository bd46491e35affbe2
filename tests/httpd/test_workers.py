"""The pool of threads."""

from __future__ import annotations

import contextvars
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 30.0


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
        for thread in threads(one):  # those which were not idle yet end by themselves
            thread.join(PATIENCE)
        assert threads(one) == set()


class Job:
    """A task made of two functions."""

    def __init__(self, run: Callable[[], object], decline: Callable[[], object] | None = None) -> None:
        self.run: Callable[[], Any] = run
        self.decline: Callable[[], Any] = decline or self.unexpected

    def unexpected(self) -> None:
        raise AssertionError("declined")


def threads(pool: WorkerPool) -> set[threading.Thread]:
    return {worker.thread for worker in pool._workers}


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
        pool.submit(Job(gate.task))
    gate.wait_for(3)
    assert not gate.running.acquire(timeout=0.05)
    assert len(threads(pool)) == 3
    gate.go.set()
    gate.wait_for(4)


def test_threads_start_when_they_are_needed(make: Callable[[int], WorkerPool]) -> None:
    """HS-1.2: no thread before the first task, and one task after another uses one thread and a spare one."""
    pool = make(8)
    assert threads(pool) == set()
    done = threading.Semaphore(0)
    for _ in range(20):
        pool.submit(Job(done.release))
        assert done.acquire(timeout=PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while len(pool._idle) < 2:
            assert time.monotonic() < deadline
    assert len(threads(pool)) == 2
    assert all(thread.daemon for thread in threads(pool))


def test_the_caller_starts_no_thread_while_a_spare_one_is_there(
    make: Callable[[int], WorkerPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HS-1.2: starting waits for the new thread to run, and the front waits for nobody but at the first request."""
    pool, gate = make(4), Gate()
    starters: list[int] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        starters.append(threading.get_ident())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    for count in range(1, 5):
        pool.submit(Job(gate.task))
        gate.wait_for(1)
        deadline = time.monotonic() + PATIENCE
        while count < 4 and not pool._idle:
            assert time.monotonic() < deadline
    assert len(starters) == 4
    assert starters.count(threading.get_ident()) == 1
    gate.go.set()


def test_no_task_waits_beside_an_idle_worker(make: Callable[[int], WorkerPool]) -> None:
    """HS-5.4: with idle workers a burst of long tasks runs at once, each in its own."""
    pool = make(6)
    for _ in range(30):
        gate = Gate()
        for _ in range(6):
            pool.submit(Job(gate.task))
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
        pool.submit(Job(task))
        assert done.acquire(timeout=PATIENCE)
    assert seen == [0, 0, 0]


def test_whatever_a_task_raises_the_thread_stays(make: Callable[[int], WorkerPool], failures: list[str]) -> None:
    """HS-7.6: an exit in a task ends no worker, and is told."""
    pool = make(1)
    done = threading.Semaphore(0)

    def leave() -> None:
        raise SystemExit

    for _ in range(5):
        pool.submit(Job(leave))
    pool.submit(Job(done.release))
    assert done.acquire(timeout=PATIENCE)
    assert failures == ["failed"] * 5
    assert len(threads(pool)) == 1


def test_thread_that_does_not_start(make: Callable[[int], WorkerPool], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-5.7: the task is not kept, the caller is told, and the pool works when threads can be had again."""
    pool, gate = make(2), Gate()

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="cannot start"):
                pool.submit(Job(gate.task))
    assert threads(pool) == set()
    assert pool._searching == 0
    for _ in range(2):
        pool.submit(Job(gate.task))
    gate.wait_for(2)
    gate.go.set()


def test_spare_thread_that_does_not_start(make: Callable[[int], WorkerPool], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-5.7: what was left to a spare worker that does not come is declined, not kept; the pool then recovers."""
    pool, gate = make(3), Gate()
    declined = threading.Event()
    start = threading.Thread.start
    starts: list[str] = []

    def first_only(thread: threading.Thread) -> None:
        starts.append(thread.name)
        if len(starts) == 1:
            start(thread)
            return
        pool.submit(Job(gate.task, declined.set))  # the caller trusts the worker that is on its way
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", first_only)
        pool.submit(Job(gate.task))
        assert declined.wait(PATIENCE)
        gate.wait_for(1)
        assert len(starts) == 2
    assert (pool._searching, len(threads(pool))) == (0, 1)
    for _ in range(2):
        pool.submit(Job(gate.task))
    gate.wait_for(2)
    gate.go.set()


def test_failed_start_wakes_who_was_not_woken(
    make: Callable[[int], WorkerPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HS-5.4: a worker that had become idle while another was thought to be on its way is sent to what waits."""
    pool, first, second = make(2), Gate(), Gate()
    start = threading.Thread.start
    tried = threading.Event()

    def fail_second(thread: threading.Thread) -> None:
        if not tried.is_set():
            tried.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    pool.submit(Job(first.task))
    first.wait_for(1)
    deadline = time.monotonic() + PATIENCE
    while not pool._idle:  # the spare one
        assert time.monotonic() < deadline
    pool.submit(Job(second.task))
    second.wait_for(1)
    with pool._mutex:
        pool._searching += 1  # as while a start is under way
    first.go.set()
    while not pool._idle:
        assert time.monotonic() < deadline
    done = threading.Event()
    pool.submit(Job(done.set))
    assert not done.wait(0.05)
    monkeypatch.setattr(threading.Thread, "start", fail_second)
    ghost = next(iter(pool._workers))
    assert not pool._started(type(ghost)(pool._work, "ghost"))
    assert done.wait(PATIENCE)
    second.go.set()


def test_close_does_not_wait_for_busy_workers(make: Callable[[int], WorkerPool]) -> None:
    """HS-9.8: closing joins the idle ones; a task that does not end keeps its thread, which is a daemon."""
    pool, gate = make(2), Gate()
    done = threading.Event()
    pool.submit(Job(done.set))
    assert done.wait(PATIENCE)
    pool.submit(Job(gate.task))
    gate.wait_for(1)
    began = time.monotonic()
    pool.close(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
    (busy,) = threads(pool)
    gate.go.set()
    busy.join(PATIENCE)
    assert threads(pool) == set()
