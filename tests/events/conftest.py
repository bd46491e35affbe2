"""What every test of events may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store of the test's own may lie; nothing is there yet."""
    return tmp_path / "events.sqlite3"
