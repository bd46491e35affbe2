"""`command` against real processes: each of them ends, and nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.child_process import environment
from idkmesh.health.model import Command
from idkmesh.health.probes import command as command_module
from idkmesh.health.probes import probe_for
from idkmesh.health.probes.command import word_of_exit
from idkmesh.health.probes.words import ProbeError
from tests.health.probe_support import (
    COULD_NOT_RUN,
    FAILED,
    OK,
    SLACK,
    descriptors,
    hangs,
    processes,
    result_of,
    said,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.health.probe_support import Said

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")


def sh(script: str, *arguments: str) -> Command:
    """Return a probe of a shell that runs a script: here the shell is the tested program."""
    return Command(argv=("sh", "-c", script, *arguments))


def running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "probe-command"]


def python(program: str, *arguments: str) -> Command:
    return Command(argv=(sys.executable, "-S", "-c", program, *arguments))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Command(argv=("true",)), (OK, "exit 0")),
        (Command(argv=("false",)), (FAILED, "exit 1")),
        (sh("exit 255"), (FAILED, "exit 255")),
        (sh("kill -KILL $$"), (FAILED, "signal SIGKILL")),
        (sh("kill -SEGV $$"), (FAILED, "signal SIGSEGV")),
        (sh("kill -40 $$"), (FAILED, "signal 40")),
    ],
)
def test_how_it_ended(spec: Command, expected: Said) -> None:
    """HL-4.8, HL-4.12: exit status 0 is well, and any other end is told by its number or the signal's name."""
    assert said(spec) == expected


def test_what_does_not_start(tmp_path: Path, children: Callable[..., list[int]]) -> None:
    """HL-4.2: a missing program, one without the right to run, and what is no program say nothing of a dependency."""
    for name, text, mode in (
        ("plain", "text", 0o644),
        ("garbage", "\x01\x02", 0o755),
        ("orphan", "#!/no/such/interpreter\n", 0o755),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(mode)
    os.mkfifo(tmp_path / "fifo", 0o755)
    before = descriptors()
    for argv, detail in {
        ("no-such-program",): "no such program",
        (str(tmp_path / "none"),): "no such program",
        (str(tmp_path / "plain" / "below"),): "no such program",
        (str(tmp_path / "orphan"),): "no such program",
        (str(tmp_path / "plain"),): "not executable",
        (str(tmp_path),): "not executable",
        (str(tmp_path / "fifo"),): "not executable",
        (str(tmp_path / "garbage"),): "no program of this system",
        ("true", "x" * (1 << 22)): "too many arguments",
        ("true", "a\0b"): "no valid arguments",
    }.items():
        assert said(Command(argv=argv)) == (COULD_NOT_RUN, detail)
    assert descriptors() == before
    assert children() == []


def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    """HL-4.8: an argument is an argument, whatever characters it has."""
    file = tmp_path / "arguments"
    arguments = ("$HOME", "; exit 1", "`id`", "*", "", "a b")
    program = "import sys; open(sys.argv[1], 'w').write('|'.join(sys.argv[2:]))"
    assert said(python(program, str(file), *arguments)) == (OK, "exit 0")
    assert file.read_text(encoding="utf-8") == "|".join(arguments)


def test_where_it_runs(tmp_path: Path) -> None:
    """HL-4.8, EXEC-05: input ends at once, the folder is /, and the command leads a group and a session of its own."""
    file = tmp_path / "report"
    program = (
        "import os, sys; open(sys.argv[1], 'w').write(repr((sys.stdin.read(), os.getcwd(), os.getpgid(0) == "
        "os.getpid() == os.getsid(0), sorted(os.listdir('/proc/self/fd'))[:-1])))"
    )
    assert said(python(program, str(file))) == (OK, "exit 0")
    # The fourth is the file that it writes to: it inherits no other.
    assert file.read_text(encoding="utf-8") == repr(("", "/", True, ["0", "1", "2", "3"]))


def test_a_caller_keeps_its_input() -> None:
    """HL-4.8, EXEC-05: a shell's loop over lines, whose probe would read them all, runs for each line."""
    program = (
        "from idkmesh.clock import SystemClock; from idkmesh.health.model import Command; "
        "from idkmesh.health.probes import probe_for; "
        "print(probe_for(Command(argv=('cat',))).run(5, SystemClock()).detail)"
    )
    loop = 'while read -r line; do "$0" -c "$1"; done'
    run = subprocess.run(
        ["sh", "-c", loop, sys.executable, program],
        input="a\nb\nc\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert run.stdout == "exit 0\n" * 3


def test_what_it_inherits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HL-4.8: it has the service's variables but those of this project, which hold tokens."""
    monkeypatch.setenv("IDKMESH_CONTROL_TOWER_TOKEN", "s3cret")
    monkeypatch.setenv("PROBE_PASSWORD", "for the command")
    assert said(sh('test -z "$IDKMESH_CONTROL_TOWER_TOKEN" && test -n "$PROBE_PASSWORD"')) == (OK, "exit 0")
    assert environment({"IDKMESH_": "a", "IDKMESH_X": "b", "idkmesh_x": "c", "X": "d"}) == {"idkmesh_x": "c", "X": "d"}


@pytest.mark.parametrize(
    "script",
    [
        "sleep 3600",
        "trap '' TERM; while :; do sleep 1; done",
        "trap 'exit 0' TERM; sleep 3600 & wait",
        "sleep 3600 & sleep 3600",
        "(trap '' TERM; while :; do sleep 1; done) & sleep 3600",
        "while :; do echo spam; done & sleep 3600",
        "exec >&- 2>&- <&-; sleep 3600",
        "kill -STOP $$",
        "printf 'ok \\342'; sleep 3600",
    ],
)
def test_a_timeout(script: str, word: str, children: Callable[..., list[int]]) -> None:
    """HL-4.1, HL-4.8, EXEC-01, EXEC-02, EXEC-08: its group is gone by the deadline, a success at TERM is none."""
    before = descriptors()
    probe = probe_for(sh(script))
    for _ in range(2):
        assert said(probe, 0.5) == (FAILED, "timeout")
        # Process 1 reaps the grandchildren in its own time, and a busy machine the child after the deadline.
        assert settled(lambda: not processes(word) and not children() and not running())
    assert descriptors() == before


def test_a_short_timeout(word: str, children: Callable[..., list[int]]) -> None:
    """HL-4.1, HL-4.8: the grace is a share of the timeout, so that a command has most of it."""
    assert said(sh("sleep 3600"), 0.08) == (FAILED, "timeout")
    assert settled(lambda: processes(word) == [] and children() == [])


def test_it_is_asked_before_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.8: TERM comes first, so that a command can clean up within its grace, which is 2 s here, a third of 6."""
    assert (command_module.GRACE_SECONDS, command_module.GRACE_SHARE) == (0.05, 1 / 8)
    monkeypatch.setattr(command_module, "GRACE_SECONDS", 2.0)
    monkeypatch.setattr(command_module, "GRACE_SHARE", 1 / 3)
    file = tmp_path / "cleaned"
    file.touch()
    result = result_of(sh("trap 'rm \"$0\"; exit 0' TERM; sleep 3600 & wait", str(file)), 6)
    assert (result.outcome, result.detail) == (FAILED, "timeout")
    assert not file.exists()
    assert 2 <= result.latency < 6 + SLACK


def test_an_escaped_grandchild_is_not_waited_for(word: str, children: Callable[..., list[int]]) -> None:
    """HL-4.8, EXEC-02: one that has left the group keeps nobody, not even with the standard streams in its hands."""
    # The command goes on when the grandchild is out of its group, however long that takes.
    escaping = (
        "import os, sys, time; out, told = os.pipe(); "
        "os.fork() or (os.setsid(), os.write(told, b'.'), time.sleep(3600)); "
        "os.read(out, 1); time.sleep(float(sys.argv[1]))"
    )
    assert said(python(escaping, "0"), 30) == (OK, "exit 0")
    assert said(python(escaping, "3600"), 3) == (FAILED, "timeout")  # a busy machine takes a second to start it
    assert settled(lambda: len(processes(word)) == 2 and children() == [])


@pytest.mark.parametrize("status", [0, 3])
def test_what_a_command_leaves_behind_is_ended(status: int, word: str) -> None:
    """HL-4.8: a double fork within the group ends with its command, or one would be added with every run."""
    probe = probe_for(sh(f"(sh -c 'sleep 3600; :' &) ; exit {status}"))
    for _ in range(3):
        assert said(probe)[1] == f"exit {status}"
        assert settled(lambda: processes(word) == [])


@pytest.mark.parametrize("stream", [1, 2])
def test_output_is_read_and_dropped(stream: int) -> None:
    """HL-4.8, EXEC-07: 64 MiB on either stream neither block the command nor cost memory."""
    resource = pytest.importorskip("resource")
    program = f"import os\nfor _ in range(64): os.write({stream}, b'x' * (1 << 20))\nos.write(1, b'ready')"
    said(python(""))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert said(python(program), 30) == (OK, "exit 0")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # KiB


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("printf 'ready \\377\\376'", (OK, "exit 0")),
        ("printf '\\0\\033[31m\\r\\n' >&2; exit 1", (FAILED, "exit 1")),
        ("exec >&- 2>&-; exit 0", (OK, "exit 0")),
        ("date +%N; exit 0", (OK, "exit 0")),
        ("echo password=s3cret; echo password=s3cret >&2; exit 3", (FAILED, "exit 3")),
    ],
)
def test_output_changes_nothing(script: str, expected: Said) -> None:
    """HL-4.8, HL-4.12, EXEC-07, EXEC-08: no text, closed streams, new output and secrets change nothing."""
    assert said(sh(script)) == expected
    assert said(sh(script)) == expected


def test_a_status_that_somebody_else_has_taken() -> None:
    """HL-4.2: where the system reaps for us, no status is no success."""
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        outcome, detail = said(Command(argv=("true",)))
    finally:
        signal.signal(signal.SIGCHLD, old)
    assert (outcome, detail.split(":")[0]) == (COULD_NOT_RUN, "its exit status is lost")


def test_no_code_is_no_success() -> None:
    """HL-4.2, EXEC-10: the exit status decides, and without one nothing is known."""
    assert word_of_exit(0) == "exit 0"
    with pytest.raises(ProbeError) as error:
        word_of_exit(None)
    assert error.value.outcome is COULD_NOT_RUN


def test_other_children_are_left_alone() -> None:
    """HL-4.8: no handler of signals, and no child of the program's own is waited for."""
    handler = signal.getsignal(signal.SIGCHLD)
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as other:
        for _ in range(5):
            assert said(Command(argv=("true",))) == (OK, "exit 0")
        assert other.wait(30) == 7
    assert signal.getsignal(signal.SIGCHLD) is handler


@pytest.mark.parametrize(
    ("script", "expected"),
    [("exit 3", (FAILED, "exit 3")), ("sleep 3600", (FAILED, "timeout")), ("trap '' TERM; sleep 3600 & wait; wait",
     (FAILED, "timeout"))],
)  # fmt: skip
def test_without_pidfds(
    script: str, expected: Said, word: str, monkeypatch: pytest.MonkeyPatch, children: Callable[..., list[int]]
) -> None:
    """HL-4.8: on a system that has none a command ends the same way."""
    monkeypatch.delattr(os, "pidfd_open")
    assert said(sh(script), 1 if expected[1] == "timeout" else 20) == expected
    assert settled(lambda: not processes(word) and not children())


def test_a_lost_status_without_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.2: nor is a lost status a success there."""
    monkeypatch.delattr(os, "pidfd_open")
    test_a_status_that_somebody_else_has_taken()


def test_a_program_that_does_not_start_in_time(
    monkeypatch: pytest.MonkeyPatch, word: str, children: Callable[..., list[int]]
) -> None:
    """HL-4.11: on a file system that hangs the run is abandoned; what starts after all is ended at once."""
    gate, real = threading.Event(), os.open
    monkeypatch.setattr(os, "open", lambda *arguments: (gate.wait(), real(*arguments))[1])
    probe = probe_for(sh("sleep 3600"))
    try:
        assert said(probe, 0.2) == (FAILED, "timeout")
        assert said(probe, 0.2) == (COULD_NOT_RUN, "still waiting")
        assert hangs(probe)
    finally:
        monkeypatch.undo()
        gate.set()
    assert settled(lambda: not running())
    assert (processes(word), children()) == ([], [])
    assert said(probe, 0.5) == (FAILED, "timeout")


def test_close_ends_what_runs(word: str) -> None:
    """HL-4.8: a service that stops leaves no command behind, and starts none."""
    probe = probe_for(Command(argv=("sleep", "3600")))
    results: list[Said] = []
    runner = threading.Thread(target=lambda: results.append(said(probe, 30)))
    runner.start()
    assert settled(lambda: len(processes(word)) == 1)
    began = time.monotonic()
    probe.close()
    runner.join(30)
    assert time.monotonic() - began < 10
    assert results == [(FAILED, "signal SIGKILL")]
    assert processes(word) == []
    assert said(probe) == (COULD_NOT_RUN, "closed")


def test_close_while_it_starts(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """HL-4.8: a command that was being started when the service stopped is ended as soon as it runs."""
    probe, real = probe_for(sh("sleep 3600")), subprocess.Popen

    def late(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        probe.close()
        return real(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", late)
    assert said(probe, 10) == (FAILED, "signal SIGKILL")
    assert settled(lambda: not processes(word))


def test_as_the_parent_of_orphans() -> None:
    """HL-4.8, EXEC-04: a service that adopts orphans, as process 1 does, reaps those of its commands' groups."""
    program = """
import ctypes, pathlib, os
from idkmesh.clock import SystemClock
from idkmesh.child_process import environment
from idkmesh.health.model import Command
from idkmesh.health.probes import probe_for
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
for script in ("(sleep 60 & sleep 60 &); exit 0", "(sleep 60; :) & sleep 60; :", "exit 3"):
    print(probe_for(Command(argv=("sh", "-c", script))).run(1, SystemClock()).detail)
print(pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text())
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert run.stdout.splitlines() == ["exit 0", "timeout", "exit 3", ""]
