"""The most that was used at once, in each of the last seconds."""

from __future__ import annotations

from idkmesh.httpd.peaks import MINUTE, Peak


def test_highest_of_a_second_stays() -> None:
    """HS-13.4: of several levels in one second the highest counts, whichever came last."""
    peak = Peak()
    for level in (2, 8, 1):
        peak.note(level, 100.2)
    peak.note(1, 101.0)
    assert peak.most(101.0, 1) == 8
    assert peak.most(101.0, 0) == 1


def test_who_looks_once_a_second_misses_nothing() -> None:
    """CT-5.10: a peak at any instant is in the window of the next look that is a second after the last one."""
    for tenth in range(20):
        peak = Peak()
        peak.note(5, 100.05 + tenth / 10)
        looks = [100.0 + look for look in range(4)]
        told = [peak.most(now, 1) for now in looks if now >= 100.05 + tenth / 10]
        assert told[0] == 5


def test_second_that_is_over_is_forgotten() -> None:
    """HS-13.4: a peak leaves the minute with its second, and its place is taken by a later second without a trace."""
    peak = Peak()
    peak.note(9, 100.9)
    assert peak.most(160.9, MINUTE) == 9
    assert peak.most(161.0, MINUTE) == 0
    for second in range(101, 300):
        peak.note(1, second)
    assert peak.most(299.0, MINUTE) == 1


def test_reading_changes_nothing() -> None:
    """CT-5.10: every reader is told the same."""
    peak = Peak()
    peak.note(3, 5.0)
    assert [peak.most(6.0, MINUTE) for _ in range(3)] == [3, 3, 3]


def test_nothing_noted() -> None:
    """HS-13.4: where nothing was noted nothing was used, in the first minute of a machine too."""
    assert Peak().most(0.0, MINUTE) == 0
    assert Peak().most(1e6, MINUTE) == 0
