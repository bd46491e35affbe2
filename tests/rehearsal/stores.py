"""Real stores for rehearsals: PostgreSQL and Redis on free loopback ports, as an unprivileged user."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT = 30.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True


def until_it_takes_connections(port: int) -> None:
    deadline = time.monotonic() + WAIT
    while not takes_connections(port):
        assert time.monotonic() < deadline, "the store does not listen"
        time.sleep(0.05)


class Store:
    """A server that can be stopped and paused."""

    def __init__(self, argv: list[str], port: int) -> None:
        self.port = port
        self._argv = argv
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(
            self._argv, stdin=null, stdout=null, stderr=null, cwd="/", start_new_session=True
        )
        until_it_takes_connections(self.port)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def stop(self) -> None:
        assert self._process is not None
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
    path = shutil.which(program) or next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{program}")), None)
    if path is None:
        pytest.skip(f"{program} is missing: install the Debian package {package}")
    return path


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Store]:
    """Run a database of its own."""
    server, maker = needed("postgres", "postgresql"), needed("initdb", "postgresql")
    data, port = folder / "pg", free_port()
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(data, 65534, 65534)
        folder.chmod(0o711)
    make = [*unprivileged(), maker, "--no-sync", "-A", "trust", "-U", "tests", "-D", str(data)]
    subprocess.run(make, check=True, capture_output=True, cwd="/")
    argv = [*unprivileged(), server, "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F"]
    store = Store(argv, port)
    try:
        yield store
    finally:
        store.stop()


@contextlib.contextmanager
def redis() -> Iterator[Store]:
    """Run a cache of its own."""
    server, port = needed("redis-server", "redis-server"), free_port()
    argv = [*unprivileged(), server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    store = Store(argv, port)
    try:
        yield store
    finally:
        store.stop()
