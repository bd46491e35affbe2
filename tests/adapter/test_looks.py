"""Looks with real children, in this process."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from idkmesh.adapter.looks import PASSED_VARIABLES, Looks
from idkmesh.adapter.sampling import Sampler
from idkmesh.adapter.verdict import Verdict, verdict
from idkmesh.child_process import Child
from tests.adapter.observations import NODE_ID
from tests.adapter.support import PATIENCE, NodeCommand, client_file
from tests.functional.support import open_descriptors, until
from tests.workloads.process_support import alive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> NodeCommand:
    return NodeCommand(tmp_path)


def look(argv: Sequence[str]) -> tuple[Sampler, Verdict, float]:
    """Look once; return what has come of it, and how many seconds it took."""
    sampler = Sampler(NODE_ID)
    looks = Looks(argv, sampler, lambda _: None)
    began = time.monotonic()
    try:
        looks.run(1)
    finally:
        looks.close()
    now = time.monotonic()
    return sampler, verdict(sampler.held, NODE_ID, now), now - began


def test_a_look_at_a_node_that_is_well(node: NodeCommand) -> None:
    """RA-7.3: a child that ends with 0 and prints an observation is a success."""
    sampler, told, _ = look(node.argv)
    assert told.ready, sampler.held


@pytest.mark.parametrize(
    ("mode", "failure"),
    [
        ("rubbish", "the observation is refused: it is no JSON in UTF-8"),
        ("flood", "the node's command printed more than 262144 bytes"),
        ("exit 4", "the node's command ended with exit code 4"),
    ],
)
def test_failed_looks(mode: str, failure: str, node: NodeCommand) -> None:
    """RA-7.2, RA-7.3: rubbish, a flood and another exit code are failed looks."""
    node.do(mode)
    sampler, told, _ = look(node.argv)
    assert not told.live
    assert sampler.held.failure == failure
    assert not alive(node.runs()[0][0])


def test_a_failure_document_with_exit_code_0(node: NodeCommand) -> None:
    """RA-7.3: a command that says that it failed has failed, whatever its exit code says."""
    node.say(result="failed", reason="no route to the node")
    sampler, told, _ = look(node.argv)
    assert not told.live
    assert sampler.held.failure == "the node's command says that it failed: no route to the node"


def test_a_child_that_hangs(node: NodeCommand) -> None:
    """RA-7.2: it is killed after 1.5 s, with the child that it has forked, and reaped."""
    node.do("hang")
    sampler, told, seconds = look(node.argv)
    assert not told.live
    assert sampler.held.failure == "the node's command did not end within 1.5 s"
    assert seconds >= 1.5
    (run, _), (grandchild,) = node.runs()[0], node.lost()
    assert not alive(run)
    until(lambda: not alive(grandchild), "the grandchild's end")
    with pytest.raises(ChildProcessError):
        os.waitpid(run, os.WNOHANG)


def late(monkeypatch: pytest.MonkeyPatch, since: Callable[[], bool]) -> None:
    """Let the clock of the looks be 4 s ahead once something is so, as it is for a program that was stopped then."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (4.0 if since() else 0.0))
    monkeypatch.setattr("idkmesh.adapter.looks.time", clock)


def test_what_has_come_while_the_adapter_was_stopped(node: NodeCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """RA-7.2, RA-3.3: a child that has ended well meanwhile is late all the same, and its document no observation."""
    poll = Looks._poll

    def poll_after_its_end(looks: Looks, seconds: float | None) -> set[int | None]:
        until(lambda: bool(node.runs()) and not alive(node.runs()[0][0]), "the child's end", PATIENCE)
        return poll(looks, seconds)

    monkeypatch.setattr(Looks, "_poll", poll_after_its_end)
    late(monkeypatch, lambda: bool(node.runs()))
    sampler, _, _ = look(node.argv)
    assert sampler.held.observation is None
    assert sampler.held.failure == "the node's command did not end within 1.5 s"


def test_the_start_of_a_child_is_a_part_of_its_time(node: NodeCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """RA-7.2: where its program lies on a file system that hangs, the time of the look runs."""
    touched: list[str] = []
    monkeypatch.setattr("idkmesh.adapter.looks.touch", lambda program, _: touched.append(program))
    late(monkeypatch, lambda: bool(touched))
    sampler, _, _ = look(node.argv)
    assert sampler.held.failure == "the node's command did not end within 1.5 s"


@pytest.mark.alone
def test_what_a_child_leaves_in_its_group(node: NodeCommand) -> None:
    """RA-7.4: it is killed when the child ends, and the output that it holds open delays nothing."""
    node.do("fork")
    _, told, seconds = look(node.argv)
    assert told.ready
    assert seconds < 1.5
    (grandchild,) = node.lost()
    until(lambda: not alive(grandchild), "the grandchild's end")


@pytest.mark.alone
def test_what_a_child_leaves_outside_its_group(node: NodeCommand) -> None:
    """RA-7.4: output that a process of another session holds open is not waited for."""
    node.do("daemon")
    _, told, seconds = look(node.argv)
    (daemon,) = node.lost()
    os.kill(daemon, 9)
    assert told.ready
    assert seconds < 1.5


@pytest.mark.parametrize(
    ("program", "reason"), [("no/such/program", "no such program"), ("/etc/passwd", "not executable")]
)
def test_a_child_that_cannot_be_started(program: str, reason: str, node: NodeCommand) -> None:
    """RA-3.4, RA-7.3: it is no failed look: what was seen before is left to its age."""
    sampler = Sampler(NODE_ID)
    good = Looks(node.argv, sampler, lambda _: None)
    good.run(1)
    bad = Looks([program], sampler, lambda _: None)
    bad.run(2)
    good.close()
    bad.close()
    assert sampler.not_begun == reason
    assert sampler.held.observation is not None
    assert sampler.complete == 2


def test_a_machine_without_descriptors(node: NodeCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """RA-3.4: where there is no pipe to be had, no look has begun."""

    def full() -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe", full)
    sampler, told, _ = look(node.argv)
    assert sampler.not_begun == "Too many open files"
    assert not told.live
    assert node.runs() == []


def test_what_a_child_gets(node: NodeCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """RA-7.2: the arguments as they are, few variables, nothing to read, no descriptor of the adapter's."""
    monkeypatch.setenv("IDKMESH_CONTROL_TOWER_TOKEN", "x" * 40)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    node.do("tell")
    _, told, _ = look([*node.argv, "$HOME; echo x"])
    assert told.ready
    seen = node.lines("seen")
    names, rest = seen[:-5], seen[-5:]
    assert set(names) <= {*PASSED_VARIABLES, "LC_CTYPE"}
    assert "LANG" in names
    assert rest[2:] == ["$HOME; echo x", "b''", "True"]
    assert set(node.lines("descriptors")) <= {"0", "1", "2", "3", "4"}  # its own: a file that it writes, a folder


def test_a_client_file_that_a_command_does_not_judge(node: NodeCommand, tmp_path: Path) -> None:
    """RA-7.1, RA-7.3: each look is failed, and nothing is run, until it is right; the command gets its path."""
    file, sampler = tmp_path / "client.json", Sampler(NODE_ID)
    told: list[tuple[str | None, int]] = []
    node.do("tell")

    def turned(_: float) -> None:
        if sampler.complete == len(told):
            return
        told.append((sampler.held.failure, len(node.runs())))
        if len(told) == 1:
            client_file(tmp_path).chmod(0o644)
        elif len(told) == 2:
            file.chmod(0o600)
        elif len(told) == 3:
            file.write_text("{}")

    looks = Looks(node.argv, sampler, turned, client_file=str(file))
    looks.run(4)
    looks.close()
    assert told == [
        (f"cannot read the client file {file}: No such file or directory", 0),
        (
            f"the client file {file} is refused: its mode is 0644, so that others can read or write it; make it 0600",
            0,
        ),
        (None, 1),
        (f"the client file {file} is refused: it is no idkmesh-client of version 0.1 in JSON", 1),
    ]
    assert sampler.not_begun is None
    assert "IDKMESH_CLIENT_FILE" in node.lines("seen")


def test_looks_follow_each_other(node: NodeCommand) -> None:
    """RA-7.1: one child at a time, and a second from the end of one to the beginning of the next."""
    node.do("slow 0.3")
    sampler = Sampler(NODE_ID)
    looks = Looks(node.argv, sampler, lambda _: None)
    looks.run(3)
    looks.close()
    times = [(line[0], float(line.split()[2])) for line in node.lines("notes")]
    assert [kind for kind, _ in times] == ["+", "-"] * 3
    assert all(begun - ended >= 0.95 for (_, ended), (_, begun) in zip(times[1::2], times[2::2], strict=False))


def test_stop_while_a_child_runs(node: NodeCommand) -> None:
    """RA-9.2: the child is killed with its group and reaped, and run() returns."""
    node.do("hang")
    looks = Looks(node.argv, Sampler(NODE_ID), lambda _: None)
    thread = threading.Thread(target=looks.run)
    thread.start()
    until(node.lost, "the grandchild")
    looks.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert not alive(node.runs()[0][0])
    until(lambda: not alive(node.lost()[0]), "the grandchild's end")
    looks.close()


def test_an_exception_ends_the_child_too(node: NodeCommand) -> None:
    """RA-9.2: whatever ends the looking leaves no child behind."""
    node.do("hang")

    def turned(_: float) -> None:
        if node.lost():
            raise MemoryError

    looks = Looks(node.argv, Sampler(NODE_ID), turned)
    with pytest.raises(MemoryError):
        looks.run()
    looks.close()
    assert not alive(node.runs()[0][0])


def test_looks_leak_nothing(node: NodeCommand) -> None:
    """RA-9.5: descriptors are as many after a look as before, however it ended."""
    look(node.argv)
    before = open_descriptors()
    for mode in ("print", "flood", "exit 1"):
        node.do(mode)
        look(node.argv)
    look(["no/such/program"])
    assert open_descriptors() == before


def test_a_system_without_descriptors_of_processes(node: NodeCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """RA-7.2: the end of a child is found there too, and its deadline kept."""
    monkeypatch.setattr(Child, "descriptor", lambda _: None)
    assert look(node.argv)[1].ready
    node.do("hang")
    assert look(node.argv)[0].held.failure == "the node's command did not end within 1.5 s"


def test_a_command_in_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """RA-7.1: a program without a folder in its name is looked for in PATH."""
    (tmp_path / "tell").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    sampler, _, _ = look(["tell", "-c", "raise SystemExit(5)"])
    assert sampler.held.failure == "the node's command ended with exit code 5"
