"""The standard library's file handler, unchanged, on its own server and on this project's.

``SimpleHTTPRequestHandler`` serves a small file (wrk, each request on a connection of its own) and a large one (one
download after the other, each checked for its length, one a round for its digest). Rounds are interleaved; a ratio is
the median of the rounds' ratios. Processor time is the server's, for a request or for a download.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import options, servers, wrk
from .processes import cores, run_load
from .report import Goal, Report
from .servers import BASELINE, Program, Running, running
from .stats import middle, ratio
from .usage import Usage, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

MIB = 1 << 20
HEADER = ("server", "rate", "lowest", "highest", "x stdlib", "CPU ms each", "x stdlib CPU", "load idle %", "errors")


@dataclass(frozen=True)
class Run:
    """One server and one file in one round. ``rate`` is requests a second, or bytes a second for the large file."""

    server: str
    file: str
    round: int
    rate: float
    count: int
    errors: int
    usage: Usage

    @property
    def cpu_ms(self) -> float:
        """The server's processor time for each response, in milliseconds."""
        return self.usage.cpu_microseconds(self.count) / 1000


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("drop_in", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 20), default=5)
    parser.add_argument("--seconds", type=options.bounded(1, 60), default=4, help="load on the small file in a round")
    parser.add_argument("--downloads", type=options.bounded(1, 100), default=10, help="of the large file in a round")
    parser.add_argument("--connections", type=options.bounded(1, 512), default=16)
    parser.add_argument("--small-bytes", type=options.bounded(1, MIB), default=1024)
    parser.add_argument("--large-mib", type=options.bounded(1, 1024), default=100)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    wrk.require()
    report = Report("drop_in", {key: value for key, value in vars(chosen).items() if key != "output"})
    with tempfile.TemporaryDirectory(prefix="idkmesh-bench-") as folder:
        files = Path(folder)
        (files / "small").write_bytes(os.urandom(chosen.small_bytes))
        (files / "large").write_bytes(os.urandom(MIB) * chosen.large_mib)
        program = Program(files=folder)
        core = cores()[0]
        with running(servers.FILES, core, program) as ours, running(servers.THREADING_FILES, core, program) as theirs:
            digest = hashlib.sha256((files / "large").read_bytes()).hexdigest()
            runs = _rounds(report, (ours, theirs), digest, chosen)
    report.add("Small file, requests/s", HEADER, _rows(runs, "small", 1))
    report.add("Large file, MB/s", HEADER, _rows(runs, "large", 1e6))
    report.disturbance([max(run.usage.others, run.usage.load_others) for run in runs])
    report.goals([goal(runs, file) for file in ("small", "large")])
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def _rounds(report: Report, both: Sequence[Running], digest: str, chosen: argparse.Namespace) -> list[Run]:
    runs = []
    measures: tuple[Callable[..., Run], ...] = (_small, _large)
    for number in range(1, chosen.rounds + 1):
        report.progress(f"round {number} of {chosen.rounds}")
        for measure in measures:
            runs += [measure(one, number, digest, chosen) for one in both]
    return runs


def _small(one: Running, number: int, _: str, chosen: argparse.Namespace) -> Run:
    one.check()
    both = cores()
    with measured(one.pid, both) as usage:
        summary = wrk.run(both[1], wrk.Plan(one.port, "/small", chosen.connections, chosen.seconds))
    return Run(one.server.name, "small", number, summary.rate, summary.requests, summary.errors, usage)


def _large(one: Running, number: int, digest: str, chosen: argparse.Namespace) -> Run:
    both = cores()
    plan = {"port": one.port, "path": "/large", "count": chosen.downloads}
    with measured(one.pid, both) as usage:
        done: dict[str, Any] = run_load(both[1], "downloads", plan, 600)
    rate = done["bytes"] / middle(done["seconds"])
    wrong = int(done["sha256"] != digest)
    return Run(one.server.name, "large", number, rate, chosen.downloads + 1, wrong, usage)


def _of(runs: Sequence[Run], server: str, file: str) -> list[Run]:
    return [run for run in runs if run.server == server and run.file == file]


def _rows(runs: Sequence[Run], file: str, unit: float) -> list[tuple[str | float | None, ...]]:
    base = _of(runs, BASELINE, file)
    rows: list[tuple[str | float | None, ...]] = []
    for name in (servers.FILES.name, BASELINE):
        mine = _of(runs, name, file)
        rates = [run.rate / unit for run in mine]
        rows.append(
            (
                name,
                middle(rates),
                min(rates),
                max(rates),
                ratio(rates, [run.rate / unit for run in base]),
                middle([run.cpu_ms for run in mine]),
                ratio([run.cpu_ms for run in mine], [run.cpu_ms for run in base]),
                middle([100 * run.usage.load_core_idle for run in mine]),
                sum(run.errors for run in mine),
            )
        )
    return rows


def goal(runs: Sequence[Run], file: str) -> Goal:
    """Return the goal for one file."""
    mine, base = _of(runs, servers.FILES.name, file), _of(runs, BASELINE, file)
    value = ratio([run.rate for run in mine], [run.rate for run in base])
    return Goal(f"{file} file, rate over {BASELINE}", value, 0.95, at_least=True)
