"""Fixtures of the tests of health."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def children_of_this_process(state: str) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            now, parent = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and now.startswith(state):
                found.add(int(path.parent.name))
    return found


@pytest.fixture
def children() -> Callable[..., list[int]]:
    """Return what gives the processes that this one has started since, in that state if one is given.

    Those that were there before are not the test's: the browser's driver lives as long as the files that use it.
    """
    before = children_of_this_process("")
    return lambda state="": sorted(children_of_this_process(state) - before)
