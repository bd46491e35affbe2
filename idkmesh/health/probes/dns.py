"""``dns``: resolve a name with the system's resolver (HL-4.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.resolving import Resolver

if TYPE_CHECKING:
    from idkmesh.health.model import Dns
    from idkmesh.health.probes.probe import Deadline


class DnsProbe(DeadlineProbe):
    """Wants one address of a name."""

    def __init__(self, spec: Dns) -> None:
        self._spec = spec
        self._resolver = Resolver()
        super().__init__(self._resolver.calls)

    def attempt(self, deadline: Deadline) -> str:
        """Resolve the name."""
        self._resolver.addresses(self._spec.name, None, deadline)
        return "resolved"
