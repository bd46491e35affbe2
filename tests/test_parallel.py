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


def test_the_first_row_that_fits_counts() -> None:
    """Rule: a file of a folder can have a row of its own before the folder's."""
    assert row_of("tests/ui/test_looks.py::test_a[b]") == 0
    assert row_of("tests/ui/test_truth.py::test_a") == 1
    assert row_of("tests/test_clock.py::test_a") == len(ROWS)
