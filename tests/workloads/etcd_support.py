"""A real etcd of one member that tests stop, pause and start again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

WHY_NOT = (
    "etcd is not installed (Debian: etcd-server)"
    if shutil.which("etcd") is None
    else "etcd3gw is not installed (idkmesh[etcd])"
    if find_spec("etcd3gw") is None
    else ""
)
"""Why no test can have an etcd, empty where it can."""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Etcd:
    """A member with a folder and ports of its own. It keeps both when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._client, self._peer = free_ports(2)
        self.url = f"http://127.0.0.1:{self._client}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        peer = f"http://127.0.0.1:{self._peer}"
        arguments = {
            "name": "one",
            "data-dir": str(self._folder / "data"),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"one={peer}",
            # Of one member, who has nobody to hear from: it is there sooner, and grants shorter leases.
            "heartbeat-interval": "20",
            "election-timeout": "200",
            "logger": "zap",
            "log-level": "error",
        }
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["etcd", *(f"--{name}={value}" for name, value in arguments.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "ETCD_UNSUPPORTED_ARCH": "arm64"},
            )
        self._wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would, paused or not."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(30)

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                    if json.load(answer)["health"] == "true":
                        return
            except OSError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.05)
