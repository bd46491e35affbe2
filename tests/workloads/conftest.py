"""Folders of tests in memory, where there are such: what is synced to a disk is waited for, some thousand times here.

No test can cut the power, so none proves less.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.workloads.support import IN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(os.path.realpath(folder))
