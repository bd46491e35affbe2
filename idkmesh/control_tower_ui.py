"""The control tower: its routes on the bounded server.

It stands beside ``control_tower``, whose documents and routes it puts together, under the name that programs know.
The clauses CT-x.y stand in ``docs/specifications/CONTROL_TOWER_LOCAL_API_V0_1.md``.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from idkmesh import __version__
from idkmesh.addresses import url_host
from idkmesh.binding import ensure_free
from idkmesh.clock import Clock, SystemClock
from idkmesh.control_tower.api import Lifetime, Records, status_document
from idkmesh.control_tower.endpoints import control_tower_table
from idkmesh.control_tower.event_feed import TYPE_PREFIX, EventFeed
from idkmesh.control_tower.node import NodeWatch, Parts
from idkmesh.control_tower.node_record import node_record
from idkmesh.control_tower.probes import ProbeState
from idkmesh.control_tower.security import SessionGuard, checked_token, loopback_address
from idkmesh.events.retention import Retention
from idkmesh.health.self_watch import room_for_files
from idkmesh.health.service import STOP_SECONDS, HealthReading, HealthService
from idkmesh.httpd import BoundedHTTPServer
from idkmesh.httpd.routes import RouteApplication
from idkmesh.service_runtime import ServiceIdentity, limits_document, usage_document
from idkmesh.workloads.reading import nothing_supervised

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.changes import Change
    from idkmesh.health.model import ProbeMatrix
    from idkmesh.httpd.application import Application
    from idkmesh.httpd.front import Front
    from idkmesh.httpd.responses import Response
    from idkmesh.router.configuration import RouterConfiguration
    from idkmesh.router.server import RouterServer
    from idkmesh.router.service import RouterService
    from idkmesh.service_runtime import ServiceLimits
    from idkmesh.workloads.reading import WorkloadReading
    from idkmesh.workloads.service import Supervised, WorkloadService

IDENTITY: Final = ServiceIdentity(service="control-tower", service_version=__version__)


class ControlTowerServer(BoundedHTTPServer):
    """The bounded server with the control tower's routes on it.

    ``server_address`` is a loopback host and a port, ``token`` the session token, ``store`` the file of its events.
    ``matrix`` says what it depends on; without one it watches the disk under its store (HL-3.4). ``supervised`` are
    modules whose instances it supervises besides (AR-7.1), ``router`` says how it routes besides (RT-12.1).
    Raises ``ValueError`` for another host (CT-2.1) or another grammar (CT-2.5), ``OSError`` where the address cannot be
    bound, :class:`~idkmesh.events.errors.StoreError` where the store cannot be used,
    :class:`~idkmesh.workloads.parts.SupervisionError` where a part of the supervisor cannot be had,
    :class:`~idkmesh.router.parts.PartError`, a ``ValueError``, where the router's provider cannot be had.
    """

    def __init__(  # noqa: PLR0913  what one tower differs in from another, a keyword each
        self,
        server_address: tuple[str, int],
        token: str,
        *,
        store: Path,
        retention: Retention | None = None,
        matrix: ProbeMatrix | None = None,
        supervised: Supervised | None = None,
        router: RouterConfiguration | None = None,
        limits: ServiceLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._started_at = self._clock.utc()
        self._started = self._clock.monotonic()
        self._token = checked_token(token, "token")
        self._guard = SessionGuard(self._token)
        address = loopback_address(server_address[0])
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        ensure_free(address, server_address[1])  # the store is opened before it is bound (CT-9.3)
        self._store = store
        self._retention = retention or Retention()
        self._matrix = matrix or room_for_files(str(store.parent))
        self._supervised = supervised
        self._routed = router
        self._router_server: RouterServer | None = None
        try:
            super().__init__((address, server_address[1]), None, limits=limits, identity=IDENTITY)
        except BaseException:  # the address may have been taken since, and what is below opens first
            self._undo()
            raise
        self._node.expect("api", self.origin.removeprefix("http://"), self.socket)
        self.tell(self._feed.observe)
        self._tell_of_start()

    def _undo(self) -> None:
        """End what was begun of a server that is not to be: any part may be missing."""
        if hasattr(self, "_health"):
            self._health.stop(STOP_SECONDS)
        if hasattr(self, "_workloads") and self._workloads is not None:
            self._workloads.stop(STOP_SECONDS)
        if hasattr(self, "_router") and self._router is not None:
            self._router.stop()
        if hasattr(self, "_feed"):
            self._feed.close()

    def _make_application(self) -> Application:
        log = self._core.log.write
        self._feed = EventFeed(self._store, self._retention, clock=self._clock, log=log)
        self._health = HealthService(self._matrix, clock=self._clock, changed=self._record, log=log)
        self._health.watch_slots(self.limiter.holders)
        self.watch_loop(self._health.register_front)
        self._probes = ProbeState(
            IDENTITY,
            self._health,
            draining=lambda: self.limiter.draining,
            events=self._feed.snapshot,
            retry_after=self.limits.retry_after,
        )
        self._node = self._node_watch()
        self._workloads = None if self._supervised is None else self._supervise(self._supervised)
        self._router = None if self._routed is None else self._route(self._routed)
        topology = None if self._router is None else self._router.projection
        table = control_tower_table(IDENTITY, self.limits, self._probes, self, self._feed, topology=topology)
        self._core.probe_statuses = {probe.path: 200 for probe in table.probes}
        return RouteApplication(table, self._guard)

    def _supervise(self, supervised: Supervised) -> WorkloadService:
        """Make the supervisor. That it goes round is liveness; what it sees is no part of this service's readiness."""
        from idkmesh.workloads.service import COMPONENT, WorkloadService  # noqa: PLC0415  most towers have none

        return WorkloadService(
            supervised,
            self._feed.path.parent,
            changed=self._record,
            record=lambda change: self._feed.commit(
                change.what.removeprefix(TYPE_PREFIX), change.facts, change.subject
            ),
            log=self._core.log.write,
            watch=lambda: self._health.watchdog.register(COMPONENT),
        )

    def _node_watch(self) -> NodeWatch:
        events = self._feed.snapshot()
        record = node_record(self._feed.path, None if events.warning else events.epoch)
        parts = Parts(
            limits=self.limits,
            load=self.load,
            well=lambda: not self._health.overdue(),
            activation_ready=self._probes.activation_ready,
            draining=lambda: self.limiter.draining,
        )
        return NodeWatch(record, self._feed, parts, clock=self._clock, log=self._core.log.write)

    def _route(self, configuration: RouterConfiguration) -> RouterService:
        """Make the router. Its own address is served beside this one, with probes of its own."""
        from idkmesh.router.service import RouterService  # noqa: PLC0415  most towers have none

        return RouterService(
            configuration,
            clock=self._clock,
            changed=self._record,
            record=lambda change: self._feed.commit(
                change.what.removeprefix(TYPE_PREFIX), change.facts, change.subject
            ),
            line=self._core.log.write,
        )

    def route_on(self, server: RouterServer) -> None:
        """Serve the router's own address beside this one, to the end: it drains as soon as this one does."""
        self._router_server = server
        self.tell(lambda what, _facts: server.begin_to_end() if what == "drain.started" else None)
        server.start()

    def server_bind(self) -> None:
        """Bind, and tell the guard which port that gave: a ``Host`` must name it. The probes run before it opens."""
        facts = {"limits": limits_document(self.limits), "events": self._retention.document()}
        self._feed.observe("configuration.loaded", facts)
        self._health.start()
        super().server_bind()
        self._guard.listen_at(self.server_name, self.server_port)

    def _record(self, change: Change) -> None:
        """Make an event of what health or the supervisor has seen (HL-5.4, AR-7.3)."""
        self._feed.observe(change.what.removeprefix(TYPE_PREFIX), change.facts, change.subject)

    def _tell_of_start(self) -> None:
        started = {"address": self.server_name, "port": self.server_port, "version": __version__}
        self._feed.observe("server.started", started)

    def _make_front(self) -> Front:
        """Begin to write events, and to supervise, with the first loop: it is made once, whatever serves."""
        self._feed.start()
        self._node.start()
        if self._workloads is not None:
            self._workloads.start()
        if self._router is not None:
            self._router.start()
        return super()._make_front()

    def server_close(self) -> None:
        """Drain, close, end supervisor and probes, and write the events that are left (EV-3.3)."""
        try:
            super().server_close()
        finally:
            if self._closed:  # the base class refuses the call in a handler
                if self._workloads is not None:
                    self._workloads.stop(self.limits.drain_timeout)
                if self._router_server is not None:
                    self._router_server.end()
                if self._router is not None:
                    self._router.stop()
                self._node.stop(STOP_SECONDS)
                self._health.stop(STOP_SECONDS)
                self._feed.close()

    @property
    def events(self) -> EventFeed:
        """The events of this service."""
        return self._feed

    @property
    def health(self) -> HealthService:
        """The health of this service."""
        return self._health

    @property
    def workloads(self) -> WorkloadService | None:
        """What it supervises, None without a declaration."""
        return self._workloads

    @property
    def router(self) -> RouterService | None:
        """The router that it runs, None without a configuration."""
        return self._router

    @property
    def probes(self) -> ProbeState:
        """What its probes answer."""
        return self._probes

    @property
    def origin(self) -> str:
        """The service's own origin, ``http://127.0.0.1:8765``."""
        return f"http://{url_host(self.server_name)}:{self.server_port}"

    @property
    def token(self) -> str:
        """The session token. A secret."""
        return self._token

    @property
    def link(self) -> str:
        """The page, with the session token in the fragment, which a browser keeps to itself. A secret."""
        return f"{self.origin}/#token={self._token}"

    def status(self) -> dict[str, Any]:
        """Return the status document of this moment (CT-5)."""
        lifetime = Lifetime(
            started_at=self._started_at,
            now=self._clock.utc(),
            uptime=self._clock.monotonic() - self._started,
        )
        records = Records(
            streams=self.stream_statistics(),
            peaks=self.peaks(),
            refusals=self.refusals(),
            events=self._feed.snapshot(),
            health=self._health.reading(),
            readiness=self._probes.judged(),
            workloads=self.workload_reading(),
            router=self._routing(),
        )
        return status_document(IDENTITY, self.limits, self.usage(), lifetime, records)

    def _routing(self) -> dict[str, Any] | None:
        """Return what the status says of the router, None without one."""
        beside = self._router_server
        listen = None if beside is None else f"http://{url_host(beside.server_name)}:{beside.server_port}"
        return None if self._router is None else self._router.document(listen)

    def health_reading(self) -> HealthReading:
        """Return what is known of the dependencies and of this process."""
        return self._health.reading()

    def workload_reading(self) -> WorkloadReading:
        """Return what is known of the modules that it supervises."""
        return nothing_supervised() if self._workloads is None else self._workloads.reading()

    def node(self) -> Response:
        """Answer how this node is (RA-5.1). On the front: reads stored state."""
        return self._node.answer()

    def expect_listener(self, name: str, listener: BoundedHTTPServer) -> None:
        """Take another listener of this process into the node's inventory, before serving (RA-5.4)."""
        address = f"{url_host(listener.server_name)}:{listener.server_port}"
        self._node.expect(name, address, listener.socket)

    def metrics(self) -> bytes:
        """Return health, limits and usage as Prometheus text (HL-5.5), and what is supervised and routed."""
        from idkmesh.health.metrics import Reading, exposition  # noqa: PLC0415  80 ms, for which no start waits

        health = self._health.reading()
        reading = Reading(
            health=health.snapshot,
            now=health.now,
            ready=self._probes.judged().status == "ready",
            silences=health.silences,
            liveness=health.liveness,
            slots_held=health.slots_held,
            matrix_refused=health.matrix.refused is not None,
            limits=limits_document(self.limits),
            usage=usage_document(self.usage()),
        )
        text = exposition(reading)
        if self._workloads is not None:
            from idkmesh.workloads import metrics  # noqa: PLC0415  as above

            known = self._workloads.reading()
            text += metrics.exposition(known.snapshot, known.now.boot)
        if self._router is not None:
            from idkmesh.router.metrics import exposition as routed  # noqa: PLC0415  as above

            beside = self._router_server
            text += routed(self._router, None if beside is None else beside.usage())
        return text
