"""Rules on health checks and the order of starting in Compose files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.inspection import drains
from idkmesh.inspection.clients import named_dependency
from idkmesh.inspection.compose import WITHOUT_HEALTHCHECK
from idkmesh.inspection.findings import Met, Rule, Severity, clipped
from idkmesh.inspection.public import shown_program
from idkmesh.inspection.starters import image_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.inspection.compose import ComposeService, Project
    from idkmesh.inspection.findings import Place

NEVER_HEALTHY: Final = Rule(
    id="PB201",
    severity=Severity.ERROR,
    title="Somebody waits until a service is healthy that has no health check",
    why="Docker never calls it healthy, and Compose refuses to start what waits for it.",
    mend="Give the service a healthcheck, or wait for service_started.",
)
PERHAPS_NEVER_HEALTHY: Final = Rule(
    id="PB202",
    severity=Severity.NOTE,
    title="Waiting until a service is healthy rests on the check of its image",
    why="The file declares no healthcheck. If the image declares none either, Compose refuses to start what waits.",
    mend="Declare the healthcheck here, where one sees that it is needed.",
)
STARTED_IS_NOT_READY: Final = Rule(
    id="PB203",
    severity=Severity.WARNING,
    title="depends_on waits for the start, not until it is healthy",
    why="A container is started long before its program accepts a connection. What comes after it fails at its first "
    "query, or only sometimes.",
    mend="Wait with condition: service_healthy, and give the service a healthcheck if it has none.",
)
NO_CHECK: Final = Rule(
    id="PB204",
    severity=Severity.NOTE,
    title="A service that others depend on has no health check",
    why="Nobody can wait until it is ready, and docker ps shows a service that hangs as up.",
    mend="Add a healthcheck that asks the service itself.",
)
DISABLED: Final = Rule(
    id="PB205",
    severity=Severity.WARNING,
    title="The health check is switched off",
    why="The image's own check is given up, and nothing tells any more whether the service works.",
    mend="Replace the check by one that fits, instead of switching it off.",
)
SLOW_START: Final = Rule(
    id="PB206",
    severity=Severity.WARNING,
    title="A slow starter has too short a start_period",
    why="Failures during the start count, so the service is unhealthy before it is up, and what waits for it fails.",
    mend="Set start_period to the longest start; a success ends it early.",
)
TIMEOUT_INTERVAL: Final = Rule(
    id="PB207",
    severity=Severity.NOTE,
    title="The interval is shorter than the timeout",
    why="Docker starts the next run after the last has ended. A check that hangs is noticed after timeout x retries, "
    "much later than the interval promises.",
    mend="Set timeout below interval.",
)
AUTOHEAL: Final = Rule(
    id="PB208",
    severity=Severity.WARNING,
    title="What restarts unhealthy containers acts on a check that is more than liveness",
    why="Autoheal restarts what is unhealthy, so the check is a liveness probe. If it covers a dependency, or is what "
    "others wait for, an outage restarts a healthy process.",
    mend="Let the check ask the process alone, or drop the label.",
)
TEST_FORM: Final = Rule(
    id="PB209",
    severity=Severity.ERROR,
    title="The health check's test is no test",
    why="A list begins with CMD, CMD-SHELL or NONE and goes on with the command, or Docker refuses the container.",
    mend='Write test: ["CMD", "program", "argument"].',
)

UNKNOWN_KEY: Final = Rule(
    id="PB210",
    severity=Severity.ERROR,
    title="A key that no health check has",
    why="Compose refuses the file.",
    mend="Write one of test, interval, timeout, retries, start_period, start_interval and disable.",
)
NO_UNIT: Final = Rule(
    id="PB211",
    severity=Severity.ERROR,
    title="A duration without a unit",
    why="Compose refuses the file: a number alone is no duration.",
    mend="Write the unit: 10s, 500ms, 1m30s.",
)
OWN_DRAIN: Final = Rule(
    id="PB212",
    severity=Severity.WARNING,
    title="The process drains for longer than stop_grace_period",
    why="When the grace period ends, after 10 s unless it is set, the process is killed. What it is still answering is "
    "lost.",
    mend="Set stop_grace_period above the drain.",
)

_KEYS: Final = frozenset({"test", "interval", "timeout", "retries", "start_period", "start_interval", "disable"})
_DURATIONS: Final = ("interval", "timeout", "start_period", "start_interval")


def _never_healthy(service: ComposeService, project: Project) -> Iterator[Met]:
    for name, other, place in _healthy_waits(service, project):
        disabled = other.check is not None and other.check.disabled
        known = image_name(other.image) in WITHOUT_HEALTHCHECK and not other.from_elsewhere
        if disabled or (other.check is None and known):
            yield Met(place, f"{name} {'has its check switched off' if disabled else 'has no healthcheck'}.")


def _perhaps_never_healthy(service: ComposeService, project: Project) -> Iterator[Met]:
    for name, other, place in _healthy_waits(service, project):
        known = image_name(other.image) in WITHOUT_HEALTHCHECK and not other.from_elsewhere
        if not known and (other.check is None or not (other.check.disabled or other.check.node.at("test"))):
            yield Met(place, f"{name} declares no test here.")


def _healthy_waits(service: ComposeService, project: Project) -> Iterator[tuple[str, ComposeService, Place]]:
    for name, condition, place in service.depends_on:
        other = project.services.get(name)
        if condition == "service_healthy" and other is not None:
            yield clipped(name), other, place


def _started_is_not_ready(service: ComposeService, project: Project) -> Iterator[Met]:
    for name, condition, place in service.depends_on:
        other = project.services.get(name)
        if condition != "service_started" or other is None:
            continue
        if other.check is not None and not other.check.disabled:
            yield Met(place, f"{clipped(name)} has a healthcheck that is not waited for.")
        elif other.store is not None or other.starter is not None:
            told = other.store or (other.starter.name.strip(",") if other.starter is not None else "")
            yield Met(place, f"{clipped(name)} is {told}, which is not ready when it is started.")


def _no_check(service: ComposeService, project: Project) -> Iterator[Met]:
    waited = project.waited_for.get(service.name, frozenset())
    if service.check is None and waited == {"service_started"}:
        yield Met(service.key.place, "Others start after it.")


def _disabled(service: ComposeService, _: Project) -> Iterator[Met]:
    if service.check is not None and service.check.disabled:
        yield Met(service.check.where(), "It declares a check that is none.")


def _slow_start(service: ComposeService, _: Project) -> Iterator[Met]:
    check, starter = service.check, service.starter
    if check is None or starter is None or check.disabled or not check.node.at("test"):
        return
    allowed = check.start_period + check.interval * check.retries
    if allowed < starter.seconds:
        reason = f"It is unhealthy {allowed:g} s after its start; {starter.name} may need about {starter.seconds} s."
        yield Met(check.where("start_period"), reason)


def _timeout_interval(service: ComposeService, _: Project) -> Iterator[Met]:
    check = service.check
    if check is None or check.disabled or check.interval >= check.timeout:
        return
    default = "" if check.node.at("timeout") else " (the default)"
    place = check.where("timeout" if check.node.at("timeout") else "interval")
    yield Met(place, f"Interval {check.interval:g} s, timeout {check.timeout:g} s{default}.")


def _autoheal(service: ComposeService, project: Project) -> Iterator[Met]:
    check = service.check
    if check is None or check.command is None or service.labels.get("autoheal", "").lower() != "true":
        return
    told = named_dependency(check.command, service.own_names, ready=True)
    if told is None and "service_healthy" in project.waited_for.get(service.name, frozenset()):
        told = "others wait for it with service_healthy"
    if told is not None:
        yield Met(check.where("test"), f"It has the label autoheal, and {told}.")


def _test_form(service: ComposeService, _: Project) -> Iterator[Met]:
    check = service.check
    if check is None or check.disabled:
        return
    test = check.node.at("test")
    if test.kind == "mapping" or (test.kind == "sequence" and check.command is None):
        first = shown_program(test.words()[0])[:40] if test.words() else "nothing"
        yield Met(check.where("test"), f"It begins with {first} and has {max(0, len(test.items) - 1)} words after it.")


def _unknown_key(service: ComposeService, _: Project) -> Iterator[Met]:
    check = service.check
    for key in check.node.entries if check is not None else ():
        if check is not None and key not in _KEYS and not key.startswith("x-"):
            yield Met(check.where(key), f"It has {clipped(key)}.")


def _no_unit(service: ComposeService, _: Project) -> Iterator[Met]:
    check = service.check
    for key in _DURATIONS if check is not None else ():
        text = check.node.at(key).text if check is not None else ""
        if check is not None and text.isdecimal() and text.strip("0"):
            yield Met(check.where(key), f"{key} is {clipped(text)}.")


def _own_drain(service: ComposeService, _: Project) -> Iterator[Met]:
    found = [(service.node.where("command"), drains.of_commands(service.program.simple))]
    found += [(place, drains.of_variable(name, value)) for name, value, place in service.variables]
    for place, drain in found:
        if drain is not None and drain > service.grace:
            yield Met(place, f"It drains for up to {drain:g} s, and has {service.grace:g} s.")
            return


SERVICE_CHECKS: Final[tuple[tuple[Rule, Callable[[ComposeService, Project], Iterator[Met]]], ...]] = (
    (NEVER_HEALTHY, _never_healthy),
    (PERHAPS_NEVER_HEALTHY, _perhaps_never_healthy),
    (STARTED_IS_NOT_READY, _started_is_not_ready),
    (NO_CHECK, _no_check),
    (DISABLED, _disabled),
    (SLOW_START, _slow_start),
    (TIMEOUT_INTERVAL, _timeout_interval),
    (AUTOHEAL, _autoheal),
    (TEST_FORM, _test_form),
    (UNKNOWN_KEY, _unknown_key),
    (NO_UNIT, _no_unit),
    (OWN_DRAIN, _own_drain),
)
