"""What is known of dependencies, as the documents of HL-5.3. Pure: plain data, with a published schema each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from idkmesh.events.envelope import time_text
from idkmesh.health.model import KINDS, Outcome, Verdict
from idkmesh.health.readiness import statuses_without
from idkmesh.health.state import age_at, verdict_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.health.model import ProbeSpec
    from idkmesh.health.readiness import Readiness, Status
    from idkmesh.health.reloads import MatrixReading
    from idkmesh.health.snapshot import HealthSnapshot, Record

SCHEMA_VERSION: Final = "0.1"

_KIND_NAMES: Final = {kind: name for name, kind in KINDS.items()}


def dependency_document(record: Record, now: float, readiness_without: Status) -> dict[str, Any]:
    """Return the document of one dependency (``dependency.json``) at ``now``, in monotonic seconds.

    ``readiness_without`` is what readiness would be if it were not in the matrix.
    """
    dependency, state = record.dependency, record.state
    return {
        "kind": "idkmesh-dependency",
        "schema_version": SCHEMA_VERSION,
        "name": dependency.name,
        "critical": dependency.critical,
        "probe": kind_of(dependency.probe),
        "verdict": verdict_at(state, now).value,
        "reason": unknown_because(record, now),
        "detail": None if state.last is None else state.last.detail,
        "age_seconds": _seconds(age_at(state, now)),
        "since": time_text(record.since),
        "successes": state.successes,
        "failures": state.failures,
        "success_threshold": dependency.success_threshold,
        "failure_threshold": dependency.failure_threshold,
        "timeout_ms": dependency.timeout_ms,
        "interval_ms": dependency.interval_ms,
        "cache_ms": dependency.cache_ms,
        "refresh": dependency.refresh.value,
        "running": record.running,
        "stuck": record.stuck,
        "next_run_seconds": None if record.due is None else _seconds(max(0.0, record.due - now)),
        "readiness_without": readiness_without,
        "results": record.history.documents(),
    }


def one_dependency_document(snapshot: HealthSnapshot, name: str, now: float) -> dict[str, Any] | None:
    """Return the document of the dependency of that name, None where the matrix has none."""
    record = snapshot.records.get(name)
    if record is None:
        return None
    return dependency_document(record, now, statuses_without(snapshot.readiness_at(now), (name,))[name])


def dependency_list(
    snapshot: HealthSnapshot, matrix: MatrixReading, now: float
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the document of all dependencies without its ``items``, and those, in the matrix's order.

    An item is made when it is asked for: a thousand with their results are too much to be kept at once. The list is one
    page, however long: a matrix is a file that somebody wrote.
    """
    readiness = snapshot.readiness_at(now)
    without = statuses_without(readiness, snapshot.records)
    head = {
        "kind": "idkmesh-list",
        "schema_version": SCHEMA_VERSION,
        "readiness": readiness_document(readiness),
        "matrix": matrix.document(),
        "page": {"next_cursor": None, "limit": len(snapshot.records)},
    }
    return head, (dependency_document(record, now, without[name]) for name, record in snapshot.records.items())


def readiness_document(readiness: Readiness) -> dict[str, Any]:
    """Return the members of a readiness that every answer has (CT-4.3)."""
    return {
        "status": readiness.status,
        "failing": list(readiness.failing),
        "warnings": list(readiness.warnings),
        "pending": list(readiness.pending),
    }


def unknown_because(record: Record, now: float) -> str | None:
    """Return why a verdict is unknown, None where it is known."""
    state = record.state
    if verdict_at(state, now) is not Verdict.UNKNOWN:
        return None
    if state.last is None:
        return "not_run"
    if record.stuck:
        return "stuck"
    if now >= state.expires:
        return "stale"
    return "could_not_run" if state.last.outcome is Outcome.COULD_NOT_RUN else "below_threshold"


def kind_of(spec: ProbeSpec) -> str:
    """Return the kind of a probe, as the file calls it."""
    return _KIND_NAMES[type(spec)]


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
