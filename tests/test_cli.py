"""The ``idkmesh`` command as a process: what it prints, writes and returns."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from idkmesh import __version__
from idkmesh.cli import main
from idkmesh.cli.rehearse import SCENARIOS
from idkmesh.service_runtime import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
TOKEN = "a-token-of-the-test-suite-0123456789"
PATIENCE = 60.0
"""Seconds after which a test gives up on a program that it has started."""

COMMAND = (sys.executable, "-m", "idkmesh")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("IDKMESH_")}
    kept.pop("PYTHONUNBUFFERED", None)
    return kept | {"PYTHONPATH": str(ROOT)} | more


def idkmesh(*arguments: str, cwd: Path | None = None, stdin: bytes = b"", **env: Any) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        cwd=cwd,
        env=environment(**env),
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Service:
    """A command that serves, as a process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.line = process.stdout.readline()
        found = re.search(r"(https?)://(\S+):(\d+)", self.line)
        assert found, self.line + (process.stderr.read() if process.stderr and process.poll() is not None else "")
        self.host, self.port = found[2].strip("[]"), int(found[3])

    def get(self, path: str, **fields: str) -> tuple[int, bytes]:
        client = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            client.request("GET", path, headers={name.replace("_", "-"): value for name, value in fields.items()})
            answer = client.getresponse()
            return answer.status, answer.read()
        finally:
            client.close()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Signal, wait, and return the exit code and what was written to standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


@contextlib.contextmanager
def serving(*arguments: str, cwd: Path | None = None, **env: Any) -> Iterator[Service]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(**env),
    )
    try:
        yield Service(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until_started(service: Service) -> None:
    """Wait for startup without asking a probe, whose answers are logged."""
    deadline = time.monotonic() + PATIENCE
    while True:
        status = json.loads(service.get("/api/v1/status", Authorization=f"Bearer {TOKEN}")[1])
        if status["operations"]["health"]["started"]:
            return
        assert time.monotonic() < deadline


@contextlib.contextmanager
def body_to_come(service: Service) -> Iterator[socket.socket]:
    """Send the head of a request whose body is still to come, which keeps a drain open, and wait until it was read."""
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as waiting:
        waiting.sendall(
            f"POST /api/v1/inspect/http-request HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nContent-Type: message/http\r\nContent-Length: 1\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        assert waiting.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        yield waiting


def wait_until_draining(service: Service) -> None:
    """Wait until readiness says so."""
    deadline = time.monotonic() + PATIENCE
    while b"shutting_down" not in service.get("/readyz")[1]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n") and "Traceback" not in text


# --- usage ---------------------------------------------------------------------------------------------------------


def test_version_and_help() -> None:
    """The version is the package's; help names every command; both end with 0."""
    assert idkmesh("--version") == (0, f"idkmesh {__version__}\n", "")
    code, text, errors = idkmesh("--help")
    assert (code, errors) == (0, "")
    for name in ("control-tower", "serve", "inspect-request", "inspect", "events", "healthcheck", "probes", "modules"):
        assert name in text
        assert idkmesh(name, "--help")[0] == 0


@pytest.mark.parametrize("command", ["control-tower", "serve"])
def test_every_limit_has_a_flag(command: str) -> None:
    """HS-2.1: the settings table drives the flags of every serving command."""
    text = " ".join(idkmesh(command, "--help")[1].split())
    for setting in SETTINGS:
        assert setting.flag in text
        assert setting.range_text in text


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nothing",),
        ("control-tower", "--nothing"),
        ("control-tower", "--request", "1"),
        ("serve",),
        ("inspect-request",),
        ("events",),
        ("events", "nothing"),
        ("events", "list", "--lim", "1"),
        ("events", "follow", "--limit", "1"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: tuple[str, ...]) -> None:
    """A mistake of the person who types: one line, exit code 2; a flag must be written in full."""
    code, text, errors = idkmesh(*arguments)
    assert (code, text) == (2, "")
    assert one_line(errors)


@pytest.mark.parametrize("arguments", [("--foo",), ("events", "--foo"), ("probes", "--foo")])
def test_an_unknown_flag_is_called_so(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Rule: what is told is what is wrong, not that a command is missing besides."""
    assert main(arguments) == 2
    assert "unrecognized arguments: --foo" in capsys.readouterr().err


def test_help_of_a_rehearsal(capsys: pytest.CaptureFixture[str]) -> None:
    """HL-8.8: the scenarios are named, and the usage is what one types."""
    assert main(["rehearse", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "[FLAGS] -- COMMAND [ARGUMENT ...]" in text
    packaged = (ROOT / "idkmesh" / "rehearsal" / "scenarios").glob("*.yaml")
    assert tuple(sorted(file.stem for file in packaged)) == SCENARIOS
    assert ", ".join(SCENARIOS) in text.replace("- ", "-")


@pytest.mark.parametrize("command", [("control-tower",), ("serve", ".")])
@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--request-timeout", "0", "from 0.1 to 300"),
        ("--request-timeout", "nan", "from 0.1 to 300"),
        ("--request-timeout", "ten", "from 0.1 to 300"),
        ("--max-concurrent-requests", "0", "from 1 to 1024"),
        ("--max-concurrent-requests", "1025", "from 1 to 1024"),
        ("--max-concurrent-requests", "1.5", "from 1 to 1024"),
        ("--max-connections", "20", "at least 32"),
        ("--port", "65536", "from 0 to 65535"),
        ("--port", "-1", "from 0 to 65535"),
        ("--port", "http", "from 0 to 65535"),
    ],
)
def test_values_out_of_range_are_one_line_with_the_range(
    command: tuple[str, ...], flag: str, value: str, told: str
) -> None:
    """CT-9.3, HS-2.2, HS-2.3: exit code 2, nothing started."""
    code, text, errors = idkmesh(*command, f"{flag}={value}")
    assert (code, text) == (2, "")
    assert one_line(errors)
    assert told in errors


def test_variables_are_limits_too_and_flags_win() -> None:
    """HS-2.1: IDKMESH_ variables; the line of a wrong one names it."""
    code, _, errors = idkmesh("control-tower", IDKMESH_RETRY_AFTER="0")
    assert code == 2
    assert "IDKMESH_RETRY_AFTER" in errors
    assert one_line(errors)
    with serving(
        "control-tower",
        "--port=0",
        "--retry-after=4",
        IDKMESH_RETRY_AFTER="3",
        IDKMESH_DRAIN_TIMEOUT="2",
        IDKMESH_CONTROL_TOWER_TOKEN=TOKEN,
    ) as service:
        document = json.loads(service.get("/api/v1/status", X_IDKMesh_UI_Token=TOKEN)[1])
    assert document["operations"]["limits"]["retry_after_seconds"] == 4
    assert document["operations"]["limits"]["drain_timeout_seconds"] == 2


def test_variable_that_is_no_setting_is_told() -> None:
    """HS-2.1, HL-8.1: a slip in a variable's name is one line of warning, and the command goes on.

    What a rehearsal tells its command is no slip.
    """
    code, _, errors = idkmesh("inspect-request", "-", IDKMESH_MAX_BODY_BYTE="5", IDKMESH_DEP_CART_DB="127.0.0.1:1")
    assert code == 1
    assert errors == "idkmesh: warning: IDKMESH_MAX_BODY_BYTE is no setting and changes nothing\n"


# --- control-tower -------------------------------------------------------------------------------------------------


def test_control_tower_announces_serves_and_ends_with_0(tmp_path: Path) -> None:
    """CT-9.1, CT-9.2, CT-9.4, CLI-02, CLI-04: the real port at once, the link, the port file, and a quiet end."""
    port_file = tmp_path / "port"
    with serving("control-tower", "--port=0", f"--port-file={port_file}") as service:
        assert service.line == f"idkmesh control-tower {__version__} listens on http://127.0.0.1:{service.port}\n"
        assert service.process.stdout is not None
        link = service.process.stdout.readline()
        found = re.fullmatch(rf"open http://127\.0\.0\.1:{service.port}/#token=([A-Za-z0-9\-._~]{{32,}})\n", link)
        assert found
        assert port_file.read_text() == f"{service.port}\n"
        assert list(tmp_path.iterdir()) == [port_file]
        assert service.get("/healthz") == (200, b"ok")
        assert service.get("/api/v1/status", Authorization=f"Bearer {found[1]}")[0] == 200
        assert service.get("/api/v1/status")[0] == 401
        assert service.stop() == (0, "")
    assert not port_file.exists()


def test_the_token_of_a_client_file_is_not_printed(tmp_path: Path) -> None:
    """CT-2.6, CT-9.2: where the output is a journal, the line names the file that guards the token."""
    file = tmp_path / "client\n.json"
    with serving("control-tower", "--port=0", f"--client-file={file}") as service:
        assert service.process.stdout is not None
        named = str(file).replace("\n", "\\n")
        line = service.process.stdout.readline()
        assert line == f"open http://127.0.0.1:{service.port}/ with the token in {named}\n"
        token = json.loads(file.read_text())["token"]
        assert service.get("/api/v1/status", Authorization=f"Bearer {token}")[0] == 200
        service.process.send_signal(signal.SIGTERM)
        rest, errors = service.process.communicate(timeout=PATIENCE)
    assert token not in service.line + line + rest + errors


def test_control_tower_on_sigint() -> None:
    """CT-9.4: Ctrl-C is a drain and exit code 0."""
    with serving("control-tower", "--port=0") as service:
        assert service.stop(signal.SIGINT) == (0, "")


def test_localhost_and_brackets() -> None:
    """CT-2.1, CT-9.2, CLI-10: localhost is 127.0.0.1; IPv6 is announced in brackets."""
    with serving("control-tower", "--port=0", "--host=localhost") as service:
        assert service.host == "127.0.0.1"
    for host in ("::1", "[::1]"):
        with serving("control-tower", "--port=0", f"--host={host}") as service:
            assert "http://[::1]:" in service.line
            assert service.get("/")[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "node.example"])
def test_control_tower_refuses_other_addresses(host: str) -> None:
    """CT-1.1, CT-2.1, SEC-05: one line, exit code 1."""
    code, text, errors = idkmesh("control-tower", f"--host={host}")
    assert (code, text) == (1, "")
    assert one_line(errors)
    assert "loopback" in errors


@pytest.mark.parametrize("command", ["control-tower", "serve ."])
def test_too_few_descriptors(command: str) -> None:
    """HS-2.3, HS-2.4: a machine that allows too few open files is one line."""
    script = f'ulimit -n 40; exec "{sys.executable}" -m idkmesh {command} --port=0'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr)
    assert "ulimit" in done.stderr


def test_published_connections_are_those_in_force() -> None:
    """CT-5.2, HS-2.4: `max_connections` as the machine's limit of open files has lowered it."""
    script = f'ulimit -n 200; exec "{sys.executable}" -m idkmesh control-tower --port=0'
    process = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(IDKMESH_CONTROL_TOWER_TOKEN=TOKEN),
    )
    service = Service(process)
    limits = json.loads(service.get("/api/v1/status", X_IDKMesh_UI_Token=TOKEN)[1])["operations"]["limits"]
    assert 32 <= limits["max_connections"] < 200
    assert limits["rate_limiting"] == "not_implemented"
    assert {setting.document_key for setting in SETTINGS} <= limits.keys()
    assert service.stop()[0] == 0


@pytest.mark.parametrize("command", [("control-tower",), ("serve", ".")])
def test_busy_port(command: tuple[str, ...], tmp_path: Path) -> None:
    """CT-9.3, CLI-01: one line with the address, what to do, exit code 1, no port file."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        more = (f"--port-file={tmp_path / 'port'}",) if command[0] == "control-tower" else ()
        code, text, errors = idkmesh(*command, f"--port={port}", *more)
    assert (code, text) == (1, "")
    assert one_line(errors)
    assert f"127.0.0.1:{port}" in errors
    assert "--port 0" in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 5000, b"with space " * 4, b"\xff" * 40, b"a" * 40 + b"\0"])
def test_invalid_token_file(content: bytes, tmp_path: Path) -> None:
    """CT-2.5: one line that names the file and not the token."""
    file = tmp_path / "token"
    file.write_bytes(content)
    code, text, errors = idkmesh("control-tower", "--port=0", f"--token-file={file}")
    assert (code, text) == (1, "")
    assert one_line(errors)
    assert str(file) in errors
    assert "32 to 4096" in errors


def test_unreadable_token_file(tmp_path: Path) -> None:
    """CT-2.5: missing, or a folder."""
    for file in (tmp_path / "missing", tmp_path):
        code, text, errors = idkmesh("control-tower", "--port=0", f"--token-file={file}")
        assert (code, text) == (1, "")
        assert one_line(errors)
        assert str(file) in errors


def test_token_file_wins_over_the_variable(tmp_path: Path) -> None:
    """CT-2.5: the more explicit of the two."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    other = "b" * 40
    with serving("control-tower", "--port=0", f"--token-file={file}", IDKMESH_CONTROL_TOWER_TOKEN=other) as service:
        assert service.get("/api/v1/status", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert service.get("/api/v1/status", Authorization=f"Bearer {other}")[0] == 401


def test_invalid_token_variable() -> None:
    """CT-2.5: the line names the variable and not the token."""
    code, _, errors = idkmesh("control-tower", "--port=0", IDKMESH_CONTROL_TOWER_TOKEN="too-short-secret")
    assert code == 1
    assert one_line(errors)
    assert "IDKMESH_CONTROL_TOWER_TOKEN" in errors
    assert "too-short-secret" not in errors


def test_unwritable_port_file(tmp_path: Path) -> None:
    """CT-9.1: one line, exit code 1."""
    code, text, errors = idkmesh("control-tower", "--port=0", f"--port-file={tmp_path / 'none' / 'port'}")
    assert (code, text) == (1, "")
    assert one_line(errors)


def test_port_file_in_a_shared_folder(tmp_path: Path) -> None:
    """CT-9.1, CLI-02: what others have laid down is not written through: links under guessable names, or FILE's."""
    victim, port_file = tmp_path / "victim", tmp_path / "port"
    victim.write_text("precious")
    port_file.symlink_to(victim)
    # Starts of the same command, whose process ids are likely.
    for number in range(os.getpid(), os.getpid() + 3000):
        (tmp_path / f".port.{number}").symlink_to(victim)
    laid = set(tmp_path.iterdir())
    with serving("control-tower", "--port=0", f"--port-file={port_file}") as service:
        assert victim.read_text() == "precious"
        assert not port_file.is_symlink()
        assert port_file.read_text() == f"{service.port}\n"
        assert port_file.stat().st_mode & 0o777 & ~0o644 == 0
        assert set(tmp_path.iterdir()) == laid
        assert service.stop() == (0, "")
    assert not port_file.exists()


@pytest.mark.parametrize("flag", ["--port-file", "--client-file"])
@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_is_no_regular_one(flag: str, link: bool, tmp_path: Path) -> None:
    """CT-9.1, CT-9.10: what others read from or write to is not replaced: one line, exit code 2, and it stays."""
    file = pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if link:
        file = tmp_path / "link"
        file.symlink_to(pipe)
    code, text, errors = idkmesh("control-tower", "--port=0", f"{flag}={file}")
    assert (code, text) == (2, "")
    assert one_line(errors)
    assert "no regular file" in errors
    assert pipe.is_fifo()
    assert file.is_symlink() is link


def test_port_file_of_the_next_service_stays(tmp_path: Path) -> None:
    """CT-9.1: one that ends removes its own file, never that of one which has started meanwhile."""
    port_file = tmp_path / "port"
    command = ("control-tower", "--port=0", f"--port-file={port_file}")
    with serving(*command) as first, serving(*command) as second:
        assert first.stop() == (0, "")
        assert port_file.read_text() == f"{second.port}\n"
        port_file.unlink()
        assert second.stop() == (0, ""), "a file that is gone is no fault"


def test_port_file_after_a_forced_end(tmp_path: Path) -> None:
    """CT-9.1: a second signal leaves the file; the next start replaces it."""
    port_file = tmp_path / "port"
    command = ("control-tower", "--port=0", f"--port-file={port_file}")
    with (
        serving(*command, IDKMESH_CONTROL_TOWER_TOKEN=TOKEN) as service,
        body_to_come(service),
    ):
        service.process.terminate()
        wait_until_draining(service)
        assert service.stop() == (143, "")
    assert port_file.exists()
    with serving(*command) as service:
        assert port_file.read_text() == f"{service.port}\n"
        assert service.stop() == (0, "")
    assert not port_file.exists()


def test_token_is_in_no_log(tmp_path: Path) -> None:
    """CT-2.6, SEC-04: the access log has neither fields nor query strings."""
    with serving(
        "control-tower", "--port=0", IDKMESH_CONTROL_TOWER_TOKEN=TOKEN, IDKMESH_HTTP_ACCESS_LOG="1"
    ) as service:
        service.get(f"/?token={TOKEN}", Referer=f"http://127.0.0.1/?token={TOKEN}")
        service.get(f"/nowhere?token={TOKEN}")
        service.get("/api/v1/status", X_IDKMesh_UI_Token=TOKEN)
        code, errors = service.stop()
    assert code == 0
    records = [json.loads(line) for line in errors.splitlines()]
    assert {(record["path"], record["status"]) for record in records} == {
        ("/", 200),
        ("/nowhere", 404),
        ("/api/v1/status", 200),
    }
    assert TOKEN not in errors


def test_probes_are_logged_when_their_status_changes() -> None:
    """CT-4.5, PROBE-11: a thousand good probes are no line; the first bad one is."""
    logged: dict[str, Any] = {"IDKMESH_HTTP_ACCESS_LOG": "1", "IDKMESH_CONTROL_TOWER_TOKEN": TOKEN}
    with serving("control-tower", "--port=0", **logged) as service:
        wait_until_started(service)
        for _ in range(20):
            for path in ("/healthz", "/readyz"):
                assert service.get(path)[0] == 200
        assert service.get("/healthz?verbose", Host="pod")[0] == 200
        with body_to_come(service) as waiting:
            service.process.terminate()
            wait_until_draining(service)
            for _ in range(5):
                assert service.get("/readyz")[0] == 503
                assert service.get("/healthz")[0] == 200
            waiting.sendall(b"x")
            assert waiting.recv(65536).startswith(b"HTTP/1.0 200 ")
        _, errors = service.process.communicate(timeout=PATIENCE)
    assert service.process.returncode == 0
    records = [json.loads(line) for line in errors.splitlines()]
    assert [(record["path"], record["status"]) for record in records if record["path"].endswith("z")] == [
        ("/readyz", 503)
    ]


def test_open_gives_the_link_to_the_browser(tmp_path: Path) -> None:
    """CT-9.2: --open; and a line where there is no browser."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened.part; mv {tmp_path}/opened.part {tmp_path}/opened\n')
    browser.chmod(0o755)
    with serving("control-tower", "--port=0", "--open", BROWSER=f"{browser} %s") as service:
        assert service.process.stdout is not None
        link = service.process.stdout.readline().removeprefix("open ")
        deadline = time.monotonic() + PATIENCE
        while not (tmp_path / "opened").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (tmp_path / "opened").read_text() == link
        assert service.stop() == (0, "")
    with serving("control-tower", "--port=0", "--open", BROWSER="/nowhere/browser %s", PATH="/nowhere") as service:
        assert service.get("/healthz")[0] == 200
        time.sleep(0.3)
        assert service.stop()[1] in {"", "idkmesh: no browser could be started: open the link\n"}


def test_announced_port_accepts_at_once() -> None:
    """CT-9.1, CLI-02, CLI-04: the line comes when the port listens, whatever standard output is."""
    for _ in range(5):
        with (
            serving("control-tower", "--port=0") as service,
            socket.create_connection(("127.0.0.1", service.port), PATIENCE),
        ):
            pass


def test_early_signal_never_opens_the_port(tmp_path: Path) -> None:
    """CT-9.4: a signal during the start ends it, with 0 once a drain is possible, and in good time."""
    for delay in (0.03, 0.06, 0.1, 0.15, 0.3):
        process = subprocess.Popen(
            [*COMMAND, "control-tower", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )
        time.sleep(delay)
        process.terminate()
        started = time.monotonic()
        _, errors = process.communicate(timeout=PATIENCE)
        assert time.monotonic() - started < 10, "long before anybody would kill it"
        # Before Python has run a line of ours, the system's own way to end is all there is.
        assert process.returncode in {0, 143, -signal.SIGTERM}
        assert errors == b""


SIGNAL_WHILE_LOADING = """
import os, sys

_, module, number = sys.argv

class Signal:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Signal())
from idkmesh.__main__ import main
sys.argv = ["idkmesh", "control-tower", "--port=0"]
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["idkmesh.cli", "idkmesh.service_runtime", "idkmesh.commands.service_start"])
def test_signal_while_modules_load(module: str, number: int) -> None:
    """CT-9.4: no traceback and no word, from the first import on."""
    command = [sys.executable, "-c", SIGNAL_WHILE_LOADING, module, str(int(number))]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, b"", b"")


def test_ignored_sigint_stays_ignored_while_modules_load() -> None:
    """CT-9.4: a shell starts what runs in the background so."""
    inner = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{SIGNAL_WHILE_LOADING}"
    command = [sys.executable, "-c", inner.replace("control-tower", "none"), "idkmesh.cli", str(int(signal.SIGINT))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert one_line(done.stderr)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a terminal's way to close a pipe")
def test_closed_pipe_is_a_quiet_end() -> None:
    """CT-9.5, CLI-08: output that nobody reads is 141 and no word, as SIGPIPE would end it."""
    read, write = os.pipe()
    os.close(read)
    for arguments in (("--help",), ("control-tower", "--port=0"), ("inspect-request", "-")):
        done = subprocess.run(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (141, b"")
    os.close(write)


def test_closed_standard_streams() -> None:
    """CLI-08: standard output and error may be closed from the start."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -m idkmesh inspect-request - <&- >&- 2>&-'],
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -m idkmesh inspect-request - >&-'],
        input=b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.alone
def test_start_to_first_answer_is_quick() -> None:
    """Start to first answer: 300 ms on an idle machine, and three times that on a busy one. The best of three."""
    best = float("inf")
    for _ in range(3):
        started = time.monotonic()
        with serving("control-tower", "--port=0") as service:
            while service.get("/readyz")[0] != 200:
                assert time.monotonic() < started + PATIENCE
            best = min(best, time.monotonic() - started)
    assert best < 0.9


def test_help_does_not_load_the_server() -> None:
    """CLI-07: --help and --version stay quick: no server is imported."""
    code = "import sys, idkmesh.cli as cli; cli.main(['--version']); print('idkmesh.httpd' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.splitlines()[1] == "False"


# --- inspect-request -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code", "verdict"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, "accepted"),
        (b"GET / HTTP/1.1\nHost: a\n\n", 1, "refused"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", 1, "incomplete"),
        (b"", 1, "incomplete"),
    ],
)
def test_inspect_request(data: bytes, code: int, verdict: str, tmp_path: Path) -> None:
    """CT-6.3: 0 accepted, 1 not; a file and standard input alike."""
    file = tmp_path / "request.bin"
    file.write_bytes(data)
    by_file, by_stdin = idkmesh("inspect-request", str(file)), idkmesh("inspect-request", "-", stdin=data)
    assert by_file == by_stdin
    assert by_file[0] == code
    assert by_file[2] == ""
    assert json.loads(by_file[1])["verdict"] == verdict


def test_inspect_request_prints_any_byte_in_any_encoding(tmp_path: Path) -> None:
    """CT-9.5, CLI-08: field values are any byte, terminals are any encoding: no encoding error."""
    file = tmp_path / "request.bin"
    file.write_bytes(b"GET / HTTP/1.1\r\nHost: a\r\nX: \xe2\x80\xae\xff\r\n\r\n")
    settings: list[dict[str, Any]] = [
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
    ]
    for more in settings:
        code, text, errors = idkmesh("inspect-request", str(file), **more)
        assert (code, errors) == (0, "")
        assert json.loads(text)["request"]["fields"][1]["value"] == "\xe2\x80\xae\xff"


def test_inspect_request_unreadable_file(tmp_path: Path) -> None:
    """CT-6.3: 2 and one line; a name that the terminal cannot show is shown escaped."""
    for name in (str(tmp_path / "missing-\u540d"), str(tmp_path)):
        code, text, errors = idkmesh("inspect-request", name, PYTHONIOENCODING="ascii")
        assert (code, text) == (2, "")
        assert one_line(errors)


def test_interrupt_is_130() -> None:
    """Ctrl-C in a command that serves nothing: no word, as a shell reports it."""
    with subprocess.Popen(
        [*COMMAND, "inspect-request", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        # More than a pipe holds: it is written once the command reads.
        process.stdin.write(b"x" * 1_000_000)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == (b"", b"")
        assert process.returncode == 130


def test_main_returns_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """``main`` with arguments of its own returns, whatever they ask for."""
    assert main(["--version"]) == 0
    assert main(["nothing"]) == 2
    assert main(["inspect-request", "/nowhere/at/all"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


# --- serve ---------------------------------------------------------------------------------------------------------

MODULE = """
from http.server import BaseHTTPRequestHandler

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"handler")

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"wsgi " + environ["wsgi.url_scheme"].encode()]

class Inside:
    app = staticmethod(app)

number = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "thing.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("import no_such_module_anywhere\n")
    (tmp_path / "wrong.py").write_text("def\n")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_text("file")
    (tmp_path / "site" / "sub").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("target", "path", "body"),
    [
        ("site", "/a.txt", b"file"),
        ("thing:Handler", "/", b"handler"),
        ("thing:app", "/", b"wsgi http"),
        ("thing:Inside.app", "/", b"wsgi http"),
    ],
)
def test_serve(folder: Path, target: str, path: str, body: bytes) -> None:
    """A folder, a handler class, a WSGI callable; modules of this directory are found."""
    with serving("serve", target, "--port=0", cwd=folder) as service:
        assert f"serves {target} on http://127.0.0.1:{service.port}/" in service.line
        assert service.get(path) == (200, body)
        code, errors = service.stop()
    assert code == 0
    assert "Traceback" not in errors
    assert "warning" not in errors


def test_serve_limits(folder: Path) -> None:
    """HS-2.1: the same limits as the tower's."""
    with serving("serve", "thing:app", "--port=0", "--max-header-fields=3", cwd=folder) as service:
        assert service.get("/", a="1")[0] == 200
        assert service.get("/", a="1", b="2")[0] == 431


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nowhere", "no folder"),
        ("", "no folder"),
        ("thing.py", "no folder"),
        ("nowhere:app", "nowhere"),
        (":app", "import"),
        ("thing:", "has no"),
        ("thing:none", "has no none"),
        ("thing:number", "neither"),
        ("broken:app", "broken.py:1"),
        ("wrong:app", "SyntaxError"),
    ],
)
def test_serve_without_a_target(folder: Path, target: str, told: str) -> None:
    """CT-9.6: one line; 2 for what is no target, 1 for a module's own error, which is shown with its place."""
    code, text, errors = idkmesh("serve", target, "--port=0", cwd=folder)
    assert (code, text) == (2 if told == "no folder" else 1, "")
    assert one_line(errors)
    assert told in errors


def test_serve_a_program_that_serves_itself(folder: Path) -> None:
    """CT-9.6: an import that serves would never come back: one line says where, and what to do; no port is taken."""
    lines = "import thing, idkmesh\nserver = idkmesh.BoundedHTTPServer(('127.0.0.1', 0), thing.Handler)\n"
    (folder / "itself.py").write_text(f"{lines}idkmesh.serve_until_signal(server)\n")
    code, text, errors = idkmesh("serve", "itself:thing", "--port=0", cwd=folder)
    assert (code, text, one_line(errors)) == (1, "", True)
    assert f"cannot import 'itself': it begins to serve by itself ({folder}/itself.py:3)" in errors
    assert errors.endswith('; put that call under: if __name__ == "__main__":\n')


@pytest.mark.parametrize(
    "target",
    [
        "/%00",
        "/a.txt%00.png",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/thing.py",
        "/c%3a%5cwindows%5cwin.ini",
        "/%5c%5chost%5cshare",
        "/%zz",
        "/%",
        "/" + "a" * 3000,
        "/\\evil.example/..",
        "/\\evil.example/sub",
    ],
)
def test_serve_folder_strange_paths(folder: Path, target: str) -> None:
    """HTTP-13: never a file outside the folder, a traceback, or a redirect to another host."""
    with serving("serve", "site", "--port=0", cwd=folder) as service:
        with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as client:
            client.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.split()[1] in {b"404", b"400"}
        _, errors = service.stop()
    assert "Traceback" not in errors


def test_serve_folder_names_and_queries(folder: Path) -> None:
    r"""A query finds no file: ``\`` and ``%00`` in it change nothing. A name with ``\`` is asked for with ``%5C``."""
    (folder / "site" / "b\\c.txt").write_text("odd")
    with serving("serve", "site", "--port=0", cwd=folder) as service:
        for target, expected in (
            ("/a.txt?path=c:\\temp", b"file"),
            ("/a.txt?%00", b"file"),
            ("/a.txt?a?b\\%00", b"file"),
            ("/b%5Cc.txt", b"odd"),
        ):
            with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as client:
                client.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                answer = b"".join(iter(lambda: client.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.0 200 "), target
            assert answer.endswith(b"\r\n\r\n" + expected)


def test_serve_folder_redirects_stay_here(folder: Path) -> None:
    """HTTP-11: the redirect that adds a slash names a path of this server, whatever the path begins with."""
    with serving("serve", "site", "--port=0", cwd=folder) as service:
        for target in ("/sub", "//sub", "//evil.example/../sub"):
            with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as client:
                client.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                answer = b"".join(iter(lambda: client.recv(65536), b"")).decode()
            found = re.search(r"(?m)^Location: (.*?)\r$", answer)
            assert found is None or re.match(r"/(?![/\\])", found[1])


def test_serve_warns_of_other_addresses(folder: Path) -> None:
    """A service that other machines reach says so."""
    with serving("serve", "site", "--port=0", "--host=0.0.0.0", cwd=folder) as service:
        assert service.stop()[1].startswith("idkmesh: warning: 0.0.0.0 can be reached from other machines")


def test_serve_hosts(folder: Path) -> None:
    """CLI-10: IPv6 in brackets; the empty host and a name that is none are one line."""
    with serving("serve", "site", "--port=0", "--host=::1", cwd=folder) as service:
        assert "http://[::1]:" in service.line
        assert service.get("/a.txt") == (200, b"file")
    for host in ("", "no-such-name.invalid", "192.0.2.1"):
        code, text, errors = idkmesh("serve", "site", "--port=0", f"--host={host}", cwd=folder)
        assert (code, text) == (1, "")
        assert one_line(errors)


def certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


def test_serve_tls(folder: Path) -> None:
    """HS-11.1: --tls-cert and --tls-key, in two files or one."""
    cert, key = certificate(folder)
    both = folder / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for flags in ((f"--tls-cert={cert}", f"--tls-key={key}"), (f"--tls-cert={both}",)):
        with serving("serve", "thing:app", "--port=0", *flags, cwd=folder) as service:
            assert "https://127.0.0.1:" in service.line
            client = http.client.HTTPSConnection("127.0.0.1", service.port, timeout=PATIENCE, context=context)
            client.request("GET", "/")
            assert client.getresponse().read() == b"wsgi https"
            client.close()
            assert service.stop() == (0, "")


def test_serve_tls_mistakes(folder: Path) -> None:
    """One line: no such file, no certificate in it, a key that is another's, a key alone."""
    cert, key = certificate(folder)
    (folder / "more").mkdir()
    _, other_key = certificate(folder / "more")
    cases: list[tuple[int, tuple[Any, ...]]] = [
        (1, ("--tls-cert", folder / "missing.pem")),
        (1, ("--tls-cert", folder / "thing.py")),
        (1, ("--tls-cert", cert, "--tls-key", other_key)),
        (1, ("--tls-cert", cert)),
        (2, ("--tls-key", key)),
    ]
    for expected, flags in cases:
        code, text, errors = idkmesh("serve", "site", "--port=0", *map(str, flags), cwd=folder)
        assert (code, text) == (expected, "")
        assert one_line(errors)
