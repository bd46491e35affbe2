"""Whether the instance may get traffic, from what is known of its dependencies (HL-1.2 to HL-1.4, HL-5.2). Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from idkmesh.health.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Status = Literal["starting", "ready", "not_ready"]
"""The words of HL-5.2."""

WATCHDOG: Final = "process_watchdog"
"""What fails in readiness while a component of the process is overdue: who is not alive is not ready (HL-1.2).

No dependency can have this name: theirs take no underscore.
"""


class Known(NamedTuple):
    """What readiness needs of a dependency. ``ran`` says whether its probe has run once.

    ``awaited`` says that it has come with another matrix and its first result is still in time (HL-3.5).
    """

    name: str
    critical: bool
    verdict: Verdict
    ran: bool
    awaited: bool = False


class Grade(enum.IntEnum):
    """What a dependency means for the instance, the worse the higher."""

    READY = 0
    WARNING = 1
    NOT_READY = 2


@dataclass(frozen=True, slots=True)
class Readiness:
    """The answer: ``failing`` names critical dependencies that are not ok, ``warnings`` noncritical ones (HL-5.1).

    ``pending`` names those whose probe has not run yet and that have no say in it for that: all of them while they keep
    the instance starting, afterwards those that have come with another matrix (HL-3.5). Names are in the order of the
    matrix.
    """

    status: Status
    failing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


def is_ok(verdict: Verdict) -> bool:
    """Unknown is not ok (HL-1.4)."""
    return verdict is Verdict.OK


def grade(known: Known) -> Grade:
    """Return what a dependency means for the instance: nothing while it is ok, or its first result is awaited."""
    if is_ok(known.verdict) or known.awaited:
        return Grade.READY
    return Grade.NOT_READY if known.critical else Grade.WARNING


def worst(grades: Iterable[Grade]) -> Grade:
    """Worst wins, and nothing to judge is well."""
    return max(grades, default=Grade.READY)


def status_of(overall: Grade, *, started: bool) -> Status:
    """Return the word for the worst grade. A warning takes no traffic away."""
    if not started:
        return "starting"
    return "not_ready" if overall is Grade.NOT_READY else "ready"


def has_started(known: Iterable[Known]) -> bool:
    """Say whether each probe has run once, whatever came of it (HL-1.3). Who asks keeps a yes: startup stays so."""
    return all(each.ran for each in known)


def judge(known: Iterable[Known], *, started: bool) -> Readiness:
    """Return the readiness. ``started`` is what startup was before: once it has succeeded it stays so (HL-1.3)."""
    rows = tuple(known)
    started = started or has_started(rows)
    grades = {each.name: grade(each) for each in rows}
    return Readiness(
        status_of(worst(grades.values()), started=started),
        failing=tuple(name for name, value in grades.items() if value is Grade.NOT_READY),
        warnings=tuple(name for name, value in grades.items() if value is Grade.WARNING),
        pending=tuple(each.name for each in rows if each.awaited or not (started or each.ran)),
    )


def statuses_without(readiness: Readiness, names: Iterable[str]) -> Mapping[str, Status]:
    """Return, for each name, what the status would be if that dependency were not in the matrix (HL-5.3)."""
    failing = frozenset(readiness.failing)
    pending = frozenset(readiness.pending if readiness.status == "starting" else ())
    return {name: _status_without(name, failing, pending) for name in names}


def _status_without(name: str, failing: frozenset[str], pending: frozenset[str]) -> Status:
    # Counted, not subtracted: a list of a thousand asks this a thousand times.
    others_fail = len(failing) > (name in failing)
    others_wait = len(pending) > (name in pending)
    return status_of(Grade.NOT_READY if others_fail else Grade.READY, started=not others_wait)


def with_own(dependencies: Readiness, failing: tuple[str, ...], warnings: tuple[str, ...] = ()) -> Readiness:
    """Return what the instance says, from what its dependencies come to and what fails or is to be warned of beside."""
    return Readiness(
        "not_ready" if failing and dependencies.status == "ready" else dependencies.status,
        failing=(*failing, *dependencies.failing),
        warnings=(*warnings, *dependencies.warnings),
        pending=dependencies.pending,
    )
