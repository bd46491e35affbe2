"""Runs wrk and reads its summary.

How wrk behaves, which the figures depend on. It takes a response for complete when its parser has seen the declared
length, closes its end and connects anew; it does not wait for the server's close, so either side may close first. Its
latency runs from the first byte sent to the last received: the time to connect is not in it (it is in the rate). A
response that ends early counts as a read error, a status of 400 or more as a status error. A script could look at each
response, at the price of the rate; the summary's byte count stands in for that: bytes for each response, compared with
one response that was read whole.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .processes import HOST, pinned

if TYPE_CHECKING:
    from .messages import Headers

SCRIPT = """\
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    'BENCH {"requests":%d,"microseconds":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,' ..
    '"p50":%d,"p99":%d,"max":%d}\\n',
    summary.requests, summary.duration, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout,
    latency:percentile(50), latency:percentile(99), latency.max))
end
"""
MARK = "BENCH "


class WrkError(RuntimeError):
    """wrk gave no summary."""


def require() -> None:
    """Leave with one line where wrk is missing."""
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed (Debian package wrk)")


@dataclass(frozen=True)
class Plan:
    """What to load, with how many connections, for how many whole seconds."""

    port: int
    path: str
    connections: int
    seconds: int
    headers: Headers = ()


@dataclass(frozen=True)
class Summary:
    """One run of wrk: rate in requests a second, latencies in milliseconds."""

    requests: int
    seconds: float
    bytes: int
    errors: int
    p50: float
    p99: float
    max: float

    @property
    def rate(self) -> float:
        """Requests a second that got a complete response with a good status."""
        return (self.requests - self.errors) / self.seconds if self.seconds else 0.0


def parse(output: str) -> Summary:
    """Read the line that the script wrote. Every kind of error is added up."""
    lines = [line for line in output.splitlines() if line.startswith(MARK)]
    if not lines:
        raise WrkError(f"wrk gave no summary: {output.strip()[-200:]}")
    found: dict[str, int] = json.loads(lines[-1].removeprefix(MARK))
    return Summary(
        requests=found["requests"],
        seconds=found["microseconds"] / 1e6,
        bytes=found["bytes"],
        errors=sum(found[kind] for kind in ("connect", "read", "write", "status", "timeout")),
        p50=found["p50"] / 1000,
        p99=found["p99"] / 1000,
        max=found["max"] / 1000,
    )


def run(core: int, plan: Plan) -> Summary:
    """Run wrk on one core: one thread, each request on a connection of its own."""
    fields = [part for name, value in [("Connection", "close"), *plan.headers] for part in ("-H", f"{name}: {value}")]
    with tempfile.TemporaryDirectory(prefix="idkmesh-bench-") as directory:
        script = Path(directory) / "summary.lua"
        script.write_text(SCRIPT, encoding="ascii")
        load = ["wrk", "-t1", f"-c{plan.connections}", f"-d{plan.seconds}s", "-s", str(script), *fields]
        command = pinned(core, [*load, f"http://{HOST}:{plan.port}{plan.path}"])
        done = subprocess.run(command, capture_output=True, text=True, timeout=plan.seconds + 30, check=False)
    return parse(done.stdout + done.stderr)
