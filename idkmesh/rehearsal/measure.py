"""What came of each fault, and which restarts there were, from a timeline (HL-8.5). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from idkmesh.rehearsal.bounds import ALLOWANCE_SECONDS, Bounds, dependency_bounds, patience, wedge_bounds
from idkmesh.rehearsal.faults import Fault, How
from idkmesh.rehearsal.timeline import What

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from idkmesh.health.model import Dependency
    from idkmesh.rehearsal.plan import Plan
    from idkmesh.rehearsal.timeline import Entry


@dataclass(frozen=True, slots=True)
class Happened:
    """A fault as it was done. ``ended`` is None where the rehearsal ended before."""

    fault: Fault
    began: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """What a rehearsal leaves: everything that happened, the faults among it, and when it was over.

    ``silent`` names the dependencies whose proxy had not one connection.
    """

    entries: tuple[Entry, ...]
    faults: tuple[Happened, ...]
    end: float
    silent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart. ``cause`` is ``startup``, ``liveness``, or ``exit`` where the process ended by itself."""

    at: float
    subject: str
    cause: str
    why: str
    in_outage: bool
    wedged: bool


@dataclass(frozen=True, slots=True)
class Hidden:
    """What cannot be told of a fault because another is near: when it was noticed, or when it was over."""

    notice: bool
    recovery: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A fault beside its bounds, all in seconds. ``noticed`` counts from its begin, ``recovered`` from its end.

    For a dependency that is noticed when the instance leaves the rotation, or, where it is noncritical, when a warning
    names it; for a stopped service when the restart is decided, and its recovery counts from there. ``hidden`` says
    what another fault makes impossible to tell.
    """

    happened: Happened
    dependency: Dependency | None
    bounds: Bounds | None
    noticed: float | None
    recovered: float | None
    hidden: Hidden


def restarts(plan: Plan, record: Record) -> tuple[Restart, ...]:
    """Return every restart of the rehearsal, in order."""
    found: list[Restart] = []
    ending: set[str] = set()
    for entry in record.entries:
        if entry.at >= record.end:
            break
        if entry.what is What.TERMINATED:
            ending.add(entry.subject)
            if entry.names:
                found.append(_restart(plan, record, entry, entry.names[0]))
        elif entry.what is What.EXITED and entry.subject not in ending:
            found.append(_restart(plan, record, entry, "exit"))
        elif entry.what is What.LAUNCHED:
            ending.discard(entry.subject)
    return tuple(found)


def _restart(plan: Plan, record: Record, entry: Entry, cause: str) -> Restart:
    figures = plan.settings.figures
    # A failure that began at the end of a fault has acted within the patience of the probe.
    after = max(patience(figures.liveness), patience(figures.startup)) + ALLOWANCE_SECONDS

    def during(hows: set[How]) -> bool:
        return any(
            happened.fault.how in hows
            and happened.began <= entry.at <= (record.end if happened.ended is None else happened.ended) + after
            for happened in record.faults
        )

    wedged = during({How.WEDGE})
    outage = during(set(How) - {How.WEDGE, How.ROLL})
    return Restart(entry.at, entry.subject, cause, entry.detail, in_outage=outage and not wedged, wedged=wedged)


def measured(plan: Plan, record: Record) -> tuple[Measured, ...]:
    """Return what came of each fault, in order of its begin; not of a rolling update, which is no fault."""
    known = {dependency.name: dependency for dependency in plan.matrix.dependencies}
    found: list[Measured] = []
    for happened in record.faults:
        if happened.fault.how is How.ROLL:
            continue
        dependency = known.get(happened.fault.name)
        bounds = _bounds(plan, record, happened, dependency)
        instants = _wedge(record, happened) if dependency is None else _outage(record, happened, dependency)
        hidden = _hidden(plan, record, happened, known)
        found.append(_measured(happened, dependency, bounds, instants, hidden))
    return tuple(found)


def _bounds(plan: Plan, record: Record, happened: Happened, dependency: Dependency | None) -> Bounds:
    settings = plan.settings
    if dependency is not None:
        return dependency_bounds(dependency, happened.fault, settings.figures)
    starting = not any(entry.what is What.STARTED and entry.at <= happened.began for entry in record.entries)
    return wedge_bounds(settings.figures, grace=settings.grace, backoff=settings.backoff, starting=starting)


def _outage(record: Record, happened: Happened, dependency: Dependency) -> tuple[float | None, float | None]:
    """Return when a dependency's fault first showed, and when it did no more."""
    if dependency.critical:
        showing = [(entry.at, entry.what is What.LEFT) for entry in _of(record, What.ENTERED, What.LEFT)]
    else:
        showing = [(entry.at, dependency.name in entry.names) for entry in _of(record, What.WARNED)]
    noticed = _first(showing, happened.began, shown=True)
    if happened.ended is None or noticed is None:
        return noticed, None
    return noticed, _first(showing, max(happened.ended, noticed), shown=False)


def _wedge(record: Record, happened: Happened) -> tuple[float | None, float | None]:
    """Return when the restart of a stopped service was decided, and when it was in rotation after that."""
    decided = [entry.at for entry in _of(record, What.TERMINATED) if entry.names and entry.at >= happened.began]
    if not decided:
        return None, None
    entered = (entry.at for entry in _of(record, What.ENTERED) if entry.at > decided[0])
    return decided[0], next(entered, None)


def _measured(
    happened: Happened,
    dependency: Dependency | None,
    bounds: Bounds,
    instants: tuple[float | None, float | None],
    hidden: Hidden,
) -> Measured:
    noticed, recovered = instants
    since = happened.ended if dependency is not None else noticed
    return Measured(
        happened=happened,
        dependency=dependency,
        bounds=bounds,
        noticed=None if noticed is None else noticed - happened.began,
        recovered=None if recovered is None or since is None else recovered - since,
        hidden=hidden,
    )


def _hidden(plan: Plan, record: Record, happened: Happened, known: Mapping[str, Dependency]) -> Hidden:
    """Return what faults hide of this one that take the instance out of rotation, or are of the same dependency."""

    def span(each: Happened) -> tuple[float, float, float]:
        ended = record.end if each.ended is None else each.ended
        if each.fault.how is How.ROLL:
            return each.began, ended, ended
        forgotten = _bounds(plan, record, each, known.get(each.fault.name)).recover + ALLOWANCE_SECONDS
        return each.began, ended, ended + forgotten

    began, ended, forgotten = span(happened)
    spans = [
        span(other)
        for other in record.faults
        if other is not happened and (_tells(other, known) or other.fault.name == happened.fault.name)
    ]
    return Hidden(
        notice=any(other[0] < ended and began < other[2] for other in spans),
        # One that was over before hides it only if that may be forgotten later.
        recovery=any(other[0] < forgotten and (ended < other[1] or forgotten < other[2]) for other in spans),
    )


def _tells(happened: Happened, known: Mapping[str, Dependency]) -> bool:
    return not happened.fault.name or known[happened.fault.name].critical


def _of(record: Record, *whats: What) -> Iterable[Entry]:
    return (entry for entry in record.entries if entry.what in whats and entry.at < record.end)


def _first(showing: Sequence[tuple[float, bool]], since: float, *, shown: bool) -> float | None:
    """Return when something first showed, or not, at ``since`` or after it; what held already counts from ``since``."""
    state = False
    for at, shows in showing:
        if at >= since:
            if state is shown:
                return since
            if shows is shown:
                return at
        state = shows
    return since if state is shown and showing else None
