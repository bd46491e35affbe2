"""``tcp``: connect and close (HL-4.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.health.probes.connecting import connect
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.resolving import Resolver

if TYPE_CHECKING:
    from idkmesh.health.model import Tcp
    from idkmesh.health.probes.probe import Deadline


class TcpProbe(DeadlineProbe):
    """Connects to the first address of a host that answers, and closes."""

    def __init__(self, spec: Tcp) -> None:
        self._spec = spec
        self._resolver = Resolver()
        super().__init__(self._resolver.calls)

    def attempt(self, deadline: Deadline) -> str:
        """Connect and close."""
        connect(self._resolver.addresses(self._spec.host, self._spec.port, deadline), deadline).close()
        return "connected"
