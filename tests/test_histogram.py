"""Durations counted in buckets."""

from __future__ import annotations

import pytest

from idkmesh.histogram import BUCKETS, Timing, summed


def test_where_a_duration_counts() -> None:
    """AR-7.4, RT-10.6: in the first bucket whose bound it does not exceed, and beyond all in the last one."""
    timing = Timing()
    for seconds in (0.0, BUCKETS[0], BUCKETS[0] * 1.01, BUCKETS[-1], BUCKETS[-1] + 1):
        timing = timing.with_one(seconds)
    assert timing.buckets == (2, 1, *(0,) * (len(BUCKETS) - 3), 1, 1)
    assert timing.count == 5
    assert timing.seconds == pytest.approx(BUCKETS[0] * 2.01 + 2 * BUCKETS[-1] + 1)


def test_each_bucket_has_all_below_it() -> None:
    """HL-5.5, AR-7.4, RT-10.6: as the format wants them, the last one without a bound."""
    assert summed((0.5, 1.0), (2, 0, 3)) == [("0.5", 2), ("1.0", 2), ("+Inf", 5)]
    with pytest.raises(ValueError, match="zip"):
        summed((0.5, 1.0), (2, 0))
