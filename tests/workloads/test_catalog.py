"""The classes of the catalog, and what their programs really say by their exit status (AR-2.6)."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.catalog import CATALOG
from idkmesh.workloads.model import DEFAULT_PROBE_UID
from idkmesh.workloads.validation import validate_readiness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from idkmesh.workloads.model import Readiness

WAIT = 20.0


def status(readiness: Readiness) -> int:
    """Run a command as an instance's would be: in ``/``, without a terminal, as nobody where this is root."""
    user = DEFAULT_PROBE_UID if os.geteuid() == 0 else None
    done = subprocess.run(
        readiness.command,
        cwd="/",
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]},
        timeout=readiness.timeout_secs,
        check=False,
    )
    return done.returncode


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_catalog_has_what_the_contract_names() -> None:
    """AR-2.6: six classes, each with a package, what it proves and what it does not, in whole sentences."""
    assert set(CATALOG) == {"postgresql", "redis", "mariadb", "nginx", "rabbitmq", "http"}
    for entry in CATALOG.values():
        assert entry.package
        for text in (entry.proves, entry.proves_not):
            assert text.endswith(".")


@pytest.mark.parametrize("name", CATALOG)
def test_each_command_keeps_the_rules(name: str) -> None:
    """AR-2.3, AR-2.6: an entry is judged as one of a file, and asks the module's port where it takes one."""
    entry = CATALOG[name]
    for port in (None, 1, 65_535):
        readiness = entry.readiness(port)
        assert validate_readiness(readiness) == ()
        assert not any("{" in argument for argument in readiness.command)
        asked = str(entry.port if port is None else port)
        assert entry.port is None or any(asked in argument for argument in readiness.command)
        assert entry.port is not None or readiness.command == entry.command


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers with the server's status."""

    def do_GET(self) -> None:
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def web() -> Iterator[http.server.HTTPServer]:
    """Give a server whose status a test sets."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize(
    ("answer", "of_http", "of_nginx"), [(200, 0, 0), (301, 0, 0), (404, 22, 0), (502, 22, 0), (None, 7, 7)]
)
def test_http(web: http.server.HTTPServer, answer: int | None, of_http: int, of_nginx: int) -> None:
    """AR-2.6: a service fails by a status of 400 and more, nginx by none; both fail where nobody listens."""
    web.status = answer  # type: ignore[attr-defined]
    port = free_port() if answer is None else web.server_address[1]
    assert status(CATALOG["http"].readiness(port)) == of_http
    assert status(CATALOG["nginx"].readiness(port)) == of_nginx


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_redis(tmp_path: Path) -> None:
    """AR-2.6: the answer counts, not that there is one: a script that holds the server up, and no server, fail."""
    port = free_port()
    ask, busy = CATALOG["redis"].readiness(port), ["redis-cli", "-p", str(port)]
    server = subprocess.Popen(
        [*("redis-server", "--port", str(port), "--save", "", "--dir", str(tmp_path)), "--busy-reply-threshold", "50"],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: status(ask) == 0)
        script = subprocess.Popen([*busy, "eval", "while true do end", "0"], stdout=subprocess.DEVNULL)
        wait_until(lambda: status(ask) == 1)
        subprocess.run([*busy, "script", "kill"], check=True, stdout=subprocess.DEVNULL)
        script.wait(WAIT)
        wait_until(lambda: status(ask) == 0)
    finally:
        server.terminate()
        server.wait(WAIT)
    assert status(ask) == 1


@pytest.mark.skipif(shutil.which("pg_isready") is None, reason="pg_isready is not installed")
def test_postgresql_that_is_not_there() -> None:
    """AR-2.6: nobody at the socket is 2, told within the limit, to a user without an account or a home."""
    assert status(CATALOG["postgresql"].readiness(free_port())) == 2
