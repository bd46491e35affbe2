"""Calls that may hang: their deadline, what is refused meanwhile, and that it heals."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from idkmesh.time_limiter import LateError, NoThreadError, StillOutError, TimeLimiter
from tests.workloads.process_support import waited

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0


@pytest.fixture
def opened() -> Iterator[threading.Event]:
    """Give what hanging calls wait for, and let them go at the end."""
    event = threading.Event()
    yield event
    event.set()


def test_what_comes_of_a_call() -> None:
    """AR-6.2: in time it is the function's own value, or its own error."""
    calls = TimeLimiter("store")

    def fail() -> None:
        raise KeyError("k")

    assert calls.call(lambda: 7, PATIENCE) == 7
    with pytest.raises(KeyError, match="k"):
        calls.call(fail, PATIENCE)
    assert calls.call(lambda: 8, PATIENCE) == 8


def test_one_that_hangs(opened: threading.Event) -> None:
    """AR-6.2, AR-6.3: its caller is free; nothing is begun while it is out, and all is well when it has come back."""
    calls = TimeLimiter("store-that-hangs")
    begun: list[int] = []
    with pytest.raises(LateError, match=r"within 0\.05 s"):
        calls.call(lambda: opened.wait(PATIENCE), 0.05)
    with pytest.raises(StillOutError, match="an earlier call"):
        calls.call(lambda: begun.append(1), 0.05)
    assert begun == []
    opened.set()
    assert waited(lambda: not any(thread.name == "store-that-hangs" for thread in threading.enumerate()))
    assert calls.call(lambda: True, PATIENCE)


def test_a_machine_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-6.3: it is an error as any other of a store, and ends nobody."""

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(NoThreadError, match="out of threads"):
        TimeLimiter("store").call(lambda: 9, PATIENCE)
