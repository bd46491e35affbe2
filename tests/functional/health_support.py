"""Commands that serve with a matrix and a probe listener, as processes."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.functional.support import PATIENCE
from tests.health.matrices import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-the-test-suite-0123456789"
PATHS = ("/livez", "/healthz", "/readyz", "/startupz")


def matrix_text(**ports: int) -> str:
    """Return a matrix with a critical TCP dependency for each name."""
    rows = (
        f"  - {{name: {name}, critical: true, probe: {{tcp: {{host: 127.0.0.1, port: {port}}}}}, "
        "timeout_ms: 900, interval_ms: 1000, cache_ms: 5000}\n"
        for name, port in ports.items()
    )
    return HEAD + ("".join(rows) if ports else "  []\n")


def command(*arguments: str, cwd: Path | None = None, **env: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("IDKMESH_")}
    return subprocess.Popen(
        [sys.executable, "-m", "idkmesh", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=kept | {"PYTHONPATH": str(ROOT), "IDKMESH_CONTROL_TOWER_TOKEN": TOKEN} | env,
    )


def refused(*arguments: str, cwd: Path | None = None, **env: str) -> tuple[int, str, str]:
    """Run a command that is to end by itself."""
    process = command(*arguments, cwd=cwd, **env)
    out, errors = process.communicate(timeout=30)
    return process.returncode, out, errors


class Probed:
    """A command that serves: ``port`` is its own, ``probe_port`` that of the probe listener."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.announced: list[str] = []
        self.errors: list[str] = []
        self.port = self.probe_port = 0
        assert process.stdout is not None
        while not self.port:
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            self.announced.append(line)
            found = re.search(r"https?://\S+:(\d+)", line)
            assert found, line
            if "probes are answered" in line:
                self.probe_port = int(found[1])
            else:
                self.port = int(found[1])
        self._reading = threading.Thread(target=self._read_errors)
        self._reading.start()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def get(self, path: str, *, probe: bool = True, host: str = "pod", method: str = "GET") -> tuple[int, bytes]:
        client = http.client.HTTPConnection("127.0.0.1", self.probe_port if probe else self.port, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request(method, path, headers={"Host": host, "Authorization": f"Bearer {TOKEN}"})
            answer = client.getresponse()
            return answer.status, answer.read()

    def wait_for(self, path: str, status: int) -> bytes:
        deadline = time.monotonic() + PATIENCE
        while (answer := self.get(path))[0] != status:
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)
        return answer[1]

    def wait_for_line(self, text: str) -> str:
        """Wait for a line on standard error."""
        deadline = time.monotonic() + PATIENCE
        while not (found := [line for line in self.errors if text in line]):
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.01)
        return found[0]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal, and wait for the end."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(30)
        self._reading.join(PATIENCE)
        return code


@contextlib.contextmanager
def probed(*arguments: str, **options: Any) -> Iterator[Probed]:
    process = command(*arguments, **options)
    try:
        yield Probed(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
