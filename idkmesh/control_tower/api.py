"""The documents that the control tower answers, as plain data. Each has a published schema in ``idkmesh/schemas``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from idkmesh.changes import named
from idkmesh.health.answers import MODE
from idkmesh.httpd.errors import ERROR_CODES
from idkmesh.service_runtime import limits_document, usage_document
from idkmesh.workloads.document import short_document

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from idkmesh.events.state import RecorderState
    from idkmesh.health.readiness import Readiness
    from idkmesh.health.service import HealthReading
    from idkmesh.httpd.peaks import UsagePeaks
    from idkmesh.httpd.stream_hub import StreamStatistics
    from idkmesh.service_runtime import ServiceIdentity, ServiceLimits, ServiceUsage
    from idkmesh.workloads.reading import WorkloadReading

SCHEMA_VERSION: Final = "0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """When a service started and when it is asked: aware instants in UTC as labels, ``uptime`` in monotonic seconds."""

    started_at: datetime
    now: datetime
    uptime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What a service counted and keeps beside its usage: peaks, streams, refusals, events, health, and what it runs.

    ``refusals`` are by code. ``readiness`` is what the readiness probe answers, but for a drain.
    """

    streams: StreamStatistics
    peaks: UsagePeaks
    refusals: Mapping[str, int]
    events: RecorderState
    health: HealthReading
    readiness: Readiness
    workloads: WorkloadReading
    router: Mapping[str, Any] | None = None
    """What the status says of the router that runs beside it (CT-5.9)."""


def status_document(
    identity: ServiceIdentity,
    limits: ServiceLimits,
    usage: ServiceUsage,
    lifetime: Lifetime,
    records: Records,
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
        "operations": {
            "limits": limits_document(limits),
            "usage": usage_document(usage),
            "peaks": asdict(records.peaks),
            "streams": asdict(records.streams),
            "refusals": refusals_document(records.refusals),
            "events": events_document(records.events),
            "health": health_document(records.health, records.readiness),
            "workloads": workloads_document(records.workloads),
        },
        "router": None if records.router is None else dict(records.router),
    }


def refusals_document(refusals: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return what was answered instead of what was asked for, by code, with what to do about each (CT-5.5)."""
    rows = sorted((ERROR_CODES[code] for code in refusals), key=lambda row: (row.status, row.code))
    return [
        {
            "code": row.code,
            "status": row.status,
            "total": refusals[row.code],
            "meaning": row.meaning,
            "remedy": row.remedy,
        }
        for row in rows
    ]


def events_document(state: RecorderState) -> dict[str, Any]:
    """Return the event store's state (CT-5.6)."""
    return {
        "epoch": state.epoch,
        "floor": state.floor,
        "newest": state.newest,
        "refused_total": state.refused_total,
        "dropped_total": state.dropped_total,
        "failing": state.failing,
        "warning": state.warning,
    }


def health_document(health: HealthReading, readiness: Readiness) -> dict[str, Any]:
    """Return health in short (CT-5.7); the dependencies have resources of their own (HL-5.3)."""
    return {
        "readiness": {
            "status": readiness.status,
            **named("failing", readiness.failing),
            **named("warnings", readiness.warnings),
        },
        "started": health.snapshot.started,
        "dependencies": len(health.snapshot.records),
        "ready_transitions_total": health.snapshot.transitions_total,
        "watchdog": {
            "budget_seconds": health.budget,
            "overdue": list(health.overdue),
            "components": [
                {"name": name, "silence_seconds": round(value, 3)} for name, value in health.silences.items()
            ],
            "liveness_failures_total": health.liveness.failures_total,
        },
        "slots_held": health.slots_held,
    }


def workloads_document(known: WorkloadReading) -> dict[str, Any]:
    """Return workloads in short (CT-5.8); the modules have resources of their own (AR-7.2)."""
    return short_document(known.snapshot, known.now, known.lease_fault)


def utc_text(instant: datetime) -> str:
    """Return an aware UTC instant as RFC 3339 with milliseconds and ``Z``."""
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
