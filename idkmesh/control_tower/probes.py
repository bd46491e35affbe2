"""The verdicts that probes are answered from. They are stored: a probe reads them on the front and never waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.control_tower.api import probe_document
from idkmesh.httpd.refusals import DENIED
from idkmesh.httpd.responses import Response, json_body
from idkmesh.service_runtime import Denial

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.request import Refusal
    from idkmesh.service_runtime import ServiceIdentity


class ProbeState:
    """Alive as long as the front answers; ready unless ``draining()`` (CT-4). ``draining`` must not wait."""

    def __init__(self, identity: ServiceIdentity, draining: Callable[[], bool]) -> None:
        self._draining = draining
        self._alive = Response(200, (), b"ok", "text/plain; charset=utf-8")
        self._ready = Response(200, (), json_body(probe_document(identity, "ready")))

    def liveness(self) -> Response:
        """Answer ``/healthz`` and ``/livez``."""
        return self._alive

    def readiness(self) -> Response | Refusal:
        """Answer ``/readyz`` and ``/startupz``: a drain is told from its first moment (CT-4.4)."""
        return DENIED[Denial.DRAINING] if self._draining() else self._ready
