"""A topology as figures (RT-10.4), and as families of Prometheus. No label names a target: their number is bounded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from idkmesh.topology.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from idkmesh.topology.held import Status
    from idkmesh.topology.tallies import Tallies


class Figures(NamedTuple):
    """One metric: its name as it is exposed, what it means, its labels, and a value for each of their values."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], int]


_Values = dict[tuple[str, ...], int]


def gauges(statuses: Iterable[Status]) -> tuple[Figures, ...]:
    """Return what is the case: every state is there, with 0 too."""
    states = Counter(status.observation.state for status in statuses)
    values: _Values = {(state.value,): states[state] for state in State}
    return (Figures("idkmesh_topology_observations", "Observations by state (RT-2.1).", ("state",), values),)


def counters(tallies: Tallies) -> tuple[Figures, ...]:
    """Return what was counted since the start. Names are without the ``_total`` that the format adds."""
    transitions: _Values = {
        (before.value, after.value): count for (before, after), count in tallies.transitions.items()
    }
    sessions: _Values = {(what,): count for what, count in tallies.sessions.items()}
    selections: _Values = {(outcome,): count for outcome, count in tallies.selections.items()}
    return (
        Figures("idkmesh_topology_transitions", "Changes of state (RT-2.1).", ("from", "to"), transitions),
        Figures("idkmesh_topology_sessions", "Sessions by what became of them (RT-3).", ("what",), sessions),
        Figures("idkmesh_topology_selections", "Selections by outcome (RT-4.1).", ("outcome",), selections),
        Figures("idkmesh_topology_dropped", "What came of watches that were over (RT-3.7).", (), {(): tallies.dropped}),
    )


class TopologyCollector(Collector):
    """The same for a registry of Prometheus."""

    def __init__(self, statuses: Iterable[Status], tallies: Tallies) -> None:
        self._gauges = gauges(statuses)
        self._counters = counters(tallies)

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        for figures in self._gauges:
            gauge = GaugeMetricFamily(figures.name, figures.meaning, labels=figures.labels)
            for values, number in figures.values.items():
                gauge.add_metric(values, number)
            yield gauge
        for figures in self._counters:
            counter = CounterMetricFamily(figures.name, figures.meaning, labels=figures.labels)
            for values, number in figures.values.items():
                counter.add_metric(values, number)
            yield counter

    def describe(self) -> list[Metric]:
        """Return nothing: the registry is new each time, there are no duplicates to look for."""
        return []
