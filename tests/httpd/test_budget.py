"""The common budget of bytes."""

from __future__ import annotations

from typing import Any, cast

from idkmesh.httpd.budget import ByteBudget
from idkmesh.httpd.connection import FREE_BYTES, Connection, State


def connection() -> Connection:
    return Connection(cast("Any", None), None, 0.0, State.READING_BODY)


def test_each_connection_has_its_8_kib() -> None:
    """HS-6.3: 8 KiB are free for each, whatever the others hold."""
    budget = ByteBudget(100)
    hog = connection()
    assert budget.hold(hog, FREE_BYTES + 100)
    others = [connection() for _ in range(50)]
    assert all(budget.hold(other, FREE_BYTES) for other in others)
    assert not budget.hold(others[0], FREE_BYTES + 1)
    assert budget.used == 100


def test_limit_at_n_and_n_plus_1() -> None:
    """HS-6.3: the last byte fits, the next one does not, and a refused charge changes nothing."""
    budget = ByteBudget(1000)
    one, two = connection(), connection()
    assert budget.hold(one, FREE_BYTES + 400)
    assert budget.hold(two, FREE_BYTES + 600)
    assert not budget.hold(two, FREE_BYTES + 601)
    assert (budget.used, two.charged) == (1000, 600)


def test_what_is_held_is_a_sum_and_not_an_addition() -> None:
    """HS-6.3: holding is told in all, so the same twice costs once, and holding nothing gives everything back."""
    budget = ByteBudget(1000)
    one = connection()
    for size in (FREE_BYTES + 10, FREE_BYTES + 10, FREE_BYTES + 900, FREE_BYTES + 5, 3):
        assert budget.hold(one, size)
        assert budget.used == max(0, size - FREE_BYTES)
    budget.hold(one, 0)
    assert (budget.used, one.charged) == (0, 0)


def test_less_always_succeeds() -> None:
    """HS-6.3: giving back works when the budget is full."""
    budget = ByteBudget(1000)
    one, two = connection(), connection()
    budget.hold(one, FREE_BYTES + 500)
    budget.hold(two, FREE_BYTES + 500)
    assert budget.hold(one, FREE_BYTES + 499)
    assert budget.used == 999
