"""The fault table on a manual clock: what each fault of a dependency, or of this process, comes to, and by when.

Each row is played many times with phases, jitter and latencies by chance, and once in the order that takes longest:
there the bound that the settings imply is reached, so no smaller one would be true.
"""

from __future__ import annotations

import pytest

from idkmesh.health.model import Refresh
from idkmesh.health.schedule import LEAST_EARLY
from idkmesh.rehearsal.bounds import dependency_bounds, verdict_bounds, wedge_bounds
from idkmesh.rehearsal.faults import Fault as Written
from idkmesh.rehearsal.faults import How
from idkmesh.rehearsal.orchestrator import Do
from tests.health.fault_table import (
    DB,
    FIGURES,
    LASTS,
    OUTAGES,
    ROUNDS,
    SEEN,
    SETTINGS,
    STALLS,
    TABLE,
    THREE,
    TINY,
    Row,
    by_chance,
    flap,
    implied,
    longest,
    played,
    ready_too_late,
    restarts,
    seen,
)
from tests.health.support import START
from tests.health.world import ENDS_AFTER, Chances, Fault

# --- outages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTAGES)
def test_nothing_is_restarted_by_an_outage(name: str) -> None:
    """HL-1.1, HL-1.3, HL-8.2, PROBE-01: whatever dependencies do, at boot too: started in time, and no restart."""
    row = TABLE[name]
    for seed in range(ROUNDS):
        chances = by_chance(row, seed)
        world = played(row, chances)
        assert restarts(world) == row.restarts == 0
        (started,) = world.times(Do.STARTED)
        # It listens, first runs are spread over 60 ms, the longest takes its timeout; then the next question.
        runs = 0.06 + max(each.timeout_ms for each in row.rows) / 1000
        assert started <= START + chances.boot + runs + (1000 + 400) / 1000


@pytest.mark.parametrize("name", SEEN)
def test_an_outage_is_noticed_in_time(name: str) -> None:
    """HL-1.2, HL-1.4, HL-4.2, HL-4.5, HL-4.11, PROBE-02: no ready answer beyond the bound, out of rotation in time."""
    row, bounds = TABLE[name], implied(TABLE[name])
    for seed in range(ROUNDS):
        chances = by_chance(row, seed)
        world = played(row, chances)
        found = seen(row, chances, world)
        assert ready_too_late(row, chances, world) == []
        if row.boot:
            assert not any(each.ready for each in world.shown if each.at < chances.end)
            assert world.times(Do.ENTER)[0] >= chances.end
            continue
        assert found.notice is not None
        assert found.notice <= bounds.notice + TINY
        if row.leaves and row.lasts == LASTS:
            assert found.leave is not None
            assert found.leave <= bounds.leave + TINY


@pytest.mark.parametrize("name", SEEN)
def test_its_end_is_noticed_in_time(name: str) -> None:
    """HL-4.7, HL-8.5, PROBE-02: well again within the bound, after as many successes as it takes, and to stay."""
    row, bounds = TABLE[name], implied(TABLE[name])
    for seed in range(ROUNDS):
        chances = by_chance(row, seed)
        world = played(row, chances)
        found = seen(row, chances, world)
        assert found.back is not None
        assert bounds.soonest - TINY <= found.back <= bounds.back + TINY
        if row.leaves and row.lasts == LASTS:
            assert found.enter is not None
            assert found.enter <= bounds.enter + TINY
        shown = len([each for each in world.shown if each.at >= chances.end])
        # What had come back while nobody listened is heard first, and may expire before the next run is over.
        assert shown == 1 or (shown == 3 and row.fault.halts == "runner")


@pytest.mark.parametrize("name", [name for name in OUTAGES if not TABLE[name].leaves])
def test_what_takes_no_traffic_away(name: str) -> None:
    """HL-1.2, HL-4.6, HL-4.7, PROBE-07, PROBE-13: slow within its time, below a threshold, noncritical: always ready.

    So is who is asked for and well, though nobody asks for it but the orchestrator.
    """
    row = TABLE[name]
    for seed in range(ROUNDS):
        world = played(row, by_chance(row, seed))
        assert [each.ready for each in world.shown[1:]] == [True] * (len(world.shown) - 1)
        assert (len(world.times(Do.ENTER)), world.times(Do.LEAVE)) == (1, [])
        told = [each.warnings for each in world.shown[2:]]
        assert told == ([("cache",), ()] if row.warns else [])


def test_a_flap_above_its_thresholds_is_followed() -> None:
    """HL-4.7, PROBE-07: readiness changes as often as the thresholds say, and not once more; nothing is restarted."""
    row = Row(fault=Fault(hits=DB, says=flap("FFFSFSSSFS")))
    for seed in range(ROUNDS):
        world = played(row, by_chance(row, seed))
        expected, successes = [world.words["db"][0] == "S"], 0
        for word in world.words["db"]:
            successes = successes + 1 if word == "S" else 0
            now = successes >= 2 or (successes == 1 and expected[-1])
            expected += [now] if now is not expected[-1] else []
        assert [each.ready for each in world.shown if each.at > world.times(Do.STARTED)[0]] == expected[1:]
        assert len(expected) > 4
        assert restarts(world) == 0


# --- this process ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STALLS)
def test_a_process_that_makes_no_progress_is_restarted_once(name: str) -> None:
    """HL-1.1, HL-2.1, HL-2.2, HL-8.2: by liveness, in time and no sooner; what takes its place is left alone."""
    row, bounds = TABLE[name], implied(TABLE[name])
    for seed in range(ROUNDS):
        chances = by_chance(row, seed)
        world = played(row, chances)
        ((at, why),) = [(at, why) for at, do, why in world.done if do is Do.TERMINATE]
        assert bounds.spared - TINY <= at - chances.begin <= bounds.restart + TINY
        assert why.startswith("liveness failed 2 times")
        # Stopped processes take no TERM; the first restart comes at once.
        ends = SETTINGS.grace if row.fault.halts == "process" else ENDS_AFTER
        assert world.times(Do.START)[1] == pytest.approx(at + ends)
        if row.leaves:
            assert [at for at in ready_too_late(row, chances, world) if at < world.times(Do.START)[1]] == []
        assert world.times(Do.ENTER)[-1] <= max(world.times(Do.START)[1], chances.end) + 5.0


@pytest.mark.parametrize("halts", ["front", "runner", "process"])
def test_a_stall_below_every_threshold_restarts_nothing(halts: str) -> None:
    """HL-2.1, HL-8.2: silent for less than the budget, or one failure of liveness less than the threshold."""
    row = Row(fault=Fault(halts=halts), lasts=1.69 if halts == "process" else 3.0)
    for seed in range(ROUNDS):
        assert restarts(played(row, by_chance(row, seed))) == 0


# --- the bounds ------------------------------------------------------------------------------------------------------

ASKED_FOR = {name for name in SEEN if TABLE[name].rows[0].refresh is Refresh.REQUEST}
RELOADS = [name for name in SEEN if TABLE[name].fault.becomes]
ALIGNED = [
    name
    for name in SEEN
    if TABLE[name].rows != THREE and not TABLE[name].boot and name not in ASKED_FOR and name not in RELOADS
]
"""Where the longest order is known: several that are spread see a fault sooner, and who is asked for has no rhythm."""


@pytest.mark.parametrize("name", ALIGNED)
def test_the_bounds_are_reached(name: str) -> None:
    """HL-8.5: in the order that takes longest each bound is what comes about: no smaller one would hold."""
    row, bounds = TABLE[name], implied(TABLE[name])
    chances = longest(row)
    found = seen(row, chances, played(row, chances))
    assert found.notice == pytest.approx(bounds.notice, abs=0.001)
    assert found.back == pytest.approx(bounds.back, abs=0.001)
    if row.leaves and row.lasts == LASTS:
        assert found.leave == pytest.approx(bounds.leave, abs=0.05)
        assert found.enter == pytest.approx(bounds.enter, abs=0.05)


@pytest.mark.parametrize("name", RELOADS)
def test_what_a_reload_brings_is_noticed_at_its_bound(name: str) -> None:
    """HL-3.5, HL-8.5: it begins at once, and has no say until its first run is over, so the bound is always reached."""
    row = TABLE[name]
    for seed in range(ROUNDS):
        chances = by_chance(row, seed)
        assert seen(row, chances, played(row, chances)).notice == pytest.approx(implied(row).notice, abs=0.001)


@pytest.mark.parametrize("name", ["asked for, refused", "asked for, timing out"])
def test_what_is_asked_for_reaches_its_bound_too(name: str) -> None:
    """HL-4.6, HL-8.5: a success that began just before the fault is the last word for as long as its cache."""
    row = TABLE[name]
    never = Chances(begin=START + 90, end=START + 90, healthy=1.0, answer=0.4)
    begun = [at for at in played(row, never).begun["db"] if START + 8 < at < START + 12]
    found = [
        seen(row, chances, played(row, chances)).notice
        for at in begun
        for chances in [Chances(begin=at + TINY, end=at + LASTS, healthy=1.0, answer=0.4)]
    ]
    assert found == pytest.approx([implied(row).notice] * len(begun), abs=0.0011)
    assert begun


def test_the_end_of_what_is_asked_for_reaches_its_bound_too() -> None:
    """HL-4.6, HL-8.5: a run that begins just before the end, and takes its whole timeout to fail, is the last one."""
    row = TABLE["asked for, timing out"]
    begin = START + 12.0
    fault = Chances(begin=begin, end=begin + 15, healthy=1.0, answer=0.4)
    begun = [at for at in played(row, fault).begun["db"] if begin + 6 < at < begin + 12]
    found = [
        seen(row, chances, played(row, chances)).back
        for at in begun
        for chances in [Chances(begin=begin, end=at + TINY, healthy=1.0, answer=0.4)]
    ]
    assert found == pytest.approx([implied(row).back] * len(begun), abs=0.0021)
    assert begun


@pytest.mark.parametrize(
    "name", ["timing out", "noncritical, timing out", "asked for, timing out", "asked for, noncritical, timing out"]
)
def test_a_rehearsal_holds_a_service_to_the_same(name: str) -> None:
    """HL-8.5: what ``rehearse`` allows is what is implied here, reckoned twice.

    It holds a service of any make to the figures as they are declared: ours runs a little more often, and what is asked
    for before it expires.
    """
    row, bounds = TABLE[name], implied(TABLE[name])
    hit = row.rows[-1]
    told = dependency_bounds(hit, Written(how=How.REFUSE, begin=0, end=1), FIGURES)
    by_schedule = 0.0 if hit.refresh is Refresh.REQUEST else LEAST_EARLY * hit.interval_ms / 1000
    notice, back = hit.failure_threshold * by_schedule, hit.success_threshold * by_schedule
    if hit.refresh is Refresh.REQUEST:
        back = hit.success_threshold * (hit.timeout_ms / 1000 + 1.3)
    assert verdict_bounds(hit, 1.3) == pytest.approx((bounds.notice + notice, bounds.back + back))
    assert told.recover == pytest.approx(bounds.enter + back)
    assert told.earliest == pytest.approx(bounds.soonest)
    if row.leaves:
        assert told.notice == pytest.approx(bounds.leave + notice)
    wedged = wedge_bounds(FIGURES, grace=1, backoff=1, starting=False)
    assert wedged.notice == implied(TABLE["the process stands still"]).restart
