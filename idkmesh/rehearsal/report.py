"""What a rehearsal has shown, for people and as a document of the kind ``idkmesh-rehearsal`` (HL-8.6). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from idkmesh.rehearsal.bounds import ALLOWANCE_SECONDS
from idkmesh.rehearsal.orchestrator import BACKOFF_CAP, KUBELET_BACKOFF_SECONDS, KUBELET_GRACE_SECONDS
from idkmesh.rehearsal.timeline import drawn, tracks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.rehearsal.measure import Measured, Record, Restart
    from idkmesh.rehearsal.orchestrator import Settings
    from idkmesh.rehearsal.plan import Plan
    from idkmesh.rehearsal.verdict import Check, Judgement

_MARKS = {True: "held", False: "NOT HELD", None: "not told"}


def text_report(plan: Plan, record: Record, judgement: Judgement, *, ascii_only: bool) -> Iterator[str]:
    """Give the lines that follow the timeline: strips, profile, checks, verdict."""
    yield ""
    yield from drawn(tracks(record.entries, record.end), record.end, ascii_only=ascii_only)
    yield ""
    yield profile_line(plan.settings)
    yield f"Each bound is what the matrix implies; {ALLOWANCE_SECONDS:g} s more are allowed for the machine."
    for check in judgement.checks:
        yield f"  {_MARKS[check.held]:<8} {check.rule}: {check.said}"
    count = len(judgement.restarts)
    restarts = f"{count} restart" if count == 1 else f"{count} restarts"
    yield f"{restarts}, {judgement.out_of_rotation:.2f} s out of rotation in {record.end:.1f} s"
    yield f"verdict: {judgement.verdict.value.replace('_', ' ')}"


def profile_line(settings: Settings) -> str:
    """Return a line on what is not the matrix's to say, beside what a kubelet does."""
    cap = BACKOFF_CAP
    return (
        f"Profile: {settings.grace:g} s between TERM and KILL (a pod's default: {KUBELET_GRACE_SECONDS:g} s); first "
        f"restart at once, then back-off from {settings.backoff:g} s doubling to {cap * settings.backoff:g} s (a "
        f"kubelet's: {KUBELET_BACKOFF_SECONDS:g} s to {cap * KUBELET_BACKOFF_SECONDS:g} s)."
    )


def json_report(plan: Plan, record: Record, judgement: Judgement) -> dict[str, Any]:
    """Return the document. It has neither the command nor its output: credentials may stand in both."""
    return {
        "kind": "idkmesh-rehearsal",
        "schema_version": "0.1",
        "scenario": plan.scenario,
        "target": plan.target,
        "seconds": _rounded(record.end),
        "profile": _profile(plan),
        "verdict": judgement.verdict.value,
        "exit_code": judgement.verdict.exit_code,
        "out_of_rotation_seconds": _rounded(judgement.out_of_rotation),
        "restarts": [_restart(restart) for restart in judgement.restarts],
        "faults": [_fault(fault) for fault in judgement.measured],
        "checks": [_check(check) for check in judgement.checks],
        "timeline": [
            {
                "at_seconds": _rounded(entry.at),
                "what": entry.what.value,
                "subject": entry.subject,
                "detail": entry.detail,
            }
            for entry in record.entries
        ],
        "tracks": {
            name: [[_rounded(span.begin), _rounded(span.end), span.state] for span in spans]
            for name, spans in tracks(record.entries, record.end).items()
        },
    }


def _fault(fault: Measured) -> dict[str, Any]:
    happened, bounds = fault.happened, fault.bounds
    return {
        "dependency": None if fault.dependency is None else fault.dependency.name,
        "how": happened.fault.how.value,
        "critical": None if fault.dependency is None else fault.dependency.critical,
        "began_seconds": _rounded(happened.began),
        "ended_seconds": _rounded(happened.ended),
        "noticed_seconds": _rounded(fault.noticed),
        "notice_bound_seconds": None if bounds is None else _rounded(bounds.notice),
        "recovered_seconds": _rounded(fault.recovered),
        "recovery_bound_seconds": None if bounds is None else _rounded(bounds.recover),
        "notice_judged": not fault.hidden.notice,
        "recovery_judged": not fault.hidden.recovery,
    }


def _profile(plan: Plan) -> dict[str, Any]:
    settings = plan.settings
    return {
        "grace_seconds": settings.grace,
        "backoff_seconds": settings.backoff,
        "backoff_longest_seconds": BACKOFF_CAP * settings.backoff,
        "allowance_seconds": ALLOWANCE_SECONDS,
    }


def _restart(restart: Restart) -> dict[str, Any]:
    return {
        "at_seconds": _rounded(restart.at),
        "subject": restart.subject,
        "cause": restart.cause,
        "detail": restart.why,
        "dependency_only": restart.in_outage,
    }


def _check(check: Check) -> dict[str, Any]:
    return {"rule": check.rule, "held": check.held, "said": check.said}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
