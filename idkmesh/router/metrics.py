"""A router as Prometheus text (RT-10.4, RT-10.6). Imported by whoever is asked: the library takes 80 ms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from idkmesh.health.metrics import USAGE, figures
from idkmesh.histogram import BUCKETS, summed
from idkmesh.service_runtime import usage_document
from idkmesh.topology.metrics import TopologyCollector
from idkmesh.topology.selector import WatchSelector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from idkmesh.histogram import Timing
    from idkmesh.router.ledger import Outcome
    from idkmesh.router.service import RouterService
    from idkmesh.service_runtime import ServiceUsage
    from idkmesh.topology.provider import Counted


def exposition(service: RouterService, usage: ServiceUsage | None) -> bytes:
    """Return the text of format 0.0.4, in UTF-8. ``usage`` is of the server, None where there is none yet."""
    registry = CollectorRegistry(auto_describe=False)
    ledger = service.ledger
    usable, counted = service.usable().usable, service.counted()
    registry.register(RouterCollector(ledger.timings(), ledger.missing, usage, usable=usable, counted=counted))
    if isinstance(service.selector, WatchSelector):
        registry.register(TopologyCollector(service.selector.statuses(), service.selector.tallies()))
    return generate_latest(registry)


class RouterCollector(Collector):
    """What is exposed of a router's own: invocations by outcome, those that may be missing in the ledger, the boundary.

    For a registry that has more than this.
    """

    def __init__(
        self,
        timings: Mapping[Outcome, Timing],
        missing: int,
        usage: ServiceUsage | None,
        *,
        usable: bool,
        counted: Counted | None,
    ) -> None:
        self._timings = timings
        self._missing = missing
        self._usage = usage
        self._usable = usable
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        invocations = CounterMetricFamily(
            "idkmesh_router_invocations", "Invocations by outcome (RT-10.1).", labels=("outcome",)
        )
        seconds = HistogramMetricFamily(
            "idkmesh_router_invocation_seconds",
            "From what was asked to what came of it (RT-10.6).",
            labels=("outcome",),
        )
        for outcome, timing in self._timings.items():
            invocations.add_metric((outcome.value,), timing.count)
            seconds.add_metric((outcome.value,), summed(BUCKETS, timing.buckets), timing.seconds)
        yield from (invocations, seconds)
        yield CounterMetricFamily(
            "idkmesh_router_invocations_missing", "Invocations not known to be in the ledger.", value=self._missing
        )
        yield GaugeMetricFamily(
            "idkmesh_router_provider_usable",
            "Whether the provider's boundary is usable (RT-5.6).",
            value=self._usable,
        )
        if self._counted is not None:
            yield from _connection(self._counted)
        if self._usage is not None:
            yield from figures("idkmesh_router_usage_", USAGE, usage_document(self._usage))

    def describe(self) -> list[Metric]:
        """Return nothing: the registry is new each time, there are no duplicates to look for."""
        return []


def _connection(counted: Counted) -> Iterator[Metric]:
    """Return the families of a provider that keeps a connection."""
    yield CounterMetricFamily(
        "idkmesh_router_provider_reconnects",
        "Connections to the provider that ended and were made anew, unnoticed ones too (RT-5.6).",
        value=counted.reconnects,
    )
    yield GaugeMetricFamily(
        "idkmesh_router_provider_unreadable_records",
        "Records of instances that are no endpoint (RT-7.5, RT-8.6).",
        value=counted.unreadable,
    )
    yield GaugeMetricFamily(
        "idkmesh_router_provider_ignored_keys",
        "Keys below etcd's prefix that are those of others (RT-7.1).",
        value=counted.ignored,
    )
