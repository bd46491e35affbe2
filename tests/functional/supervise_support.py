"""``idkmesh supervise`` as a process, and what it has recorded."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from tests.functional.health_support import command, refused

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 30.0
"""Seconds after which a test gives up: a busy machine takes long. No test passes because of it."""


def until(condition: Callable[[], Any], what: object, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Supervising:
    """A supervisor that runs. ``store`` is the file of its events."""

    def __init__(self, process: subprocess.Popen[str], store: Path) -> None:
        self.process = process
        self.store = store
        self.announced: list[str] = []
        self.lines: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            threading.Thread(target=into.extend, args=(stream,))
            for into, stream in ((self.announced, process.stdout), (self.lines, process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def wait_for_line(self, text: str, seconds: float = PATIENCE) -> str:
        """Wait for a line on standard error."""
        until(lambda: any(text in line for line in self.lines), self.lines, seconds)
        return next(line for line in self.lines if text in line)

    def probe(self, path: str) -> tuple[int, str]:
        """Ask the probe listener."""
        until(lambda: any("probes are answered" in line for line in self.announced), self.announced)
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", "".join(self.announced))
        assert found
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=PATIENCE)) as client:
            client.request("GET", path)
            answer = client.getresponse()
            return answer.status, answer.read().decode()

    def events(self) -> list[dict[str, Any]]:
        """Return what is committed, oldest first."""
        code, out, errors = refused("events", "list", "--json", "--limit=1000", f"--store={self.store}")
        assert code in {0, 3}, errors
        return [json.loads(line) for line in out.splitlines()]

    def told(self, what: str) -> list[dict[str, Any]]:
        """Return the events of a type."""
        return [event for event in self.events() if event["type"] == f"idkmesh.{what}"]

    def end(self, number: int = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """Signal, and wait for the end."""
        self.process.send_signal(number)
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


@contextlib.contextmanager
def supervising(modules: Path, *arguments: str, store: Path | None = None, **env: str) -> Iterator[Supervising]:
    """Run ``idkmesh supervise`` on a declaration; what it keeps stands beside it."""
    place = store or modules.parent / "state" / "events.sqlite3"
    process = command("supervise", f"--modules={modules}", f"--store={place}", *arguments, cwd=modules.parent, **env)
    service = Supervising(process, place)
    try:
        yield service
    finally:
        if process.poll() is None:
            service.end(signal.SIGKILL)
