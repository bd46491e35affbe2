"""When a session that has failed is made anew (RT-3.4). Pure."""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 0.5
"""Until the first attempt, before chance shortens it."""

MOST_SECONDS: Final = 5.0
"""Until any attempt: so long is an observation wrong at most after its provider is right again (RT-3.5)."""

STEADY_SECONDS: Final = 60.0
"""A session that has lived so long has not failed in a row."""

_MOST_DOUBLINGS: Final = 16
"""Beyond this many the result is the most anyway, and the power of two would grow without end."""


def attempt_delay(failures: int, chance: float) -> float:
    """Return the seconds until the next attempt after so many failures in a row, 1 or more.

    ``chance`` is from 0 to 1, another one each time: those who have lost one provider must not all come at once.
    """
    whole = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
    return whole * (1 - chance / 2)


def failures_after(failures: int, lived: float) -> int:
    """Return the failures in a row, this one included, where the session that failed has lived so many seconds."""
    return 1 if lived >= STEADY_SECONDS else failures + 1
