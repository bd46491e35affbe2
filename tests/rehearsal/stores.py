"""The real stores of the benchmarks, for rehearsals; where they are not installed a test is skipped."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from scripts.bench.benchlib import stores
from scripts.bench.benchlib.processes import free_port
from scripts.bench.benchlib.stores import Store, takes_connections

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Store", "free_port", "postgres", "redis", "takes_connections"]


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Store]:
    """Run a database of its own."""
    with contextlib.ExitStack() as stack:
        try:
            store = stack.enter_context(stores.postgres(folder))
        except stores.MissingError as error:
            pytest.skip(str(error))
        yield store


@contextlib.contextmanager
def redis() -> Iterator[Store]:
    """Run a cache of its own."""
    with contextlib.ExitStack() as stack:
        try:
            store = stack.enter_context(stores.redis())
        except stores.MissingError as error:
            pytest.skip(str(error))
        yield store
