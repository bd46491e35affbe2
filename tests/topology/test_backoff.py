"""When a session is made anew, as a function."""

from __future__ import annotations

import pytest

from idkmesh.topology.backoff import attempt_delay, failures_after


@pytest.mark.parametrize(
    ("failures", "whole"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 5.0), (6, 5.0), (10_000, 5.0)]
)
def test_attempts_wait_twice_as_long(failures: int, whole: float) -> None:
    """RT-3.4: 0.5 s, then twice the time, 5 s at most; shortened by chance by at most half."""
    assert attempt_delay(failures, 0.0) == whole
    assert attempt_delay(failures, 1.0) == whole / 2


@pytest.mark.parametrize(("lived", "failures"), [(0.0, 8), (59.999, 8), (60.0, 1), (3600.0, 1)])
def test_a_minute_ends_a_row(lived: float, failures: int) -> None:
    """RT-3.4: failures are counted from the beginning again once a session has lived for 60 s."""
    assert failures_after(7, lived) == failures
