"""What a pass of the supervisor takes: over local processes, and over containers of a real LXD.

A pass is the supervisor's own: it lists the instances, runs the command ``true`` in each, at most eight at once, folds
what came of it into the trackers and saves them on the disk. Beside it stands the listing alone. Instances are started
before and do nothing but sleep; the first pass of each way is not counted. Processor time is that of this process and
its commands, for containers that of this process alone: what the daemon and the commands inside take is the machine's.
LXD is Debian's, brought up as for the tests (``scripts/lxd``), which needs root; without it its rows say why.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idkmesh.workloads.ages import system_stamp
from idkmesh.workloads.drivers.lxd import LxdDriver
from idkmesh.workloads.drivers.process import ProcessDriver
from idkmesh.workloads.lease.sqlite import SqliteLeaseStore
from idkmesh.workloads.lease.store import Grant
from idkmesh.workloads.model import (
    Declaration,
    DesiredModule,
    InstanceState,
    LxdPlatform,
    ModuleKind,
    Readiness,
    Word,
)
from idkmesh.workloads.supervisor import Supervisor
from idkmesh.workloads.tracker_store import TrackerStore

from . import options
from .processes import REPOSITORY, python
from .report import Goal, Report
from .stats import middle

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.lease.store import LeaseStore

    Place = tuple[Driver, tuple[DesiredModule, ...]]

HEADER = ("what", "instances", "pass ms", "lowest", "highest", "ms a check", "CPU ms a check")
TRUE = Readiness(("true",))
MODULE_MOST = 50
PROCESSES, CONTAINERS = "local processes", "LXD containers"
LISTING = ", listing alone"
MOST_SECONDS = 5.0
"""The interval that a declaration has unless it says otherwise: a pass is to fit into it."""
START_SECONDS = 60.0


@dataclass(frozen=True)
class Run:
    """One round of one way; times are in seconds, ``processor`` of this process and its children."""

    way: str
    round: int
    instances: int
    seconds: float
    processor: float


class Held:
    """A lease that is ours: what keeping it costs is no part of a pass, and nothing is restarted by it."""

    def __init__(self, store: LeaseStore) -> None:
        self._grant = Grant("bench", "bench")
        self._store = store

    @property
    def store(self) -> LeaseStore:
        """What a pass asks how long a claim outlasts its cooldown. It would grant none: nobody has acquired there."""
        return self._store

    def held(self) -> Grant:
        """Return the grant."""
        return self._grant

    def holder_name(self) -> str:
        """Return ours."""
        return self._grant.holder


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("workloads", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 100), default=10)
    parser.add_argument("--processes", type=options.bounded(1, 1000), default=200)
    parser.add_argument("--containers", type=options.bounded(1, 50), default=20)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("workloads", {key: value for key, value in vars(chosen).items() if key != "output"})
    runs: list[Run] = []
    places: dict[str, Callable[[], contextlib.AbstractContextManager[Place | None]]] = {
        PROCESSES: lambda: processes(chosen.processes),
        CONTAINERS: lambda: containers(chosen.containers, report),
    }
    wanted = [name.lower() for name in chosen.only]
    for name, place in places.items():
        if wanted and not any(part in name.lower() for part in wanted):
            continue
        with place() as found:
            if found is not None:
                runs += measured(name, *found, rounds=chosen.rounds, report=report)
    ways = list(dict.fromkeys(run.way for run in runs))
    report.add("A pass", HEADER, [_row([run for run in runs if run.way == way]) for way in ways])
    passes = [[run.seconds for run in runs if run.way == name] for name in places]
    report.goals(
        [
            Goal(f"{name}: a pass, in s", middle(seconds) if seconds else float("nan"), MOST_SECONDS, at_least=False)
            for name, seconds in zip(places, passes, strict=True)
        ]
    )
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def measured(
    way: str, driver: Driver, modules: tuple[DesiredModule, ...], *, rounds: int, report: Report
) -> Iterator[Run]:
    """Give the runs of a pass and of the listing alone, interleaved. Raises where an instance does not pass."""
    declaration = Declaration(modules=modules)
    names = {module.driver: driver for module in modules}
    with tempfile.TemporaryDirectory() as folder:
        supervisor = Supervisor(
            declaration,
            names,
            Held(SqliteLeaseStore(Path(folder) / "lease.sqlite3")),
            TrackerStore(Path(folder) / "trackers.sqlite3"),
            uid=65534,
            changed=lambda _change: None,
            record=lambda _change: False,
            log=lambda line, _level: report.progress(line),
        )
        for number in range(rounds + 1):
            listing = timed(lambda: driver.instances(modules))
            one_pass = timed(lambda: supervisor.make_pass(system_stamp()))
            records = supervisor.snapshot().records.values()
            if not all(record.command and record.command.probe.word is Word.PASSES for record in records):
                raise RuntimeError(f"{way}: not each instance has passed: look at the lines above")
            if number:
                yield Run(way, number, len(records), *one_pass)
                yield Run(way + LISTING, number, len(records), *listing)
            report.progress(f"{way}: round {number} of {rounds}")


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Return how long one call takes, and the processor time of this process and its children, in seconds."""
    before, began = os.times(), time.perf_counter()
    call()
    seconds, after = time.perf_counter() - began, os.times()
    return seconds, sum(after[:4]) - sum(before[:4])


@contextlib.contextmanager
def processes(count: int) -> Iterator[Place]:
    """Start local processes that sleep."""
    shares = [min(MODULE_MOST, count - start) for start in range(0, count, MODULE_MOST)]
    modules = tuple(
        DesiredModule(
            name=f"sleeper-{number}",
            kind=ModuleKind.STATEFUL,
            driver="process",
            argv=("sleep", "infinity"),
            cwd="/",
            replicas=share,
            readiness=TRUE,
        )
        for number, share in enumerate(shares)
    )
    driver = ProcessDriver(log=lambda _line, _level: None)
    try:
        _await_running(driver, modules)
        yield driver, modules
    finally:
        driver.close()


@contextlib.contextmanager
def containers(count: int, report: Report) -> Iterator[Place | None]:
    """Bring up an LXD with containers that sleep; None, and a note, where that cannot be had."""
    names = tuple(f"bench-{number}" for number in range(count))
    with tempfile.TemporaryDirectory(prefix="idb-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        try:
            up = _lxd(folder, "up", *names)
            if up.returncode:
                report.note(f"no containers: {up.stderr.strip() or 'LXD does not come up'}")
                yield None
                return
            for name in names:
                _lxd(folder, "lxc", "config", "set", name, "user.idkmesh.module=bench")
            module = DesiredModule(
                name="bench", kind=ModuleKind.STATEFUL, driver="lxd", instances=names, readiness=TRUE
            )
            driver = LxdDriver(LxdPlatform(socket=f"{folder}/lxd/unix.socket"))
            _await_running(driver, (module,))
            yield driver, (module,)
        finally:
            _lxd(folder, "down")


def _lxd(folder: str, *command: str) -> subprocess.CompletedProcess[str]:
    program = python(str(REPOSITORY / "scripts" / "lib" / "lxd_host.py"), *command)
    return subprocess.run(
        program, env={**os.environ, "IDKMESH_LXD": folder}, capture_output=True, text=True, check=False
    )


def _await_running(driver: Driver, modules: tuple[DesiredModule, ...]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while any(each.state is not InstanceState.RUNNING for each in driver.instances(modules)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all instances run after {START_SECONDS:.0f} s")
        time.sleep(0.2)


def _row(runs: Sequence[Run]) -> tuple[Any, ...]:
    times = [run.seconds * 1000 for run in runs]
    count = runs[0].instances
    processor = middle([run.processor * 1000 for run in runs]) / count
    return (runs[0].way, count, middle(times), min(times), max(times), middle(times) / count, processor)
