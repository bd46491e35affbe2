"""The packaged scenarios: what is done, in terms of a matrix's own bounds, and what is expected (HL-8.8).

A scenario names no times that would fit one matrix and not another. It says "the critical dependency is refused until
that must have been noticed", and the figures of the matrix say how long that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from idkmesh.rehearsal.bounds import ALLOWANCE_SECONDS, dependency_bounds, patience, soonest_restart, wedge_bounds
from idkmesh.rehearsal.faults import OF_DEPENDENCIES, Fault, FaultError, How, can_be_failed, resolved
from idkmesh.rehearsal.plan import Expectation
from idkmesh.validation.findings import Findings
from idkmesh.validation.judging import judge
from idkmesh.validation.shapes import Choice, Figure, Flag, ListOf, Record, Text
from idkmesh.validation.yaml_nodes import parse

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from idkmesh.health.model import Dependency, ProbeMatrix
    from idkmesh.rehearsal.orchestrator import Settings

KIND: Final = "idkmesh-rehearsal-scenario"
SUFFIX: Final = ".yaml"

_HOUR_MS: Final = 3_600_000

_FAULT: Final = Record(
    meaning="One thing that is done.",
    members={
        "how": Choice(meaning="What is done.", words=tuple(how.value for how in How)),
        "dependency": Choice(
            meaning="Which: the first of its kind that can be failed.", words=("critical", "noncritical")
        ),
        "after_ms": Figure(meaning="How long after the origin, or after the one before.", least=0, most=_HOUR_MS),
        "lasts": Choice(
            meaning="Until when: until it must have been noticed, until one run must have failed, until liveness or "
            "startup must have restarted the service, or for half of the time that startup allows at the least.",
            words=("noticed", "one-run", "liveness", "startup", "half-startup"),
        ),
    },
    required=("how", "after_ms"),
)

SCENARIO: Final = Record(
    meaning="A rehearsal that any matrix can be put through.",
    members={
        "schema_version": Choice(meaning="Version of this form.", words=("0.1",)),
        "kind": Choice(meaning="What this file is.", words=(KIND,)),
        "name": Text(meaning="Its name, that of the file.", wanted="a name of a-z and -", pattern="[a-z-]+", most=63),
        "owner": Text(
            meaning="The role that answers for it, no person.", wanted="a role of a-z and -", pattern="[a-z-]+", most=63
        ),
        "summary": Text(meaning="What it shows.", wanted="a sentence", pattern=r"[^\n]+", most=300),
        "origin": Choice(meaning="What times count from.", words=("start", "rotation")),
        "profile": Record(
            meaning="An example of an orchestrator, no default for anybody: flags win.",
            members={
                "grace_ms": Figure(meaning="Between TERM and KILL.", least=0, most=_HOUR_MS, unit="ms"),
                "backoff_ms": Figure(meaning="The first back-off.", least=0, most=_HOUR_MS, unit="ms"),
                "settle_ms": Figure(meaning="How long it is watched after all is well.", least=0, most=_HOUR_MS),
            },
            required=("grace_ms", "backoff_ms", "settle_ms"),
        ),
        "faults": ListOf(meaning="What is done, in order.", item=_FAULT, least=1, most=16),
        "expectation": Record(
            meaning="What a service that keeps the contract does.",
            members={
                "restarts": Figure(meaning="How many restarts, exactly.", least=0, most=100),
                "cause": Choice(meaning="Of which probe.", words=("none", "startup", "liveness")),
                "leaves_rotation": Flag(meaning="Whether it leaves the rotation; either may be if not said."),
                "always_served": Flag(meaning="Whether an instance is in rotation at all times; false if not said."),
            },
            required=("restarts", "cause"),
        ),
    },
    required=("schema_version", "kind", "name", "owner", "summary", "origin", "profile", "faults", "expectation"),
)
"""The whole file."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. ``profile`` is in seconds: grace, first back-off, settling."""

    name: str
    owner: str
    summary: str
    from_rotation: bool
    profile: tuple[float, float, float]
    steps: tuple[dict[str, Any], ...]
    expectation: Expectation


def directory() -> Traversable:
    """Return where the scenarios are."""
    return files("idkmesh.rehearsal") / "scenarios"


def names() -> tuple[str, ...]:
    """Return the names of the packaged scenarios."""
    found = (entry.name for entry in directory().iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX)))


def packaged(name: str) -> Scenario:
    """Return a packaged scenario. Raises :class:`FaultError` for a name that is none."""
    if name not in names():
        raise FaultError(f"{name}: no such scenario: write one of {', '.join(names())}")
    file = name + SUFFIX
    return load_scenario((directory() / file).read_text(encoding="utf-8"), file)


def load_scenario(text: str, source: str) -> Scenario:
    """Return what ``text`` says. Raises :class:`~idkmesh.validation.findings.MatrixError` with all that is wrong."""
    findings = Findings(source)
    root = parse(text, findings)
    values = None if root is None else judge(root, SCENARIO, "the file", findings)
    if findings or values is None:
        raise findings.error()
    profile = values["profile"]
    return Scenario(
        name=values["name"],
        owner=values["owner"],
        summary=values["summary"],
        from_rotation=values["origin"] == "rotation",
        profile=(profile["grace_ms"] / 1000, profile["backoff_ms"] / 1000, profile["settle_ms"] / 1000),
        steps=tuple(values["faults"]),
        expectation=Expectation(**values["expectation"]),
    )


def faults_of(scenario: Scenario, matrix: ProbeMatrix, settings: Settings) -> tuple[Fault, ...]:
    """Return what a scenario does with this matrix. Raises :class:`FaultError` where that lacks what is needed."""
    faults: list[Fault] = []
    for step in scenario.steps:
        begin = (faults[-1].end if faults else 0.0) + step["after_ms"] / 1000
        how = How(step["how"])
        dependency = _dependency(scenario, matrix, step) if how in OF_DEPENDENCIES else None
        fault = Fault(how=how, begin=begin, end=begin + 1, name="" if dependency is None else dependency.name)
        (fault,) = resolved([fault], matrix)
        lasts = 0.0 if how is How.ROLL else _lasting(step.get("lasts", "noticed"), fault, dependency, settings)
        faults.append(Fault(how=how, begin=begin, end=begin + lasts, name=fault.name, delay=fault.delay))
    return tuple(faults)


def watched_seconds(faults: tuple[Fault, ...], matrix: ProbeMatrix, settings: Settings, settle: float) -> float:
    """Return how long a scenario takes at most, from its origin: until the last fault must be over and forgotten."""
    known = {dependency.name: dependency for dependency in matrix.dependencies}
    longest = 0.0
    for fault in faults:
        if fault.name:
            after = dependency_bounds(known[fault.name], fault, settings.figures).recover
        else:
            after = wedge_bounds(
                settings.figures, grace=settings.grace, backoff=settings.backoff, starting=True
            ).recover
            after += settings.grace if fault.how is How.ROLL else 0.0
        longest = max(longest, fault.end + after)
    return longest + ALLOWANCE_SECONDS + settle


def _dependency(scenario: Scenario, matrix: ProbeMatrix, step: dict[str, Any]) -> Dependency:
    wanted = step.get("dependency", "critical")
    for dependency in matrix.dependencies:
        if dependency.critical is (wanted == "critical") and can_be_failed(dependency):
            return dependency
    raise FaultError(f"{scenario.name} needs a {wanted} dependency with a tcp or plain http probe: the matrix has none")


def _lasting(word: str, fault: Fault, dependency: Dependency | None, settings: Settings) -> float:
    """Return for how many seconds a fault lasts."""
    figures = settings.figures
    if word == "half-startup":
        return soonest_restart(figures.startup) / 2
    if word in {"liveness", "startup"}:
        return patience(getattr(figures, word)) + ALLOWANCE_SECONDS
    if dependency is None:
        raise FaultError(f"a fault of the service cannot last until it is {word}: write liveness or startup")
    if word == "one-run":
        return (dependency.interval_ms + dependency.timeout_ms) / 1000 + ALLOWANCE_SECONDS
    notice = dependency_bounds(dependency, fault, figures).notice
    if notice is None:
        raise FaultError(f"{fault}: the dependency's probe cannot see that")
    return notice + ALLOWANCE_SECONDS
