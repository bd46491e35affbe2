"""Faults that users of other servers met at the command line, tried on ours as a process."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functional.support import until
from tests.test_cli import (
    COMMAND,
    PATIENCE,
    TOKEN,
    body_to_come,
    environment,
    idkmesh,
    one_line,
    serving,
    wait_until_draining,
)

EXTRAS = ("etcd3gw", "grpc", "httpcore", "nacos", "rich", "v2", "websockets")
"""What the extras bring."""


def test_a_restart_takes_the_port_at_once() -> None:
    """SEC-10, CT-9.3: connections that the server ended wait in TIME_WAIT, and keep no successor from the port."""
    with serving("control-tower", "--port=0") as service:
        port = service.port
        for _ in range(5):
            assert service.get("/healthz")[0] == 200
        assert service.stop() == (0, "")
    assert f":{port:04X} " in waiting_ends(), "the server ends first, so the waiting ends are its own"
    with serving("control-tower", f"--port={port}") as successor:
        assert successor.port == port
        assert successor.get("/healthz") == (200, b"ok")


def waiting_ends() -> str:
    """Return the local ends, in hex, of this machine's connections in TIME_WAIT (proc(5)); skip without such a list."""
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("needs /proc/net/tcp")
    rows = (line.split() for line in table.read_text(encoding="ascii").splitlines()[1:])
    return "".join(f"{row[1]} " for row in rows if row[3] == "06")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("control-tower", "--port=65536"), 2),
        (("control-tower", "--port=-1"), 2),
        (("serve", ".", "--port=65536"), 2),
        (("serve", ".", "--host=192.0.2.1", "--port=0"), 1),
    ],
)
def test_an_address_that_cannot_be_bound(arguments: tuple[str, ...], code: int) -> None:
    """CLI-01, CT-9.3: beyond the range, or not of this machine: one line, a code that is no success."""
    told = idkmesh(*arguments)
    assert told[:2] == (code, "")
    assert one_line(told[2])


def test_a_second_service_beside_a_wildcard(tmp_path: Path) -> None:
    """CLI-01, SEC-10, CT-9.3: a port that another program has on all addresses is busy, and nothing is left begun."""
    with socket.create_server(("", 0)) as busy:
        port = busy.getsockname()[1]
        files = (f"--port-file={tmp_path / 'port'}", f"--store={tmp_path / 'events.sqlite3'}")
        code, text, errors = idkmesh("control-tower", f"--port={port}", *files)
    assert (code, text) == (1, "")
    assert one_line(errors)
    assert list(tmp_path.iterdir()) == []


def test_the_first_line_where_nobody_flushes(tmp_path: Path) -> None:
    """CLI-02, CLI-04, CT-9.1: where output is a file the line stands in it at once, with the port of the port file."""
    port_file, output = tmp_path / "port", tmp_path / "output"
    with output.open("wb") as file:
        command = [*COMMAND, "control-tower", "--port=0", f"--port-file={port_file}"]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment())
    try:
        until(lambda: "listens on" in output.read_text())
        port = int(port_file.read_text())
        assert f"listens on http://127.0.0.1:{port}\n" in output.read_text()
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    finally:
        process.terminate()
        process.wait(PATIENCE)
    assert process.returncode == 0
    assert not port_file.exists()


@pytest.mark.parametrize("more", [{"PYTHONIOENCODING": "cp1252"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("arguments", [("--help",), ("control-tower", "--help"), ("config", "show")])
def test_no_encoding_error(arguments: tuple[str, ...], more: dict[str, Any]) -> None:
    """CLI-08, CT-9.5: whatever the encoding of standard output, what is asked for is printed, without colour codes."""
    code, text, errors = idkmesh(*arguments, **more)
    assert (code, errors) == (0, "")
    assert text
    assert "\x1b" not in text


def test_help_without_any_extra() -> None:
    """CLI-07: with none of the optional packages every command explains itself, and none is a traceback."""
    code = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r})); import idkmesh.cli as cli; cli.main()"
    commands = re.findall(r"^    ([a-z][a-z-]+)(?:  |$)", idkmesh("--help")[1], re.MULTILINE)
    assert {"control-tower", "router", "demo", "readiness-adapter"} <= set(commands)
    for arguments in (["--version"], ["--help"], *([name, "--help"] for name in commands)):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment(), check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert "idkmesh" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_leaves_the_store_whole(tmp_path: Path, number: signal.Signals) -> None:
    """DRAIN-02, HS-9.6: an end by force in the middle of a drain hangs nowhere, and the store is opened as it is."""
    store = tmp_path / "events.sqlite3"
    flags = ("control-tower", "--port=0", f"--store={store}")
    with serving(*flags, IDKMESH_CONTROL_TOWER_TOKEN=TOKEN) as service, body_to_come(service):
        service.process.send_signal(number)
        wait_until_draining(service)
        service.process.send_signal(number)
        service.process.communicate(timeout=PATIENCE)
    assert service.process.returncode == 128 + number
    with contextlib.closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
    with serving(*flags) as successor:
        assert successor.stop() == (0, "")
    assert "idkmesh.server.started" in idkmesh("events", "list", f"--store={store}")[1]
