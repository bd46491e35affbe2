"""What has changed, as values that every part tells of; who takes them makes events and lines of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_NAMES: Final = 50
"""Names that a change lists. The data of an event has a bound (EV-1.5), and a matrix may name a thousand."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is otherwise than before.

    ``what`` is the type of the event that tells it, ``subject`` what it happened to, None where that is the service.
    ``facts`` are what is known of it: texts, numbers, booleans and lists of names.
    """

    what: str
    subject: str | None
    facts: Mapping[str, Any]


def named(member: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the facts that list ``names`` under ``member``: the first of them, and how many there are."""
    return {member: list(names[:MAX_NAMES]), f"{member}_total": len(names)}
