"""Workloads as Prometheus text (AR-7.4). Pure but for the library that writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from idkmesh.histogram import BUCKETS, summed
from idkmesh.workloads.snapshot import Role
from idkmesh.workloads.tracker import Health, health_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from idkmesh.workloads.snapshot import Snapshot

HEALTHY: Final = {Health.HEALTHY: 1.0, Health.UNHEALTHY: 0.0, Health.UNKNOWN: float("nan")}
"""Unknown is no number: an alert on 0 must not take it for an outage, nor an average for health."""


def exposition(snapshot: Snapshot, now: float) -> bytes:
    """Return the text of format 0.0.4, in UTF-8. ``now`` is in seconds of the boot clock."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(WorkloadCollector(snapshot, now))
    return generate_latest(registry)


class WorkloadCollector(Collector):
    """What is exposed of a snapshot at ``now``: for a registry that has more than this."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot = snapshot
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        yield from _instances(self._snapshot, self._now)
        reachable = GaugeMetricFamily(
            "idkmesh_platform_reachable",
            "1 where the platform told of its instances in the newest pass, else 0 (AR-7.4).",
            labels=("platform",),
        )
        for name, fault in self._snapshot.platforms.items():
            reachable.add_metric((name,), float(fault is None))
        yield reachable
        yield from _checks(self._snapshot)
        held = self._snapshot.role is Role.HOLDER
        yield GaugeMetricFamily("idkmesh_lease_held", "1 while this supervisor holds the lease (AR-6.4).", value=held)
        passes = HistogramMetricFamily("idkmesh_pass_seconds", "How long passes took.", labels=())
        timing = self._snapshot.tallies.passes
        passes.add_metric((), summed(BUCKETS, timing.buckets), timing.seconds)
        yield passes

    def describe(self) -> list[Metric]:
        """Return nothing: the registry is new each time, there are no duplicates to look for."""
        return []


def _instances(snapshot: Snapshot, now: float) -> Iterator[Metric]:
    fresh_from = snapshot.passes.fresh_from(now)
    labels = ("module", "instance")
    healthy = GaugeMetricFamily(
        "idkmesh_instance_healthy", "1 healthy, 0 unhealthy, NaN unknown (AR-1.3).", labels=labels
    )
    restarts = CounterMetricFamily(
        "idkmesh_instance_restarts", "Restarts that came about (AR-5.1); they outlive the supervisor.", labels=labels
    )
    for key, record in snapshot.records.items():
        healthy.add_metric(key, HEALTHY[health_at(record.tracker, fresh_from)])
        restarts.add_metric(key, record.restarts)
    yield from (healthy, restarts)


def _checks(snapshot: Snapshot) -> Iterator[Metric]:
    tallies = snapshot.tallies
    outcomes = CounterMetricFamily(
        "idkmesh_check_outcomes",
        "Checks by what they said: passes, fails or nothing (AR-1.2).",
        labels=("module", "check", "outcome"),
    )
    for (name, word), count in tallies.outcomes.items():
        outcomes.add_metric((*name, word.value), count)
    seconds = HistogramMetricFamily(
        "idkmesh_check_seconds", "How long checks took that said something.", labels=("module", "check")
    )
    for name, timing in tallies.checks.items():
        seconds.add_metric(name, summed(BUCKETS, timing.buckets), timing.seconds)
    yield from (outcomes, seconds)
