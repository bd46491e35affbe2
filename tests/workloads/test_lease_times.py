from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.workloads.lease.ages import BootInstant, certain_age, of_another_boot
from idkmesh.workloads.lease.lease_times import CALL_SECONDS, Phase, Term, checked_ttl, next_try
from idkmesh.workloads.model import DEFAULT_TTL_S

SECONDS = st.floats(0, 1e9)


@pytest.mark.parametrize(
    ("now", "phase"),
    [
        (99.9, Phase.STOP),
        (100, Phase.ACT),
        (104.9, Phase.ACT),
        (105, Phase.RENEW),
        (111.9, Phase.RENEW),
        (112, Phase.STOP),
        (115, Phase.STOP),
        (1e12, Phase.STOP),
    ],
)
def test_phases(now: float, phase: Phase) -> None:
    """AR-6.2: it renews after a third, and stops a fifth before the end; a clock that went back is a reason to stop."""
    assert Term(100, 15).phase(now) is phase


@given(SECONDS, st.floats(0.1, 1e4), SECONDS, SECONDS)
def test_a_pause_only_makes_it_earlier(asked: float, ttl: float, now: float, pause: float) -> None:
    """AR-6.2: what must stop stays so: no pause and no suspend gives time back."""
    order = [Phase.ACT, Phase.RENEW, Phase.STOP]
    term = Term(asked, ttl)
    if now >= asked:
        assert order.index(term.phase(now + pause)) >= order.index(term.phase(now))


@pytest.mark.parametrize("ttl", [5, DEFAULT_TTL_S, 300])
def test_possible_timing(ttl: float) -> None:
    """AR-6.2: what can be declared leaves time for a pass: a renewal and its call are over before the stop."""
    term = Term(0, checked_ttl(ttl))
    assert term.renew_at + CALL_SECONDS < term.stop_at < ttl


@pytest.mark.parametrize("ttl", [0, -15, 1, 4.2, float("inf"), float("nan")])
def test_impossible_timing(ttl: float) -> None:
    """AR-6.2: a ttl that leaves no time for a pass is refused, in one line that says how long it must be."""
    with pytest.raises(ValueError, match=r"^ttl_s: .* it must be more than 4\.3 s$"):
        checked_ttl(ttl)


@given(st.floats(5, 300), st.floats(0, 1))
def test_tries_are_apart(ttl: float, share: float) -> None:
    """AR-6.2: who waits for the lease asks within a third of it, and not at an instant that others know."""
    assert ttl / 6 * 0.999 <= next_try(ttl, share) <= ttl / 3 * 1.001
    assert next_try(ttl, 0) < next_try(ttl, 1)


@pytest.mark.parametrize(
    ("then", "now", "another", "age"),
    [
        (BootInstant("a", 10), BootInstant("a", 25), False, 15),
        (BootInstant("a", 10), BootInstant("b", 5), True, 5),
        (BootInstant("a", 10), BootInstant("b", 25), True, 25),
        (BootInstant("a", 10), BootInstant("a", 5), False, None),
        (BootInstant(None, 10), BootInstant(None, 25), False, 15),
        (BootInstant(None, 10), BootInstant(None, 5), True, 5),
        (BootInstant("a", 10), BootInstant(None, 25), False, 15),
        (BootInstant(None, 10), BootInstant("a", 5), True, 5),
    ],
)
def test_ages(then: BootInstant, now: BootInstant, another: bool, age: float | None) -> None:
    """AR-5.3: an age is what has passed for certain, whether or not the system tells boots apart."""
    assert of_another_boot(then, now) is another
    assert certain_age(then, now) == age


@given(st.lists(st.tuples(st.floats(0, 1e4), st.booleans()), min_size=2, max_size=8), st.booleans())
def test_no_age_is_too_high(steps: list[tuple[float, bool]], named: bool) -> None:
    """AR-5.3: through any number of boots no age is more than the time that has really passed."""
    true, seconds, boot = 0.0, 0.0, 0
    stamps: list[tuple[float, BootInstant]] = []
    for passed, rebooted in steps:
        true += passed
        seconds, boot = (0.0, boot + 1) if rebooted else (seconds + passed, boot)
        stamps.append((true, BootInstant(f"boot {boot}" if named else None, seconds)))
    for (earlier, then), (later, now) in itertools.combinations(stamps, 2):
        age = certain_age(then, now)
        assert age is not None
        assert 0 <= age <= later - earlier + 1e-6
