"""What holds for the whole suite."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import hypothesis
import pytest

# A shared machine may stop a test for longer than any limit on one example: time is judged where it is the subject.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def no_thread_outlives_the_suite() -> Iterator[None]:
    """Fail when a thread is left: whatever a test starts, it ends."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, deadline - time.monotonic()))
    left = sorted(thread.name for thread in set(threading.enumerate()) - before)
    assert not left, f"threads left behind: {left}"
