"""The timing wheel, on a clock of its own."""

from __future__ import annotations

import random
from typing import Any, cast

from idkmesh.httpd.connection import Connection, State
from idkmesh.httpd.deadlines import GRANULARITY, Deadlines

START = 5_000.0


def connection() -> Connection:
    return Connection(cast("Any", None), None, START, State.READING_HEAD)


def test_never_early_and_little_late() -> None:
    """HS-4.2: each deadline is reported once, never early, and within the granularity."""
    chooser = random.Random(3)
    deadlines = Deadlines()
    due_at = {}
    for _ in range(300):
        one = connection()
        due_at[one] = START + chooser.random() * 5
        deadlines.set(one, due_at[one])
    now = START
    while now < START + 6:
        for one in deadlines.due(now):
            assert due_at[one] <= now <= due_at[one] + 2 * GRANULARITY
            assert one.deadline == 0
            del due_at[one]
        now += 0.013
    assert due_at == {}
    assert deadlines.wait(now) is None


def test_a_deadline_can_be_replaced_and_taken_away() -> None:
    """HS-4.2: setting replaces; clearing leaves nothing behind, and twice is no fault."""
    deadlines = Deadlines()
    one, two = connection(), connection()
    deadlines.set(one, START + 1.01)
    deadlines.set(two, START + 1)
    deadlines.set(one, START + 1.02)  # in the same slot
    assert one.deadline == START + 1.02
    deadlines.set(one, START + 3)
    assert deadlines.due(START + 2) == [two]
    deadlines.clear(two)
    deadlines.clear(one)
    deadlines.clear(one)
    assert deadlines.due(START + 10) == []
    assert deadlines._slots == {}


def test_wait_ends_when_the_next_one_may_be_due() -> None:
    """HS-4.2: the loop sleeps until the next deadline, never for nothing and never without end."""
    deadlines = Deadlines()
    assert deadlines.wait(START) is None
    one = connection()
    deadlines.set(one, START + 1)
    wait = deadlines.wait(START)
    assert wait is not None
    assert 1.0 <= wait <= 1.0 + GRANULARITY
    assert deadlines.due(START + wait) == [one]
    deadlines.set(one, START - 1)  # overdue already: soon, and not in a busy loop
    assert deadlines.wait(START) == GRANULARITY / 10


def test_a_deadline_in_the_past_is_found_in_the_next_slot() -> None:
    """HS-4.2: what is set for a moment that was looked at already is not lost."""
    deadlines = Deadlines()
    first, second = connection(), connection()
    deadlines.set(first, START)
    assert deadlines.due(START + 1) == [first]
    deadlines.set(second, START)
    assert deadlines.due(START + 1) == []
    assert deadlines.due(START + 1 + GRANULARITY) == [second]


def test_order_is_that_of_the_deadlines() -> None:
    """HS-4.2: what was due first is told first."""
    deadlines = Deadlines()
    ones = [connection() for _ in range(5)]
    for number in (3, 1, 4, 0, 2):
        deadlines.set(ones[number], START + number)
    assert deadlines.due(START + 10) == ones
