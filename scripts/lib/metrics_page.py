"""Writes ``docs/reference/metrics.md`` from what each collector registers, given nothing to count."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from idkmesh.control_tower.assets import schema
from idkmesh.health.metrics import HealthCollector, Reading
from idkmesh.health.readiness import Readiness
from idkmesh.health.snapshot import HealthSnapshot
from idkmesh.router.metrics import RouterCollector
from idkmesh.service_runtime import ServiceLimits, ServiceUsage, limits_document, usage_document
from idkmesh.topology.metrics import TopologyCollector
from idkmesh.topology.provider import Counted
from idkmesh.topology.tallies import Tallies
from idkmesh.workloads.metrics import WorkloadCollector
from idkmesh.workloads.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric
    from prometheus_client.registry import Collector


class Part(NamedTuple):
    """The metrics of one collector, and who exposes them."""

    title: str
    who: str
    collector: Collector


_KINDS = {"limit": "limits", "usage": "usage", "router_usage": "usage"}
_USAGE = ServiceUsage(
    in_flight=0,
    connections=0,
    sse_clients=0,
    draining=False,
    admitted_total=0,
    overloaded_total=0,
    draining_total=0,
    refused_total=0,
    timed_out_total=0,
    evicted_total=0,
)
_HEALTH = Reading(
    health=HealthSnapshot(records={}, started=False, readiness=Readiness("starting"), valid_until=0.0),
    now=0.0,
    limits=limits_document(ServiceLimits()),
    usage=usage_document(_USAGE),
)
_STATUS = schema("control-tower-status.json")["properties"]["operations"]["properties"]
_MEMBERS = {f"idkmesh_{kind}_": _STATUS[member]["properties"] for kind, member in _KINDS.items()}
PARTS = (
    Part("Health, limits and usage", "`control-tower`", HealthCollector(_HEALTH)),
    Part("Workloads", "`control-tower` with `--modules`", WorkloadCollector(Snapshot.of_nothing(), 0.0)),
    Part(
        "Invocations",
        "`router`, and `control-tower` with `--router`",
        RouterCollector({}, 0, _USAGE, usable=False, counted=Counted()),
    ),
    Part(
        "Topology",
        "`router`, and `control-tower` with `--router`, where they observe continuously (RT-11.4)",
        TopologyCollector((), Tallies()),
    ),
)


def exposed_name(family: Metric) -> str:
    """Return the name that a scrape has: that of a counter ends in ``_total``."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def families() -> Iterator[Metric]:
    """Return every metric that some command exposes."""
    for part in PARTS:
        yield from part.collector.collect()


def _meaning(family: Metric) -> str:
    """Return what a metric means: of a member of the status document, what its published schema says."""
    for prefix, about in _MEMBERS.items():
        if family.name.startswith(prefix):
            member = exposed_name(family).removeprefix(prefix)
            return str(about[member]["description"])
    return family.documentation


def _row(family: Metric) -> str:
    # The library has them under no public name, and a family without samples has none that would show them.
    names: tuple[str, ...] = tuple(getattr(family, "_labelnames", ()))
    labels = ", ".join(f"`{name}`" for name in names)
    return f"| `{exposed_name(family)}` | {family.type} | {labels} | {_meaning(family)} |"


def metrics_page() -> str:
    """Return the page."""
    sections = "\n".join(
        f"## {part.title}\n\nOf {part.who}.\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
        + "\n".join(map(_row, part.collector.collect()))
        + "\n"
        for part in PARTS
    )
    return f"""# Metrics

Made by `scripts/reference` from what the collectors in `idkmesh/*/metrics.py` register; change it there.

`GET /metrics` is Prometheus text, of the control tower behind its session token, of a router behind a credential.
`serve`, `supervise` and `readiness-adapter` have none. A histogram has samples `_bucket` (with the label `le`), `_sum`
and `_count` besides. Unknown is NaN, never 0. [Alerts](../ALERTS.md) are made of these; limits are
[settings](settings.md), and usage is that of the status document (CT-5.3).

{sections}"""
