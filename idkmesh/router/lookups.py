"""Look-ups of names by many workers at once, of which none can be interrupted and only so many may be out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from idkmesh.addresses import is_address
from idkmesh.health.probes.resolving import Resolver
from idkmesh.health.probes.words import could_not_run

if TYPE_CHECKING:
    from idkmesh.health.probes.probe import Deadline
    from idkmesh.health.probes.resolving import Address

MOST_OUT: Final = 64
"""Look-ups at once, abandoned ones included: a resolver that hangs must not take a thread for each invocation."""


class Lookups:
    """A few resolvers, each with one look-up at a time. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Resolver] = []
        self._made = 0

    def addresses(self, host: str, port: int, deadline: Deadline) -> list[Address]:
        """Return the addresses of a name, or raise :class:`~idkmesh.health.probes.words.ProbeError`."""
        if is_address(host):
            return Resolver().addresses(host, port, deadline)
        resolver = self._take()
        try:
            return resolver.addresses(host, port, deadline)
        finally:
            with self._lock:
                self._idle.append(resolver)

    def _take(self) -> Resolver:
        with self._lock:
            for number, resolver in enumerate(self._idle):
                if not resolver.calls.out:
                    return self._idle.pop(number)
            if self._made == MOST_OUT:
                raise could_not_run("still waiting")
            self._made += 1
            return Resolver()
