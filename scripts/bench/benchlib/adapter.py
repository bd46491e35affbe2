"""What a readiness adapter costs: processor time with the starts of its children, memory, threads, descriptors.

A control tower and an adapter in front of it, each on a core of its own. The adapter looks at the tower as it does
anywhere, and is asked for its three paths each second, as a supervisor would. Processor time is the adapter's with that
of its children; memory is the largest that was seen of the adapter and of a child, each by itself.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import options, servers
from .processes import HOST, StartError, cores, end, environment, free_port, pinned, python
from .procfs import CHILD_SYSTEM, CHILD_USER, PROC, SYSTEM, TICK_SECONDS, USER, CoreIdle, Footprint, fields
from .report import Goal, Report
from .servers import Server, running

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

HEADER = ("", "% of a core", "of it children", "RSS MB", "child's RSS MB", "threads", "descriptors", "answers not 200")
PATHS = ("/startup", "/live", "/ready")
LOOK_SECONDS = 0.02
START_SECONDS = 20.0


@dataclass
class Run:
    """What one adapter took in ``seconds``. Memory is in bytes, processor time in seconds."""

    seconds: float = 0.0
    own_cpu: float = 0.0
    children_cpu: float = 0.0
    resident_bytes: int = 0
    child_resident_bytes: int = 0
    threads: int = 0
    fewest_descriptors: int = 0
    most_descriptors: int = 0
    asked: int = 0
    not_200: int = 0
    core_idle: float = 0.0

    @property
    def share(self) -> float:
        """The part of one core that the adapter and its children have used (0-1)."""
        return (self.own_cpu + self.children_cpu) / self.seconds


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("adapter", __doc__ or "")
    parser.add_argument("--seconds", type=options.bounded(2, 600), default=60)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("adapter", {key: value for key, value in vars(chosen).items() if key != "output"})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idkmesh-bench-")))
        file = folder / "client.json"
        tower = Server("tower", servers.tower("--client-file", str(file)), path="/readyz", large_path=None)
        stack.enter_context(running(tower, cores()[1]))
        pid, port = stack.enter_context(_adapter(folder, file))
        report.progress(f"{chosen.seconds} s")
        run = _measure(pid, port, chosen.seconds)
    report.add("adapter", HEADER, [_row(run)])
    report.disturbance([max(0.0, 1 - run.core_idle - run.share)])
    report.goals(
        [
            Goal("% of a core, children included", run.share * 100, 3, at_least=False),
            Goal("RSS MB", run.resident_bytes / 1e6, 30, at_least=False),
            Goal("threads", run.threads, 2, at_least=False),
        ]
    )
    report.write([asdict(run)], chosen.output)
    return 0


@contextmanager
def _adapter(folder: Path, file: Path) -> Iterator[tuple[int, int]]:
    """Run an adapter for the tower that has written ``file`` until it has seen it ready; give its pid and port."""
    told = python("-m", "idkmesh", "node", "get", "--json", "--client-file", str(file))
    node_id = json.loads(subprocess.run(told, env=environment(), capture_output=True, check=True).stdout)["node"]["id"]
    port = free_port()
    flags = ("--node-id", node_id, "--client-file", str(file), "--listen", f"{HOST}:{port}")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            pinned(cores()[0], python("-m", "idkmesh", "readiness-adapter", *flags)),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + START_SECONDS
        while not all(_asked(port)):
            if time.monotonic() > until or process.poll() is not None:
                raise StartError(f"the adapter does not say yes: {(folder / 'log').read_text()}")
            time.sleep(0.1)
        yield process.pid, port
    finally:
        end(process)


def _asked(port: int) -> list[bool]:
    """Ask for each path once, and say which answers were 200."""
    answers = []
    for path in PATHS:
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        try:
            connection.request("GET", path)
            answers.append(connection.getresponse().status == http.HTTPStatus.OK)
        except OSError:
            answers.append(False)
        finally:
            connection.close()
    return answers


def _measure(pid: int, port: int, seconds: int) -> Run:
    """Follow an adapter. Its children are short: they are looked for all the time."""
    run = Run()
    core = cores()[0]
    idle, before, began = CoreIdle.read(core), fields(pid), time.monotonic()
    descriptors = []
    asked_at = began
    while time.monotonic() < began + seconds:
        if time.monotonic() >= asked_at:
            answers = _asked(port)
            run.asked += len(answers)
            run.not_200 += answers.count(False)
            asked_at += 1.0
        _look(pid, run)
        descriptors.append(len(list((PROC / str(pid) / "fd").iterdir())))
        time.sleep(LOOK_SECONDS)
    after, run.seconds = fields(pid), time.monotonic() - began
    run.core_idle = CoreIdle.read(core).share_since(idle)
    run.fewest_descriptors, run.most_descriptors = min(descriptors), max(descriptors)
    run.own_cpu = _between(before, after, USER, SYSTEM)
    run.children_cpu = _between(before, after, CHILD_USER, CHILD_SYSTEM)
    return run


def _look(pid: int, run: Run) -> None:
    mine = Footprint.of([pid])
    run.threads = max(run.threads, mine.threads)
    run.resident_bytes = max(run.resident_bytes, mine.resident_bytes)
    for child in _children(pid):
        run.child_resident_bytes = max(run.child_resident_bytes, Footprint.of([child]).resident_bytes)


def _children(pid: int) -> list[int]:
    """Return the children that run their own program: before that, each shares its parent's memory (vfork)."""
    found = []
    for file in (PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):  # a thread, or a child that has ended meanwhile
            found += [int(child) for child in file.read_text().split() if _program(child) != _program(str(pid))]
    return found


def _program(pid: str) -> bytes:
    return (PROC / pid / "cmdline").read_bytes()


def _between(before: Sequence[str], after: Sequence[str], *indices: int) -> float:
    return sum(int(after[index]) - int(before[index]) for index in indices) * TICK_SECONDS


def _row(run: Run) -> tuple[str | float | None, ...]:
    least, most = run.fewest_descriptors, run.most_descriptors
    return (
        f"{run.seconds:.0f} s",
        run.share * 100,
        run.children_cpu / run.seconds * 100,
        run.resident_bytes / 1e6,
        run.child_resident_bytes / 1e6,
        run.threads,
        f"{least} to {most}",
        f"{run.not_200} of {run.asked}",
    )
