"""What readers of a large projection take from probes.

A server of ``--observations`` releases is asked for ``/livez``, one request after the other, while ``--readers`` ask
it for the projection once a second each: nobody, then the document that is made for each of them, then the one that is
made once for all (RT-11.7), each with nothing that changes and with ``--changes`` a second. Rounds are interleaved.
Server and load have a core each; ``age`` is the most that an answer said of itself.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from idkmesh.router.projection import AGE_FIELD

from . import options
from .processes import HOST, LoadProcess, cores
from .report import Report
from .stats import middle, percentile

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

HEADER = ("projection", "changes/s", "probe p50 ms", "p99 ms", "highest ms", "readings", "MB each", "age s")
NOBODY, EACH, ONCE = "nobody reads", "made for each", "made once"
PATHS = {EACH: "/each", ONCE: "/once"}
PAUSE_SECONDS = 0.005
PIECE = 1024 * 1024
PATIENCE = 60.0


@dataclass(frozen=True)
class Run:
    """One way in one round; times are in seconds."""

    way: str
    changes: int
    round: int
    probes: tuple[float, ...]
    readings: int
    size: int
    age: float


class Readers:
    """Threads that read a path once a second each, as pages do, at instants of their own."""

    def __init__(self, port: int, path: str, count: int) -> None:
        self.readings = self.size = 0
        self.age = 0.0
        self._stop = threading.Event()
        self._where = (port, path)
        self._threads = [threading.Thread(target=self._read, args=(number / count,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _read(self, after: float) -> None:
        while not self._stop.wait(after):
            began = time.monotonic()
            size, age = fetched(*self._where)
            self.readings += 1
            self.size, self.age = size, max(self.age, age)
            after = max(0.0, began + 1 - time.monotonic())

    def end(self) -> None:
        """Wait for those who still read."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("topology_readers", __doc__ or "")
    parser.add_argument("--rounds", type=options.bounded(1, 100), default=3)
    parser.add_argument("--seconds", type=options.bounded(1, 60), default=6, help="for each way in a round")
    parser.add_argument("--observations", type=options.bounded(1, 65_536), default=65_536)
    parser.add_argument("--readers", type=options.bounded(1, 64), default=5)
    parser.add_argument("--changes", type=options.bounded(1, 10_000), default=100, help="a second")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report("topology_readers", {key: value for key, value in vars(chosen).items() if key != "output"})
    runs: list[Run] = []
    wanted = [name.lower() for name in chosen.only]
    ways = [way for way in (NOBODY, EACH, ONCE) if not wanted or any(name in way for name in wanted)]
    for changes in (0, chosen.changes):
        spec = {"observations": chosen.observations, "changes": changes}
        with LoadProcess(cores()[0], "serve_topology", spec) as server:
            port = server.report()["port"]
            server.tell()
            for number in range(1, chosen.rounds + 1):
                report.progress(f"round {number} of {chosen.rounds}, {changes} changes a second")
                runs += [measured(port, way, changes, number, chosen) for way in ways]
            server.finish()
    rows = [_row(runs, way, changes) for changes in (0, chosen.changes) for way in ways]
    report.add(f"/livez beside {chosen.readers} readers of {chosen.observations:,} observations", HEADER, rows)
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def measured(port: int, way: str, changes: int, number: int, chosen: argparse.Namespace) -> Run:
    """Have one way for its time."""
    readers = Readers(port, PATHS[way], chosen.readers) if way in PATHS else None
    probes = []
    end = time.monotonic() + chosen.seconds
    while (began := time.monotonic()) < end:
        fetched(port, "/livez")
        probes.append(time.monotonic() - began)
        time.sleep(PAUSE_SECONDS)
    if readers is None:
        return Run(way, changes, number, tuple(probes), 0, 0, 0.0)
    readers.end()
    return Run(way, changes, number, tuple(probes), readers.readings, readers.size, readers.age)


def fetched(port: int, path: str) -> tuple[int, float]:
    """Read a path to its end; return the bytes of the content, and the age that it says."""
    with socket.create_connection((HOST, port), PATIENCE) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        first = b""
        while b"\r\n\r\n" not in first:
            first += _some(client)
        head, _, content = first.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
        size, length = len(content), int(fields["Content-Length"])
        while size < length:
            size += len(_some(client))
        return size, float(fields.get(AGE_FIELD, 0))


def _some(client: socket.socket) -> bytes:
    data = client.recv(PIECE)
    if not data:
        raise RuntimeError("an answer was cut")
    return data


def _row(runs: Sequence[Run], way: str, changes: int) -> tuple[str | float, ...]:
    mine = [run for run in runs if (run.way, run.changes) == (way, changes)]
    ordered = [sorted(run.probes) for run in mine]
    figures = [middle([percentile(probes, percent) for probes in ordered]) * 1e3 for percent in (50, 99, 100)]
    return (
        way,
        changes,
        *figures,
        sum(run.readings for run in mine),
        max(run.size for run in mine) / 1e6,
        max(run.age for run in mine),
    )
