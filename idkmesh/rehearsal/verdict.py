"""Whether the contract held in a rehearsal: one small check a rule, and worst wins (HL-8.7). Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from idkmesh.health.model import MATRIX_VARIABLE
from idkmesh.rehearsal.bounds import ALLOWANCE_SECONDS, soonest_restart
from idkmesh.rehearsal.faults import How
from idkmesh.rehearsal.measure import measured, restarts
from idkmesh.rehearsal.reroute import variable
from idkmesh.rehearsal.timeline import What, out_of_rotation, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.rehearsal.measure import Measured, Record, Restart
    from idkmesh.rehearsal.plan import Plan


class Verdict(enum.Enum):
    """The answer; the value is its word in the document."""

    HELD = "held"
    NOT_HELD = "not_held"
    COULD_NOT_TELL = "could_not_tell"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that asks."""
        return {"held": 0, "not_held": 1, "could_not_tell": 3}[self.value]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: whether it held, None where that could not be told, and what was seen."""

    rule: str
    held: bool | None
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All that is judged of a rehearsal."""

    verdict: Verdict
    checks: tuple[Check, ...]
    restarts: tuple[Restart, ...]
    measured: tuple[Measured, ...]
    out_of_rotation: float


def judge(plan: Plan, record: Record) -> Judgement:
    """Return what a rehearsal has shown."""
    restarted = restarts(plan, record)
    faults = measured(plan, record)
    if _never_answered(plan, record, restarted):
        checks = [Check("target-answers", None, "startup has never succeeded, and no fault of this rehearsal is why")]
        verdict = Verdict.COULD_NOT_TELL
    else:
        checks = [_outage_check(restarted), _restart_check(restarted)]
        unreached = _unreached(record, faults)
        checks += [_reached_check(name) for name in unreached]
        for fault in faults:
            if fault.happened.fault.name not in unreached:
                checks += _fault_checks(plan, record, fault)
        checks += _expectation_checks(plan, record, restarted, unreached)
        verdict = Verdict.COULD_NOT_TELL if unreached else Verdict.HELD
        if any(check.held is False for check in checks):
            verdict = Verdict.NOT_HELD
    return Judgement(
        verdict=verdict,
        checks=tuple(checks),
        restarts=restarted,
        measured=faults,
        out_of_rotation=out_of_rotation(record.entries, record.end),
    )


def _never_answered(plan: Plan, record: Record, restarted: tuple[Restart, ...]) -> bool:
    if any(entry.what is What.STARTED for entry in record.entries):
        return False
    # A dependency that is down, or a wedge that startup is to mend, is a reason that can be judged.
    faulty = any(happened.fault.how is not How.ROLL for happened in record.faults)
    return not faulty or plan.from_rotation or any(restart.cause == "exit" for restart in restarted)


def _unreached(record: Record, faults: tuple[Measured, ...]) -> list[str]:
    """Return the dependencies that were failed before nobody: the service goes past their proxies.

    A refused connect cannot be counted. A service that was never in rotation may have met nothing else, and one that
    noticed has; neither is told of here.
    """
    if not any(entry.what is What.ENTERED for entry in record.entries):
        return []
    failed = {fault.happened.fault.name for fault in faults} & record.silent
    return sorted(failed - {fault.happened.fault.name for fault in faults if fault.noticed is not None})


def _reached_check(name: str) -> Check:
    said = f"nothing came through the proxy of {name}: does the service read {MATRIX_VARIABLE} or {variable(name)}?"
    return Check("reached", None, said)


def _outage_check(restarted: tuple[Restart, ...]) -> Check:
    bad = [restart for restart in restarted if restart.in_outage]
    said = f"{_count(len(bad), 'restart')} while dependencies alone were down" + (f": {_told(bad)}" if bad else "")
    return Check("no-restart-in-dependency-outage", not bad, said)


def _restart_check(restarted: tuple[Restart, ...]) -> Check:
    bad = [restart for restart in restarted if not restart.wedged and not restart.in_outage]
    said = _count(len(bad), "other restart") + (f": {_told(bad)}" if bad else "")
    return Check("no-restart-without-cause", not bad, said)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _told(bad: list[Restart]) -> str:
    return ", ".join(f"at {restart.at:.1f} s ({restart.why})" for restart in bad)


def _fault_checks(plan: Plan, record: Record, fault: Measured) -> Iterator[Check]:
    about = f"{fault.happened.fault} at {fault.happened.began:.1f} s"
    if fault.hidden.notice:
        # Who comes later in a row finds the instance out of rotation already.
        yield Check("noticed", None, f"{about}: another fault is too near to tell")
    else:
        yield _notice_check(plan, record, fault, about)
    if fault.hidden.recovery:
        yield Check("recovered", None, f"{about}: another fault is too near to tell")
    elif fault.noticed is not None:
        yield _recovery_check(record, fault, about)
    if (
        fault.dependency is not None
        and not fault.dependency.critical
        and not (fault.hidden.notice or fault.hidden.recovery)
    ):
        yield _stays_check(record, fault, about)


def _notice_check(plan: Plan, record: Record, fault: Measured, about: str) -> Check:
    assert fault.bounds is not None  # noqa: S101  each that is measured has its bounds
    bound, end = fault.bounds.notice, fault.happened.ended
    lasted = (record.end if end is None else end) - fault.happened.began
    if bound is None:
        return Check("noticed", None, f"{about}: its probe cannot see that")
    late = bound + ALLOWANCE_SECONDS
    if fault.noticed is not None:
        soonest = 0.0 if fault.dependency is not None else soonest_restart(plan.settings.figures.liveness)
        said = f"{about}: noticed after {fault.noticed:.2f} s, at most {bound:.2f} s"
        return Check("noticed", fault.noticed <= late and (fault.noticed >= soonest or fault.dependency is None), said)
    if lasted < late:
        return Check("noticed", None, f"{about}: not noticed in {lasted:.2f} s, which may take {bound:.2f} s")
    return Check("noticed", held=False, said=f"{about}: not noticed in {lasted:.2f} s, it may take {bound:.2f} s")


def _stays_check(record: Record, fault: Measured, about: str) -> Check:
    end = record.end if fault.happened.ended is None else fault.happened.ended
    left = [
        entry.at
        for entry in record.entries
        if entry.what is What.LEFT and fault.happened.began <= entry.at <= min(end + ALLOWANCE_SECONDS, record.end)
    ]
    said = f"{about}: noncritical, {'out of rotation at ' + format(left[0], '.1f') + ' s' if left else 'in rotation'}"
    return Check("noncritical-stays-in-rotation", not left, said)


def _recovery_check(record: Record, fault: Measured, about: str) -> Check:
    assert fault.bounds is not None  # noqa: S101  as above
    bounds, ended = fault.bounds, fault.happened.ended
    since = fault.happened.began + fault.noticed if fault.dependency is None and fault.noticed is not None else ended
    bound = bounds.recover
    if fault.recovered is not None:
        early = fault.recovered < bounds.earliest - ALLOWANCE_SECONDS
        least = f", at least {bounds.earliest:.2f} s" if bounds.earliest else ""
        said = f"{about}: well again after {fault.recovered:.2f} s, at most {bound:.2f} s{least}"
        return Check("recovered", fault.recovered <= bound + ALLOWANCE_SECONDS and not early, said)
    if since is None or record.end - since < bound + ALLOWANCE_SECONDS:
        return Check("recovered", None, f"{about}: the rehearsal ended before it had to be well again")
    return Check("recovered", held=False, said=f"{about}: not well again, it may take {bound:.2f} s")


def _expectation_checks(
    plan: Plan, record: Record, restarted: tuple[Restart, ...], unreached: list[str]
) -> Iterator[Check]:
    expected = plan.expectation
    if expected is not None:
        causes = {restart.cause for restart in restarted} - {expected.cause}
        right = len(restarted) == expected.restarts and not causes
        said = f"{_count(len(restarted), 'restart')}, {expected.restarts} expected"
        yield Check("expected-restarts", right, said + (f", of {expected.cause}" if expected.restarts else ""))
        spans = served(record.entries, record.end)
        if expected.leaves_rotation is not None:
            left = any(span.state == "out" for span in spans)
            words = "left the rotation" if left else "stayed in rotation"
            as_expected = left is expected.leaves_rotation
            yield Check("expected-rotation", None if unreached and not as_expected else as_expected, words)
        yield Check("in-rotation-at-end", bool(spans) and spans[-1].state == "in", "in rotation when all was over")
    rolls = [happened for happened in record.faults if happened.fault.how is How.ROLL]
    if rolls or (expected is not None and expected.always_served):
        gap = out_of_rotation(record.entries, record.end)
        yield Check("always-served", gap == 0, f"{gap:.2f} s without an instance in rotation")
        over = sum(happened.ended is not None for happened in rolls)
        yield Check("rolled", over == len(rolls), f"{over} of {len(rolls)} updates were completed")
