"""Rules on the end of a pod: what its grace period has to cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.inspection import drains
from idkmesh.inspection.commands import from_argv
from idkmesh.inspection.findings import Met, Rule, Severity
from idkmesh.inspection.kubernetes import DEFAULT_GRACE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.inspection.findings import Place
    from idkmesh.inspection.kubernetes import Container

SHORT_REST_SECONDS: Final = 10

DRAIN_TOO_LONG: Final = Rule(
    id="PB130",
    severity=Severity.ERROR,
    title="The preStop hook lasts as long as the grace period",
    why="The grace period begins with the hook. When it ends before the hook does, the process is killed without a "
    "drain, and requests in flight are lost.",
    mend="Set terminationGracePeriodSeconds to the hook's time plus the longest drain of the process.",
)
DRAIN_SHORT: Final = Rule(
    id="PB131",
    severity=Severity.WARNING,
    title="A long preStop hook leaves little of the grace period",
    why="What the hook takes is gone from the time that the process has to drain.",
    mend="Set terminationGracePeriodSeconds to the hook's time plus the longest drain of the process.",
)
OWN_DRAIN: Final = Rule(
    id="PB132",
    severity=Severity.WARNING,
    title="The process drains for longer than the grace period",
    why="When the grace period ends the process is killed, and what it is still answering is lost.",
    mend="Set terminationGracePeriodSeconds above the drain and the preStop hook together.",
)
NO_GRACE: Final = Rule(
    id="PB133",
    severity=Severity.WARNING,
    title="The grace period is 0",
    why="Each rollout and each node that is emptied kills the process without a word: nothing is drained, and two of a "
    "store may run at a time.",
    mend="Set terminationGracePeriodSeconds to the longest drain of the process.",
)


def _pause(container: Container) -> int:
    """Return how long the preStop hook sleeps, in whole seconds; 0 where that does not show."""
    hook = container.node.at("lifecycle", "preStop")
    native = hook.at("sleep", "seconds").integer(0)
    words = hook.at("exec", "command").words()
    commands = from_argv(words).simple if words else ()
    slept = sum(_seconds(simple.words) for simple in commands if simple.program == "sleep")
    return native or slept


def _seconds(words: tuple[str, ...]) -> int:
    text = words[0].removesuffix("s") if words else ""
    return int(text) if text.isdecimal() and len(text) < 6 else 0  # noqa: PLR2004  a day has 86,400 seconds


def _drain_too_long(container: Container) -> Iterator[Met]:
    pause, grace = _pause(container), container.pod.grace
    if pause and pause >= grace:
        yield Met(container.node.where("lifecycle", "preStop"), f"It sleeps {pause} s of {grace} s.")


def _drain_short(container: Container) -> Iterator[Met]:
    pause, grace = _pause(container), container.pod.grace
    if grace - SHORT_REST_SECONDS < pause < grace and pause > SHORT_REST_SECONDS:
        default = " (the default)" if grace == DEFAULT_GRACE_SECONDS else ""
        reason = f"It sleeps {pause} s of {grace} s{default} and leaves {grace - pause} s."
        yield Met(container.node.where("lifecycle", "preStop"), reason)


def _own_drain(container: Container) -> Iterator[Met]:
    pause, grace = _pause(container), container.pod.grace
    for where, drain in _drains(container):
        if grace and pause < grace < drain + pause:  # else one of the others tells
            more = f" after a preStop of {pause} s" if pause else ""
            yield Met(where, f"It drains for up to {drain:g} s{more}, and has {grace} s in all.")
            return


def _drains(container: Container) -> Iterator[tuple[Place, float]]:
    drain = drains.of_commands(container.program.simple)
    if drain is not None:
        yield container.node.where("args" if container.node.at("args") else "command"), drain
    for name, value in container.variables:
        drain = drains.of_variable(name.text, value)
        if drain is not None:
            yield name.place, drain


def _no_grace(container: Container) -> Iterator[Met]:
    pod = container.pod
    if container.first and not pod.batch and pod.grace == 0:
        yield Met(pod.spec.where("terminationGracePeriodSeconds"), "The pod is killed at once.")


CONTAINER_CHECKS: Final[tuple[tuple[Rule, Callable[[Container], Iterator[Met]]], ...]] = (
    (DRAIN_TOO_LONG, _drain_too_long),
    (DRAIN_SHORT, _drain_short),
    (OWN_DRAIN, _own_drain),
    (NO_GRACE, _no_grace),
)
