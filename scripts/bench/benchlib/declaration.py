"""How long it takes to judge a declaration of modules.

A thousand modules of two instances with a port and a command, once as people write them over six lines and once each in
a line, are read, judged and made into values; the same with a mistake in each; and made values are judged without YAML.
Beside them stands PyYAML alone, with libyaml, which makes plain data and knows no place. Rounds are interleaved, and
the collector has done its work before each.
"""

from __future__ import annotations

import gc
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import yaml

from idkmesh.workloads.declaration import DeclarationError, load_declaration
from idkmesh.workloads.validation import validate_declaration

from . import options
from .report import Goal, Report
from .stats import middle

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

HEADER = ("what", "ms", "lowest", "highest", "us each")
HEAD = """\
schema_version: "0.1"
kind: idkmesh-modules
platforms: {lxd: {socket: /var/lib/lxd/unix.socket}}
modules:
"""
BLOCK = """\
  - name: web-%d
    kind: stateless
    driver: lxd
    instances: [web-%d-1, web-%d-2]
    port: 8080
    readiness: {command: [/usr/local/bin/check, --fast], timeoutSecs: 3}
"""
FLOW = (
    "  - {name: web-%d, kind: stateless, driver: lxd, instances: [web-%d-1, web-%d-2], port: 8080, "
    "readiness: {command: [/usr/local/bin/check, --fast], timeoutSecs: 3}}\n"
)
MOST_MS = 200
READ = "read and judged"


@dataclass(frozen=True)
class Run:
    """One way in one round; ``seconds`` is wall time."""

    way: str
    round: int
    seconds: float


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("declaration", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 100), default=15)
    parser.add_argument("--modules", type=options.bounded(1, 1000), default=1000)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("declaration", {key: value for key, value in vars(chosen).items() if key != "output"})
    named = ways(chosen.modules)
    runs = [Run(way, number, timed(call)) for number in range(1, chosen.rounds + 1) for way, call in named.items()]
    report.add(f"{chosen.modules:,} modules", HEADER, [_row(runs, way, chosen.modules) for way in named])
    report.goals([Goal(f"{READ}, in ms", middle(_milliseconds(runs, READ)), MOST_MS, at_least=False)])
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def ways(count: int) -> dict[str, Callable[[], object]]:
    """Return what is measured, by name."""
    block, flow = (HEAD + "".join(row % ((number,) * 3) for number in range(count)) for row in (BLOCK, FLOW))
    plain = yaml.load(block, Loader=yaml.CSafeLoader)
    wrong = block.replace("port: 8080", "port: 0")
    return {
        READ: lambda: load_declaration(block, "modules.yaml"),
        "a module in a line": lambda: load_declaration(flow, "modules.yaml"),
        "a mistake in each": lambda: _refused(wrong),
        "made values, judged": lambda: validate_declaration(plain),
        "PyYAML alone": lambda: yaml.load(block, Loader=yaml.CSafeLoader),
    }


def timed(call: Callable[[], object]) -> float:
    """Return how long one call takes, in seconds."""
    gc.collect()
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _refused(text: str) -> int:
    try:
        load_declaration(text, "modules.yaml")
    except DeclarationError as error:
        return len(error.findings)
    raise AssertionError("nothing was refused")


def _milliseconds(runs: Sequence[Run], way: str) -> list[float]:
    return [run.seconds * 1000 for run in runs if run.way == way]


def _row(runs: Sequence[Run], way: str, count: int) -> tuple[str | float, ...]:
    times = _milliseconds(runs, way)
    return (way, middle(times), min(times), max(times), middle(times) * 1000 / count)
