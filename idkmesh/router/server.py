"""The router on the bounded server (RT-9.3)."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Final

from idkmesh import __version__
from idkmesh.control_tower.probes import ProbeState, probe_rows
from idkmesh.health.readiness import Readiness
from idkmesh.httpd import BoundedHTTPServer
from idkmesh.httpd.routes import RouteApplication
from idkmesh.router.routes import router_table
from idkmesh.service_runtime import ServiceIdentity

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.events.state import RecorderState
    from idkmesh.health.service import HealthService
    from idkmesh.httpd.application import Application
    from idkmesh.router.service import RouterService
    from idkmesh.service_runtime import ServiceLimits

IDENTITY: Final = ServiceIdentity(service="idkmesh-router", service_version=__version__, read_only=False)

PROVIDER: Final = "provider"
"""The name among what fails, while the provider's boundary is not usable."""

END_SECONDS: Final = 2.0
"""Beyond the drain, for those who are still to read their answers (HS-9)."""

_READY: Final = Readiness("ready")
_NOT_READY: Final = Readiness("not_ready", failing=(PROVIDER,))


class RouterHealth:
    """What the probes of a router ask (:class:`~idkmesh.control_tower.probes.Health`). It has started once it is there.

    The state of single observations has no part in it: a release without instances is no fault of the router.
    """

    def __init__(self, health: HealthService, service: RouterService) -> None:
        self._health = health
        self._service = service

    def overdue(self) -> tuple[str, ...]:
        """Name the components that have been silent for too long."""
        return self._health.overdue()

    def readiness(self) -> Readiness:
        """Say whether the provider's boundary is usable (RT-5.6)."""
        return _READY if self._service.usable().usable else _NOT_READY

    def warnings(self) -> tuple[str, ...]:
        """Name nothing: an invocation holds its slot for as long as RT-9.6 lets it."""
        return ()

    def refresh(self) -> None:
        """Ask for nothing: a provider asks by itself."""


class RouterServer(BoundedHTTPServer):
    """The bounded server with a router's routes on it. Any ``Host`` may ask: each path but the probes wants a bearer.

    ``health`` tells of this process, ``events`` of the store of the ledger. Both stay their owner's to start and end,
    and so does the service. Raises ``OSError`` where the address cannot be bound.
    """

    def __init__(
        self,
        server_address: tuple[Any, ...],
        service: RouterService,
        *,
        health: HealthService,
        events: Callable[[], RecorderState],
        limits: ServiceLimits,
    ) -> None:
        self._service = service
        self._health = health
        self._events = events
        self._thread: threading.Thread | None = None
        super().__init__(server_address, None, limits=limits, identity=IDENTITY)

    def _make_application(self) -> Application:
        self.probes = ProbeState(
            IDENTITY,
            RouterHealth(self._health, self._service),
            draining=lambda: self.limiter.draining,
            events=self._events,
            retry_after=self.limits.retry_after,
        )
        table = router_table(self._service, self.usage, probe_rows(self.probes))
        self._core.probe_statuses = {probe.path: 200 for probe in table.probes}
        return RouteApplication(table, self._service.credentials)

    # --- beside another server, which tells it when to begin and to end ----------------------------------------------

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self.serve_forever, name="router", daemon=True)
        self._thread.start()

    def begin_to_end(self) -> None:
        """Drain in that thread. Waits for nothing."""
        self.request_drain(signal.SIGTERM)

    def end(self) -> None:
        """Drain, and close. A second call changes nothing."""
        self.begin_to_end()
        if self._thread is not None:
            self._thread.join(self.limits.drain_timeout + END_SECONDS)
        self.server_close()
