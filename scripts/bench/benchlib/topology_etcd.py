"""How long a change in a real etcd takes until ten thousand observations know it, and what they take to begin.

A one-member etcd of this program's own has a release and an instance for each observation; a selector observes all of
them. Its data are in memory where the system has such a folder, since what a disk takes comes before the commit;
``--data-dir`` names another folder for them, on a disk. Another process writes the endpoint of one release after the
other, at a fixed rate. A delay is from the instant before its request is sent to the return of the observation's sink:
what the status shows then. etcd answers a request once it has committed, so the delay from its answer is shown beside;
where the observation knew before the writer did, that is 0. The beginning is from the making of the provider to the
first snapshot of the last observation. The load average of the last minute is shown, before and after: on a machine
that others use, the tail is theirs.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from idkmesh.clock import SystemClock
from idkmesh.etcd.gateway import Call, EtcdError, Members, b64, endpoint_of
from idkmesh.topology.errors import AgentUnavailableError
from idkmesh.topology.model import State, Target
from idkmesh.topology.providers.etcd import EtcdProvider
from idkmesh.topology.providers.forms import DEFAULT_PREFIX
from idkmesh.topology.selector import WatchSelector

from . import options
from .processes import free_port, python
from .report import Goal, Report
from .stats import latency

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from idkmesh.topology.model import ProviderEvent
    from idkmesh.topology.provider import Sink, Watch

HEADER = ("delay", "changes", "lowest ms", "p50 ms", "p99 ms", "max ms")
GOAL_MS = 50.0
WAIT_SECONDS = 60.0
MEMORY = "/dev/shm"  # noqa: S108  a folder with a name of our own in it
IN_ONE_TRANSACTION = 60
"""Releases: two keys each, and etcd takes 128 operations."""

WRITER = """
import base64, http.client, json, sys, time
port, prefix, count, rate, first = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
gateway = http.client.HTTPConnection("127.0.0.1", int(port))
b64 = lambda text: base64.b64encode(text.encode()).decode()
began = time.monotonic()
for number in range(count):
    time.sleep(max(0.0, began + number / rate - time.monotonic()))
    value = json.dumps({"endpoint": f"http://127.0.0.1:{first + number % 20000}"})
    body = json.dumps({"key": b64(f"{prefix}/agent/1.0.0/{number * 7919 % %(most)d}/i"), "value": b64(value)})
    sent = time.monotonic()
    gateway.request("POST", "/v3/kv/put", body, {"Content-Type": "application/json"})
    gateway.getresponse().read()
    print(number * 7919 % %(most)d, sent, time.monotonic(), flush=True)
"""


@dataclass(frozen=True)
class Run:
    """One change: when it was sent, answered and seen, in monotonic seconds; None where it was not."""

    release: str
    sent: float
    answered: float
    seen: float | None


class Noting(EtcdProvider):
    """Notes when each sink has returned."""

    def observe(self, target: Target, sink: Sink) -> Watch:
        """Observe, and note."""

        def noted(event: ProviderEvent) -> None:
            sink(event)
            SEEN.setdefault(target.release_id, []).append(time.monotonic())

        return super().observe(target, noted)


SEEN: dict[str, list[float]] = {}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = options.parser("topology_etcd", __doc__ or "")
    parser.add_argument("--observations", type=options.bounded(1, 10_000), default=10_000)
    parser.add_argument("--changes", type=options.bounded(1, 100_000), default=2_000)
    parser.add_argument("--rate", type=options.bounded(1, 1_000), default=100, help="changes a second")
    parser.add_argument("--data-dir", type=Path, help="a folder that is there, in which etcd keeps its data meanwhile")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = arguments(argv)
    report = Report(
        "topology_etcd", {key: value for key, value in vars(chosen).items() if key not in {"output", "data_dir"}}
    )
    load = os.getloadavg()[0]
    with etcd(chosen.data_dir) as port:
        register(port, chosen.observations)
        with observing(port, chosen.observations) as (selector, seconds):
            runs = change(port, chosen)
            document = _document_ms(selector)
    missing = sum(run.seen is None for run in runs)
    delays = {
        "from before its request": [run.seen - run.sent for run in runs if run.seen is not None],
        "from etcd's answer": [max(0.0, run.seen - run.answered) for run in runs if run.seen is not None],
    }
    rows = [_row(name, each) for name, each in delays.items()]
    report.add(f"A change, {chosen.observations:,} observations, {chosen.rate} changes a second", HEADER, rows)
    beside = [("until all were observed, s", seconds), ("a reading, ms", document)]
    beside += [("load average before", load), ("load average after", os.getloadavg()[0])]
    report.add("Beside", ("what", "value"), beside)
    p99 = latency(delays["from before its request"])["p99"]
    report.goals(
        [
            Goal("p99 of a change from before its request, in ms", p99, GOAL_MS, at_least=False),
            Goal("changes that were not seen", missing, 0, at_least=False),
        ]
    )
    report.write([asdict(run) for run in runs], chosen.output)
    return 0


def _row(name: str, delays: Sequence[float]) -> tuple[str | float, ...]:
    found = latency(delays)
    return (name, found["count"], min(delays, default=math.nan) * 1e3, found["p50"], found["p99"], found["max"])


@contextlib.contextmanager
def etcd(data: Path | None) -> Iterator[int]:
    """Give the port of an etcd of this program's own, with its data in a folder of its own in ``data``."""
    if shutil.which("etcd") is None:
        raise SystemExit("etcd is not installed (Debian: etcd-server)")
    client, peer = free_port(), free_port()
    memory = Path(MEMORY)
    with tempfile.TemporaryDirectory(dir=data or (memory if memory.is_dir() else None)) as folder:
        urls = {"client-urls": f"http://127.0.0.1:{client}", "peer-urls": f"http://127.0.0.1:{peer}"}
        command = ["etcd", "--name=one", f"--data-dir={folder}/data", "--log-level=error", "--logger=zap"]
        command += [f"--listen-{name}={url}" for name, url in urls.items()]
        command += [f"--advertise-client-urls={urls['client-urls']}", f"--initial-cluster=one={urls['peer-urls']}"]
        command += [f"--initial-advertise-peer-urls={urls['peer-urls']}"]
        environment = {"PATH": os.environ["PATH"], "ETCD_UNSUPPORTED_ARCH": "arm64"}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _until_it_answers(client)
            yield client
        finally:
            process.kill()
            process.wait()


def register(port: int, count: int) -> None:
    """Declare releases, each with an instance."""
    for first in range(0, count, IN_ONE_TRANSACTION):
        keys = [f"{DEFAULT_PREFIX}/agent/1.0.0/{each}" for each in range(first, min(count, first + IN_ONE_TRANSACTION))]
        pairs = [(key, "{}") for key in keys] + [(f"{key}/i", '{"endpoint": "http://127.0.0.1:1"}') for key in keys]
        puts = [{"request_put": {"key": b64(key), "value": b64(value)}} for key, value in pairs]
        _call(port, WAIT_SECONDS).ask("kv/txn", {"success": puts})


@contextlib.contextmanager
def observing(port: int, count: int) -> Iterator[tuple[WatchSelector, float]]:
    """Give a selector that observes all of them, and the seconds until it did."""
    began = time.monotonic()
    provider = Noting([f"http://127.0.0.1:{port}"], line=lambda line, _level: print(line))
    selector = WatchSelector(
        provider,
        clock=SystemClock(),
        changed=lambda _change: None,
        line=lambda line, _level: print(line),
        max_observations=count,
    )
    try:
        with selector:
            for number in range(count):
                with contextlib.suppress(AgentUnavailableError):  # a busy machine lists for longer than a use waits
                    selector.select(Target("agent", "1.0.0", str(number)))
            while any(each.observation.state is not State.POPULATED for each in selector.statuses()):
                time.sleep(0.05)
            yield selector, time.monotonic() - began
    finally:
        provider.close()


def change(port: int, chosen: argparse.Namespace) -> list[Run]:
    """Have the endpoints changed, and tell of each change when it was seen."""
    gc.collect()
    begun = time.monotonic()
    writer = WRITER.replace("%(most)d", str(chosen.observations))
    command = python("-c", writer, str(port), DEFAULT_PREFIX, str(chosen.changes), str(chosen.rate), "1000")
    written = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    time.sleep(1.0)
    seen = {release: [at for at in times if at > begun] for release, times in SEEN.items()}
    runs = []
    for release, sent, answered in (line.split() for line in written):
        times = seen.get(release, [])
        runs.append(Run(release, float(sent), float(answered), times.pop(0) if times else None))
    return runs


def _document_ms(selector: WatchSelector) -> float:
    began = time.perf_counter()
    selector.document()
    return (time.perf_counter() - began) * 1e3


def _call(port: int, seconds: float) -> Call:
    return Call(Members([endpoint_of(f"http://127.0.0.1:{port}", "etcd")]), time.monotonic() + seconds)


def _until_it_answers(port: int) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            _call(port, 1.0).ask("kv/range", {"key": b64("x")})
            return
        except EtcdError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
