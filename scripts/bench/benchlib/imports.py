"""How long importing the server takes, beside the standard library's own.

Each import is made in an interpreter of its own, pinned to a core, with bytecode that an earlier start has written, as
that of an installed package is. The figure is the processor time of the import statement alone, for a machine that does
something else besides moves it least; the lowest of the rounds is what the import itself needs. Rounds are interleaved;
a ratio is the median of the rounds' ratios. ``idkmesh.httpd`` by itself loads no server: its names do.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from . import options
from .processes import cores, environment, pinned, python
from .report import Goal, Report
from .stats import middle, ratio

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

HEADER = ("import", "ms, lowest", "median", "highest", "x http.server")
THEIRS, PACKAGE, SERVER = "http.server", "idkmesh.httpd", "every name of idkmesh.httpd"
STATEMENTS: Final = {
    THEIRS: "import http.server",
    PACKAGE: "import idkmesh.httpd",
    SERVER: "from idkmesh.httpd import *",
}
MOST_MS = 60
PROGRAM = "import time; begun = time.process_time()\n{}\nprint(time.process_time() - begun)"


@dataclass(frozen=True)
class Run:
    """One import in one round; ``seconds`` is processor time."""

    what: str
    round: int
    seconds: float


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("imports", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 200), default=25)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("imports", {key: value for key, value in vars(chosen).items() if key != "output"})
    with tempfile.TemporaryDirectory(prefix="idkmesh-bench-") as folder:
        # An empty variable is none: the first round writes what the others read.
        environ = environment({"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder})
        for statement in STATEMENTS.values():
            timed(statement, environ)
        runs = [
            Run(what, number, timed(statement, environ))
            for number in range(1, chosen.rounds + 1)
            for what, statement in STATEMENTS.items()
        ]
    report.add("imports", HEADER, [_row(runs, what) for what in STATEMENTS])
    lowest = {what: min(_milliseconds(runs, what)) for what in (PACKAGE, SERVER)}
    report.goals([Goal(f"{what}, in ms", value, MOST_MS, at_least=False) for what, value in lowest.items()])
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def timed(statement: str, environ: Mapping[str, str]) -> float:
    """Return the processor time of a statement, in seconds, in an interpreter that has imported nothing for it."""
    command = pinned(cores()[0], python("-c", PROGRAM.format(statement)))
    done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=True)
    return float(done.stdout)


def _milliseconds(runs: Sequence[Run], what: str) -> list[float]:
    return [run.seconds * 1000 for run in runs if run.what == what]


def _row(runs: Sequence[Run], what: str) -> tuple[str | float, ...]:
    mine = _milliseconds(runs, what)
    return what, min(mine), middle(mine), max(mine), ratio(mine, _milliseconds(runs, THEIRS))
