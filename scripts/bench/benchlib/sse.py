"""How long an event takes from its commit to its readers, through a real store and real sockets.

A server (``serve_events.py``) commits events at a fixed rate; readers in another process (``listeners.py``) note when
each arrives. The delay is from the end of the commit to the arrival of the whole event at its reader; each event counts
once a stream. The readers share one core and one thread, so at 1,000 of them a part of the delay is theirs.

Scenarios: 64 streams, the most that can be set, at 200 events a second; 1,000 on the hub itself at 40; and both again
beside 16 requests that compute without end. The last ask more than one interpreter has: they are shown, not promised.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from . import options
from .processes import LoadProcess, cores
from .report import Goal, Report
from .stats import Latency, latency

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

HEADER = (
    "scenario",
    "events",
    "deliveries",
    "p50 ms",
    "p99 ms",
    "max ms",
    "missing",
    "doubled or out of order",
    "streams ended",
    "threads before, with streams",
    "KB a stream",
)
BURNERS = 16


@dataclass(frozen=True)
class Scenario:
    """So many streams at so many events a second, beside so many requests that compute."""

    streams: int
    rate: int
    burners: int
    goal_ms: float | None

    @property
    def label(self) -> str:
        """How the table calls it."""
        beside = f", {self.burners} computing" if self.burners else ""
        return f"{self.streams:,} streams, {self.rate}/s{beside}"


SCENARIOS = (
    Scenario(64, 200, 0, 10.0),
    Scenario(1000, 40, 0, 100.0),
    Scenario(64, 200, BURNERS, None),
    Scenario(1000, 40, BURNERS, None),
)


@dataclass(frozen=True)
class Run:
    """What was measured in one scenario."""

    scenario: str
    events: int
    delay: Latency
    missing: int
    gaps: int
    ended: int
    threads: Sequence[int]
    kilobytes: float


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("sse", __doc__ or "")
    parser.add_argument("--seconds", type=options.bounded(1, 60), default=10, help="of each scenario")
    parser.add_argument("--streams", type=options.bounded(1, 1000), help="one scenario of so many streams instead")
    parser.add_argument("--rate", type=options.bounded(1, 1000), default=200, help="its events a second")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("sse", {"seconds": chosen.seconds})
    runs = []
    scenarios = SCENARIOS if chosen.streams is None else (Scenario(chosen.streams, chosen.rate, 0, None),)
    for scenario in scenarios:
        if chosen.only and not any(name in scenario.label for name in chosen.only):
            continue
        report.progress(scenario.label)
        runs.append((scenario, measure(scenario, chosen.seconds)))
    report.add("From the commit to the reader", HEADER, [_row(run) for _, run in runs])
    report.goals([goal for scenario, run in runs for goal in goals(scenario, run)])
    report.write([asdict(run) for _, run in runs], chosen.output)
    return 0


def measure(scenario: Scenario, seconds: int) -> Run:
    """Run one scenario."""
    server_core, load_core = cores()
    spec: dict[str, Any] = {"streams": scenario.streams, "rate": scenario.rate, "burners": scenario.burners}
    with LoadProcess(server_core, "serve_events", {**spec, "seconds": seconds}) as server:
        port = server.report()["port"]
        with LoadProcess(load_core, "listeners", {**spec, "port": port}) as load:
            load.report()
            server.report()
            load.tell()
            counted = server.report()
            heard = load.finish()
        server.stop()
    return judge(scenario, counted, heard)


def judge(scenario: Scenario, counted: dict[str, Any], heard: dict[str, Any]) -> Run:
    """Set the arrivals against the commits."""
    arrivals = dict(heard["arrivals"])
    delays: list[float] = []
    missing = 0
    for sequence, committed in counted["commits"]:
        arrived = arrivals.get(sequence, [])
        missing += max(0, scenario.streams - len(arrived))
        delays += [instant - committed for instant in arrived]
    before, opened = counted["resident"]
    return Run(
        scenario.label,
        len(counted["commits"]),
        latency(delays),
        missing,
        heard["gaps"],
        heard["ended"],
        counted["threads"],
        (opened - before) / scenario.streams / 1000,
    )


def _row(run: Run) -> Sequence[str | float | None]:
    return (
        run.scenario,
        run.events,
        run.delay["count"],
        run.delay["p50"],
        run.delay["p99"],
        run.delay["max"],
        run.missing,
        run.gaps,
        run.ended,
        ", ".join(map(str, run.threads)),
        run.kilobytes,
    )


def goals(scenario: Scenario, run: Run) -> list[Goal]:
    """Return what is to be reached in a scenario."""
    label = scenario.label
    found = [
        Goal(
            f"{label}: events missing or doubled, streams ended", run.missing + run.gaps + run.ended, 0, at_least=False
        ),
        Goal(f"{label}: threads more", run.threads[1] - run.threads[0], 0, at_least=False),
        Goal(f"{label}: KB a stream", run.kilobytes, 100, at_least=False),
    ]
    if scenario.goal_ms is not None:
        found.append(Goal(f"{label}: p99 in ms", run.delay["p99"], scenario.goal_ms, at_least=False))
    return found
