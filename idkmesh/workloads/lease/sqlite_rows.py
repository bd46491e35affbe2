"""Rows of the lease's file as values, judged: what this program would not write is damage (AR-6.1). Pure.

SQLite keeps whatever type it is given in any column, and infinities too. A row that nobody here has written could hold
the lease, or an instance's claim, for ever.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.workloads.lease.ages import BootInstant
from idkmesh.workloads.lease.store import Grant

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TTL_SECONDS: Final = 300.0
"""The longest lease that can be declared (AR-6.2)."""

MAX_SECONDS: Final = 1e11
"""Three thousand years: no boot clock shows more."""

MAX_CHARACTERS: Final = 1000
"""Of a name or a token: a holder is a host's name with a number."""


class Granted(NamedTuple):
    """What a row of ``lease`` says: whose it is, since when, and for how many seconds."""

    grant: Grant
    since: BootInstant
    ttl: float


def granted_of_row(row: Sequence[object]) -> Granted:
    """Return ``holder, token, boot, seconds, ttl`` as values. Raises ``ValueError``."""
    holder, token, boot, seconds, ttl = row
    if not isinstance(ttl, float) or not 0 < ttl <= MAX_TTL_SECONDS:
        raise ValueError("a lease of no length that can be")
    return Granted(Grant(_text(holder), _text(token)), instant_of_row((boot, seconds)), ttl)


def instant_of_row(row: Sequence[object]) -> BootInstant:
    """Return ``boot, seconds`` as an instant. Raises ``ValueError``."""
    boot, seconds = row
    if not isinstance(seconds, float) or not math.isfinite(seconds) or abs(seconds) > MAX_SECONDS:
        raise ValueError("an instant that no clock shows")
    return BootInstant(None if boot is None else _text(boot), seconds)


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_CHARACTERS:
        raise ValueError("a name or token that is none")
    return value
