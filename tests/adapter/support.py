"""A node's command of the test's own, and a real adapter process in front of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.adapter.observations import EXAMPLE, NODE_ID
from tests.functional.support import Answer, parse, read_to_end, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM: Final = Path(__file__).with_name("node_program.py")
PATIENCE: Final = 30.0
TOKEN: Final = "t" * 40


class NodeCommand:
    """The command in a folder of its own; what it does is changed while it is called again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.argv = (sys.executable, "-I", "-S", str(PROGRAM), str(folder))
        self.say()
        self.do("print")

    def do(self, mode: str) -> None:
        """Have the next run do this."""
        self._write("mode", mode)

    def say(self, *, boot_id: str = "first", node_id: str = NODE_ID, **changes: Any) -> None:
        """Have the next run print the example with these members."""
        self._write("document", json.dumps(EXAMPLE | {"node": {"id": node_id, "boot_id": boot_id}} | changes))

    def _write(self, name: str, text: str) -> None:
        """Replace it whole: a run may be reading it."""
        part = self.folder / f"{name}.part"
        part.write_text(text)
        part.replace(self.folder / name)

    def lines(self, name: str) -> list[str]:
        """Return the whole lines of a file that runs write."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def runs(self) -> list[tuple[int, float]]:
        """Return the process id and the beginning of each run."""
        found = [line.split() for line in self.lines("notes") if line.startswith("+")]
        return [(int(pid), float(begun)) for _, pid, begun in found]

    def lost(self) -> list[int]:
        """Return the ids of what runs have left behind."""
        return [int(line) for line in self.lines("lost")]

    def wait_for_runs(self, more: int) -> None:
        """Wait until so many more have begun."""
        wanted = len(self.runs()) + more
        until(lambda: len(self.runs()) >= wanted, f"{more} more runs", PATIENCE)


def client_file(folder: Path, address: str = "127.0.0.1:8765") -> Path:
    """Write a client file as the adapter takes it."""
    file = folder / "client.json"
    document = {"kind": "idkmesh-client", "schema_version": "0.1", "address": address, "token": TOKEN}
    file.write_text(json.dumps(document))
    file.chmod(0o600)
    return file


def environment(**more: str) -> dict[str, str]:
    """Return the variables of this process but for those of our name, which an adapter would warn of, and ``more``."""
    return {name: value for name, value in os.environ.items() if not name.startswith("IDKMESH_")} | more


def command(file: Path | None, *flags: str, node_id: str = NODE_ID, argv: Sequence[str] = ()) -> list[str]:
    """Return the command line of an adapter."""
    program = [sys.executable, "-m", "idkmesh", "readiness-adapter", "--node-id", node_id]
    named = () if file is None else ("--client-file", str(file))
    return [*program, *named, *flags, *(("--", *argv) if argv else ())]


class Adapter:
    """An adapter that runs and has announced its address."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> list[str]:
        """Return the lines of its log."""
        return self._log.read_text().splitlines()

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """Return a connection to it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE, source_address=(source, 0))

    def exchange(self, data: bytes, source: str = "127.0.0.1") -> Answer:
        """Send the bytes of a request and return the answer."""
        with self.connect(source) as sock:
            sock.sendall(data)
            return parse(read_to_end(sock))

    def request(self, path: str, method: str = "GET", *fields: str) -> bytes:
        """Return the bytes of a request that is to be answered."""
        lines = (f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *fields, "", "")
        return "\r\n".join(lines).encode("ascii")

    def ask(self, path: str) -> Answer:
        """Ask for a path."""
        return self.exchange(self.request(path))

    def told(self) -> tuple[int, int, int]:
        """Return the statuses of startup, live and ready."""
        first, second, third = (self.ask(path).status for path in ("/startup", "/live", "/ready"))
        return first, second, third

    def wait_for(self, *statuses: int) -> None:
        """Wait until startup, live and ready answer these."""
        until(lambda: self.told() == statuses, f"{statuses}, not {self.told()}", PATIENCE)

    def threads(self) -> int:
        """Return how many threads it has."""
        found = re.search(r"^Threads:\s+(\d+)$", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1])

    def stop(self) -> float:
        """End it with SIGTERM, and return how many seconds that took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0
        return time.monotonic() - began


@contextlib.contextmanager
def adapter(
    file: Path | None,
    log: Path,
    *,
    node_id: str = NODE_ID,
    argv: Sequence[str] = (),
    prefix: Sequence[str] = (),
    **env: str,
) -> Iterator[Adapter]:
    """Run an adapter on a free port, by way of a program where one is given, and end it if the test has not."""
    line = [*prefix, *command(file, "--listen", "127.0.0.1:0", node_id=node_id, argv=argv)]
    environ = environment(IDKMESH_CONTROL_TOWER_TOKEN=TOKEN, **env)
    with log.open("w") as lines:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=lines, text=True, env=environ)
    assert process.stdout is not None
    with process, process.stdout:
        try:
            announced = process.stdout.readline()
            found = re.search(r":(\d+)/$", announced.strip())
            assert found is not None, (announced, log.read_text())
            yield Adapter(process, int(found[1]), log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait(PATIENCE)
