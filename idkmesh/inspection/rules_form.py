"""Rules on the form of Kubernetes probes: what the platform refuses, or drops in silence."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.findings import Met, Rule, Severity, clipped
from idkmesh.inspection.public import LEFT_OUT, shown_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from idkmesh.inspection.kubernetes import Container, Probe

UNKNOWN_KEY: Final = Rule(
    id="PB134",
    severity=Severity.ERROR,
    title="A key that no probe has",
    why="Kubernetes refuses the object, or drops the key in silence where validation is off: the default takes the "
    "place of what was meant.",
    mend="Write the key as Kubernetes calls it, at its place.",
)
NO_NUMBER: Final = Rule(
    id="PB135",
    severity=Severity.ERROR,
    title="A figure of a probe is no whole number",
    why="Kubernetes refuses the object: figures are whole seconds or counts of at least 0, without quotes and unit.",
    mend="Write the number alone: periodSeconds: 10.",
)
LACKING: Final = Rule(
    id="PB136",
    severity=Severity.ERROR,
    title="A probe's handler lacks what it asks or runs",
    why="Kubernetes refuses the object: httpGet, tcpSocket and grpc need a port, exec needs its command as a list.",
    mend="Write port, or command: [PROGRAM, ARGUMENT].",
)
MISPLACED: Final = Rule(
    id="PB137",
    severity=Severity.ERROR,
    title="A probe stands beside the containers",
    why="Kubernetes refuses the object, or drops the probe in silence: probes belong to a container.",
    mend="Move it into the container, two levels deeper.",
)

_FIGURES: Final = (
    "initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold",
    "terminationGracePeriodSeconds",
)  # fmt: skip
_HANDLER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "httpGet": ("path", "port", "host", "scheme", "httpHeaders"),
    "tcpSocket": ("port", "host"),
    "grpc": ("port", "service"),
    "exec": ("command",),
}
_PROBE_KEYS: Final = (*_FIGURES, *_HANDLER_KEYS)
_MEANT: Final[Mapping[str, str]] = {
    "initialdelay": "initialDelaySeconds",
    "delay": "initialDelaySeconds",
    "period": "periodSeconds",
    "interval": "periodSeconds",
    "timeout": "timeoutSeconds",
    "retries": "failureThreshold",
    "failures": "failureThreshold",
    "http": "httpGet",
    "tcp": "tcpSocket",
    "command": "exec: {command: [...]}",
}
_WHOLE: Final = re.compile(r"[0-9]{1,9}")


def _unknown_key(container: Container) -> Iterator[Met]:
    for probe in container.probes:
        yield from _unknown(probe, (), _PROBE_KEYS)
        for handler in probe.handlers:
            yield from _unknown(probe, (handler,), _HANDLER_KEYS[handler])


def _unknown(probe: Probe, path: tuple[str, ...], known: tuple[str, ...]) -> Iterator[Met]:
    for key in probe.node.at(*path).entries:
        if key in known:
            continue
        where = f"{path[0]} of the {probe.which} probe" if path else f"the {probe.which} probe"
        told = _MEANT.get(key.lower()) or next((name for name in known if name.lower() == key.lower()), None)
        mend = f"Write {told}." if told else _guessed(key, known)
        if path and key in _PROBE_KEYS:
            mend = f"Move it out of {path[0]}."
        yield Met(probe.where(*path, key), f"{where[0].upper()}{where[1:]} has {clipped(key)}.", mend)


def _guessed(key: str, known: tuple[str, ...]) -> str | None:
    near = [name for name in known if abs(len(name) - len(key)) <= _TYPO and name[0] == key[:1].lower()]
    found = difflib.get_close_matches(key, near, n=1, cutoff=0.8)
    return f"Did you mean {found[0]}?" if found else None


_TYPO: Final = 2
"""Letters that a slip adds or loses. Few names are compared then, however many keys a hostile file has."""


def _no_number(container: Container) -> Iterator[Met]:
    for probe in container.probes:
        for key in _FIGURES:
            node = probe.node.at(key)
            if not node or "$" in node.text or "{{" in node.text or (node.plain and _WHOLE.fullmatch(node.text)):
                continue
            shown = shown_figure(node.text) if node.kind == "scalar" else LEFT_OUT
            if shown == LEFT_OUT:  # it may be what belongs elsewhere, a credential for one
                told = "a text" if node.kind == "scalar" else f"a {node.kind}"
            else:
                told = shown if node.plain else f'the text "{shown}"'
            yield Met(probe.where(key), f"{key} is {told}.")


def _lacking(container: Container) -> Iterator[Met]:
    for probe in container.probes:
        for handler in probe.handlers:
            if handler == "exec":
                if not probe.node.at("exec", "command").words():
                    yield Met(probe.where("exec", "command"), f"The {probe.which} probe has no list of words to run.")
            elif not probe.node.at(handler, "port"):
                yield Met(probe.where(handler), f"The {probe.which} probe asks no port.")


def _misplaced(container: Container) -> Iterator[Met]:
    if not container.first:  # once a pod
        return
    spec = container.pod.spec
    for which in ("startup", "liveness", "readiness"):
        if spec.at(f"{which}Probe"):
            yield Met(spec.where(f"{which}Probe"), f"{which}Probe is a key of the pod's spec.")


CONTAINER_CHECKS: Final[tuple[tuple[Rule, Callable[[Container], Iterator[Met]]], ...]] = (
    (UNKNOWN_KEY, _unknown_key),
    (NO_NUMBER, _no_number),
    (LACKING, _lacking),
    (MISPLACED, _misplaced),
)
