"""What is left of a server that is offered more than it can do.

Waiting: each request occupies a worker for 20 ms without using the processor, so 16 workers can answer 800 a second.
Requests are offered at a fixed rate (open loop: ``openloop.py``) of once, three times and ten times that, and a process
of its own asks ``/healthz`` beside them. Goodput counts complete 200 responses received while requests were still being
offered. A refusal must be a complete 503 with ``Retry-After`` and ``X-Request-ID``; "no answer" is whatever was neither
200 nor such a 503: timed out, reset, cut, or not sent because 15,000 were open already.
"load lag" is how late the generator was, "others" what other programs had of either core: where these are large, the
latencies are theirs.

Computing: each request burns 20 ms of processor time, so one core can answer 50 a second. It is offered ten times
that, with a listen backlog of 16 and of 128, with the interpreter's default switch interval of 5 ms and with 0.1 ms.

Servers whose handlers run on an event loop have no workers to fill, so they are named and not measured.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from . import options, servers
from .processes import LoadProcess, StartError, cores
from .report import Goal, Report
from .serve_peer import THREADS
from .servers import Program, Server, running
from .stats import ratio
from .usage import Usage, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

FACTORS = (1, 3, 10)
WAITING, COMPUTING = "waiting", "computing"
PATHS = {WAITING: "/sleep", COMPUTING: "/burn"}
REFUSAL_FIELDS = ("Retry-After", "X-Request-ID")
WITHOUT_WORKERS = (servers.UVICORN, servers.NGINX)
NOT_MEASURED = "not measured: no pool of workers to fill"
SETTINGS = [
    (backlog, short, f"backlog {backlog}, switch interval {'0.1' if short else '5'} ms")
    for backlog in (16, 128)
    for short in (False, True)
]
HEADER = (
    "server",
    "offered x",
    "offered/s",
    "goodput/s",
    "p99 ms",
    "refused %",
    "no answer %",
    "healthz answered %",
    "healthz p50 ms",
    "healthz p99 ms",
    "healthz max ms",
    "load lag p99 ms",
    "load idle %",
    "others %",
)


@dataclass(frozen=True)
class Run:
    """One server at one rate."""

    kind: str
    server: str
    factor: int
    rate: float
    load: dict[str, Any]
    health: dict[str, Any]
    usage: Usage

    @property
    def goodput(self) -> float:
        """Complete 200 responses a second."""
        return float(self.load["goodput"])

    @property
    def unanswered(self) -> int:
        """Requests that got neither a complete 200 nor a refusal as it must be."""
        bad = self.load["outcomes"].get("refusals without their fields", 0)
        return int(self.load["offered"] - self.load["answered"]["count"] - self.load["refused"]["count"] + bad)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("overload", __doc__ or "")
    parser.add_argument("--seconds", type=options.bounded(1, 60), default=5, help="offered load in each run")
    parser.add_argument("--work-ms", type=options.bounded(1, 1000), default=20, help="what one request takes")
    parser.add_argument("--health-rate", type=options.bounded(1, 500), default=100, help="/healthz requests a second")
    parser.add_argument("--factor", type=options.bounded(1, 20), action="append", help="offered load over capacity")
    parser.add_argument("--kind", choices=PATHS, action="append", help="measure only this kind of handler")
    return parser.parse_args(argv)


def cases(chosen: argparse.Namespace) -> Iterator[tuple[str, Server, int, float]]:
    """Yield kind, server, factor and offered rate of each run, this project's first."""
    work = chosen.work_ms / 1000
    for kind in chosen.kind or PATHS:
        if kind == WAITING:
            for server in (servers.ROUTE, *servers.PEERS):
                factors = chosen.factor or FACTORS
                for factor in factors[:1] if server in WITHOUT_WORKERS else factors:
                    yield kind, server, factor, factor * THREADS / work
        else:
            for backlog, short, name in SETTINGS:
                flags = ["--listen-backlog", str(backlog), *(["--short-switch-interval"] if short else [])]
                server = replace(servers.ROUTE, name=f"route, {name}", command=servers.ours("routes", *flags))
                factor = max(chosen.factor or FACTORS)
                yield kind, server, factor, factor / work


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("overload", {key: value for key, value in vars(chosen).items() if key != "output"})
    runs: list[Run] = []
    rows: dict[str, list[Sequence[str | float | None]]] = {}
    for kind, server, factor, rate in cases(chosen):
        if not options.chosen([server], chosen.only):
            continue
        report.progress(f"{kind}, {server.name}, {factor} x")
        try:
            runs.append(_run(kind, server, factor, rate, chosen))
            row = _row(runs[-1])
        except StartError as error:
            row = (server.name, factor, str(error), *[None] * (len(HEADER) - 3))
        rows.setdefault(kind, []).append(row)
    for kind, mine in rows.items():
        report.add(f"Handlers {kind} {chosen.work_ms} ms", HEADER, mine)
    report.disturbance([max(run.usage.others, run.usage.load_others) for run in runs])
    report.goals(goals(runs))
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def _run(kind: str, server: Server, factor: int, rate: float, chosen: argparse.Namespace) -> Run:
    if server in WITHOUT_WORKERS:
        raise StartError(NOT_MEASURED)
    server_core, load_core = both = cores()
    with running(server, server_core, Program(work_seconds=chosen.work_ms / 1000)) as one:
        own = server not in servers.PEERS
        load = {
            "port": one.port,
            "path": PATHS[kind],
            "headers": one.headers,
            "rate": rate,
            "seconds": chosen.seconds,
            "refusal_fields": REFUSAL_FIELDS if own else (),
        }
        health = {"port": one.port, "path": "/healthz", "rate": chosen.health_rate, "seconds": chosen.seconds}
        with (
            measured(one.pid, both) as usage,
            LoadProcess(load_core, "openloop", load) as offered,
            LoadProcess(load_core, "openloop", {**health, "timeout": 5}) as asked,
        ):
            asked_report, offered_report = asked.report(), offered.report()
    return Run(kind, server.name, factor, rate, offered_report, asked_report, usage)


def _row(run: Run) -> Sequence[str | float | None]:
    offered, health = run.load["offered"], run.health["answered"]
    return (
        run.server,
        run.factor,
        run.rate,
        run.goodput,
        run.load["answered"]["p99"],
        100 * run.load["refused"]["count"] / offered,
        100 * run.unanswered / offered,
        100 * health["count"] / run.health["offered"],
        health["p50"],
        health["p99"],
        health["max"],
        run.load["lag"]["p99"],
        100 * run.usage.load_core_idle,
        100 * max(run.usage.others, run.usage.load_others),
    )


def goals(runs: Sequence[Run]) -> list[Goal]:
    """Return what the project wants to reach under overload."""
    mine = [run for run in runs if run.kind == WAITING and run.server == servers.ROUTE.name]
    found = []
    if mine:
        most, peak = max(mine, key=lambda run: run.factor), max(run.goodput for run in mine)
        share = 100 * ratio([most.goodput], [peak])
        found.append(Goal(f"waiting: goodput at {most.factor} x in % of peak", share, 95, at_least=True))
    wanted = f"route, {SETTINGS[-1][2]}"
    for run in [*mine, *(run for run in runs if run.server == wanted)]:
        label = f"{run.kind}, {run.factor} x" + (f", {SETTINGS[-1][2]}" if run.kind == COMPUTING else "")
        health, bound = run.health["answered"], 20 if run.kind == WAITING else 100
        share = 100 * health["count"] / run.health["offered"]
        found += [
            Goal(f"{label}: /healthz answered %", share, 100, at_least=True),
            Goal(f"{label}: /healthz p99 in ms", health["p99"], bound, at_least=False),
            Goal(f"{label}: requests without a whole answer", run.unanswered, 0, at_least=False),
        ]
    return found
