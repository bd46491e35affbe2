"""What a router's topology takes with ten thousand releases that are observed.

Each release has an endpoint of its own. Measured are a reading of the status (the document, as it is sent), a
selection, a change that a provider hands over in this process, the memory of an observation, and how long a change of
one release in a file of all of them takes from the renaming to the status. Memory is what Python's allocator has given
out; what a provider keeps is not in it. Rounds are interleaved, and the collector has done its work before each.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import tempfile
import time
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from idkmesh.clock import SystemClock
from idkmesh.topology.model import Target, endpoint_of, snapshot_of
from idkmesh.topology.provider import Usability
from idkmesh.topology.providers.file import FileProvider
from idkmesh.topology.providers.releases import KIND, SCHEMA_VERSION
from idkmesh.topology.selector import WatchSelector

from . import options
from .report import Goal, Report
from .stats import middle

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from idkmesh.topology.model import Snapshot
    from idkmesh.topology.provider import Provider, Sink, Watch

HEADER = ("what", "middle", "lowest", "highest", "unit")
READING, SELECTING, CHANGING = "a reading of the status", "a selection", "a change in this process"
FILE, MEMORY = "a change of a file, to the status", "memory of an observation"
UNITS = {READING: "ms", SELECTING: "us", CHANGING: "us", FILE: "ms", MEMORY: "bytes"}
MOST_READING_MS = 20
MOST_MEMORY = 2048
WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Run:
    """One way in one round; ``value`` is in the way's unit."""

    way: str
    round: int
    value: float


class Hand:
    """A provider whose snapshots are made here."""

    name = "etcd"
    continuous = True

    def __init__(self) -> None:
        self.sinks: list[Sink] = []

    def snapshot(self, target: Target, seconds: float) -> Snapshot:  # noqa: ARG002  the interface has them
        """Return where a release is at first."""
        return _at(int(target.release_id))

    def observe(self, target: Target, sink: Sink) -> Watch:
        """Keep the sink, and hand it the first snapshot."""
        self.sinks.append(sink)
        sink(_at(int(target.release_id)))
        return self

    def usable(self) -> Usability:
        """Say yes."""
        return Usability(usable=True)

    def counted(self) -> None:
        """Return nothing: no connection is kept."""

    def close(self) -> None:
        """Do nothing: it is its watches' handle too."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("topology", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 100), default=15)
    parser.add_argument("--observations", type=options.bounded(1, 10_000), default=10_000)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("topology", {key: value for key, value in vars(chosen).items() if key != "output"})
    targets = [Target("agent", "1.0.0", str(number)) for number in range(chosen.observations)]
    memory = memory_of(targets)
    with contextlib.ExitStack() as stack:
        named = {**stack.enter_context(in_process(targets)), FILE: stack.enter_context(in_file(targets))}
        wanted = [name.lower() for name in chosen.only]
        named = {way: call for way, call in named.items() if not wanted or any(name in way for name in wanted)}
        runs = [Run(way, number, _quiet(call)) for number in range(1, chosen.rounds + 1) for way, call in named.items()]
    runs.append(Run(MEMORY, 1, memory))
    report.add(f"{chosen.observations:,} observations", HEADER, [_row(runs, way) for way in (*named, MEMORY)])
    goals = [(READING, MOST_READING_MS), (MEMORY, MOST_MEMORY)]
    report.goals([Goal(f"{way}, in {UNITS[way]}", middle(_of(runs, way)), most, at_least=False) for way, most in goals])
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def memory_of(targets: Sequence[Target]) -> float:
    """Return the bytes of an observation, with a target and an endpoint of its own."""
    selector = _selector(Hand(), len(targets))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for target in targets:
            selector.select(Target(target.agent_id, target.agent_card_version, target.release_id))
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / len(targets)
    finally:
        tracemalloc.stop()
        selector.stop()


@contextlib.contextmanager
def in_process(targets: Sequence[Target]) -> Iterator[dict[str, Callable[[], float]]]:
    """Give what is measured over a provider in this process, by name."""
    hand = Hand()
    port = iter(range(1, 1_000_000))

    def selecting() -> None:
        for target in targets:
            selector.select(target)

    def changing() -> None:
        snapshot = _at(next(port))
        for sink in hand.sinks:
            sink(snapshot)

    with _selector(hand, len(targets)) as selector:
        selecting()
        yield {
            READING: lambda: _timed(selector.document) * 1e3,
            SELECTING: lambda: _timed(selecting) * 1e6 / len(targets),
            CHANGING: lambda: _timed(changing) * 1e6 / len(targets),
        }


@contextlib.contextmanager
def in_file(targets: Sequence[Target]) -> Iterator[Callable[[], float]]:
    """Give how long a change of one release of a file takes, in ms."""
    port = iter(range(1, 1_000_000))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = Path(folder) / "releases.json"
        _write(path, targets, next(port))
        provider = FileProvider(path, line=lambda line, _level: print(line))
        stack.callback(provider.close)
        selector = stack.enter_context(_selector(provider, len(targets)))
        for target in targets:
            selector.select(target)

        def change() -> float:
            (before,) = {each.observation.revision for each in selector.statuses() if each.target == targets[0]}
            beside = _write(path.with_suffix(".new"), targets, next(port))
            began = time.perf_counter()
            os.replace(beside, path)  # noqa: PTH105  the call that is meant
            while selector.statuses()[0].observation.revision == before:
                if time.perf_counter() > began + WAIT_SECONDS:
                    raise RuntimeError(f"a change of the file is not seen after {WAIT_SECONDS:.0f} s")
                time.sleep(0.002)
            return (time.perf_counter() - began) * 1e3

        yield change


def _write(path: Path, targets: Sequence[Target], port: int) -> Path:
    """Write a document in which the first release is at ``port``, each other one where it always is."""
    rows = [
        {
            "agentId": target.agent_id,
            "agentCardVersion": target.agent_card_version,
            "releaseId": target.release_id,
            "endpoints": [f"http://127.0.0.1:{number + 1 if number else port % 65535 + 1}"],
        }
        for number, target in enumerate(targets)
    ]
    path.write_text(json.dumps({"schema_version": SCHEMA_VERSION, "kind": KIND, "releases": rows}), encoding="utf-8")
    return path


def _selector(provider: Provider, most: int) -> WatchSelector:
    return WatchSelector(
        provider,
        clock=SystemClock(),
        changed=lambda _change: None,
        line=lambda line, _level: print(line),
        max_observations=most,
    )


def _at(number: int) -> Snapshot:
    return snapshot_of([endpoint_of(f"http://127.0.0.1:{number % 65535 + 1}")])


def _quiet(call: Callable[[], float]) -> float:
    gc.collect()
    return call()


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _of(runs: Sequence[Run], way: str) -> list[float]:
    return [run.value for run in runs if run.way == way]


def _row(runs: Sequence[Run], way: str) -> tuple[str | float, ...]:
    values = _of(runs, way)
    return (way, middle(values), min(values), max(values), UNITS[way])
