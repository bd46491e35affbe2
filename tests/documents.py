"""The blocks of documents, and how they are run as a reader would run them."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
WAIT = 60.0


class Block(NamedTuple):
    """A block of a document, and its number there."""

    page: str
    number: int
    language: str
    text: str


def blocks_of(path: Path) -> list[Block]:
    """Return the blocks of a document in their order."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(path.name, number, language, block) for number, (language, block) in enumerate(found)]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of whoever has the package's commands on the path."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **more}


@contextlib.contextmanager
def running(
    command: list[str], cwd: Path = ROOT, ends: int = 0, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a group of its own; end it with SIGTERM and expect the exit code ``ends``."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environ or environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            _, errors = process.communicate(timeout=WAIT)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it has started may hold its output
            process.communicate()
            raise
    assert process.returncode == ends, errors


def shell(line: str, cwd: Path = ROOT, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run lines as they are typed, and end at the first that fails."""
    command = ["sh", "-ec", line]
    environ = environ or environment()
    return subprocess.run(command, cwd=cwd, env=environ, check=False, capture_output=True, text=True, timeout=3 * WAIT)


def answer(port: int, path: str = "/", status: int = 0, tls: ssl.SSLContext | None = None) -> http.client.HTTPResponse:
    """Ask until the server listens, and until it answers with ``status`` if that is given."""
    return answer_and_body(port, path, status, tls)[0]


def answer_and_body(
    port: int, path: str = "/", status: int = 0, tls: ssl.SSLContext | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    """Return what ``answer`` does, and the body."""
    deadline = time.monotonic() + WAIT
    while True:
        connection = (
            http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
            if tls is None
            else http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT, context=tls)
        )
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        except OSError:
            if time.monotonic() > deadline:
                raise
        else:
            if status in {0, response.status} or time.monotonic() > deadline:
                return response, body
        finally:
            connection.close()
        time.sleep(0.02)
