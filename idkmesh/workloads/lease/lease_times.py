"""When a holder may act, renews and must stop (AR-6.2). Pure: instants are of the boot clock, in seconds.

A store counts a lease from when it took the request; the holder counts from before it sent it, and stops a fifth before
the end. So it has always stopped before the store can give the lease to somebody else, as long as both clocks run alike
within a fifth.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

CALL_SECONDS: Final = 2.0
"""How long one call of a store may take."""

RENEW_SHARE: Final = 1 / 3
"""The part of a lease after which it is renewed."""

ACT_SHARE: Final = 4 / 5
"""The part of a lease in which its holder may act."""

RETRY_SHARE: Final = 1 / 15
"""The part of a lease after which a store that did not answer is asked again."""


class Phase(enum.Enum):
    """What a holder is to do at an instant."""

    ACT = "act"
    RENEW = "renew"
    """It may act, and a renewal is due."""
    STOP = "stop"
    """It must not act."""


@dataclass(frozen=True, slots=True)
class Term:
    """A lease for ``ttl`` seconds that was asked for at the instant ``asked``."""

    asked: float
    ttl: float

    @property
    def renew_at(self) -> float:
        """When it is renewed."""
        return self.asked + self.ttl * RENEW_SHARE

    @property
    def stop_at(self) -> float:
        """From when on nothing is done under it."""
        return self.asked + self.ttl * ACT_SHARE

    def phase(self, now: float) -> Phase:
        """Say what holds at ``now``. A clock that has gone back is one that cannot be trusted: stop."""
        if not self.asked <= now < self.stop_at:
            return Phase.STOP
        return Phase.ACT if now < self.renew_at else Phase.RENEW


def checked_ttl(ttl: float, call_seconds: float = CALL_SECONDS) -> float:
    """Return ``ttl``, or raise ``ValueError`` where no time is left for a pass while one renewal is on its way.

    A renewal is asked for after a third and may take a whole call; both have to be over before the holder must stop.
    """
    least = call_seconds / (ACT_SHARE - RENEW_SHARE)
    if not least < ttl < float("inf"):
        raise ValueError(
            f"ttl_s: {ttl:g} leaves no time for a pass between a renewal and the stop before the end; it must be more "
            f"than {least:.1f} s"
        )
    return ttl


def next_try(ttl: float, share: float) -> float:
    """Return the seconds until the next try to acquire: a sixth to a third of the ttl.

    ``share`` is from 0 to 1; it differs by chance, so that those who wait do not all ask at once.
    """
    return ttl * RENEW_SHARE * (1 + share) / 2
