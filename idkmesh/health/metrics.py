"""Health as Prometheus text (HL-5.5). Pure but for the library that writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from idkmesh.health.history import BUCKETS
from idkmesh.health.liveness import Liveness
from idkmesh.health.model import Verdict
from idkmesh.health.state import age_at, verdict_at
from idkmesh.histogram import summed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from idkmesh.health.snapshot import HealthSnapshot

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of what :func:`exposition` returns."""

USAGE: Final = "In use now, or counted since the start"

UP: Final = {Verdict.OK: 1.0, Verdict.FAILING: 0.0, Verdict.UNKNOWN: float("nan")}
"""Unknown is no number: an average or an alert on 0 must not take it for an outage, nor for health."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is exposed: one instant. ``now`` is in monotonic seconds.

    ``ready`` is what the readiness probe answers, where more than the dependencies has a say in it; else None.
    ``silences`` are seconds by component, as the watchdog tells them. ``limits`` and ``usage`` are those members of the
    status document (CT-5); what is no number in them has no sample.
    """

    health: HealthSnapshot
    now: float
    ready: bool | None = None
    silences: Mapping[str, float] = field(default_factory=dict)
    liveness: Liveness = field(default_factory=Liveness)
    slots_held: int = 0
    matrix_refused: bool = False
    limits: Mapping[str, object] = field(default_factory=dict)
    usage: Mapping[str, object] = field(default_factory=dict)


def exposition(reading: Reading) -> bytes:
    """Return the text of format 0.0.4, in UTF-8."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(HealthCollector(reading))
    return generate_latest(registry)


class HealthCollector(Collector):
    """What is exposed of a reading: for a registry that has more than this."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        yield from _dependencies(self._reading)
        yield from _service(self._reading)
        yield from figures("idkmesh_limit_", "Limit in force", self._reading.limits)
        yield from figures("idkmesh_usage_", USAGE, self._reading.usage)

    def describe(self) -> list[Metric]:
        """Return nothing: the registry is new each time, there are no duplicates to look for."""
        return []


def _dependencies(reading: Reading) -> Iterator[Metric]:
    now = reading.now
    up = GaugeMetricFamily(
        "idkmesh_dependency_up", "1 ok, 0 failing, NaN unknown (HL-1.4).", labels=("dependency", "critical")
    )
    age = GaugeMetricFamily("idkmesh_dependency_age_seconds", "Age of the newest result.", labels=("dependency",))
    seconds = HistogramMetricFamily(
        "idkmesh_dependency_probe_seconds", "How long runs took that could be made.", labels=("dependency",)
    )
    outcomes = CounterMetricFamily(
        "idkmesh_dependency_probe_outcomes", "Runs by what came of them (HL-4.2).", labels=("dependency", "outcome")
    )
    for name, record in reading.health.records.items():
        critical = "true" if record.dependency.critical else "false"
        up.add_metric((name, critical), UP[verdict_at(record.state, now)])
        result_age = age_at(record.state, now)
        if result_age is not None:
            age.add_metric((name,), result_age)
        seconds.add_metric((name,), summed(BUCKETS, record.history.buckets), record.history.seconds)
        for outcome, count in record.history.outcome_counts().items():
            outcomes.add_metric((name, outcome), count)
    yield from (up, age, seconds, outcomes)


def _service(reading: Reading) -> Iterator[Metric]:
    health, liveness = reading.health, reading.liveness
    ready = health.readiness_at(reading.now).status == "ready" if reading.ready is None else reading.ready
    yield GaugeMetricFamily("idkmesh_ready", "Whether readiness is ready (HL-5.2).", value=ready)
    yield CounterMetricFamily(
        "idkmesh_ready_transitions", "Changes between ready and not ready.", value=health.transitions_total
    )
    yield CounterMetricFamily(
        "idkmesh_liveness_failures", "Times that liveness has failed (HL-1.1).", value=liveness.failures_total
    )
    yield GaugeMetricFamily(
        "idkmesh_liveness_during_dependency_outage",
        "1 while liveness fails and a dependency is the only thing known to be down (HL-5.4).",
        value=liveness.dependency_only,
    )
    yield GaugeMetricFamily("idkmesh_slots_held", "Worker slots held for too long (HL-2.3).", value=reading.slots_held)
    yield GaugeMetricFamily(
        "idkmesh_matrix_refused",
        "1 while the file of the matrix was read last and refused: an older one runs (HL-3.5).",
        value=reading.matrix_refused,
    )
    yield GaugeMetricFamily("idkmesh_probes_stuck", "Probes that have not come back (HL-4.11).", value=health.stuck)
    yield CounterMetricFamily(
        "idkmesh_probes_abandoned", "Runs that were given up (HL-4.11).", value=health.stuck_total
    )
    silence = GaugeMetricFamily(
        "idkmesh_watchdog_silence_seconds", "How long a component has been silent (HL-2.1).", labels=("component",)
    )
    for component, value in reading.silences.items():
        silence.add_metric((component,), value)
    yield silence


def figures(prefix: str, meaning: str, values: Mapping[str, object]) -> Iterator[Metric]:
    """Return a family for each number in a document: a counter where its name says so, else a gauge."""
    for name, value in values.items():
        if isinstance(value, int | float):
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(prefix + name, f"{meaning}: {name}.", value=value)
