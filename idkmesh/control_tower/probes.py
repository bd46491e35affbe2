"""The verdicts that probes are answered from. They are stored: a probe reads them on the front and never waits."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from idkmesh.health.answers import JSON, TEXT, liveness_answer, readiness_answer, startup_answer
from idkmesh.health.readiness import WATCHDOG, Readiness, with_own
from idkmesh.httpd.refusals import DENIED
from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import Answer, Probe
from idkmesh.service_runtime import Denial

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.events.state import RecorderState
    from idkmesh.health.answers import ProbeAnswer
    from idkmesh.httpd.request import Refusal
    from idkmesh.service_runtime import ServiceIdentity


EVENT_STORE: Final = "event_store"
"""The name of the check that fails while the store refuses events, and warns after it was replaced (CT-4.6)."""


class Health(Protocol):
    """What probes ask of a service's health. Nothing in it waits, or takes longer for many dependencies."""

    def overdue(self) -> tuple[str, ...]:
        """Name the components that have been silent for too long (HL-2.1)."""

    def readiness(self) -> Readiness:
        """Say what the dependencies come to: the same object while that is the same (HL-5.2)."""

    def warnings(self) -> tuple[str, ...]:
        """Name what else is worth a look (HL-2.3)."""

    def refresh(self) -> None:
        """Ask for results that wait to be asked for (HL-4.6)."""


class _Own(NamedTuple):
    """What has a say in readiness beside the dependencies."""

    failing: tuple[str, ...]
    warnings: tuple[str, ...]


class _Kept(NamedTuple):
    """An answer, and what it was made of."""

    dependencies: Readiness
    own: _Own
    answer: Response


class ProbeState:
    """Alive while every component beats; ready while it is, unless it drains or something that it needs is not well.

    The rules are CT-4 and HL-1.

    ``draining`` and ``events`` give stored state and do not wait; ``events`` is None for a service without a store.
    ``retry_after`` is in seconds. The front and the probe listener may ask at once.
    """

    def __init__(
        self,
        identity: ServiceIdentity,
        health: Health,
        *,
        draining: Callable[[], bool],
        events: Callable[[], RecorderState] | None,
        retry_after: int,
    ) -> None:
        self._identity = identity
        self._health = health
        self._draining = draining
        self._events = events
        self._again = (("Retry-After", str(retry_after)),)
        self._alive = self._response(liveness_answer(alive=True))
        self._stalled = self._response(liveness_answer(alive=False))
        self._started = self._response(startup_answer(identity, Readiness("ready")))
        self._kept: _Kept | None = None

    def liveness(self) -> Response:
        """Answer ``/healthz`` and ``/livez`` (HL-2.2). No dependency has a part in it."""
        return self._stalled if self._health.overdue() else self._alive

    def readiness(self) -> Response | Refusal:
        """Answer ``/readyz``: a drain is told from its first moment (CT-4.4)."""
        if self._draining():
            return DENIED[Denial.DRAINING]
        self._health.refresh()
        return self._answer()

    def startup(self) -> Response | Refusal:
        """Answer ``/startupz``: what has started stays so until it drains."""
        if self._draining():
            return DENIED[Denial.DRAINING]
        return self._answer() if self._health.readiness().status == "starting" else self._started

    def judged(self) -> Readiness:
        """Return the readiness of this moment, but for a drain."""
        return with_own(self._health.readiness(), *self._own())

    def activation_ready(self) -> bool:
        """Say whether readiness holds at this moment, but for a drain; who asks wants new results too (HL-4.6)."""
        self._health.refresh()
        return self._health.readiness().status == "ready" and not self._own().failing

    def _own(self) -> _Own:
        failing: tuple[str, ...] = (WATCHDOG,) if self._health.overdue() else ()
        warnings = self._health.warnings()
        if self._events is not None:
            state = self._events()
            if state.failing is not None:
                failing = (*failing, EVENT_STORE)
            elif state.warning is not None:
                warnings = (EVENT_STORE, *warnings)
        return _Own(failing, warnings)

    def _answer(self) -> Response:
        """Return the answer for this moment. It is made when something has changed, and not for each who asks."""
        dependencies, own, kept = self._health.readiness(), self._own(), self._kept
        # By identity: to compare a thousand names would take as long as a thousand names.
        if kept is None or kept.dependencies is not dependencies or kept.own != own:
            answer = self._response(readiness_answer(self._identity, with_own(dependencies, *own)))
            kept = self._kept = _Kept(dependencies, own, answer)
        return kept.answer

    def _response(self, answer: ProbeAnswer) -> Response:
        again = self._again if answer.status == HTTPStatus.SERVICE_UNAVAILABLE else ()
        return Response(answer.status, again, answer.body, answer.content_type)


def probe_rows(state: ProbeState) -> tuple[Probe, ...]:
    """Return the four probe paths as rows of a table."""
    alive = (
        Answer(status=200, meaning="Alive.", content_types=(TEXT,)),
        Answer(status=503, meaning="Stalled: a part of this process makes no progress.", content_types=(TEXT,)),
    )
    ready = (
        Answer(status=200, meaning="Ready.", content_types=(JSON,), schema="probe.json"),
        Answer(status=503, meaning="Not ready, starting, or a refusal in a drain.", content_types=(JSON,)),
    )
    started = (
        Answer(status=200, meaning="Started.", content_types=(JSON,), schema="probe.json"),
        Answer(status=503, meaning="Starting, or a refusal in a drain.", content_types=(JSON,)),
    )
    return (
        Probe(path="/healthz", verdict=state.liveness, operation="getHealth", summary="Liveness.", answers=alive),
        Probe(path="/livez", verdict=state.liveness, operation="getLiveness", summary="Liveness.", answers=alive),
        Probe(path="/readyz", verdict=state.readiness, operation="getReadiness", summary="Readiness.", answers=ready),
        Probe(path="/startupz", verdict=state.startup, operation="getStartup", summary="Startup.", answers=started),
    )
