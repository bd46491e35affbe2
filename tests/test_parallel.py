"""How the suite is spread over processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parallel import ROWS, row_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", [name for row in ROWS for name in row])
def test_rows_name_what_is_there(name: str) -> None:
    """Rule: a file that was renamed would begin with the rest, and be the tail."""
    assert (ROOT / name).exists()


def test_no_row_stands_behind_one_that_takes_its_files() -> None:
    """Rule: the first that fits counts, so a folder's row is behind those of its files."""
    for number, row in enumerate(ROWS):
        assert {row_of(f"{name}::test_a[b]") for name in row} == {number}, row


def test_the_first_row_that_fits_counts() -> None:
    """Rule: a file of a folder can have a row of its own before the folder's."""
    workloads, looks, others = (
        row_of(f"tests/ui/test_{name}.py::test_a[b]") for name in ("workloads", "looks", "truth")
    )
    assert workloads < looks < others < len(ROWS)
    assert row_of("tests/test_clock.py::test_a") == len(ROWS)
