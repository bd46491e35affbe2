"""Real stores on free loopback ports, as an unprivileged user: PostgreSQL and Redis from Debian's packages."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOST: Final = "127.0.0.1"
WAIT: Final = 30.0


class MissingError(RuntimeError):
    """A program is not installed; the text says which package has it."""


def takes_connections(port: int) -> bool:
    """Say whether somebody listens."""
    try:
        socket.create_connection((HOST, port), 0.2).close()
    except OSError:
        return False
    return True


class Store:
    """A server that can be stopped, started again and paused. ``asks`` is a command that says whether it is well."""

    def __init__(self, argv: Sequence[str], port: int, asks: Sequence[str]) -> None:
        self.port = port
        self.asks = tuple(asks)
        self._argv = argv
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it is well."""
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(
            self._argv, stdin=null, stdout=null, stderr=null, cwd="/", start_new_session=True
        )
        deadline = time.monotonic() + WAIT
        while (
            not takes_connections(self.port) or subprocess.run(self.asks, capture_output=True, check=False).returncode
        ):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._argv[0]} does not listen")
            time.sleep(0.01)

    def signal(self, number: signal.Signals) -> None:
        """Signal all of it."""
        if self._process is not None:
            os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """End it at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
        self._process.wait(WAIT)


def unprivileged() -> list[str]:
    """Return how to run a program as nobody, which PostgreSQL wants; nothing where this user is unprivileged."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]


def needed(program: str, package: str) -> str:
    """Return where a program is. Raises :class:`MissingError`."""
    path = shutil.which(program) or next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{program}")), None)
    if path is None:
        raise MissingError(f"{program} is missing: install the Debian package {package}")
    return path


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Store]:
    """Run a database of its own."""
    server, maker, asks = (needed(name, "postgresql") for name in ("postgres", "initdb", "pg_isready"))
    data, port = folder / "pg", free_port()
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(data, 65534, 65534)
        folder.chmod(0o711)
    make = [*unprivileged(), maker, "--no-sync", "-A", "trust", "-U", "tests", "-D", str(data)]
    subprocess.run(make, check=True, capture_output=True, cwd="/")
    argv = [*unprivileged(), server, "-D", str(data), "-p", str(port), "-h", HOST, "-k", "", "-F"]
    store = Store(argv, port, (asks, "-h", HOST, "-p", str(port)))
    try:
        yield store
    finally:
        store.stop()


@contextlib.contextmanager
def redis() -> Iterator[Store]:
    """Run a cache of its own."""
    server, asks, port = needed("redis-server", "redis-server"), needed("redis-cli", "redis-tools"), free_port()
    argv = [*unprivileged(), server, "--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no"]
    store = Store(argv, port, (asks, "-h", HOST, "-p", str(port), "ping"))
    try:
        yield store
    finally:
        store.stop()
