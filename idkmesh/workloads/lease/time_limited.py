"""A store of leases whose calls may hang, with the deadline that each call of a store has (AR-6.2, AR-6.3).

A call that is late may have come about, as a request whose answer is lost: a lease that nobody knows of ends with its
time, a claim that nobody acts on is spent. Both only make less happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from idkmesh.time_limiter import LateError, TimeLimiter
from idkmesh.workloads.lease.lease_times import CALL_SECONDS
from idkmesh.workloads.lease.store import LeaseStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.workloads.lease.store import Grant, LeaseStore

T = TypeVar("T")


class TimeLimitedLeaseStore:
    """The :class:`~idkmesh.workloads.lease.store.LeaseStore` ``store``, each call of it within ``seconds``.

    Any thread may call any method.
    """

    def __init__(self, store: LeaseStore, seconds: float = CALL_SECONDS) -> None:
        self._store = store
        self._calls = TimeLimiter("lease-store")
        self._seconds = seconds

    @property
    def name(self) -> str:
        """That of the store (see :class:`LeaseStore`)."""
        return self._store.name

    @property
    def place(self) -> str:
        """That of the store (see :class:`LeaseStore`)."""
        return self._store.place

    @property
    def claim_slack(self) -> float:
        """That of the store (see :class:`LeaseStore`)."""
        return self._store.claim_slack

    def acquire(self, holder: str, ttl: float) -> Grant | None:
        """Take the lease if nobody holds it (see :class:`LeaseStore`)."""
        return self._call(lambda: self._store.acquire(holder, ttl))

    def renew(self, grant: Grant, ttl: float) -> bool:
        """Hold it longer (see :class:`LeaseStore`)."""
        return self._call(lambda: self._store.renew(grant, ttl))

    def release(self, grant: Grant) -> None:
        """Give it back (see :class:`LeaseStore`)."""
        self._call(lambda: self._store.release(grant))

    def holder(self) -> str | None:
        """Return who holds it."""
        return self._call(self._store.holder)

    def claim(self, grant: Grant, instance: str, cooldown: float) -> bool:
        """Claim the restart of an instance (see :class:`LeaseStore`)."""
        return self._call(lambda: self._store.claim(grant, instance, cooldown))

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _call(self, function: Callable[[], T]) -> T:
        try:
            return self._calls.call(function, self._seconds)
        except LateError as error:
            raise LeaseStoreError(
                f"the lease store {self.place} does not answer: {error}; look at its disk or file system"
            ) from None
