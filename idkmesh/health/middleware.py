"""The four probe paths for any WSGI program (HL-6.1).

Laws of this module:

1. A request is answered from what is stored (HL-1.5): it runs no probe and waits for none. It takes the lock only to
   begin probing, once a process.
2. Whatever is not GET or HEAD of a probe path is the program's, and a fault here never becomes a fault of it.
3. Each process has its own probes and its own watch: threads do not go through a fork, so a forked child begins anew.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from idkmesh import __version__
from idkmesh.clock import SystemClock
from idkmesh.health.answers import (
    LIVENESS_PATHS,
    PROBE_PATHS,
    STARTUP_PATH,
    draining_answer,
    liveness_answer,
    readiness_answer,
    startup_answer,
)
from idkmesh.health.model import Verdict
from idkmesh.health.readiness import WATCHDOG, Known, Readiness, judge, with_own
from idkmesh.health.service import HealthService
from idkmesh.health.watchdog import Watchdog, WatchdogError
from idkmesh.service_runtime import ServiceIdentity, log_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from idkmesh.health.answers import ProbeAnswer
    from idkmesh.health.model import ProbeMatrix

RETRY_AFTER_SECONDS: Final = 1
"""The ``Retry-After`` of every 503: the default of the setting of that name."""

STOP_SECONDS: Final = 5.0
"""How long :meth:`HealthMiddleware.close` waits: the default of the setting ``drain_timeout``."""

_METHODS: Final = frozenset(("GET", "HEAD"))
_FIELDS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))

_living: weakref.WeakSet[HealthMiddleware] = weakref.WeakSet()


class HealthMiddleware:
    """Answers GET and HEAD of ``/healthz``, ``/livez``, ``/readyz`` and ``/startupz``; all else goes to ``app``.

    Probing begins with the first request, whatever it asks for, or with :meth:`start`. Behind a server with several
    processes call that in each (in ``post_worker_init`` of gunicorn), else the first request that meets a process finds
    it ``starting``. ``watchdog`` is the program's own, whose components stand behind liveness beside the runner of the
    probes; without one there is the runner alone, with the budget of the matrix. ``identity`` is what the answers call
    the service. What changes is a line each to the logger ``idkmesh``, a stall of a component too. Any thread may call
    any method.
    """

    def __init__(
        self,
        app: WSGIApplication,
        matrix: ProbeMatrix,
        watchdog: Watchdog | None = None,
        *,
        identity: ServiceIdentity | None = None,
    ) -> None:
        self._app = app
        self._matrix = matrix
        self._clock = SystemClock()
        self.watchdog = watchdog or Watchdog(matrix.watchdog.budget_seconds, self._clock)
        """Whose silent components fail liveness: the program's own, or one for the runner of the probes alone."""
        self._identity = identity or ServiceIdentity(service="health", service_version=__version__)
        rows = (Known(row.name, row.critical, Verdict.UNKNOWN, ran=False) for row in matrix.dependencies)
        self._unknown = judge(rows, started=False)
        self._kept: tuple[Readiness, tuple[str, ...], ProbeAnswer] | None = None
        self._lock = threading.Lock()
        self._service: HealthService | None = None
        self._begun = self._draining = self._closed = False
        self._fault: str | None = None
        _living.add(self)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request, or have the program answer it."""
        path: str = environ.get("PATH_INFO", "")
        method: str = environ["REQUEST_METHOD"]
        asked = path in PROBE_PATHS and method in _METHODS
        if self._service is None and (asked or not self._begun) and not self._draining:
            self._begin()
        if not asked:
            return self._app(environ, start_response)
        answer = self._answer(path)
        again = (("Retry-After", str(RETRY_AFTER_SECONDS)),) if answer.status == HTTPStatus.SERVICE_UNAVAILABLE else ()
        about = (("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body))))
        start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", [*about, *_FIELDS, *again])
        return [answer.body] if method == "GET" else []

    def start(self) -> None:
        """Begin to probe in this process, if that has not begun.

        :raises WatchdogError: the watchdog has a component named ``probes``.
        :raises RuntimeError: the middleware is closed, or the system starts no thread.
        """
        with self._lock:
            self._begun = True
            if self._closed:
                raise RuntimeError("a health middleware that was closed is not started again: make another")
            if self._service is not None:
                return
            service = HealthService(self._matrix, clock=self._clock, watchdog=self.watchdog)
            service.start()
            self._service = service

    def drain(self) -> None:
        """Have readiness and startup say 503 ``shutting_down`` from now on (CT-4.4); liveness holds. Does not wait."""
        self._draining = True

    def close(self, timeout: float = STOP_SECONDS) -> bool:
        """Drain, and end what probes, for at most ``timeout`` seconds. Say whether all of it has ended."""
        self._draining = True
        with self._lock:
            self._closed = True
            service = self._service
        return service is None or service.stop(timeout)

    def _begin(self) -> None:
        """Start because of a request, which is answered even if that fails. A fault is told when it comes."""
        try:
            self.start()
        except (RuntimeError, WatchdogError) as error:
            fault = f"the probes cannot be started: {error}"
            if fault != self._fault and not self._closed:
                log_line(fault, logging.ERROR)
            self._fault = fault

    def _answer(self, path: str) -> ProbeAnswer:
        if path in LIVENESS_PATHS:
            return liveness_answer(alive=not self.watchdog.overdue(self._clock.monotonic()))
        if self._draining:
            return draining_answer()
        service = self._service
        readiness = self._unknown if service is None else service.readiness()
        if path == STARTUP_PATH:
            return startup_answer(self._identity, readiness)
        if service is None:
            return readiness_answer(self._identity, readiness)
        service.refresh()
        # Written once for each verdict: a long list of names is not to cost each request its length.
        kept, own = self._kept, (WATCHDOG,) if self.watchdog.overdue(self._clock.monotonic()) else ()
        if kept is None or kept[0] is not readiness or kept[1] != own:
            answer = readiness_answer(self._identity, with_own(readiness, own))
            self._kept = kept = (readiness, own, answer)
        return kept[2]

    def _begin_in_child(self) -> None:
        self._lock = threading.Lock()  # a thread that the child has not may have held the other
        self.watchdog.renew()
        if self._service is not None:
            self._service.forget()
        self._service = None
        self._begun = False


def _begin_in_children() -> None:
    for middleware in tuple(_living):
        middleware._begin_in_child()  # noqa: SLF001  the fork is this module's business


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_children)
