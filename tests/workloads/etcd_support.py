"""Members of a real etcd that tests stop, pause and start again, and servers that are none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from scripts.bench.benchlib.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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
    """Return ports that nobody listens on, and that the system gives to none of the tests beside this one."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


class Etcd:
    """A member with a folder and ports of its own. It keeps both when it is started again.

    ``host`` is where it answers, ``through`` a command that runs it, ``peers`` the URL of each member of its cluster by
    name; without them it is alone. ``certificate``, with its key, is for TLS.
    """

    def __init__(  # noqa: PLR0913  what a member is told on its command line
        self,
        folder: Path,
        *,
        name: str = "one",
        host: str = "127.0.0.1",
        through: Sequence[str] = (),
        peers: Mapping[str, str] | None = None,
        certificate: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._folder = folder
        self._name, self._through = name, through
        client, peer = free_ports(2)
        self._peers = peers or {name: f"http://{host}:{peer}"}
        self.url = f"{'http' if certificate is None else 'https'}://{host}:{client}"
        self._tls = {}
        for file, content in zip(("cert-file", "key-file"), certificate or (), strict=False):
            self._tls[file] = str(folder / file)
            (folder / file).write_bytes(content)
        self._process: subprocess.Popen[bytes] | None = None
        self.begin()
        if peers is None:
            self.wait()

    @property
    def data(self) -> Path:
        """Where it keeps everything."""
        return self._folder / f"data-{self._name}"

    def start(self) -> None:
        self.begin()
        self.wait()

    def begin(self) -> None:
        """Start it, and do not wait until it answers: a member of several does so once others are there."""
        peer = self._peers[self._name]
        arguments = {
            "name": self._name,
            "data-dir": str(self.data),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"{name}={url}" for name, url in self._peers.items()),
            # Of one member, who has nobody to hear from: it is there sooner, and grants shorter leases.
            "heartbeat-interval": "20",
            "election-timeout": "200",
            "logger": "zap",
            "log-level": "error",
            **self._tls,
        }
        with (self._folder / f"log-{self._name}").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._through, "etcd", *(f"--{name}={value}" for name, value in arguments.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "ETCD_UNSUPPORTED_ARCH": "arm64"},
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would, paused or not."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(30)

    def wait(self) -> None:
        until = time.monotonic() + 60
        context = ssl._create_unverified_context() if self._tls else None
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5, context=context) as answer:
                    if json.load(answer)["health"] == "true":
                        return
            except OSError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.05)


@pytest.fixture(scope="module")
def one_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """Give a member that the tests of one file share."""
    member = Etcd(tmp_path_factory.mktemp("etcd"))
    yield member
    member.kill()


def answering(answer: Any, status: int = 200) -> Any:
    """Return a handler that says this to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving(handler: Any) -> Iterator[str]:
    """Give the URL of a server with this handler."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(30)
