"""How fast readiness is answered, whatever it depends on.

Three control towers: one without dependencies, one with a thousand files that it looks at each minute, and one with ten
sockets that accept and never answer, each asked every two seconds and noncritical, so that the answer is 200. wrk loads
``/readyz``, each request on a connection of its own. Rounds are interleaved; a ratio is the median of the rounds'
ratios. Processor time is the server's, the probes' included.
"""

from __future__ import annotations

import socket
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import options, servers, wrk
from .processes import HOST, cores
from .report import Goal, Report
from .servers import Running, Server, running
from .stats import middle, ratio
from .usage import Usage, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

HEADER = ("dependencies", "requests/s", "lowest", "highest", "x none", "p99 ms", "CPU us each", "errors")
NONE, MANY, HUNG = "none", "1,000 files", "10 that hang"
FIGURES = "{period_ms: 10000, timeout_ms: 5000, failure_threshold: 3}"
HEAD = f"""\
schema_version: "0.1"
kind: idkmesh-probe-matrix
orchestrator: {{startup: {FIGURES}, liveness: {FIGURES}, readiness: {FIGURES}}}
watchdog: {{interval_ms: 2000, max_missed_ticks: 5}}
dependencies:
"""


@dataclass(frozen=True)
class Run:
    """One tower in one round."""

    dependencies: str
    round: int
    rate: float
    p99: float
    requests: int
    errors: int
    usage: Usage


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("readyz", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 20), default=5)
    parser.add_argument("--seconds", type=options.bounded(1, 60), default=3, help="load on each tower in a round")
    parser.add_argument("--connections", type=options.bounded(1, 512), default=16)
    parser.add_argument("--files", type=options.bounded(1, 1000), default=1000)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    wrk.require()
    report = Report("readyz", {key: value for key, value in vars(chosen).items() if key != "output"})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idkmesh-bench-")))
        silent = stack.enter_context(socket.create_server((HOST, 0), backlog=512))
        texts = {NONE: HEAD + "  []\n", MANY: HEAD + _files(folder, chosen.files), HUNG: HEAD + _hung(silent)}
        towers = {
            name: stack.enter_context(running(_tower(folder, name, text), cores()[0])) for name, text in texts.items()
        }
        runs = []
        for number in range(1, chosen.rounds + 1):
            report.progress(f"round {number} of {chosen.rounds}")
            runs += [_measure(tower, name, number, chosen) for name, tower in towers.items()]
    report.add("/readyz", HEADER, [_row(runs, name) for name in texts])
    report.disturbance([max(run.usage.others, run.usage.load_others) for run in runs])
    report.goals([goal(runs, name) for name in (MANY, HUNG)])
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def _tower(folder: Path, name: str, text: str) -> Server:
    file = folder / f"{len(name)}.yaml"
    file.write_text(text, encoding="ascii")
    return Server(f"tower, {name}", servers.tower("--matrix", str(file)), path="/readyz", large_path=None)


def _files(folder: Path, count: int) -> str:
    times = "timeout_ms: 1000, interval_ms: 60000, cache_ms: 120000"
    row = f"critical: true, probe: {{file: {{path: {folder}/{len(NONE)}.yaml}}}}, {times}"
    return "".join(f"  - {{name: file-{number}, {row}}}\n" for number in range(count))


def _hung(silent: socket.socket) -> str:
    url = f"http://{HOST}:{silent.getsockname()[1]}/"
    row = f"critical: false, probe: {{http: {{url: {url!r}}}}}, timeout_ms: 1500, interval_ms: 2000, cache_ms: 5000"
    return "".join(f"  - {{name: hung-{number}, {row}}}\n" for number in range(10))


def _measure(tower: Running, name: str, number: int, chosen: argparse.Namespace) -> Run:
    tower.check()
    both = cores()
    with measured(tower.pid, both) as usage:
        found = wrk.run(both[1], wrk.Plan(tower.port, "/readyz", chosen.connections, chosen.seconds))
    return Run(name, number, found.rate, found.p99, found.requests, found.errors, usage)


def _row(runs: Sequence[Run], name: str) -> tuple[str | float | None, ...]:
    mine, none = ([run for run in runs if run.dependencies == which] for which in (name, NONE))
    rates = [run.rate for run in mine]
    return (
        name,
        middle(rates),
        min(rates),
        max(rates),
        ratio(rates, [run.rate for run in none]),
        middle([run.p99 for run in mine]),
        middle([run.usage.cpu_microseconds(run.requests) for run in mine]),
        sum(run.errors for run in mine),
    )


def goal(runs: Sequence[Run], name: str) -> Goal:
    """Return the goal: within a tenth of a tower without dependencies (HL-5.1)."""
    mine, none = ([run.rate for run in runs if run.dependencies == which] for which in (name, NONE))
    return Goal(f"rate with {name}, over none", ratio(mine, none), 0.9, at_least=True)
