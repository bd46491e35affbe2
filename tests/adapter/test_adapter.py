"""A real adapter process in front of a command of the test's own, which is a real program."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.cli import build_parser
from tests.adapter.observations import NODE_ID
from tests.adapter.support import PATIENCE, TOKEN, Adapter, NodeCommand, adapter, client_file, command, environment
from tests.functional.support import parse, read_to_end, until
from tests.workloads.process_support import alive

if TYPE_CHECKING:
    from collections.abc import Iterator

YES = (200, 200, 200)
NO = (503, 503, 503)


@pytest.fixture
def node(tmp_path: Path) -> NodeCommand:
    return NodeCommand(tmp_path)


@pytest.fixture
def here(node: NodeCommand, tmp_path: Path) -> Iterator[Adapter]:
    """Return an adapter that has seen the node ready."""
    with adapter(client_file(tmp_path), tmp_path / "log", argv=node.argv) as started:
        started.wait_for(*YES)
        yield started


def test_before_the_first_look(node: NodeCommand, tmp_path: Path) -> None:
    """RA-1.1, RA-8.1: an adapter that has seen nothing says no, whether it lives or not."""
    node.do("hang")
    with adapter(client_file(tmp_path), tmp_path / "log", argv=node.argv) as here:
        assert here.told() == NO


def test_live_without_ready_and_startup(node: NodeCommand, tmp_path: Path) -> None:
    """RA-3.1, RA-3.5: a node without spare capacity lives; it has started once it was ready, and then stays so."""
    node.say(pressure="exhausted")
    with adapter(client_file(tmp_path), tmp_path / "log", argv=node.argv) as here:
        here.wait_for(503, 200, 503)
        node.say()
        here.wait_for(*YES)
        node.say(draining=True)
        here.wait_for(200, 200, 503)


def test_another_boot(node: NodeCommand, here: Adapter) -> None:
    """RA-3.5: a node that was started anew has not started until it was ready itself."""
    node.say(boot_id="second", activation_ready=False)
    here.wait_for(503, 200, 503)
    node.say(boot_id="second")
    here.wait_for(*YES)


def test_another_node(node: NodeCommand, here: Adapter) -> None:
    """RA-3.1: what another node says of itself is no."""
    node.say(node_id="another")
    here.wait_for(*NO)
    line = f"the node is not live: identity (it is another, and {NODE_ID} is meant)"
    until(lambda: here.log()[-1] == line, "the line", PATIENCE)


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("hang", "result (the node's command did not end within 1.5 s)"),
        ("flood", "result (the node's command printed more than 262144 bytes)"),
        ("rubbish", "result (the observation is refused: it is no JSON in UTF-8)"),
        ("exit 1", "result (the node's command ended with exit code 1)"),
    ],
)
def test_a_command_that_fails(mode: str, why: str, node: NodeCommand, here: Adapter) -> None:
    """RA-3.4, RA-7.3, RA-7.5: live and ready are no at once, the log says why, once, and a success restores both."""
    node.do(mode)
    here.wait_for(*NO)
    node.wait_for_runs(2)
    node.do("print")
    here.wait_for(*YES)
    until(lambda: here.log().count(f"the node is not live: {why}") == 1, "the line, once", PATIENCE)
    until(lambda: not any(alive(pid) for pid in node.lost()), "the ends of what was forked")


def test_a_failure_document_with_exit_code_0(node: NodeCommand, here: Adapter) -> None:
    """RA-7.3: a command that ends well and says that it has failed."""
    node.say(result="failed", reason="nobody listens")
    here.wait_for(*NO)


def test_a_command_that_forks(node: NodeCommand, here: Adapter) -> None:
    """RA-7.4: what it leaves behind holds up nothing, and is ended with it."""
    node.do("fork")
    node.wait_for_runs(3)
    here.wait_for(*YES)
    until(lambda: sum(alive(pid) for pid in node.lost()) <= 1, "the ends of what was forked")


def test_a_command_that_cannot_be_started_any_more(node: NodeCommand, tmp_path: Path) -> None:
    """RA-3.4, RA-3.3: what was seen holds until it is more than 3 s old, and the log says what is wrong."""
    program = tmp_path / "program"
    program.symlink_to(sys.executable)
    with adapter(client_file(tmp_path), tmp_path / "log", argv=(str(program), *node.argv[1:])) as here:
        here.wait_for(*YES)
        program.unlink()
        until(lambda: len(here.log()) > 1, "a line of the log", PATIENCE)
        until(lambda: here.told() == NO, "too old", PATIENCE)
        last_begun = node.runs()[-1][1]
        assert time.monotonic() - last_begun > 3.0
        until(lambda: len(here.log()) > 2, "a line of the log", PATIENCE)
        why = f"the node's command '{program}' could not be started: no such program"
        assert here.log()[1:] == [
            f"{why}; what was seen last holds until it is too old",
            "the node is not live: fresh",
        ]
        program.symlink_to(sys.executable)
        here.wait_for(*YES)
        until(lambda: "the node's command can be started again" in here.log(), "a line of the log", PATIENCE)


def test_an_adapter_that_was_paused(here: Adapter) -> None:
    """RA-3.3: after 4 s without the processor its first answer is no, to a request that waited for it, too."""
    here.wait_for(*YES)
    here.process.send_signal(signal.SIGSTOP)
    try:
        with here.connect() as waiting:
            waiting.sendall(here.request("/ready"))
            time.sleep(4)
            here.process.send_signal(signal.SIGCONT)
            assert parse(read_to_end(waiting)).status == 503
    finally:
        here.process.send_signal(signal.SIGCONT)
    here.wait_for(*YES)


def test_an_adapter_that_was_paused_while_a_child_ran(node: NodeCommand, here: Adapter) -> None:
    """RA-3.3, RA-7.2: what the child printed meanwhile is as old as the pause, and no observation."""
    node.do("slow 0.5")
    node.wait_for_runs(1)
    here.process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    node.do("slow 1.2")  # the next one has not ended when the first answer is there
    here.process.send_signal(signal.SIGCONT)
    assert here.ask("/ready").status == 503


def test_two_threads(node: NodeCommand, here: Adapter) -> None:
    """RA-9.1: two threads, while a child runs, while it is asked, refuses, logs, and while a client stalls."""
    node.do("slow 1")
    node.wait_for_runs(1)
    with here.connect():
        assert here.threads() == 2
    for data in (here.request("/ready"), here.request("/"), b"\r\n"):
        here.exchange(data)
        assert here.threads() == 2
    node.do("exit 1")
    here.wait_for(*NO)
    assert here.threads() == 2


@pytest.mark.alone
@pytest.mark.parametrize(
    ("mode", "number"),
    [*((mode, signal.SIGTERM) for mode in ("print", "hang", "flood", "fork")), ("hang", signal.SIGINT)],
)
def test_its_end(mode: str, number: signal.Signals, node: NodeCommand, here: Adapter) -> None:
    """RA-9.2: a signal ends it with 0 within 2.5 s, with its child and what that has forked, a slow client or not."""
    node.do(mode)
    node.wait_for_runs(1)
    with here.connect() as slow:
        slow.sendall(b"GET /ready")
        began = time.monotonic()
        here.process.send_signal(number)
        assert here.process.wait(PATIENCE) == 0
        assert time.monotonic() - began < 2.5
    assert not alive(node.runs()[-1][0])
    until(lambda: not any(alive(pid) for pid in node.lost()), "the ends of what was forked")
    with pytest.raises(OSError, match="refused"):
        here.connect()


def test_signals_after_the_first(node: NodeCommand, here: Adapter) -> None:
    """RA-9.2: whoever asks twice hurries nothing: the child is ended all the same, and the exit code is 0."""
    node.do("hang")
    node.wait_for_runs(1)
    here.process.send_signal(signal.SIGSTOP)  # so that both are there at once
    here.process.send_signal(signal.SIGTERM)
    here.process.send_signal(signal.SIGINT)
    here.process.send_signal(signal.SIGCONT)
    assert here.process.wait(PATIENCE) == 0
    assert not alive(node.runs()[-1][0])


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_what_a_parent_ignores_and_blocks(check: tuple[str, ...], node: NodeCommand, tmp_path: Path) -> None:
    """RA-9.2: a parent that ignores SIGCHLD and blocks SIGTERM takes neither the exit codes nor the end from it."""
    deaf = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT)); os.execv(sys.argv[1], sys.argv[1:])"
    )
    prefix = (sys.executable, "-c", deaf)
    if check:
        assert run(*prefix, *command(client_file(tmp_path), *check, argv=node.argv)).returncode == 0
        return
    with adapter(client_file(tmp_path), tmp_path / "log", argv=node.argv, prefix=prefix) as here:
        here.wait_for(*YES)
        here.stop()


def filled_pipe() -> tuple[int, int]:
    """Return a pipe that takes nothing more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * select.PIPE_BUF)
    os.set_blocking(writer, True)
    return reader, writer


@pytest.mark.parametrize("full", ["stdout", "stderr"])
def test_a_start_that_nobody_reads(full: str, node: NodeCommand, tmp_path: Path) -> None:
    """RA-8.4, RA-9.1: a full pipe holds up no start and no end; the address is then told by the log."""
    reader, writer = filled_pipe()
    out, err = (writer if name == full else subprocess.PIPE for name in ("stdout", "stderr"))
    # A client file that is not there yet is a line more.
    line = command(tmp_path / "client.json", "--listen", "127.0.0.1:0", argv=node.argv)
    with subprocess.Popen(line, text=True, stdout=out, stderr=err) as process:
        os.close(writer)
        told = process.stdout or process.stderr
        assert told is not None
        announced = next(line for line in told if " answers for node " in line)
        client_file(tmp_path)
        Adapter(process, int(announced.rpartition(":")[2].strip("/\n")), tmp_path).wait_for(*YES)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    os.close(reader)


def test_nothing_secret_is_told(here: Adapter, tmp_path: Path) -> None:
    """RA-7.1, RA-8.6: the token is in no answer, no log, no argument and no variable of a child."""
    answers = [here.exchange(here.request(path)) for path in ("/startup", "/live", "/ready", "/x")]
    assert not any(TOKEN in str(answer.fields) or TOKEN in answer.body.decode() for answer in answers)
    assert TOKEN not in (tmp_path / "log").read_text()
    assert TOKEN not in Path(f"/proc/{here.pid}/cmdline").read_text()


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(**env)
    )


@pytest.mark.parametrize(
    ("mode", "code", "line"),
    [
        ("print", 0, "the node is live and ready"),
        ("exit 3", 1, "the node is not live: result (the node's command ended with exit code 3)"),
        ("hang", 1, "the node is not live: result (the node's command did not end within 1.5 s)"),
    ],
)
def test_check(mode: str, code: int, line: str, node: NodeCommand, tmp_path: Path) -> None:
    """RA-9.3: one look, one line, and the exit code; a time-out is a no."""
    node.do(mode)
    ended = run(*command(client_file(tmp_path), "--check", argv=node.argv))
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, f"{line}\n", "")
    assert len(node.runs()) == 1


def test_check_of_a_busy_node(node: NodeCommand, tmp_path: Path) -> None:
    """RA-9.3: it lives and is not ready, which is a no."""
    node.say(pressure="exhausted")
    ended = run(*command(client_file(tmp_path), "--check", argv=node.argv))
    assert ended.returncode == 1
    assert ended.stdout == "the node is live, has not started, and is not ready: pressure\n"


def test_check_that_cannot_tell(tmp_path: Path) -> None:
    """RA-9.3: a command that cannot be started tells nothing of the node."""
    ended = run(*command(client_file(tmp_path), "--check", argv=("/no/such/program",)))
    assert ended.returncode == 3
    why = "the node's command '/no/such/program' could not be started: no such program"
    assert ended.stderr == f"idkmesh: could not tell: {why}\n"


def test_a_command_that_is_not_there_at_the_start(node: NodeCommand, tmp_path: Path) -> None:
    """RA-3.4, RA-7.5: an adapter waits for it, and says no meanwhile; a line names it, whatever its name is."""
    program = tmp_path / "my\nnode"
    with adapter(client_file(tmp_path), tmp_path / "log", argv=(str(program), *node.argv[1:])) as here:
        until(here.log, "a line of the log", PATIENCE)
        assert here.told() == NO
        why = f"the node's command '{tmp_path}/my\\nnode' could not be started: no such program"
        assert here.log()[0] == f"{why}; every answer is no until it can be"
        program.symlink_to(sys.executable)
        here.wait_for(*YES)


def test_check_that_is_interrupted(node: NodeCommand, tmp_path: Path) -> None:
    """RA-9.3: a signal ends the look and its child."""
    node.do("hang")
    with subprocess.Popen(command(client_file(tmp_path), "--check", argv=node.argv)) as process:
        until(node.lost, "the child", PATIENCE)
        process.terminate()
        assert process.wait(PATIENCE) == 143
    until(lambda: not any(alive(pid) for pid in (node.runs()[0][0], *node.lost())), "the child's end")


@pytest.mark.parametrize("listen", ["0.0.0.0:18181", "[::1]:18181", "localhost:18181", "18181"])
def test_where_it_does_not_listen(listen: str, node: NodeCommand, tmp_path: Path) -> None:
    """RA-8.4: what is not loopback, IPv4 and a port is one line and exit code 2."""
    ended = run(*command(client_file(tmp_path), "--listen", listen, argv=node.argv))
    assert ended.returncode == 2
    assert ended.stderr == (
        f"idkmesh: --listen: '{listen}' is refused, it must be a loopback IPv4 address and a port, "
        "as in 127.0.0.1:18181\n"
    )


def test_a_port_in_use(node: NodeCommand, here: Adapter, tmp_path: Path) -> None:
    """RA-8.4: an address that cannot be bound is one line and exit code 1."""
    ended = run(*command(client_file(tmp_path), "--listen", f"127.0.0.1:{here.port}", argv=node.argv))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"idkmesh: cannot listen on 127.0.0.1:{here.port}: the port is in use")


@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_a_client_file_for_others_to_read(mode: int, check: tuple[str, ...], node: NodeCommand, tmp_path: Path) -> None:
    """RA-7.1, RA-4.2: it is refused at the start, for a command of one's own too, and nothing is run."""
    file = client_file(tmp_path)
    file.chmod(mode)
    ended = run(*command(file, *check, argv=node.argv))
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert TOKEN not in ended.stderr
    assert node.runs() == []


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_no_client_file(check: tuple[str, ...], tmp_path: Path) -> None:
    """RA-7.1, RA-4.2: without ARGV it is needed; a name without a character is none, and is not waited for."""
    ended = run(*command(None, *check))
    assert (ended.returncode, ended.stderr) == (2, "idkmesh: --client-file is needed where no command follows --\n")
    for argv in ((), ("true",)):
        ended = run(*command(None, "--client-file=", *check, argv=argv))
        assert ended.returncode == 2
        assert ended.stderr == "idkmesh: the client file has no name; give it one with --client-file\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--check", "--"), "no program follows --"),
        (("--",), "no program follows --"),
        (("--", "", "x"), "no program follows --"),
        (("--check", "true"), "unrecognized arguments: true; another program's come after --"),
        (("true", "--", "true"), "unrecognized arguments: true; another program's come after --"),
        (("--nothing", "--", "true"), "unrecognized arguments: --nothing"),
    ],
)
def test_where_another_program_stands(words: tuple[str, ...], line: str, tmp_path: Path) -> None:
    """RA-7.1: after the first two dashes and nowhere else; no look of another kind takes its place."""
    ended = run(*command(client_file(tmp_path), *words))
    assert ended.returncode == 2
    assert f": {line} (idkmesh" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [("a", "-x", "--listen", "--", "--check"), ("--", "b"), ("-", "")])
def test_the_words_of_another_program(words: tuple[str, ...]) -> None:
    """RA-7.1: they are taken as they are, whatever they look like."""
    arguments = build_parser().parse_args(["readiness-adapter", "--node-id", NODE_ID, "--", *words])
    assert (tuple(arguments.argv), arguments.check, arguments.client_file) == (words, False, None)


def test_another_program_without_a_client_file(node: NodeCommand, tmp_path: Path) -> None:
    """RA-7.1: it may have its own secrets; the adapter is given none then."""
    node.do("tell")
    assert run(*command(None, "--check", argv=node.argv)).returncode == 0
    assert "IDKMESH_CLIENT_FILE" not in node.lines("seen")
    with adapter(None, tmp_path / "log", argv=node.argv) as here:
        here.wait_for(*YES)


def test_a_client_file_of_another_program(node: NodeCommand, tmp_path: Path) -> None:
    """RA-7.1: one that is missing, or that others can read later on, is a no; --check says so with its exit code."""
    file = tmp_path / "client.json"
    assert run(*command(file, "--check", argv=node.argv)).returncode == 2
    with adapter(file, tmp_path / "log", argv=node.argv) as here:
        until(lambda: len(here.log()) >= 2, "two lines of the log", PATIENCE)
        assert here.told() == NO
        assert node.runs() == []
        client_file(tmp_path)
        here.wait_for(*YES)
        file.chmod(0o644)
        here.wait_for(*NO)
        until(lambda: "its mode is 0644" in here.log()[-1], "a line of the log", PATIENCE)
        file.chmod(0o600)
        here.wait_for(*YES)


@pytest.mark.parametrize("node_id", ["", "-x", "a b", "x" * 129, "é"])
def test_an_id_that_is_none(node_id: str, tmp_path: Path) -> None:
    """RA-7.1, RA-2.4: what cannot be a node's id is one line and exit code 2."""
    ended = run(*command(client_file(tmp_path), f"--node-id={node_id}"))
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1


def test_variables_in_place_of_flags(node: NodeCommand, tmp_path: Path) -> None:
    """RA-7.1, CT-9.11: the node, its client file and the address may each stand in a variable; a flag wins."""
    node.do("tell")
    file = client_file(tmp_path)
    program = (sys.executable, "-m", "idkmesh", "readiness-adapter", "--check")
    env = {"IDKMESH_NODE_ID": NODE_ID, "IDKMESH_CLIENT_FILE": str(file), "IDKMESH_LISTEN": "127.0.0.1:0"}
    ended = run(*program, "--", *node.argv, **env)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "the node is live and ready\n", "")
    assert "IDKMESH_CLIENT_FILE" in node.lines("seen")
    ended = run(*program, "--node-id=a b", "--", *node.argv, **env)
    assert (ended.returncode, ended.stderr.partition(" is refused")[0]) == (2, "idkmesh: --node-id: 'a b'")
    ended = run(*program, "--", *node.argv, **env | {"IDKMESH_LISTEN": "0.0.0.0:1"})
    assert (ended.returncode, ended.stderr.partition(" is refused")[0]) == (2, "idkmesh: IDKMESH_LISTEN: '0.0.0.0:1'")


def test_a_slip_in_a_variable(node: NodeCommand, tmp_path: Path) -> None:
    """HS-2.1, RA-9.1: one line of warning, in the log of an adapter that serves, which makes nobody wait."""
    node.do("tell")
    slip = "idkmesh: warning: IDKMESH_LISTN is no setting and changes nothing"
    ended = run(*command(None, "--check", argv=node.argv), IDKMESH_LISTN="x")
    assert (ended.returncode, ended.stderr) == (0, f"{slip}\n")
    with adapter(None, tmp_path / "log", argv=node.argv, IDKMESH_LISTN="x") as here:
        here.wait_for(*YES)
        assert here.log()[0] == slip


@pytest.mark.parametrize("link", [False, True])
def test_a_client_file_that_is_not_there_yet(link: bool, tmp_path: Path) -> None:
    """RA-7.1: a node that has not started has not written it: the adapter waits for it; a check does not."""
    file = tmp_path / "later.json"
    if link:  # as secrets are mounted: it leads nowhere before its volume is there
        file.symlink_to("nowhere")
    ended = run(*command(file, "--check"))
    assert ended.returncode == 2
    with adapter(file, tmp_path / "log") as here:
        until(lambda: len(here.log()) >= 2, "two lines of the log", PATIENCE)
        assert here.told() == NO
        assert "is not there yet" in here.log()[0]
        assert here.log()[1].startswith(
            "the node is not live: result (the node's command says that it failed: cannot read"
        )
        assert here.log()[1].endswith("later.json: No such file or directory)")
