"""A second listener, for the four probe paths alone (HL-5.6).

It runs a loop of its own in a thread of its own, so that it tells of a front that is stuck, answers while the service
drains, and closes after it. It answers too while the process has no descriptor free (HS-4.9). Nothing of it is ever
handled by a worker: what is no probe is refused by its loop.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final

from idkmesh.httpd import BoundedHTTPServer
from idkmesh.httpd.routes import RouteApplication, RouteTable
from idkmesh.service_runtime import ServiceLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.httpd.application import Application
    from idkmesh.httpd.request import Request
    from idkmesh.httpd.routes import Probe
    from idkmesh.service_runtime import ServiceIdentity

LIMITS: Final = ServiceLimits(
    request_timeout=5.0,
    max_concurrent_requests=1,
    max_connections=128,
    listen_backlog=128,
    max_header_bytes=16 * 1024,
    max_body_bytes=0,
    max_buffered_bytes=4 * 1024 * 1024,
    drain_timeout=1.0,
    max_sse_clients=1,
)
"""Of this listener. A kubelet holds one connection at a time; the least useful one gives way to it (HS-8).

The backlog is longer than the service's: a burst of others must not make the kubelet's first packet be sent again,
which takes a second, the whole of its timeout.
"""

RESERVE: Final = 4
"""Descriptors held for when the process has none free (HS-4.9): liveness is not to fail because clients hold them all.

A probe holds one for the moment of its answer, so a few do; they come out of what `SPARE_DESCRIPTORS` leaves free.
"""


class _Anybody:
    """Probes are for anybody, and there is nothing else (CT-4.1)."""

    def refuse_host(self, request: Request) -> None:
        """Pass: a kubelet sends the pod's address."""

    def refuse_origin(self, request: Request) -> None:
        """Pass."""

    def refuse_token(self, request: Request) -> None:
        """Pass."""


class ProbeListener(BoundedHTTPServer):
    """Serves ``probes`` on ``server_address``. Raises ``OSError`` where the address cannot be bound."""

    def __init__(
        self, server_address: tuple[Any, ...], probes: tuple[Probe, ...], *, identity: ServiceIdentity, retry_after: int
    ) -> None:
        self._probes = probes
        super().__init__(server_address, None, limits=LIMITS.replace(retry_after=retry_after), identity=identity)

    def _make_application(self) -> Application:
        self._core.reserve = RESERVE
        self._core.probe_statuses = {probe.path: 200 for probe in self._probes}
        return RouteApplication(RouteTable((), self._probes), _Anybody())

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Serve in a thread, and close at the end."""
        thread = threading.Thread(target=self.serve_forever, name="probe-listener", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.server_close()
            thread.join(LIMITS.drain_timeout)
