"""The classes of the catalog, and what their programs really say by their exit status (AR-2.6)."""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.catalog import CATALOG
from idkmesh.workloads.model import DEFAULT_PROBE_UID
from idkmesh.workloads.validation import validate_readiness
from tests.rehearsal import stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.workloads.model import Readiness

WAIT = 60.0


def status(readiness: Readiness, **variables: str) -> int:
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
        env={"PATH": os.environ["PATH"]} | variables,
        timeout=readiness.timeout_secs,
        check=False,
    )
    return done.returncode


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
    port = stores.free_port() if answer is None else web.server_address[1]
    assert status(CATALOG["http"].readiness(port)) == of_http
    assert status(CATALOG["nginx"].readiness(port)) == of_nginx


def test_redis() -> None:
    """AR-2.6: the answer counts, not that there is one: a script that holds the server up, and no server, fail."""
    with stores.redis() as store:
        ask = CATALOG["redis"].readiness(store.port)
        say = ["redis-cli", "-p", str(store.port)]
        assert status(ask) == 0
        subprocess.run([*say, "config", "set", "busy-reply-threshold", "50"], check=True, stdout=subprocess.DEVNULL)
        script = subprocess.Popen([*say, "eval", "while true do end", "0"], stdout=subprocess.DEVNULL)
        wait_until(lambda: status(ask) == 1)
        subprocess.run([*say, "script", "kill"], check=True, stdout=subprocess.DEVNULL)
        script.wait(WAIT)
        wait_until(lambda: status(ask) == 0)
    assert status(ask) == 1


def test_postgresql() -> None:
    """AR-2.6: a server that takes connections passes, a paused one and none fail, for a user without an account."""
    with tempfile.TemporaryDirectory() as folder, stores.postgres(Path(folder)) as store:
        ask = CATALOG["postgresql"].readiness(store.port)
        wait_until(lambda: status(ask, PGHOST="127.0.0.1") == 0)
        store.signal(signal.SIGSTOP)
        assert status(ask, PGHOST="127.0.0.1") == 2
        store.signal(signal.SIGCONT)
        wait_until(lambda: status(ask, PGHOST="127.0.0.1") == 0)
        store.stop()
        assert status(ask, PGHOST="127.0.0.1") == 2
