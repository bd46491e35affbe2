"""The truth table, whole: what a supervisor is told of each thing that can be amiss, alone and with all others."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from idkmesh.adapter.observation import Capacity, Failure, NodeIdentity
from idkmesh.adapter.verdict import (
    FOR_LIVE,
    FOR_READY,
    FRESH,
    MAX_AGE_SECONDS,
    NOTHING_YET,
    RESULT,
    Held,
    NotStarted,
    after,
    verdict,
)
from tests.adapter.observations import AMISS, NODE_ID, WELL, with_amiss

AT = 1000.0
FAILED = Failure("timed out")
SPECIFICATION = Path(__file__).parents[2] / "docs" / "specifications" / "READINESS_ADAPTER_V0_1.md"
STARTED = after(Held(), WELL, NODE_ID, AT)

LIVE_NAMES = tuple(condition.name for condition in FOR_LIVE)
READY_NAMES = tuple(condition.name for condition in FOR_READY)
NAMES = LIVE_NAMES + READY_NAMES


def test_the_table_is_the_one_that_is_written() -> None:
    """RA-3.1, RA-3.2: the specification's table has each condition, and says which verdict needs it."""
    text = SPECIFICATION.read_text(encoding="utf-8")
    rows = re.findall(r"^  \| [^|]+ \| `(\w+)` \| (needs)? ?\| needs \|$", text, re.MULTILINE)
    assert rows == [(name, "needs") for name in (RESULT, FRESH, *LIVE_NAMES)] + [(name, "") for name in READY_NAMES]


def test_everything_has_its_own_way_to_be_amiss() -> None:
    """Rule: no condition of the table is left out of the matrix below."""
    assert tuple(AMISS) == NAMES


@pytest.mark.parametrize("failing", [range(count) for count in (0,)] + [[number] for number in range(len(NAMES))])
def test_one_thing_amiss(failing: list[int]) -> None:
    """RA-3.1, RA-3.2: each condition alone decides, and is named."""
    names = tuple(NAMES[number] for number in failing)
    told = verdict(after(STARTED, with_amiss(*names), NODE_ID, AT), NODE_ID, AT)
    assert (told.not_live, told.not_ready) == (tuple(name for name in names if name in LIVE_NAMES), names)
    assert (told.live, told.ready) == (not told.not_live, not names)


def test_the_whole_matrix() -> None:
    """RA-3.1, RA-3.2, RA-3.3, RA-3.5: each set of conditions, fresh and stale, before and after the first readiness."""
    for holds in itertools.product((True, False), repeat=len(NAMES)):
        failing = tuple(name for name, well in zip(NAMES, holds, strict=True) if not well)
        live = not any(name in LIVE_NAMES for name in failing)
        for before in (Held(), STARTED):
            held = after(before, with_amiss(*failing), NODE_ID, AT)
            fresh = verdict(held, NODE_ID, AT + MAX_AGE_SECONDS)
            started = live and (before is STARTED or not failing)
            assert (fresh.live, fresh.ready, fresh.started) == (live, not failing, started), failing
            assert fresh.not_ready == failing
            stale = verdict(held, NODE_ID, math.nextafter(AT + MAX_AGE_SECONDS, math.inf))
            assert (stale.live, stale.ready, stale.started) == (False, False, False)
            assert stale.not_live == stale.not_ready == (FRESH,)


def test_before_the_first_look() -> None:
    """RA-1.1: nothing is known, and every answer is no."""
    told = verdict(Held(), NODE_ID, 0.0)
    assert (told.live, told.ready, told.started, told.not_ready) == (False, False, False, (RESULT,))
    assert Held().failure == NOTHING_YET


@pytest.mark.parametrize("age", [0.0, 1.5, MAX_AGE_SECONDS])
def test_fresh(age: float) -> None:
    """RA-3.3: an observation is fresh for 3 s from the completion of its sample."""
    assert verdict(STARTED, NODE_ID, AT + age).ready


@pytest.mark.parametrize("age", [-0.001, 3.001, 4.0, 1e9, math.nan, math.inf])
def test_not_fresh(age: float) -> None:
    """RA-3.3: an older one is not, nor is one from the future or of no age."""
    assert verdict(STARTED, NODE_ID, AT + age).not_live == (FRESH,)


def test_a_failed_look_clears_at_once() -> None:
    """RA-3.4, RA-3.5: it clears live and ready, and is kept as the reason; the latch waits for the next success."""
    held = after(STARTED, FAILED, NODE_ID, AT + 1)
    told = verdict(held, NODE_ID, AT + 1)
    assert (told.live, told.ready, told.started, told.not_live) == (False, False, False, (RESULT,))
    assert held.failure == "timed out"
    again = after(held, with_amiss("pressure"), NODE_ID, AT + 2)
    assert verdict(again, NODE_ID, AT + 2).started
    assert again.failure is None


def test_a_look_that_could_not_begin_changes_nothing() -> None:
    """RA-3.4: the last observation stays, and grows old; nothing becomes of no observation."""
    held = after(STARTED, NotStarted("no more processes"), NODE_ID, AT + 2)
    assert held == STARTED
    assert verdict(held, NODE_ID, AT + 3).ready
    assert not verdict(held, NODE_ID, AT + 3.5).live
    assert after(Held(), NotStarted("no such program"), NODE_ID, AT) == Held()


def test_started_stays_while_it_is_live() -> None:
    """RA-3.5: what ready alone needs takes nothing back, what live needs does for as long as it fails."""
    busy = after(STARTED, with_amiss(*READY_NAMES), NODE_ID, AT + 1)
    assert verdict(busy, NODE_ID, AT + 1).started
    stuck = after(busy, with_amiss("health"), NODE_ID, AT + 2)
    assert not verdict(stuck, NODE_ID, AT + 2).started
    assert verdict(after(stuck, with_amiss("pressure"), NODE_ID, AT + 3), NODE_ID, AT + 3).started


def test_another_boot_ends_the_lifetime() -> None:
    """RA-3.5: a node that was started anew has not started until it is ready itself; the old boot is over."""
    other = NodeIdentity(NODE_ID, "another-boot")
    booted = after(STARTED, replace(with_amiss("activation"), node=other), NODE_ID, AT + 1)
    assert not verdict(booted, NODE_ID, AT + 1).started
    assert verdict(after(booted, replace(WELL, node=other), NODE_ID, AT + 2), NODE_ID, AT + 2).started
    back = after(booted, with_amiss("activation"), NODE_ID, AT + 3)
    assert not verdict(back, NODE_ID, AT + 3).started


def test_another_node_ends_nothing() -> None:
    """RA-3.5: it is not live, and says nothing of the lifetime of the node that is meant."""
    foreign = after(STARTED, replace(WELL, node=NodeIdentity("another", "its-own")), NODE_ID, AT + 1)
    assert verdict(foreign, NODE_ID, AT + 1).not_live == ("identity",)
    assert verdict(after(foreign, with_amiss("pressure"), NODE_ID, AT + 2), NODE_ID, AT + 2).started


@pytest.mark.parametrize(
    "listeners", [(), (WELL.listeners[0], replace(WELL.listeners[0], name="probes", owner_pid=None))]
)
def test_an_inventory_that_is_not_complete(listeners: tuple[()]) -> None:
    """RA-3.1: no listener at all, or one whose owner is not known, is not live."""
    held = after(STARTED, replace(WELL, listeners=listeners), NODE_ID, AT)
    assert verdict(held, NODE_ID, AT).not_live == ("listeners",)


@pytest.mark.parametrize(("limit", "used", "free"), [(0, 0, 0), (4, 3, 1), (4, 4, 0), (4, 5, 0)])
def test_what_is_free(limit: int, used: int, free: int) -> None:
    """RA-3.2: more may be used than there is room for, and nothing is free then."""
    assert Capacity(limit, used).free == free


def test_unknown_is_never_yes() -> None:
    """RA-3.1, RA-3.2: unknown health is not live; unknown pressure and an unknown clock are not ready."""
    assert "health" in verdict(after(STARTED, replace(WELL, health="unknown"), NODE_ID, AT), NODE_ID, AT).not_live
    unknown = replace(WELL, pressure="unknown", clock=replace(WELL.clock, behind_ms=None))
    assert verdict(after(STARTED, unknown, NODE_ID, AT), NODE_ID, AT).not_ready == ("pressure", "clock_behind")
