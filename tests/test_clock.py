from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from idkmesh.clock import SystemClock

if TYPE_CHECKING:
    from idkmesh.clock import Clock


def test_monotonic_never_goes_back() -> None:
    """Rule: ages and deadlines are computed from instants that never go back."""
    clock: Clock = SystemClock()
    instants = [clock.monotonic() for _ in range(1000)]
    assert instants == sorted(instants)


def test_utc_is_aware() -> None:
    """Rule: a label says its offset, and it is zero."""
    assert SystemClock().utc().utcoffset() == timedelta(0)
