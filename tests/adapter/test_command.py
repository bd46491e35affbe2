"""The command in this process: what it is told, and what becomes of it when the looking ends."""

from __future__ import annotations

import errno
import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.adapter.log import PromptLog
from idkmesh.adapter.looks import Looks
from idkmesh.adapter.server import AdapterServer
from idkmesh.child_process import Child, spawn
from idkmesh.commands.readiness_adapter import Request, Sampling, check, serve
from idkmesh.console import CommandError
from idkmesh.service_runtime import SettingError
from idkmesh.settings_in_force import loopback
from tests.adapter.observations import NODE_ID
from tests.adapter.support import PATIENCE, NodeCommand, client_file
from tests.functional.support import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("text", ["127.0.0.1:18181", "127.0.0.1:0", "127.9.8.7:65535"])
def test_addresses_to_listen_on(text: str) -> None:
    """RA-8.4: loopback, IPv4, and a port."""
    host, _, port = text.partition(":")
    assert loopback(text, "--listen") == (host, int(port))


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0:18181",
        "10.0.0.1:18181",
        "[::1]:18181",
        "::1:18181",
        "localhost:18181",
        ":18181",
        "18181",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:+1",
        "127.0.0.1:1_0",
        "127.0.0.1:\u0661",
        "127.0.0.01:1",
        "127.1:18181",
        " 127.0.0.1:1",
        "http://127.0.0.1:1",
        "",
    ],
)
def test_addresses_that_are_refused(text: str) -> None:
    """RA-8.4: what other machines could reach, a name, another family, and what is no address."""
    with pytest.raises(SettingError, match=r"^--listen: .* loopback IPv4 address and a port"):
        loopback(text, "--listen")


@pytest.fixture
def request_of(tmp_path: Path) -> Request:
    file = client_file(tmp_path)
    return Request(node_id=NODE_ID, client_file=str(file), listen=("127.0.0.1", 0), argv=("true",))


def test_looking_that_fails_ends_it(
    request_of: Request, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """RA-9.2: an adapter that looks at nothing any more does not stay: one line, and exit code 1."""

    def run(_: Looks) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr(Looks, "run", run)
    assert serve(request_of) == 1
    assert capfd.readouterr().err == "looking at the node has failed: MemoryError: none left\n"


def test_no_thread_to_be_had(request_of: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    """RA-9.1: without its second thread it does not start, and leaves no listener behind."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(CommandError, match="the system starts no more threads"):
        serve(request_of)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_check_that_is_interrupted_while_it_starts_its_child(
    number: signal.Signals, request_of: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RA-9.3: a signal ends its child too that comes before anybody has taken note of it."""
    children: list[Child] = []

    def interrupted(*arguments: Any, **options: Any) -> Child:
        children.append(spawn(*arguments, **options))
        signal.raise_signal(number)
        return children[0]

    monkeypatch.setattr("idkmesh.adapter.looks.spawn", interrupted)
    with pytest.raises(SystemExit) as ended:
        check(replace(request_of, argv=("sleep", "60")))
    assert ended.value.code == 128 + number
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0].pid, os.WNOHANG)


def none_left(*_: object) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize(("command", "code"), [(check, 3), (serve, 1)])
def test_no_descriptors_to_begin_with(
    command: Callable[[Request], int], code: int, request_of: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RA-9.1, RA-9.3: what the looks are woken by cannot be had: one line, and a check could not tell."""
    monkeypatch.setattr("idkmesh.adapter.looks.WakeUp", none_left)
    with pytest.raises(CommandError, match="cannot look at the node: Too many open files") as ended:
        command(request_of)
    assert ended.value.exit_code == code


def test_no_descriptors_for_the_loop(request_of: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    """RA-9.1: what the server is woken by cannot be had: one line too, and no listener is left behind."""
    monkeypatch.setattr("idkmesh.httpd.front.WakeUp", none_left)
    with pytest.raises(CommandError, match="cannot serve any more: Too many open files") as ended:
        serve(request_of)
    assert ended.value.exit_code == 1
    assert not any(thread.name == "sampling" for thread in threading.enumerate())


LEFT_BEHIND = "the node's command cannot be ended: it is left behind\n"


def test_a_child_that_is_left_behind(
    tmp_path: Path, request_of: Request, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """RA-9.2: a child that is killed in vain, as another user's is, is left behind, and a line says so."""
    node = NodeCommand(tmp_path)
    node.do("hang")
    signalled: list[Child] = []
    monkeypatch.setattr(Child, "signal_group", lambda child, _: signalled.append(child))
    monkeypatch.setattr("idkmesh.adapter.looks.LAST_SECONDS", 0.1)
    log = PromptLog(2)
    sampling = Sampling(replace(request_of, argv=node.argv), node.argv, log)
    with AdapterServer(("127.0.0.1", 0), sampling.verdict, log) as server, sampling.running(server):
        until(node.lost, "the child", PATIENCE)
        server.request_drain(signal.SIGTERM)
        server.serve_forever()
    sampling.close()
    assert capfd.readouterr().err.endswith(LEFT_BEHIND)
    os.killpg(signalled[0].pid, signal.SIGKILL)
    assert signalled[0].wait(PATIENCE)
    signalled[0].end()


def test_a_check_whose_child_cannot_be_ended(
    tmp_path: Path, request_of: Request, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """RA-9.3: it does not wait for it without an end: a line, and exit code 1."""
    node = NodeCommand(tmp_path)
    node.do("hang")
    signalled: list[Child] = []
    monkeypatch.setattr(Child, "signal_group", lambda child, _: signalled.append(child))
    monkeypatch.setattr("idkmesh.adapter.looks.LAST_SECONDS", 0.1)
    assert check(replace(request_of, argv=node.argv)) == 1
    told = capfd.readouterr()
    assert told.out.startswith("the node is not live: result (the node's command ")
    assert told.err == f"idkmesh: {LEFT_BEHIND}"
    os.killpg(signalled[0].pid, signal.SIGKILL)
    assert signalled[0].wait(PATIENCE)
    signalled[0].end()


def test_a_thread_that_is_left_behind(
    request_of: Request, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """RA-9.2: where the looking hangs, its time counts from the beginning of the drain, and a line says so."""
    held = threading.Event()
    waits: list[float] = []
    in_the_drain: list[bool] = []
    monkeypatch.setattr(Looks, "run", lambda _: held.wait(30))
    monkeypatch.setattr("idkmesh.commands.readiness_adapter.JOIN_SECONDS", 0.1)
    log = PromptLog(2)
    sampling = Sampling(request_of, request_of.argv, log)
    server = AdapterServer(("127.0.0.1", 0), sampling.verdict, log)
    monkeypatch.setattr(Looks, "stop", lambda _: in_the_drain.append(server.socket.fileno() >= 0))
    monkeypatch.setattr(threading.Thread, "join", lambda _, timeout: waits.append(timeout))
    with server, sampling.running(server):
        server.request_drain(signal.SIGTERM)
        server.serve_forever()
    assert max(waits) < 0.1
    assert in_the_drain == [True, False]
    sampling.close()
    held.set()
    until(lambda: not any(thread.name == "sampling" for thread in threading.enumerate()))
    sampling.close()
    assert capfd.readouterr().err == LEFT_BEHIND
