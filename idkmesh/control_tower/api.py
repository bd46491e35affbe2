"""The documents that the control tower answers, as plain data. Each has a published schema in ``idkmesh/schemas``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from idkmesh.service_runtime import limits_document, usage_document

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from idkmesh.service_runtime import ServiceIdentity, ServiceLimits, ServiceUsage

SCHEMA_VERSION: Final = "0.1"
MODE: Final = "local"
"""The profile of this service: one machine, one session token, read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """When a service started and when it is asked: aware instants in UTC as labels, ``uptime`` in monotonic seconds."""

    started_at: datetime
    now: datetime
    uptime: float


def status_document(
    identity: ServiceIdentity,
    limits: ServiceLimits,
    usage: ServiceUsage,
    lifetime: Lifetime,
) -> dict[str, Any]:
    """Return the status document (CT-5)."""
    return {
        "api_version": identity.api_version,
        "schema_version": SCHEMA_VERSION,
        "kind": "idkmesh-control-tower-status",
        "ok": True,
        "service": {
            "name": identity.service,
            "version": identity.service_version,
            "mode": MODE,
            "read_only": identity.read_only,
        },
        "started_at": utc_text(lifetime.started_at),
        "generated_at": utc_text(lifetime.now),
        "uptime_seconds": round(lifetime.uptime, 3),
        "operations": {"limits": limits_document(limits), "usage": usage_document(usage)},
    }


def probe_document(
    identity: ServiceIdentity, status: str, failing: Sequence[str] = (), warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what readiness and startup answer (CT-4.3). ``failing`` and ``warnings`` are names of checks."""
    return {
        "status": status,
        "failing": list(failing),
        "warnings": list(warnings),
        "service": identity.service,
        "service_version": identity.service_version,
        "mode": MODE,
        "api_version": identity.api_version,
    }


def utc_text(instant: datetime) -> str:
    """Return an aware UTC instant as RFC 3339 with milliseconds and ``Z``."""
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
