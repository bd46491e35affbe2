"""How many requests a second, each on a connection of its own, and what a request costs.

Every server runs from the start, idle while another is measured; a round measures each in turn, with two request
headers (``Host``, ``Connection: close``) and with a browser's twelve; routes that need the session token get it as one
more. Rates and latencies are wrk's (``wrk.py`` says how it counts). Processor time is that of the server's process tree
over the same seconds. "load idle" is how idle the load's core was: near 0 the load generator and not the server was the
limit, and processor time a request is the figure to compare. "others" is the share of the server's core that neither
idled nor ran this server: on a quiet machine a few percent, which are interrupts.

Every server has its own defaults, but for pools, which have 16 threads each, and access logs, which are off.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from . import messages, options, servers, wrk
from .processes import StartError, cores
from .report import Goal, Report
from .servers import BASELINE, Program, Running, running
from .stats import middle, ratio
from .usage import Usage, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

HEADER_SETS: dict[str, messages.Headers] = {"2": (), "12": messages.BROWSER_HEADERS}
INLINE, STATUS, ROUTE, HANDLER, WSGI = (
    server.name for server in (servers.inline(), servers.status(), servers.ROUTE, servers.HANDLER, servers.WSGI)
)
HEADER = (
    "server",
    "requests/s",
    "lowest",
    "highest",
    "x stdlib",
    "CPU us/request",
    "x nginx CPU",
    "p50 ms",
    "p99 ms",
    "load idle %",
    "others %",
    "errors",
    "body bytes",
)


@dataclass(frozen=True)
class Run:
    """One server under load for a few seconds in one round."""

    server: str
    headers: str
    round: int
    body_bytes: int
    summary: wrk.Summary
    usage: Usage
    wrong_bytes: bool

    @property
    def cpu(self) -> float:
        """Microseconds of processor time for each request."""
        return self.usage.cpu_microseconds(self.summary.requests)

    def as_json(self) -> dict[str, object]:
        """Return the run with its derived figures."""
        return asdict(self) | {"rate": self.summary.rate, "cpu_microseconds": self.cpu}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("throughput", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 20), default=3)
    parser.add_argument("--seconds", type=options.bounded(1, 60), default=3, help="load on a server in a round")
    parser.add_argument("--connections", type=options.bounded(1, 512), default=16)
    parser.add_argument("--headers", choices=[*HEADER_SETS, "both"], default="both", help="request headers")
    parser.add_argument("--body-bytes", type=options.bounded(0, 1 << 20), default=0, help="pad the peers' body to this")
    parser.add_argument(
        "--switch-interval",
        action="store_true",
        help="measure the library forms once more with the short interpreter switch interval",
    )
    return parser.parse_args(argv)


def candidates(*, switch_interval: bool) -> list[servers.Server]:
    """Return every server of the comparison, this project's first."""
    short = [servers.with_short_switch_interval(form) for form in ("handler", "wsgi")] if switch_interval else []
    own = [servers.inline(), servers.status(), servers.ROUTE, servers.HANDLER, servers.WSGI]
    return [*own, *short, *servers.PEERS]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    wrk.require()
    report = Report("throughput", {key: value for key, value in vars(chosen).items() if key != "output"})
    sets = [chosen.headers] if chosen.headers != "both" else list(HEADER_SETS)
    with ExitStack() as stack:
        started, failed = _start(stack, chosen)
        time.sleep(1)
        runs = list(_rounds(report, started, failed, sets, chosen))
    for headers in sets:
        mine = [run for run in runs if run.headers == headers]
        absent = [(name, reason, *[None] * (len(HEADER) - 2)) for name, reason in failed.items()]
        report.add(f"{headers} request headers", HEADER, [*_rows(mine), *absent])
    _remarks(report, runs)
    report.goals([goal for headers in sets for goal in goals(headers, [run for run in runs if run.headers == headers])])
    report.write([run.as_json() for run in runs], chosen.output)
    return 0


def _start(stack: ExitStack, chosen: argparse.Namespace) -> tuple[list[Running], dict[str, str]]:
    """Start every server and load each for a second; return them, and why others are not among them."""
    started: list[Running] = []
    failed: dict[str, str] = {}
    core, load_core = cores()
    for server in options.chosen(candidates(switch_interval=chosen.switch_interval), chosen.only):
        try:
            one = stack.enter_context(running(server, core, Program(body_bytes=chosen.body_bytes)))
        except StartError as error:
            failed[server.name] = str(error)
        else:
            started.append(one)
            wrk.run(load_core, wrk.Plan(one.port, one.server.path, chosen.connections, 1, one.headers))
    return started, failed


def _rounds(
    report: Report, started: Sequence[Running], failed: dict[str, str], sets: Sequence[str], chosen: argparse.Namespace
) -> Iterator[Run]:
    """Measure each server in turn, again and again. One that stops answering is left out from then on."""
    for number in range(1, chosen.rounds + 1):
        for headers in sets:
            report.progress(f"round {number} of {chosen.rounds}, {headers} request headers")
            for one in started:
                if one.server.name in failed:
                    continue
                try:
                    yield _run(one, headers, number, chosen)
                except StartError as error:
                    failed[one.server.name] = f"stopped in round {number}: {error}"


def _run(one: Running, headers: str, number: int, chosen: argparse.Namespace) -> Run:
    """Load one server, and check one whole response before and after."""
    sample = one.check()
    both = cores()
    fields = [*one.headers, *HEADER_SETS[headers]]
    with measured(one.pid, both) as usage:
        summary = wrk.run(both[1], wrk.Plan(one.port, one.server.path, chosen.connections, chosen.seconds, fields))
    size = one.check().size
    # The last responses may be cut by the end of the run; documents that count requests vary by a few bytes.
    wrong = summary.requests > 0 and abs(summary.bytes / summary.requests - size) > max(2.0, 0.005 * size)
    return Run(one.server.name, headers, number, len(sample.body), summary, usage, wrong)


def by_server(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group runs by server, rounds in order."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.server, []).append(run)
    return groups


def _rates(runs: Sequence[Run]) -> list[float]:
    return [run.summary.rate for run in runs]


def _cpus(runs: Sequence[Run]) -> list[float]:
    return [run.cpu for run in runs]


def _rows(runs: Sequence[Run]) -> list[tuple[str | float | None, ...]]:
    groups = by_server(runs)
    rates, cpus = _rates(groups.get(BASELINE, [])), _cpus(groups.get("nginx", []))
    return [
        (
            name,
            middle(_rates(mine)),
            min(_rates(mine)),
            max(_rates(mine)),
            ratio(_rates(mine), rates),
            middle(_cpus(mine)),
            ratio(_cpus(mine), cpus),
            middle([run.summary.p50 for run in mine]),
            middle([run.summary.p99 for run in mine]),
            middle([run.usage.load_core_idle * 100 for run in mine]),
            middle([run.usage.others * 100 for run in mine]),
            sum(run.summary.errors for run in mine),
            mine[-1].body_bytes,
        )
        for name, mine in groups.items()
    ]


def _remarks(report: Report, runs: Sequence[Run]) -> None:
    for name in sorted({run.server for run in runs if run.wrong_bytes}):
        report.note(f"{name}: bytes for each response differ from the response that was read whole")
    report.disturbance([max(run.usage.others, run.usage.load_others) for run in runs])
    sizes = {run.server: run.body_bytes for run in runs}
    peer = sizes.get(BASELINE)
    if peer and sizes.get(STATUS, 0) > 2 * peer:
        report.note(
            f"{STATUS} answers {sizes[STATUS]} bytes where the peers answer {peer}; {ROUTE} is the like comparison, "
            f"--body-bytes {sizes[STATUS]} the other"
        )


def goals(headers: str, runs: Sequence[Run]) -> list[Goal]:
    """Return what the project wants to reach, for one set of request headers."""
    groups = by_server(runs)

    def faster(name: str, others: Sequence[str], bound: float, label: str) -> Goal:
        best = max(others, key=lambda other: middle(_rates(groups.get(other, []))) if other in groups else 0.0)
        value = ratio(_rates(groups.get(name, [])), _rates(groups.get(best, [])))
        return Goal(f"{headers} headers: {name}, rate over {label}", value, bound, at_least=True)

    cost = ratio(_cpus(groups.get(INLINE, [])), _cpus(groups.get("nginx", [])))
    return [
        faster(INLINE, [BASELINE], 4, BASELINE),
        Goal(f"{headers} headers: {INLINE}, CPU over nginx's", cost, 2, at_least=False),
        faster(ROUTE, [BASELINE], 3, BASELINE),
        faster(ROUTE, ["uvicorn"], 1, "uvicorn"),
        faster(ROUTE, ["Granian WSGI"], 0.9, "Granian"),
        faster(STATUS, [BASELINE], 3, f"{BASELINE} (larger body)"),
        faster(HANDLER, [BASELINE], 2, BASELINE),
        faster(WSGI, ["waitress", "cheroot", "gunicorn gthread"], 2, "the best of waitress, cheroot, gunicorn"),
        *(_prompt(headers, name, groups) for name in (INLINE, ROUTE, HANDLER, WSGI)),
    ]


def _prompt(headers: str, name: str, groups: Mapping[str, Sequence[Run]]) -> Goal:
    value = middle([run.summary.p99 for run in groups.get(name, [])])
    return Goal(f"{headers} headers: {name}, p99 in ms", value, 2, at_least=False)
