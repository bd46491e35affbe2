"""Local processes: how they are started, run in, restarted and ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.declaration import load_declaration
from idkmesh.workloads.drivers import process_crew, process_guard
from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.drivers.process import ProcessDriver
from idkmesh.workloads.drivers.process_crew import next_delay
from idkmesh.workloads.drivers.process_guard import GRACE_SECONDS, is_ours, started_at
from idkmesh.workloads.drivers.process_run import FREE_BYTES, PIECE_BYTES, HeldOutput
from idkmesh.workloads.model import DEFAULT_PROBE_UID, InstanceState, Run, RunEnd, Word
from idkmesh.workloads.port_check import check_port
from scripts.bench.benchlib.processes import free_port
from tests.health.probe_support import descriptors
from tests.workloads.process_support import (
    STUBBORN,
    alive,
    command,
    group_of,
    module,
    one,
    pid_of,
    program_of,
    waited,
    with_variable,
)
from tests.workloads.support import always

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")

ROOT = Path(__file__).parents[2]
SLACK = 2.5
"""How much longer than its limit a run may take, in seconds: TERM, KILL, and what holds the output."""


@pytest.fixture
def driver() -> Iterator[ProcessDriver]:
    made = ProcessDriver(log=lambda line, level: None)
    yield made
    made.close()


def run(driver: ProcessDriver, *argv: str, seconds: int = 5, cwd: Path | None = None) -> Run:
    instance = one(driver, module(cwd=None if cwd is None else str(cwd)))
    began = time.monotonic()
    result = driver.run(instance, command(*argv, seconds=seconds), DEFAULT_PROBE_UID)
    assert time.monotonic() - began < seconds + SLACK
    return result


@pytest.mark.parametrize(
    ("delay", "ran", "expected"), [(0, 0, 1), (1, 0.1, 2), (2, 5, 4), (32, 0, 60), (60, 59, 60), (60, 60, 1)]
)
def test_back_off(delay: float, ran: float, expected: float) -> None:
    """AR-8.5: starts are 1 s to 60 s apart, and after a steady run the back-off begins anew."""
    assert next_delay(delay, ran) == expected


@pytest.mark.parametrize(
    ("argv", "end", "code"),
    [
        (("true",), RunEnd.EXITED, 0),
        (("false",), RunEnd.EXITED, 1),
        (("sh", "-c", "exit 255"), RunEnd.EXITED, 255),
        (("sh", "-c", "kill -9 $$"), RunEnd.EXITED, 137),
        (("no-such-program",), RunEnd.COULD_NOT_RUN, None),
        (("/etc/passwd",), RunEnd.COULD_NOT_RUN, None),
        (("echo", "a\0b"), RunEnd.COULD_NOT_RUN, None),
    ],
)
def test_ends(driver: ProcessDriver, argv: tuple[str, ...], end: RunEnd, code: int | None) -> None:
    """AR-3.3: an exit status is told as it is, a signal as 128 and its number, and what cannot be run as such."""
    result = run(driver, *argv)
    assert (result.end, result.code) == (end, code)
    assert result.reason


def test_input_and_place(driver: ProcessDriver, tmp_path: Path) -> None:
    """EXEC-05, AR-3.2: the input is empty, there is no terminal, and a command runs where the module does."""
    tmp_path.chmod(0o755)
    (tmp_path / "ready").touch()
    assert run(driver, "sh", "-c", 'test -z "$(cat)" && ! test -t 1 && test -f ready', cwd=tmp_path).code == 0


def test_its_user(driver: ProcessDriver) -> None:
    """AR-3.2: as the user that was said, its group the same number, without further groups; else as our own."""
    expected = DEFAULT_PROBE_UID if os.geteuid() == 0 else os.geteuid()
    assert run(driver, "sh", "-c", f'test "$(id -u) $(id -ru)" = "{expected} {expected}"').code == 0
    if os.geteuid() == 0:
        assert run(driver, "sh", "-c", f'test "$(id -g) $(id -G)" = "{expected} {expected}"').code == 0


def test_another_user_is_told_once(driver: ProcessDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-3.2: who is not root runs commands as itself, and says so once."""
    lines: list[str] = []
    made = ProcessDriver(log=lambda line, level: lines.append(line))
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    try:
        instance = one(made, module())
        assert made.run(instance, command("true"), DEFAULT_PROBE_UID).code == 0
        assert made.run(instance, command("true"), DEFAULT_PROBE_UID).code == 0
    finally:
        made.close()
    assert [line for line in lines if "65534" in line] == [
        "process: readiness commands run as user 1234, not 65534: only root may run them as somebody else"
    ]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may become somebody else")
def test_a_user_that_cannot_be(driver: ProcessDriver) -> None:
    """AR-3.2, AR-3.3: a number that is no user's is refused; one of them would mean root to the kernel."""
    instance = one(driver, module())
    for uid in (2**32 - 1, 2**40, -1):
        assert driver.run(instance, command("true"), uid).end is RunEnd.COULD_NOT_RUN


@pytest.mark.parametrize(
    "argv",
    [
        ("sleep", "3600"),
        ("sh", "-c", "trap '' TERM; sleep 3600 & sleep 3600"),
        ("sh", "-c", "printf 'ok \\342'; sleep 3600"),
        ("sh", "-c", "while :; do printf x; sleep 0.1; done"),
    ],
)
def test_the_limit(driver: ProcessDriver, argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """EXEC-01, EXEC-02, EXEC-08, AR-3.4: at the limit the whole group is killed, whatever it does or prints."""
    monkeypatch.setenv("PROCESS_TEST", word := f"{time.monotonic_ns()}")
    instance = one(driver, module())
    # It and its guard. A program that was started a moment ago may not have its variables yet.
    assert waited(lambda: len(with_variable(f"PROCESS_TEST={word}")) == 2)
    ours = set(with_variable(f"PROCESS_TEST={word}"))
    began = time.monotonic()
    result = driver.run(instance, command(*argv, seconds=1), DEFAULT_PROBE_UID)
    assert 1 <= time.monotonic() - began < 1 + SLACK
    assert (result.end, result.code) == (RunEnd.TIMED_OUT, None)
    assert waited(lambda: set(with_variable(f"PROCESS_TEST={word}")) == ours)
    assert driver.run(instance, command("true"), DEFAULT_PROBE_UID).code == 0


def test_much_output(driver: ProcessDriver) -> None:
    """EXEC-07, EXEC-08: output of any size and any bytes is dropped: it blocks nobody and decides nothing."""
    script = "head -c 30000000 /dev/urandom; head -c 1000000 /dev/zero >&2; exit 0"
    assert run(driver, "sh", "-c", script, seconds=15).code == 0
    assert run(driver, "sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 3").code == 3


@pytest.mark.parametrize("size", [65_536, 16])
def test_a_flood_is_taken_slowly(size: int) -> None:
    """EXEC-08, AR-8.5: beyond 1 MiB at most 32 MiB a second are taken, in large pieces and small."""
    reading, writing = os.pipe()
    with subprocess.Popen(["dd", "if=/dev/zero", f"bs={size}"], stdout=writing, stderr=subprocess.DEVNULL) as process:
        os.close(writing)
        began = time.monotonic()
        output = HeldOutput(reading)
        assert not output.ends_within(0.5)
        written = int(Path(f"/proc/{process.pid}/io").read_text().partition("wchar: ")[2].split()[0])
        seconds = time.monotonic() - began
        process.kill()
        output.close()
    assert written <= FREE_BYTES + seconds * 32 * 1024**2 + 4 * PIECE_BYTES


@pytest.mark.parametrize("path", ["/\u202eabc\u2028x", "/\x1b[31m", "/a\nb"])
def test_a_place_that_cannot_be_entered(path: str) -> None:
    """AR-8.5: what is told of a working directory is one printable line, whatever it is called."""
    lines: list[str] = []
    made = ProcessDriver(log=lambda line, level: lines.append(line))
    try:
        made.instances([module(cwd=path)])
    finally:
        made.close()
    (line,) = lines
    assert line.isprintable()
    assert "its working directory /?" in line or "its working directory /a?b" in line


def test_left_behind_in_the_group(driver: ProcessDriver, tmp_path: Path) -> None:
    """EXEC-02, AR-3.4: what a command leaves in the background holding its output is told, and killed."""
    tmp_path.chmod(0o777)
    result = run(driver, "sh", "-c", "sleep 3600 & echo $! > pid; exit 0", cwd=tmp_path)
    assert (result.end, result.code) == (RunEnd.LEFT_BEHIND, None)
    assert "killed" in result.reason
    assert waited(lambda: not alive(int((tmp_path / "pid").read_text())))
    assert run(driver, "true", cwd=tmp_path).code == 0


LEAVES = (
    "setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 3600' & until test -s left; do sleep 0.02; done"
)
"""Leaves a process behind that is out of its group, however long that takes, and writes down its number."""


def test_left_behind_in_another_session(driver: ProcessDriver, tmp_path: Path) -> None:
    """EXEC-02, AR-3.4: what has left the group is detected by its output, and nothing is started while it lives."""
    tmp_path.chmod(0o777)
    script = f"echo run >> runs; {LEAVES}; exit 0"
    for _ in range(3):
        assert run(driver, "sh", "-c", script, cwd=tmp_path).end is RunEnd.LEFT_BEHIND
    assert (tmp_path / "runs").read_text() == "run\n"
    escaped = int((tmp_path / "left").read_text())
    assert os.getsid(escaped) == escaped
    os.kill(escaped, signal.SIGKILL)
    assert waited(lambda: not alive(escaped))
    assert run(driver, "true", cwd=tmp_path).code == 0


def test_nothing_is_left(
    driver: ProcessDriver, monkeypatch: pytest.MonkeyPatch, children: Callable[..., list[int]]
) -> None:
    """EXEC-04: after runs of all kinds and ends there is no zombie, no process and no descriptor more than before."""
    monkeypatch.setenv("PROCESS_TEST", word := f"{time.monotonic_ns()}")
    instance = one(driver, module())
    # It and its guard. A program that was started a moment ago may not have its variables yet.
    assert waited(lambda: len(with_variable(f"PROCESS_TEST={word}")) == 2)
    before, running = descriptors(), set(with_variable(f"PROCESS_TEST={word}"))
    ours = set(children())
    for _ in range(5):
        for argv in (("true",), ("no-such",), ("sh", "-c", "kill -9 $$"), ("sh", "-c", "(sleep 9 &) & exit 1")):
            driver.run(instance, command(*argv), DEFAULT_PROBE_UID)
    driver.run(instance, command("sleep", "3600", seconds=1), DEFAULT_PROBE_UID)
    assert children("Z") == []
    assert set(children()) == ours
    assert waited(lambda: set(with_variable(f"PROCESS_TEST={word}")) == running)
    assert descriptors() == before


@pytest.mark.parametrize("example", ["modules.yaml", "modules-local.yaml"])
def test_the_example_runs(example: str, driver: ProcessDriver) -> None:
    """AR-8.5, AR-3.5: the example's process runs in a checkout as it is; its port opens, and its command passes.

    At another port than the example's, which somebody may use.
    """
    port = free_port()
    text = (ROOT / "examples" / example).read_text(encoding="utf-8").replace("8089", str(port))
    declared = next(each for each in load_declaration(text, "m.yaml").modules if each.driver == "process")
    instance = one(driver, replace(declared, cwd=str(ROOT)))
    assert (instance.name, declared.port) == ("docs-1", port)
    assert waited(lambda: check_port(instance.address, port, opened=False).word is Word.PASSES)
    assert declared.readiness is not None
    ended = driver.run(instance, declared.readiness, os.geteuid())
    assert (ended.end, ended.code) == (RunEnd.EXITED, 0), ended


def test_a_process_finds_its_names(driver: ProcessDriver, tmp_path: Path) -> None:
    """AR-8.5: it and its command have the names of module and instance among their variables."""
    program = 'import os, pathlib; pathlib.Path("names").write_text(os.environ["IDKMESH_INSTANCE"])'
    declared = module(argv=(sys.executable, "-c", f"{program}; import time; time.sleep(3600)"), cwd=str(tmp_path))
    instance = one(driver, declared)
    assert waited(lambda: (tmp_path / "names").exists() and (tmp_path / "names").read_text() == "worker-1")
    says = 'import os; exit((os.environ["IDKMESH_MODULE"], os.environ["IDKMESH_INSTANCE"]) != ("worker", "worker-1"))'
    ended = driver.run(instance, command(sys.executable, "-c", says), os.geteuid())
    assert (ended.end, ended.code) == (RunEnd.EXITED, 0), ended


def test_replicas(driver: ProcessDriver) -> None:
    """AR-8.5: as many processes as replicas, each leader of a group and a session; what is undeclared ends."""
    found = driver.instances([module(replicas=3, port=8080), module("other")])
    assert [instance.name for instance in found] == ["worker-1", "worker-2", "worker-3", "other-1"]
    assert {instance.state for instance in found} == {InstanceState.RUNNING}
    assert [instance.address for instance in found] == ["127.0.0.1"] * 3 + [None]
    pids = [pid_of(instance) for instance in found]
    assert [(os.getpgid(pid), os.getsid(pid)) for pid in pids] == [(pid, pid) for pid in pids]
    assert driver.instances([module(replicas=3, port=8080), module("other")]) == found
    assert len(driver.instances([module(replicas=1, port=8080)])) == 1
    assert waited(lambda: [alive(pid) for pid in pids] == [True, False, False, False])


def test_an_ended_one_is_started_again(driver: ProcessDriver) -> None:
    """AR-8.5, AR-4.4: one that has ended is started again, after a second, with another identity."""
    first = one(driver, module())
    killed = time.monotonic()
    os.kill(pid_of(first), signal.SIGKILL)
    assert waited(lambda: one(driver, module()).state is InstanceState.STOPPED)
    assert waited(lambda: one(driver, module()).state is InstanceState.RUNNING)
    assert time.monotonic() - killed >= 0.9
    assert one(driver, module()).identity != first.identity


def test_what_an_ended_one_has_left_ends_too(driver: ProcessDriver) -> None:
    """AR-8.5: the group of a process that has ended by itself is killed: what is started again is alone."""
    declared = module(argv=("sh", "-c", "sleep 3600 & wait"))
    leader = pid_of(one(driver, declared))

    def group() -> list[int]:
        found = with_variable("IDKMESH_INSTANCE=worker-1")
        return [pid for pid in found if pid != leader and group_of(pid) == leader]

    assert waited(lambda: len(group()) == 1)
    (child,) = group()
    os.kill(leader, signal.SIGKILL)
    assert waited(lambda: not alive(child))


def test_a_number_of_somebody_else_is_left_alone() -> None:
    """AR-8.5: the guard signals no group whose number is another process's by now; one without a leader is ours."""
    mine = os.getpid()
    assert is_ours(mine, started_at(mine))
    assert not is_ours(mine, started_at(mine) + 1)
    assert is_ours(mine, 0)
    with subprocess.Popen(["true"]) as ended:
        pass
    assert is_ours(ended.pid, 1)


def test_the_guard_hears_half_a_line() -> None:
    """AR-8.5: a supervisor that is killed in the middle of one is followed all the same, and nobody else is ended."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as ours:
        told = f"+{ours.pid} {started_at(ours.pid)}\n+{os.getpid()}"
        done = subprocess.run(
            [sys.executable, process_guard.__file__],
            input=told,
            text=True,
            check=False,
            capture_output=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert ours.wait(30) == -signal.SIGTERM


def test_the_guard_ends_one_that_is_stopped() -> None:
    """AR-8.5: a stopped process hears TERM too, and is not left hanging until KILL."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as ours:
        ours.send_signal(signal.SIGSTOP)
        told = f"+{ours.pid} {started_at(ours.pid)}\n"
        subprocess.run([sys.executable, process_guard.__file__], input=told, text=True, check=True, timeout=30)
        assert ours.wait(30) == -signal.SIGTERM


def test_restart(driver: ProcessDriver) -> None:
    """AR-5.6: TERM to the group and a new process at once; who was started anew since is left alone."""
    first = one(driver, module())
    began = time.monotonic()
    driver.restart(first, always)
    assert time.monotonic() - began < 9
    second = one(driver, module())
    assert second.state is InstanceState.RUNNING
    assert second.identity != first.identity
    assert not alive(pid_of(first))
    with pytest.raises(DriverError, match="not the one that was seen"):
        driver.restart(first, always)
    assert one(driver, module()) == second


def test_without_the_lease_nothing_is_restarted(driver: ProcessDriver) -> None:
    """AR-5.4: a lease that is lost by the call leaves the process alone."""
    first = one(driver, module())
    with pytest.raises(DriverError, match="no longer ours"):
        driver.restart(first, lambda: False)
    assert one(driver, module()) == first
    assert alive(pid_of(first))


def test_restart_of_one_that_does_not_end(
    driver: ProcessDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AR-5.6: KILL to the group after 10 s, one second here, its children included."""
    assert GRACE_SECONDS == 10
    monkeypatch.setattr(process_crew, "GRACE_SECONDS", 1.0)
    declared = module(argv=STUBBORN, cwd=str(tmp_path))
    first = one(driver, declared)
    assert waited((tmp_path / "stubborn").exists)

    def group() -> list[int]:
        return [pid for pid in with_variable("IDKMESH_INSTANCE=worker-1") if group_of(pid) == pid_of(first)]

    # A program that was started a moment ago may not have its variables yet.
    assert waited(lambda: len(group()) == 2)
    both = group()
    began = time.monotonic()
    driver.restart(first, always)
    assert time.monotonic() - began >= 1
    assert waited(lambda: not any(alive(pid) for pid in both))


def test_what_cannot_be_started() -> None:
    """AR-8.5: a program or a folder that is not there is told, tried again, and reported as stopped."""
    lines: list[str] = []
    made = ProcessDriver(log=lambda line, level: lines.append(line))
    try:
        found = made.instances([module("a", ("no-such-program",)), module("b", cwd="/no/such/folder")])
        assert [instance.state for instance in found] == [InstanceState.STOPPED] * 2
        with pytest.raises(DriverError):
            made.restart(found[0], always)
    finally:
        made.close()
    assert "process: a-1 cannot be started: no such program; a new try in 1 s" in lines
    assert any("/no/such/folder cannot be entered" in line for line in lines)


def test_close(driver: ProcessDriver, children: Callable[..., list[int]]) -> None:
    """AR-8.5: all of them end with the driver, which then does nothing more."""
    found = driver.instances([module(replicas=4)])
    driver.close()
    driver.close()
    assert not any(alive(pid_of(instance)) for instance in found)
    assert children() == []
    assert driver.run(found[0], command("true"), DEFAULT_PROBE_UID).end is RunEnd.COULD_NOT_RUN
    with pytest.raises(DriverError, match="closed"):
        driver.instances([module()])
    with pytest.raises(DriverError):
        driver.restart(found[0], always)


SUPERVISOR = """
import json, sys, time
from idkmesh.workloads.drivers.process import ProcessDriver
from tests.workloads.process_support import module, pid_of
driver = ProcessDriver(log=lambda line, level: None)
print(json.dumps([pid_of(each) for each in driver.instances([module(replicas=3)])]), flush=True)
time.sleep(3600)
"""


def test_the_supervisor_is_killed() -> None:
    """AR-8.5: what a supervisor has started does not outlive it: after SIGKILL too its processes end, within 10 s."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR], stdout=subprocess.PIPE, env=environ) as supervisor:
        assert supervisor.stdout is not None
        pids = json.loads(supervisor.stdout.readline())
        assert all(alive(pid) for pid in pids)
        supervisor.kill()
        supervisor.wait(30)
        try:
            assert waited(lambda: not any(alive(pid) for pid in pids))
        finally:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def guards(children: list[int]) -> list[int]:
    """Return the guards among processes that have not ended."""
    found = [pid for pid in children if alive(pid)]
    # A process that has just become another program has no command line for a moment.
    assert waited(lambda: all(not alive(pid) or program_of(pid) for pid in found))
    return [pid for pid in found if b"process_guard" in program_of(pid)]


def test_the_guard_is_killed(driver: ProcessDriver, children: Callable[..., list[int]]) -> None:
    """AR-8.5: a guard that was killed is started again with the next process, and ends with the driver."""
    driver.instances([module()])
    (guard,) = guards(children())
    os.kill(guard, signal.SIGKILL)
    assert waited(lambda: not alive(guard))
    driver.instances([module(replicas=2)])
    (another,) = guards(children())
    assert another != guard
    driver.close()
    assert guards(children()) == []
    assert children("Z") == []


def test_a_guard_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, children: Callable[..., list[int]]) -> None:
    """AR-8.5: it is told once, what runs is looked after all the same, and a guard is tried again with the next one."""
    lines: list[str] = []
    made = ProcessDriver(log=lambda line, level: lines.append(line))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", "/no/such/python")
            found = made.instances([module(replicas=2)])
            assert [instance.state for instance in found] == [InstanceState.RUNNING] * 2
        made.restart(found[0], always)
        assert one(made, module()).state is InstanceState.RUNNING
        assert len(guards(children())) == 1
    finally:
        made.close()
    assert not any(alive(pid_of(instance)) for instance in found)
    assert [line for line in lines if "guard" in line] == [
        "process: no guard can be started (No such file or directory): what runs outlives a supervisor that is killed"
    ]


def test_what_is_no_longer_declared(driver: ProcessDriver) -> None:
    """AR-3.3, AR-8.5: a command in a process that is no longer wanted could not run, and a restart is an error."""
    instance = one(driver, module())
    driver.instances([])
    assert driver.run(instance, command("true"), DEFAULT_PROBE_UID).end is RunEnd.COULD_NOT_RUN
    with pytest.raises(DriverError):
        driver.restart(instance, always)


def test_what_is_no_longer_declared_holds_no_descriptor(driver: ProcessDriver, tmp_path: Path) -> None:
    """AR-3.4: what a command has left behind is watched for the sake of the next one, and there is none."""
    driver.instances([])
    before = descriptors()
    tmp_path.chmod(0o777)
    assert run(driver, "sh", "-c", f"{LEAVES}; exit 0", cwd=tmp_path).end is RunEnd.LEFT_BEHIND
    driver.instances([])
    assert waited(lambda: descriptors() <= before + 1)  # the guard's
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
