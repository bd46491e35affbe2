"""The verdicts that probes are answered from. They are stored: a probe reads them on the front and never waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.health.answers import probe_document
from idkmesh.httpd.refusals import DENIED
from idkmesh.httpd.responses import Response, json_body
from idkmesh.service_runtime import Denial

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.events.state import RecorderState
    from idkmesh.httpd.request import Refusal
    from idkmesh.service_runtime import ServiceIdentity


EVENT_STORE: Final = "event_store"
"""The name of the check that fails while the store refuses events, and warns after it was replaced (CT-4.6)."""


class ProbeState:
    """Alive as long as the front answers; ready unless it drains or its event store fails (CT-4).

    ``draining`` and ``events`` give stored state and do not wait. ``retry_after`` is in seconds.
    """

    def __init__(
        self,
        identity: ServiceIdentity,
        *,
        draining: Callable[[], bool],
        events: Callable[[], RecorderState],
        retry_after: int,
    ) -> None:
        self._draining = draining
        self._events = events
        self._alive = Response(200, (), b"ok", "text/plain; charset=utf-8")
        again = (("Retry-After", str(retry_after)),)
        self._ready = Response(200, (), json_body(probe_document(identity, "ready")))
        self._warned = Response(200, (), json_body(probe_document(identity, "ready", (), (EVENT_STORE,))))
        self._failing = Response(503, again, json_body(probe_document(identity, "not_ready", (EVENT_STORE,))))

    def liveness(self) -> Response:
        """Answer ``/healthz`` and ``/livez``."""
        return self._alive

    def readiness(self) -> Response | Refusal:
        """Answer ``/readyz``: a drain is told from its first moment (CT-4.4)."""
        if self._draining():
            return DENIED[Denial.DRAINING]
        state = self._events()
        if state.failing is not None:
            return self._failing
        return self._warned if state.warning is not None else self._ready

    def startup(self) -> Response | Refusal:
        """Answer ``/startupz``: what has started stays so until it drains."""
        return DENIED[Denial.DRAINING] if self._draining() else self._ready
