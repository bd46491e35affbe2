"""What a store of leases does (AR-6.1, AR-5.3). One contract suite runs over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class LeaseStoreError(Exception):
    """The store did not answer, or cannot be used. As text it is one line."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease that is ours. ``token`` tells this holding from any other, also from an earlier one of ours."""

    holder: str
    token: str


class LeaseStore(Protocol):
    """Keeps one lease and the claims of restarts. Each call has a deadline and raises :class:`LeaseStoreError`.

    A claim may outlast its cooldown by ``claim_slack`` seconds, and never lasts shorter.
    """

    @property
    def name(self) -> str:
        """Tells the lease from others in the same place."""

    @property
    def place(self) -> str:
        """Where it is kept, as people write it."""

    @property
    def claim_slack(self) -> float:
        """Seconds that who has claimed waits beyond a cooldown, or the store would call its own claim another's."""

    def acquire(self, holder: str, ttl: float) -> Grant | None:
        """Take the lease for ``ttl`` seconds if nobody holds it. None: somebody else does."""

    def renew(self, grant: Grant, ttl: float) -> bool:
        """Hold it for ``ttl`` seconds more, from now. False: it is no longer ours."""

    def release(self, grant: Grant) -> None:
        """Give it back if it is ours."""

    def holder(self) -> str | None:
        """Return who holds it, None where nobody does."""

    def claim(self, grant: Grant, instance: str, cooldown: float) -> bool:
        """Claim the restart of an instance (AR-5.3), in one transaction.

        True: the lease is ours at this moment, and no claim for ``instance`` was younger than ``cooldown`` seconds;
        now there is one. False: one of both does not hold.
        """

    def close(self) -> None:
        """Give back what is held open. A second call changes nothing."""
