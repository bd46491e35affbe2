"""Healthy traffic beside clients that are slow on purpose.

In each scenario a crowd (``crowd.py``) holds its connections while healthy clients, in a process of their own, ask at a
fixed rate (``openloop.py``). Shown are the healthy requests: how many got a complete 200, and how long that took; and
the server: the most threads and resident memory seen in its process tree, and how many of the crowd it holds at the end
(on the client's side, so connections that wait in the kernel's queue count too). The crowd and the healthy clients
share the load's core, so latencies include some waiting for each other; "others" is what other programs had of the
server's core.

Scenarios: ``heads`` trickle a request head, ``bodies`` trickle a body, ``readers`` never read a large response. This
project's server is also met by ten times as many trickled heads, at its default limits and with enough
``--max-connections`` for all of them. The control tower has no response that is larger than the kernel's own buffers,
so ``readers`` is measured on the handler class. Descriptors are raised in every child to what the machine allows.
"""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from . import options, servers
from .processes import LoadProcess, StartError, cores, run_load
from .procfs import Footprint, Sampler
from .report import Goal, Report
from .serve_peer import THREADS
from .servers import Program, Server, running
from .usage import Usage, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

MIB = 1 << 20
KINDS = ("heads", "bodies", "readers")
READERS_CONNECT = 200
"""New clients a second where each makes a whole request: more would be overload, which is another benchmark."""
HEADER = (
    "scenario",
    "server",
    "healthy answered %",
    "p50 ms",
    "p99 ms",
    "max ms",
    "threads",
    "resident MB",
    "crowd held",
    "server CPU %",
    "load idle %",
    "others %",
    "what became of the others",
)


@dataclass(frozen=True)
class Scenario:
    """One crowd against one server."""

    kind: str
    clients: int
    server: Server

    @property
    def label(self) -> str:
        """How the table calls the crowd."""
        return f"{self.clients:,} {self.kind}"


@dataclass(frozen=True)
class Run:
    """What was measured in one scenario."""

    scenario: str
    server: str
    healthy: dict[str, Any]
    crowd_before: dict[str, Any]
    crowd_after: dict[str, Any]
    peak: Footprint
    usage: Usage

    @property
    def answered(self) -> float:
        """Healthy requests that got a complete 200, in percent."""
        return 100 * float(self.healthy["answered"]["count"]) / float(self.healthy["offered"])


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("hostile", __doc__ or "")
    parser.add_argument("--clients", type=options.bounded(1, 2000), default=1000, help="clients that trickle a head")
    parser.add_argument("--many", type=options.bounded(0, 16_000), default=10_000, help="the same, many; 0 for none")
    parser.add_argument("--others", type=options.bounded(1, 2000), default=500, help="trickling bodies; never reading")
    parser.add_argument(
        "--connects", type=options.bounded(10, 5000), default=1000, help="new slow connections a second"
    )
    parser.add_argument("--rate", type=options.bounded(1, 1000), default=200, help="healthy requests a second")
    parser.add_argument("--seconds", type=options.bounded(1, 60), default=5, help="healthy traffic in a scenario")
    parser.add_argument("--peer-seconds", type=options.bounded(1, 60), default=2, help="the same, on a peer")
    parser.add_argument("--timeout", type=options.bounded(1, 30), default=3, help="seconds a healthy request may take")
    parser.add_argument("--kind", choices=KINDS, action="append", default=[], help="measure only this kind of crowd")
    return parser.parse_args(argv)


def scenarios(chosen: argparse.Namespace) -> Iterator[Scenario]:
    """Yield what is to be measured, this project's servers first."""
    enough = ("--max-connections", str(chosen.many + chosen.many // 5))
    own = [
        (servers.status(), servers.status(*enough)),
        (servers.HANDLER, replace(servers.HANDLER, command=servers.ours("handler", *enough))),
    ]
    for kind in chosen.kind or KINDS:
        clients = chosen.clients if kind == "heads" else chosen.others
        for default, large in own:
            if kind != "readers" or default.large_path:
                yield Scenario(kind, clients, default)
            if kind == "heads" and chosen.many:
                yield Scenario(kind, chosen.many, default)
                yield Scenario(kind, chosen.many, replace(large, name=f"{default.name}, {' '.join(enough)}"))
        yield from (Scenario(kind, clients, peer) for peer in servers.PEERS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("hostile", {key: value for key, value in vars(chosen).items() if key != "output"})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if chosen.many and hard < chosen.many + chosen.many // 5 + 100:
        report.note(f"at most {hard} descriptors a process here: too few for {chosen.many} slow clients and the server")
    runs: list[Run] = []
    rows: list[Sequence[str | float | None]] = []
    for scenario in scenarios(chosen):
        if not options.chosen([scenario.server], chosen.only):
            continue
        report.progress(f"{scenario.label}: {scenario.server.name}")
        try:
            runs.append(_run(scenario, chosen))
            rows.append(_row(runs[-1]))
        except StartError as error:
            rows.append((scenario.label, scenario.server.name, str(error), *[None] * (len(HEADER) - 3)))
    report.add("Healthy requests beside slow clients", HEADER, rows)
    report.disturbance([run.usage.others for run in runs])
    report.goals(goals(runs, chosen))
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def _run(scenario: Scenario, chosen: argparse.Namespace) -> Run:
    server = scenario.server
    seconds = chosen.peer_seconds if server in servers.PEERS else chosen.seconds
    server_core, load_core = both = cores()
    with running(server, server_core, Program(large_bytes=MIB)) as one:
        body_type = [("Content-Type", server.body_type)] if scenario.kind == "bodies" else []
        crowd = {
            "port": one.port,
            "kind": scenario.kind,
            "clients": scenario.clients,
            "path": {"heads": server.path, "bodies": server.slow_path}.get(scenario.kind, server.large_path),
            "headers": [*one.headers, *body_type],
            "connects": min(chosen.connects, READERS_CONNECT) if scenario.kind == "readers" else chosen.connects,
        }
        load = {
            "port": one.port,
            "path": server.path,
            "headers": one.headers,
            "rate": chosen.rate,
            "seconds": seconds,
            "timeout": chosen.timeout,
        }
        with LoadProcess(load_core, "crowd", crowd) as slow, Sampler(one.pid) as sampler:
            before = slow.report()
            with measured(one.pid, both) as usage:
                healthy = run_load(load_core, "openloop", load, seconds + chosen.timeout + 30)
            after = slow.finish()
    return Run(scenario.label, server.name, healthy, before, after, sampler.peak, usage)


def _row(run: Run) -> Sequence[str | float | None]:
    answered = run.healthy["answered"]
    lost = [f"{count} {outcome}" for outcome, count in run.healthy["outcomes"].items() if outcome != "200"]
    return (
        run.scenario,
        run.server,
        run.answered,
        answered["p50"],
        answered["p99"],
        answered["max"],
        run.peak.threads,
        run.peak.resident_bytes / 1e6,
        run.crowd_after["held"],
        100 * run.usage.server_cpu_seconds / run.usage.seconds,
        100 * run.usage.load_core_idle,
        100 * run.usage.others,
        ", ".join(lost) or None,
    )


def goals(runs: Sequence[Run], chosen: argparse.Namespace) -> list[Goal]:
    """Return what the project wants to reach in each scenario of its own servers."""
    peers = {peer.name for peer in servers.PEERS}
    found = []
    for run in runs:
        if run.server in peers:
            continue
        many = run.crowd_after["clients"] > chosen.clients
        label = f"{run.scenario}, {run.server}"
        found += [
            Goal(f"{label}: answered %", run.answered, 100, at_least=True),
            Goal(f"{label}: p99 in ms", run.healthy["answered"]["p99"], 50 if many else 20, at_least=False),
            Goal(f"{label}: threads", run.peak.threads, THREADS + 4, at_least=False),
            Goal(f"{label}: resident MB", run.peak.resident_bytes / 1e6, 80 if many else 50, at_least=False),
        ]
    return found
