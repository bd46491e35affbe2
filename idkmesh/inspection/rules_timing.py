"""Rules on the figures of a Kubernetes container's probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.inspection.findings import Met, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.inspection.kubernetes import Container

PAUSE_SECONDS: Final = 10
"""A collection of garbage, a compaction or a throttled processor holds a healthy process up for less than this."""

FLAPPING_PERIOD: Final = 10
LONG_DELAY: Final = 60

SUCCESS_THRESHOLD: Final = Rule(
    id="PB110",
    severity=Severity.ERROR,
    title="successThreshold is not 1 on liveness or startup",
    why="Kubernetes refuses the object.",
    mend="Leave successThreshold out there; it is for readiness.",
)
TIMEOUT_PERIOD: Final = Rule(
    id="PB111",
    severity=Severity.WARNING,
    title="The timeout is not below the period",
    why="A run that hangs delays the next one, so that a failure is noticed later than period x failureThreshold says.",
    mend="Set timeoutSeconds below periodSeconds.",
)
READINESS_FLAPS: Final = Rule(
    id="PB112",
    severity=Severity.WARNING,
    title="Readiness flaps",
    why="One slow answer takes the instance out of traffic and the next one brings it back. Under load that moves "
    "through all instances and shifts the load to the others.",
    mend="Set failureThreshold to 2 or 3, or successThreshold to 2.",
)
LIVENESS_STRICTER: Final = Rule(
    id="PB113",
    severity=Severity.WARNING,
    title="Liveness is stricter than readiness",
    why="A busy instance is restarted before it has been taken out of traffic, which is what would have helped it.",
    mend="Give liveness a larger budget (periodSeconds x failureThreshold) and no shorter timeout than readiness.",
)
LIVENESS_HASTY: Final = Rule(
    id="PB114",
    severity=Severity.WARNING,
    title="Liveness gives up within a pause",
    why="A garbage collection, a compaction or a throttled processor stops a healthy process for seconds. Between the "
    "first failure and the last that counts lie failureThreshold - 1 periods: a single failure is enough with a "
    f"threshold of 1. Within {PAUSE_SECONDS} s that is a restart for a pause, and it costs more than the pause.",
    mend=f"Let periodSeconds x (failureThreshold - 1) + timeoutSeconds be {PAUSE_SECONDS} s at the least.",
)
SLOW_START: Final = Rule(
    id="PB115",
    severity=Severity.WARNING,
    title="A slow starter has no startup probe",
    why="Liveness begins before the start is over and restarts a process that was only starting, which starts again.",
    mend="Add a startupProbe with a budget above the longest start; it holds liveness back until it has succeeded.",
)
STARTUP_SHORT: Final = Rule(
    id="PB116",
    severity=Severity.WARNING,
    title="The startup budget is below the known start time",
    why="A start that takes its usual time is killed when periodSeconds x failureThreshold of the startup probe ends.",
    mend="Raise failureThreshold of the startup probe; a large one costs nothing once it has succeeded.",
)
LONG_INITIAL_DELAY: Final = Rule(
    id="PB117",
    severity=Severity.NOTE,
    title="A long initial delay stands in for a startup probe",
    why="A fixed delay is too short for a slow start and too long for every other. Until it ends liveness notices no "
    "process that hangs, and readiness brings no traffic.",
    mend="Add a startupProbe with a budget above the longest start, and drop initialDelaySeconds.",
)


def _success_threshold(container: Container) -> Iterator[Met]:
    for probe in container.probes:
        if probe.which != "readiness" and probe.successes != 1:
            yield Met(probe.where("successThreshold"), f"It is {probe.successes} on the {probe.which} probe.")


def _timeout_period(container: Container) -> Iterator[Met]:
    for probe in container.probes:
        if probe.timeout >= probe.period and probe.timeout > 1:
            reason = f"The {probe.which} probe may take {probe.timeout} s and runs every {probe.period} s."
            yield Met(probe.where("timeoutSeconds"), reason)


def _readiness_flaps(container: Container) -> Iterator[Met]:
    probe = container.probe("readiness")
    if probe is not None and probe.failures == probe.successes == 1 and probe.period <= FLAPPING_PERIOD:
        reason = f"One failure takes it out, one success {probe.period} s later brings it back."
        yield Met(probe.where("failureThreshold"), reason)


def _liveness_stricter(container: Container) -> Iterator[Met]:
    liveness, readiness = container.probe("liveness"), container.probe("readiness")
    if liveness is None or readiness is None:
        return
    if liveness.budget < readiness.budget:
        reason = f"Liveness acts after {liveness.budget} s of failing, readiness after {readiness.budget} s."
        yield Met(liveness.where(), reason)
    elif liveness.budget == readiness.budget and liveness.timeout < readiness.timeout:
        reason = f"Liveness waits {liveness.timeout} s for an answer, readiness {readiness.timeout} s."
        yield Met(liveness.where("timeoutSeconds"), reason)


def _liveness_hasty(container: Container) -> Iterator[Met]:
    probe = container.probe("liveness")
    if probe is not None and probe.least < PAUSE_SECONDS:
        runs = "one run that fails restarts" if probe.failures == 1 else f"{probe.failures} runs that fail restart"
        yield Met(probe.where(), f"A pause of {probe.least} s is enough: {runs} it.")


def _slow_start(container: Container) -> Iterator[Met]:
    probe, starter = container.probe("liveness"), container.starter
    if probe is None or starter is None or container.probe("startup") is not None:
        return
    allowed = probe.delay + probe.budget
    if allowed < starter.seconds:
        when = f"{allowed - probe.period} to {allowed} s after its start"
        reason = f"Liveness restarts it {when}; {starter.name} may need about {starter.seconds} s."
        yield Met(probe.where(), reason)


def _startup_short(container: Container) -> Iterator[Met]:
    probe, starter = container.probe("startup"), container.starter
    if probe is not None and starter is not None and probe.delay + probe.budget < starter.seconds:
        reason = f"It ends after {probe.delay + probe.budget} s; {starter.name} may need about {starter.seconds} s."
        yield Met(probe.where(), reason)


def _long_initial_delay(container: Container) -> Iterator[Met]:
    if container.probe("startup") is not None:
        return
    for probe in container.probes:
        if probe.delay >= LONG_DELAY:
            yield Met(probe.where("initialDelaySeconds"), f"The {probe.which} probe waits {probe.delay} s.")


CONTAINER_CHECKS: Final[tuple[tuple[Rule, Callable[[Container], Iterator[Met]]], ...]] = (
    (SUCCESS_THRESHOLD, _success_threshold),
    (TIMEOUT_PERIOD, _timeout_period),
    (READINESS_FLAPS, _readiness_flaps),
    (LIVENESS_STRICTER, _liveness_stricter),
    (LIVENESS_HASTY, _liveness_hasty),
    (SLOW_START, _slow_start),
    (STARTUP_SHORT, _startup_short),
    (LONG_INITIAL_DELAY, _long_initial_delay),
)
