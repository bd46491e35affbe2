"""What the four probe paths answer, as values (HL-5.1, HL-5.2, CT-4). Pure; whoever serves them writes them out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from idkmesh.changes import named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from idkmesh.health.readiness import Readiness
    from idkmesh.service_runtime import ServiceIdentity

LIVENESS_PATHS: Final = ("/healthz", "/livez")
READINESS_PATH: Final = "/readyz"
STARTUP_PATH: Final = "/startupz"
PROBE_PATHS: Final = frozenset((*LIVENESS_PATHS, READINESS_PATH, STARTUP_PATH))

MODE: Final = "local"
"""What a probe's answer says of the service's profile (CT-4.3)."""

DRAINING: Final = ("shutting_down", "The service is shutting down; try again later.")
"""The code and the message of a drain (CT-4.4), which are those of :mod:`idkmesh.httpd`."""

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """A status and a body with its type. A 503 says when to ask again, which is for whoever writes it to add."""

    status: int
    body: bytes
    content_type: str


def liveness_answer(*, alive: bool) -> ProbeAnswer:
    """Return what ``/healthz`` and ``/livez`` say (HL-2.2)."""
    return ProbeAnswer(200, b"ok", TEXT) if alive else ProbeAnswer(503, b"stalled", TEXT)


def readiness_answer(identity: ServiceIdentity, readiness: Readiness) -> ProbeAnswer:
    """Return what ``/readyz`` says (HL-5.2)."""
    status = 200 if readiness.status == "ready" else 503
    return _document_answer(status, probe_document(identity, readiness.status, readiness.failing, readiness.warnings))


def startup_answer(identity: ServiceIdentity, readiness: Readiness) -> ProbeAnswer:
    """Return what ``/startupz`` says: ``started`` once it is, whatever has become of dependencies (HL-1.3)."""
    if readiness.status == "starting":
        return readiness_answer(identity, readiness)
    return _document_answer(200, probe_document(identity, "started"))


def draining_answer() -> ProbeAnswer:
    """Return what readiness and startup say from the first moment of a drain: the error envelope (CT-4.4)."""
    code, message = DRAINING
    error = {"code": code, "message": message, "retryable": True, "details": {}}
    head = {"api_version": "v1", "schema_version": "0.1", "kind": "idkmesh-api-error", "ok": False}
    return _document_answer(503, {**head, "error": error})


def probe_document(
    identity: ServiceIdentity, status: str, failing: Sequence[str] = (), warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what readiness and startup answer (CT-4.3). ``failing`` and ``warnings`` are names of checks.

    The first of them are listed, with how many there are: who asks reads no more, and the answer has a bound.
    """
    return {
        "status": status,
        **named("failing", failing),
        **named("warnings", warnings),
        "service": identity.service,
        "service_version": identity.service_version,
        "mode": MODE,
        "api_version": identity.api_version,
    }


def _document_answer(status: int, document: Mapping[str, Any]) -> ProbeAnswer:
    return ProbeAnswer(status, json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(), JSON)
