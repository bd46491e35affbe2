"""The control tower: its routes on the bounded server, and the command that serves them.

The clauses CT-x.y stand in ``docs/specifications/CONTROL_TOWER_LOCAL_API_V0_1.md``.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any, Final

from idkmesh import __version__, console
from idkmesh.clock import Clock, SystemClock
from idkmesh.control_tower.api import Lifetime, Records, status_document
from idkmesh.control_tower.endpoints import control_tower_table
from idkmesh.control_tower.event_feed import EventFeed
from idkmesh.control_tower.probes import ProbeState
from idkmesh.control_tower.security import SessionGuard, checked_token, loopback_address
from idkmesh.events.retention import Retention
from idkmesh.httpd import BoundedHTTPServer
from idkmesh.httpd.routes import RouteApplication
from idkmesh.service_runtime import ServiceIdentity, limits_document
from idkmesh.serving import port_written, run, url_host

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.httpd.application import Application
    from idkmesh.httpd.front import Front
    from idkmesh.httpd.signals import ShutdownSignals
    from idkmesh.service_runtime import ServiceLimits

IDENTITY: Final = ServiceIdentity(service="control-tower", service_version=__version__)


class ControlTowerServer(BoundedHTTPServer):
    """The bounded server with the control tower's routes on it.

    ``server_address`` is a loopback host and a port, ``token`` the session token, ``store`` the file of its events.
    Raises ``ValueError`` for another host (CT-2.1) or another grammar (CT-2.5), ``OSError`` where the address cannot be
    bound, :class:`~idkmesh.events.errors.StoreError` where the store cannot be used.
    """

    def __init__(  # noqa: PLR0913  what one tower differs in from another, a keyword each
        self,
        server_address: tuple[str, int],
        token: str,
        *,
        store: Path,
        retention: Retention | None = None,
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
        self._store = store
        self._retention = retention or Retention()
        try:
            super().__init__((address, server_address[1]), None, limits=limits, identity=IDENTITY)
        except BaseException:
            if hasattr(self, "_feed"):  # it opens first, and the address may be taken
                self._feed.close()
            raise
        self.tell(self._feed.observe)
        self._tell_of_start()

    def _make_application(self) -> Application:
        self._feed = EventFeed(self._store, self._retention, clock=self._clock, log=self._core.log.write)
        probes = ProbeState(
            IDENTITY,
            draining=lambda: self.limiter.draining,
            events=self._feed.snapshot,
            retry_after=self.limits.retry_after,
        )
        table = control_tower_table(IDENTITY, self.limits, probes, self.status, self._feed)
        self._core.probe_statuses = {probe.path: 200 for probe in table.probes}
        return RouteApplication(table, self._guard)

    def server_bind(self) -> None:
        """Bind, and tell the guard which port that gave: a ``Host`` must name it."""
        super().server_bind()
        self._guard.listen_at(self.server_name, self.server_port)

    def _tell_of_start(self) -> None:
        facts = {"limits": limits_document(self.limits), "events": self._retention.document()}
        self._feed.observe("configuration.loaded", facts)
        started = {"address": self.server_name, "port": self.server_port, "version": __version__}
        self._feed.observe("server.started", started)

    def _make_front(self) -> Front:
        """Begin to write events with the first loop: it is made once, whatever serves."""
        self._feed.start()
        return super()._make_front()

    def server_close(self) -> None:
        """Drain, close, and write the events that are left (EV-3.3)."""
        try:
            super().server_close()
        finally:
            if self._closed:  # the base class refuses the call in a handler
                self._feed.close()

    @property
    def events(self) -> EventFeed:
        """The events of this service."""
        return self._feed

    @property
    def origin(self) -> str:
        """The service's own origin, ``http://127.0.0.1:8765``."""
        return f"http://{url_host(self.server_name)}:{self.server_port}"

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
            refusals=self.refusals(),
            events=self._feed.snapshot(),
        )
        return status_document(IDENTITY, self.limits, self.usage(), lifetime, records)


def serve_control_tower(
    server: ControlTowerServer, signals: ShutdownSignals, *, port_file: str | None = None, open_page: bool = False
) -> int:
    """Announce the server, serve until a signal, drain, and return the exit code (CT-9).

    Raises :class:`~idkmesh.console.CommandError` where the port file cannot be written.
    """
    with port_written(port_file, server.server_port):
        console.say(f"idkmesh control-tower {__version__} listens on {server.origin}")
        console.say(f"open {server.link}")
        console.say(f"events are kept in {console.fitted(str(server.events.path))}")
        if open_page:
            # In a thread of its own: a browser that runs in the terminal would keep the server from serving it.
            threading.Thread(target=_open_browser, args=(server.link,), daemon=True).start()
        return run(server, signals)


def _open_browser(link: str) -> None:
    import webbrowser  # noqa: PLC0415  a start without --open does not wait for it

    if not webbrowser.open(link):
        console.complain("idkmesh: no browser could be started: open the link")
