"""What Python's JSON reader takes and another may not: hooks that refuse it (RFC 8259 §4, §6)."""

from __future__ import annotations

from typing import Any, NoReturn


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object, as ``object_pairs_hook``. Raises ``ValueError`` where one stands twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands twice in one object")
    return found


def no_constant(_name: str) -> NoReturn:
    """Raise ``ValueError``, as ``parse_constant``: Python alone writes and reads such numbers."""
    raise ValueError("NaN and infinities are no JSON")
