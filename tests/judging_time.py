"""How long it takes to judge a text, for tests that compare small texts with large ones."""

from __future__ import annotations

import contextlib
import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds_to_judge(load: Callable[[str, str], object], refused: type[Exception], text: str) -> float:
    """Return the CPU time that judging takes, the best of three. What the collector does depends on all other tests."""
    times = []
    gc.disable()
    for _ in range(3):
        start = time.thread_time()
        with contextlib.suppress(refused):
            load(text, "m.yaml")
        times.append(time.thread_time() - start)
    gc.enable()
    return min(times)
