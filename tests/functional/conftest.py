"""Fixtures of the functional tests."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.functional.support import Running, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """Return a function that starts a server; each is closed, and looked through for leaks, at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> Running:
            return stack.enter_context(running(*arguments, **options))

        yield start
