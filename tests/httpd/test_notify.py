"""What systemd is told, and when: decided on a manual clock, sent over real datagram sockets."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

from idkmesh.health.manifest import manifest
from idkmesh.health.matrix_file import read_matrix
from idkmesh.health.watchdog import Watchdog
from idkmesh.httpd import BoundedHTTPServer
from idkmesh.httpd.front import Front
from idkmesh.httpd.notify import RETRY_SECONDS, Keepalive, Notifier, status_line, tell_supervisor
from tests.events.support import ROOT
from tests.health.matrices import EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PERIOD = 10.0


class Supervisor:
    """Listens where ``NOTIFY_SOCKET`` says, as systemd does."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(0)

    def heard(self) -> list[str]:
        """Return every message that has come, and forget it: a datagram is there once it is sent."""
        messages: list[str] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                messages.append(self.socket.recv(4096).decode())
        return messages

    def environ(self, **more: str) -> dict[str, str]:
        return {"NOTIFY_SOCKET": self.address} | more


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str, level: int) -> None:
        self.lines.append(line)


@pytest.fixture(params=["path", "abstract"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Supervisor]:
    name = f"@idkmesh-test-{secrets.token_hex(8)}" if request.param == "abstract" else str(tmp_path / "notify")
    here = Supervisor(name)
    yield here
    here.socket.close()


# --- the decision -----------------------------------------------------------------------------------------------------


def test_when_a_keep_alive_is_sent() -> None:
    """HL-2.4: at once, then each half of what systemd waits; a look between sends nothing, none is made up for."""
    keepalive = Keepalive(PERIOD)
    sent = []
    for now in (100.0, 100.1, 109.9, 110.0, 110.1, 145.0, 150.0, 155.0):
        keepalive, lines = keepalive.look(now, ())
        sent += [now] if lines == ("WATCHDOG=1",) else []
    assert sent == [100.0, 110.0, 145.0, 155.0]


def test_no_keep_alive_while_a_beat_is_overdue() -> None:
    """HL-2.4: silence is told in a status once, and no keep-alive goes out until it has ended; then at once."""
    keepalive, _ = Keepalive(PERIOD).look(0.0, ())
    keepalive, lines = keepalive.look(5.0, ("front", "probes"))
    assert lines == ("STATUS=stalled: front, probes",)
    for now in (10.0, 20.0, 1000.0):
        keepalive, lines = keepalive.look(now, ("front", "probes"))
        assert lines == ()
    keepalive, lines = keepalive.look(1000.1, ("probes",))
    assert lines == ("STATUS=stalled: probes",)
    keepalive, lines = keepalive.look(1000.2, ())
    assert lines == ("WATCHDOG=1", "STATUS=well again")
    assert keepalive.look(1000.3, ())[1] == ()


def test_without_a_watchdog_only_the_status_is_told() -> None:
    """HL-2.4: a unit without WatchdogSec gets no keep-alive."""
    keepalive, lines = Keepalive(None).look(0.0, ())
    assert (lines, keepalive.due_at(0.0)) == ((), None)
    assert keepalive.look(1.0, ("front",))[1] == ("STATUS=stalled: front",)


def test_a_status_is_one_line() -> None:
    """HL-2.4: nothing in a status can be taken for another assignment."""
    assert status_line("a\nREADY=1\0") == "STATUS=a?READY=1?"
    assert len(status_line("x" * 10_000)) == len("STATUS=") + 200


# --- what it is asked by the environment ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "period"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "42"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "43"}, None),
        ({"WATCHDOG_USEC": "1"}, 0.0000005),
        ({"WATCHDOG_USEC": ""}, None),
    ],
)
def test_the_watchdog_that_is_asked_for(variables: dict[str, str], period: float | None) -> None:
    """HL-2.4: half of `WATCHDOG_USEC`, and only where `WATCHDOG_PID` is this process's or is not there."""
    log = Log()
    notifier = Notifier.from_environ({"NOTIFY_SOCKET": "/run/notify", **variables}, pid=42, log=log)
    assert (notifier.period, log.lines) == (period, [])


def test_its_own_pid(supervisor: Supervisor) -> None:
    """HL-2.4: without a pid given it is this process's."""
    environ = supervisor.environ(WATCHDOG_USEC="2000000", WATCHDOG_PID=str(os.getpid()))
    assert Notifier.from_environ(environ).period == 1.0


@pytest.mark.parametrize("usec", ["0", "-1", "1e6", "a", "9" * 30, "٣"])
def test_a_figure_that_is_none(usec: str, supervisor: Supervisor) -> None:
    """HL-2.4: it is told in one line, and everything else is sent."""
    log = Log()
    notifier = Notifier.from_environ(supervisor.environ(WATCHDOG_USEC=usec), log=log)
    assert notifier.period is None
    assert len(log.lines) == 1
    assert notifier.ready()


@pytest.mark.parametrize("address", ["relative", "@", "/", "vsock:2:1", "/a\0b"])
def test_an_address_that_is_none(address: str) -> None:
    """HL-2.4: it is told in one line, and nothing is sent."""
    log = Log()
    notifier = Notifier.from_environ({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}, log=log)
    assert len(log.lines) == 1
    assert not notifier.ready()
    assert notifier.period is None


def test_without_systemd() -> None:
    """HL-2.4: without the variable nothing is sent and nothing is said."""
    log = Log()
    notifier = Notifier.from_environ({"WATCHDOG_USEC": "1000000"}, log=log)
    assert (notifier.ready(), notifier.beat(0.0, ()), notifier.beat(9.0, ("a",)), notifier.stopping()) == (False,) * 4
    assert (notifier.period, log.lines) == (None, [])


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_a_life(supervisor: Supervisor) -> None:
    """HL-2.4: `READY=1`, keep-alives while no beat is overdue, `STOPPING=1`; to a path and to an abstract name."""
    notifier = Notifier.from_environ(supervisor.environ(WATCHDOG_USEC="20000000"))
    assert notifier.ready("listens on 8765")
    assert notifier.beat(0.0, ())
    assert not notifier.beat(9.9, ())
    assert notifier.beat(10.0, ())
    assert notifier.beat(20.0, ("front",))
    assert not notifier.beat(30.0, ("front",))
    assert notifier.beat(31.0, ())
    assert notifier.status("asks its dependencies")
    assert notifier.stopping()
    assert supervisor.heard() == [
        "READY=1\nSTATUS=listens on 8765",
        "WATCHDOG=1",
        "WATCHDOG=1",
        "STATUS=stalled: front",
        "WATCHDOG=1\nSTATUS=well again",
        "STATUS=asks its dependencies",
        "STOPPING=1\nSTATUS=draining",
    ]


def test_a_supervisor_that_is_away(tmp_path: Path) -> None:
    """HL-2.4: it is told once, tried again after a moment and no sooner, and what did not get through is sent then."""
    log = Log()
    place = str(tmp_path / "notify")
    notifier = Notifier(place, PERIOD, log)
    assert not notifier.beat(0.0, ())
    assert not notifier.beat(RETRY_SECONDS * 0.5, ())
    assert not notifier.beat(RETRY_SECONDS, ())
    assert len(log.lines) == 1
    assert place not in log.lines[0]
    here = Supervisor(place)
    assert not notifier.beat(RETRY_SECONDS * 1.5, ())
    assert notifier.beat(RETRY_SECONDS * 2, ())
    assert here.heard() == ["WATCHDOG=1"]
    here.socket.close()
    assert not notifier.stopping()
    assert len(log.lines) == 2


def test_a_supervisor_that_does_not_read(supervisor: Supervisor) -> None:
    """HL-2.4: the front beats, and it waits for nobody: a full socket is a beat that did not get through."""
    log = Log()
    notifier = Notifier(supervisor.address, 0.001, log)
    sent = [notifier.beat(float(now), ()) for now in range(2000)]
    assert sent[0]
    assert not sent[-1]
    assert len(log.lines) == 1
    assert len(supervisor.heard()) == sum(sent)
    assert notifier.beat(3000.0, ())


# --- the unit ---------------------------------------------------------------------------------------------------------


def pairs(text: str) -> dict[str, str]:
    """Return the settings of a unit; none of ours stands twice."""
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def test_the_example_unit() -> None:
    """HL-2.4, HL-6.3: the tower's unit has every line of the stanza that fits the example's matrix."""
    unit = pairs((ROOT / "examples" / "idkmesh.service").read_text(encoding="utf-8"))
    stanza = pairs(manifest(read_matrix(EXAMPLE), "systemd", port=1))
    assert stanza["Type"] == "notify"
    assert {name: unit.get(name) for name in stanza} == stanza
    assert unit["ExecStart"].split()[1] == "control-tower"


def test_a_serving_command_tells_its_supervisor(tmp_path: Path) -> None:
    """HL-2.4: ready once it listens, alive at half of what systemd waits, stopping when the drain begins."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(20)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1500000"}
        command = [sys.executable, "-m", "idkmesh", "control-tower", "--port", "0"]
        store = {"IDKMESH_STORE": str(tmp_path / "events.sqlite3")}
        with subprocess.Popen(command, env={**os.environ, **variables, **store}, stdout=subprocess.DEVNULL) as service:
            heard = [supervisor.recv(4096).decode() for _ in range(3)]
            service.send_signal(signal.SIGTERM)
            while "STOPPING=1" not in heard[-1]:
                heard.append(supervisor.recv(4096).decode())
        assert heard[0].startswith("READY=1\n")
        assert heard[1:3] == ["WATCHDOG=1", "WATCHDOG=1"]
        assert service.returncode == 0


OWN_PROGRAM = """
import sys
from idkmesh.httpd import BoundedWSGIServer, serve_until_signal
server = BoundedWSGIServer(("127.0.0.1", 0), lambda environ, start_response: [])
sys.exit(serve_until_signal(server))
"""


def test_a_program_of_its_own_tells_its_supervisor(tmp_path: Path) -> None:
    """HL-2.4: so does whoever calls `serve_until_signal`, with nothing else: `Type=notify` waits for the word."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(20)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with subprocess.Popen(
            [sys.executable, "-c", OWN_PROGRAM], env={**os.environ, **variables}, cwd=ROOT
        ) as service:
            try:
                heard = [supervisor.recv(4096).decode() for _ in range(4)]
                service.send_signal(signal.SIGTERM)
                while "STOPPING=1" not in heard[-1]:
                    heard.append(supervisor.recv(4096).decode())
                service.wait(30)
            finally:
                service.kill()
        assert heard[0].startswith("READY=1\n")
        assert heard[1:4] == ["WATCHDOG=1"] * 3
        assert service.returncode == 0


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """Return a supervisor whom this process is to tell of itself."""
    here = Supervisor(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", here.address)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    yield here
    here.socket.close()


def go_round(server: BoundedHTTPServer) -> None:
    """Have the loop go round for a moment: nobody connects."""
    server.timeout = 0.01
    server.handle_request()


def test_a_stalled_part_ends_the_keep_alive(told: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-2.4: while a beat is overdue systemd gets a status, and no more; then it is well again."""
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    watchdog = Watchdog(1000.0)
    server = BoundedHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    tell_supervisor(server, watchdog)
    go_round(server)
    heard = told.heard()
    assert heard[:2] == ["READY=1\nSTATUS=ready", "WATCHDOG=1"]
    consumer = watchdog.register("consumer", 1e-9)
    go_round(server)
    assert told.heard() == ["STATUS=stalled: consumer"]
    consumer.close()
    go_round(server)
    assert told.heard()[0] == "WATCHDOG=1\nSTATUS=well again"
    server.server_close()


@pytest.mark.parametrize(("usec", "longest"), [("1000000", 0.25), ("20000", 0.005), (None, 0.5)])
def test_the_loop_goes_round_twice_in_each_period(
    usec: str | None, longest: float, told: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HL-2.4: however short the time that systemd waits, no turn lasts longer than half of the keep-alive's period."""
    waits: list[float] = []
    turn = Front.turn

    def noted(front: Front, timeout: float) -> None:
        waits.append(timeout)
        turn(front, 0.0)

    monkeypatch.setattr(Front, "turn", noted)
    if usec is not None:
        monkeypatch.setenv("WATCHDOG_USEC", usec)
    server = BoundedHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    tell_supervisor(server, None)
    server.service_actions = server.shutdown  # type: ignore[method-assign]  # after one turn
    server.serve_forever()
    server.server_close()
    assert waits[0] == longest
    assert max(waits) <= longest
    assert told.heard()[0] == "READY=1\nSTATUS=ready"


def test_without_a_supervisor_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-2.4: no socket, no action at each turn."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    server = BoundedHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    tell_supervisor(server, None)
    assert (server._act, server._core.observer) == (None, None)
    server.server_close()
