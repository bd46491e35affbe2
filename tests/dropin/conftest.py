"""Fixtures of the drop-in tests: those of the functional ones."""

from __future__ import annotations

from tests.functional.conftest import serve

__all__ = ["serve"]
