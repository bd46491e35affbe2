"""When a crossing of a limit begins and ends."""

from __future__ import annotations

from idkmesh.httpd.crossing import QUIET_SECONDS, Crossing, Passed


def test_one_beginning_and_one_end() -> None:
    """HS-13.2: the first hit begins a crossing, the others are counted, and it is over once, after a quiet time."""
    crossing = Crossing()
    assert crossing.end(0.0) is None
    assert [crossing.hit(100.0 + at) for at in range(5)] == [True, False, False, False, False]
    assert crossing.end(104.0 + QUIET_SECONDS - 0.01) is None
    assert crossing.end(104.0 + QUIET_SECONDS) == Passed(hits=5, seconds=4.0)
    assert crossing.end(1000.0) is None
    assert crossing.hit(2000.0)


def test_a_hit_in_the_quiet_time_goes_on() -> None:
    """HS-13.2: a limit that is hit again before the quiet time is over has not been left."""
    crossing = Crossing()
    crossing.hit(0.0)
    assert not crossing.hit(QUIET_SECONDS - 0.1)
    assert crossing.end(QUIET_SECONDS) is None
    assert crossing.end(float("inf")) == Passed(hits=2, seconds=QUIET_SECONDS - 0.1)
