"""What faults come to on real processes, beside what the probe matrix implies.

``idkmesh serve`` and the control tower run under ``idkmesh rehearse`` with PostgreSQL, Redis and a small HTTP server.
Each fault is done several times, at another phase each time. Somebody outside asks ``/readyz`` and ``/livez`` fifty
times a second. Noticed is the first answer that names who is hit; over is the first that does no more. Beside it: when
the orchestrator took the instance out of rotation and put it back, restarts, and ready answers that were asked for
beyond the bound and half a second, which is what a rehearsal allows the machine.
"""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from idkmesh.health.matrix_file import read_matrix
from idkmesh.rehearsal.bounds import ALLOWANCE_SECONDS

from . import fault_table, options
from .fault_site import SERVICES, Planned, rehearsed, site
from .fault_table import FAULTS, NOT_READY, NOTHING, RESTART, WARNING, Fault
from .report import Report
from .stats import latency, middle
from .stores import MissingError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from idkmesh.health.model import ProbeMatrix

    from .fault_site import Asked, Kept

NOTICEABLE_LOAD = 0.5
FIRST_SECONDS = 3.0
"""When the first fault begins: by then a service has started."""
END_SECONDS = 1.0
"""For which a rehearsal goes on after what is looked at: it ends the service, which is no answer to a fault."""

ANSWERS = ("fault", "times", "told by", "median", "worst", "over by", "median", "worst", "restarts", "ready beyond")
ROTATION = ("fault", "out by", "median", "worst", "in by", "median", "worst", "livez not 200", "its p99 ms")


@dataclass(frozen=True)
class Run:
    """One fault at one time, in seconds: ``notice`` and ``act`` from its begin, ``back`` and ``enter`` from its end.

    Of a service that was stopped they are the decision to restart it, and from there until it is ready. None did not
    come about. ``beyond`` counts ready answers beyond the bound, ``stalled`` those of liveness that were not 200;
    ``alive`` is how long 99 % of those of liveness took at most, in milliseconds.
    """

    service: str
    fault: str
    notice: float | None
    act: float | None
    back: float | None
    enter: float | None
    restarts: int
    beyond: int
    stalled: int
    alive: float


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("faults", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 50), default=5, help="how often each fault is done")
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME", help="only faults named so (repeatable)"
    )
    parser.add_argument("--seed", type=options.bounded(0, 1 << 30), default=1, help="of the phases")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("faults", {key: value for key, value in vars(chosen).items() if key != "output"})
    wanted = [each for each in FAULTS if not chosen.fault or any(part in each.name for part in chosen.fault)]
    runs: list[Run] = []
    if (busy := os.getloadavg()[0]) > NOTICEABLE_LOAD:
        report.note(f"the load of this machine was {busy:.1f} before it began: measure again on a quiet one")
    for service in SERVICES:
        if chosen.only and not any(part in service for part in chosen.only):
            continue
        report.progress(f"{service}: {len(wanted)} faults, {chosen.rounds} times each")
        try:
            found, matrix = measured(service, wanted, chosen.rounds, seed=chosen.seed)
        except MissingError as error:
            raise SystemExit(f"faults: {error}") from None
        runs += found
        report.add(f"{service}: answers, seconds", ANSWERS, [_answers(found, each, matrix) for each in wanted])
        report.add(f"{service}: rotation, seconds", ROTATION, [_rotation(found, each, matrix) for each in wanted])
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def measured(
    service: str, wanted: Sequence[Fault], rounds: int, *, seed: int = 1, scale: int = 1
) -> tuple[list[Run], ProbeMatrix]:
    """Run a service through faults, and return what each came to. Raises :class:`.stores.MissingError`."""
    with tempfile.TemporaryDirectory(prefix="idkmesh-bench-") as name, site(Path(name), scale) as place:
        matrix = read_matrix(place.matrix)
        plan, seconds = planned(wanted, matrix, rounds, random.Random(seed))  # noqa: S311  phases, no secret
        kept = rehearsed(place, service, Path(name), plan, seconds + END_SECONDS)
    done = sorted(kept.done, key=lambda each: each.begin)
    following = [*(each.begin for each in done[1:]), seconds]
    return [summary(service, each, until, kept, matrix) for each, until in zip(done, following, strict=True)], matrix


def planned(
    wanted: Sequence[Fault], matrix: ProbeMatrix, rounds: int, chance: random.Random
) -> tuple[tuple[Planned, ...], float]:
    """Return when each fault is done, and when all is over. Phases are by chance."""
    plan, at = [], FIRST_SECONDS
    for _ in range(rounds):
        for fault in wanted:
            limits = fault_table.bounds(fault, matrix, ALLOWANCE_SECONDS)
            at += chance.random()
            plan.append(Planned(fault, at, at + limits.lasts))
            # A process that starts again is no longer about it than the startup of a healthy one.
            at += limits.lasts + min(limits.enter, 3.0) + ALLOWANCE_SECONDS
    return tuple(plan), at


def summary(service: str, each: Planned, until: float, kept: Kept, matrix: ProbeMatrix) -> Run:
    """Return what one fault came to, of what was seen until the next began."""
    limits = fault_table.bounds(each.fault, matrix, ALLOWANCE_SECONDS)
    restarts = [at for one in kept.document["restarts"] if each.begin <= (at := one["at_seconds"]) < until]
    # What is heard later may be what the next fault has made of it.
    mine = [one for one in kept.answers if each.begin <= one.sent <= one.heard < until]
    ready = [one for one in mine if one.path == "/readyz"]
    decided = each.fault.shows == RESTART
    since = restarts[0] if decided and restarts else each.end
    shows = [one for one in ready if _shows(one, each.fault)]
    told = restarts if decided else [one.heard for one in shows if one.sent < each.end]
    well = [one.heard for one in ready if shows and one.sent > max(since, shows[-1].sent)]
    left, entered = _moved(kept, each, until)
    act = restarts if decided else left
    late = each.begin + limits.notice + ALLOWANCE_SECONDS
    beyond = [one for one in ready if late <= one.sent and one.heard < each.end and not _told(one, each.fault)]
    return Run(
        service,
        each.fault.name,
        notice=told[0] - each.begin if told else None,
        act=act[0] - each.begin if act else None,
        back=well[0] - since if well and told else None,
        enter=entered[-1] - since if told and entered and entered[-1] >= since else None,
        restarts=len(restarts),
        beyond=len(beyond) if each.fault.shows in {NOT_READY, WARNING} else 0,
        stalled=0 if decided else sum(one.status != 200 for one in mine if one.path == "/livez"),
        alive=latency([one.heard - one.sent for one in mine if one.path == "/livez"])["p99"],
    )


def _moved(kept: Kept, each: Planned, until: float) -> tuple[list[float], list[float]]:
    """Return when the orchestrator took in that a fault is there, and that it is over."""
    span = [entry for entry in kept.document["timeline"] if each.begin <= entry["at_seconds"] < until]
    words = ("left_rotation", "entered_rotation")
    if each.fault.shows == WARNING:
        words = ("warnings_changed", "warnings_changed")
    left, entered = ([entry["at_seconds"] for entry in span if entry["what"] == word] for word in words)
    return [at for at in left if at < each.end], entered


def _shows(asked: Asked, fault: Fault) -> bool:
    """Say whether an answer names who is hit, or is none."""
    named = asked.warnings if fault.shows == WARNING else asked.failing
    return asked.status == 0 or bool(set(fault.hits) & set(named)) or (not fault.hits and asked.status != 200)


def _told(asked: Asked, fault: Fault) -> bool:
    """Say whether an answer is what the fault must bring about: not ready, or a warning."""
    return _shows(asked, fault) if fault.shows == WARNING else asked.status != 200


def _answers(runs: Sequence[Run], fault: Fault, matrix: ProbeMatrix) -> tuple[str | float | None, ...]:
    mine, limits = _of(runs, fault), fault_table.bounds(fault, matrix, ALLOWANCE_SECONDS)
    told, over = [each.notice for each in mine], [each.back for each in mine]
    return (
        fault.name,
        len(mine),
        *_beside(limits.notice, told, fault),
        *_beside(limits.back, over, fault),
        sum(each.restarts for each in mine),
        sum(each.beyond for each in mine),
    )


def _rotation(runs: Sequence[Run], fault: Fault, matrix: ProbeMatrix) -> tuple[str | float | None, ...]:
    mine, limits = _of(runs, fault), fault_table.bounds(fault, matrix, ALLOWANCE_SECONDS)
    acted, entered = [each.act for each in mine], [each.enter for each in mine]
    return (
        fault.name,
        *_beside(limits.act, acted, fault),
        *_beside(limits.enter, entered, fault),
        sum(each.stalled for each in mine),
        max((each.alive for each in mine if fault.shows != RESTART), default=None),
    )


def _beside(bound: float, seconds: Sequence[float | None], fault: Fault) -> tuple[float | None, ...]:
    known = [each for each in seconds if each is not None]
    if fault.shows == NOTHING:
        return None, middle(known), max(known, default=None)
    return bound, middle(known), max(known, default=None)


def _of(runs: Sequence[Run], fault: Fault) -> list[Run]:
    return [each for each in runs if each.fault == fault.name]
