"""`idkmesh probes`: each probe once with a table, a document and an exit code; and the stanzas."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from idkmesh.cli import main
from idkmesh.cli.probes import MANIFEST_FORMATS
from idkmesh.commands.probes import Tried, _interruptible, exit_code, table, try_all
from idkmesh.health.manifest import FORMATS, manifest
from idkmesh.health.matrix_file import read_matrix
from idkmesh.health.model import Disk, Outcome, Python
from idkmesh.health.probes import probe_for
from tests.events.support import ROOT
from tests.health.matrices import EXAMPLE, HEAD
from tests.health.support import COULD_NOT_RUN, FAILED, OK, dependency, result, until

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = json.loads((ROOT / "idkmesh" / "schemas" / "probe-run.json").read_text(encoding="utf-8"))
DISK = "{disk: {path: /, min_free_bytes: 1}}"
MISSING = "{file: {path: /no/such/file}}"
ABSENT = "{command: {argv: [/no/such/program]}}"


def row(name: str, probe: str, *, critical: bool = True, timeout_ms: int = 900) -> str:
    return (
        f"  - {{name: {name}, critical: {str(critical).lower()}, probe: {probe}, timeout_ms: {timeout_ms}, "
        f"interval_ms: 20000, cache_ms: 60000}}\n"
    )


def written(path: Path, *rows: str) -> str:
    file = path / "matrix.yaml"
    file.write_text(HEAD + "".join(rows), encoding="utf-8")
    return str(file)


def quiet(_back: int, _names: Sequence[str]) -> None:
    """Take progress and say nothing."""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["probes", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


# --- the decision -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("critical", "others", "code"),
    [
        ((), (), 0),
        ((OK, OK), (FAILED, COULD_NOT_RUN), 0),
        ((OK, FAILED), (), 1),
        ((OK, COULD_NOT_RUN), (FAILED,), 3),
        ((COULD_NOT_RUN, FAILED), (), 1),
    ],
)
def test_exit_codes(critical: tuple[Outcome, ...], others: tuple[Outcome, ...], code: int) -> None:
    """HL-6.3, HL-4.2: a critical failure outweighs one that could not be run, and noncritical ones decide nothing."""
    tried = [Tried(dependency("c"), result(outcome)) for outcome in critical]
    tried += [Tried(dependency("n", critical=False), result(outcome)) for outcome in others]
    assert exit_code(tried) == code


def test_table() -> None:
    """HL-6.3: name, kind, critical, outcome, latency and detail, in columns, without space at the end."""
    lines = table(
        [
            Tried(dependency("a"), result(OK, latency=0.0123, detail="connected")),
            Tried(dependency("a-longer-name", critical=False), result(COULD_NOT_RUN, detail="")),
        ]
    )
    assert lines == [
        "NAME           KIND  CRITICAL  OUTCOME        LATENCY  DETAIL",
        "a              tcp   yes       ok             12.3 ms  connected",
        "a-longer-name  tcp   no        could_not_run  0.0 ms   could_not_run",
    ]


# --- the command ------------------------------------------------------------------------------------------------------


def test_it_prints_what_came_of_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.3: every dependency, in the matrix's order, whichever came back first; nothing on standard error."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tcp = f"{{tcp: {{host: 127.0.0.1, port: {listener.getsockname()[1]}}}}}"
        slow = "{command: {argv: [sleep, '0.2']}}"
        file = written(tmp_path, row("slow", slow), row("db", tcp), row("file", MISSING, critical=False))
        code, out, errors = run(capsys, "run", file)
    assert (code, errors) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert [line[:4] for line in lines[1:]] == [
        ["slow", "command", "yes", "ok"],
        ["db", "tcp", "yes", "ok"],
        ["file", "file", "no", "failed"],
    ]


@pytest.mark.parametrize(("probe", "code"), [(DISK, 0), (MISSING, 1), (ABSENT, 3)])
def test_it_tells_by_its_exit_code(probe: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.3, HL-4.2: 0 every critical one is ok, 1 one is not, 3 one could not be run."""
    assert run(capsys, "run", written(tmp_path, row("d", probe)))[0] == code


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.3: the document has its published schema, and the exit code in it."""
    file = written(tmp_path, row("disk", DISK), row("program", ABSENT), row("file", MISSING, critical=False))
    code, out, _ = run(capsys, "run", "--json", file)
    document = json.loads(out)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["exit_code"] == code == 3
    assert [each["outcome"] for each in document["results"]] == ["ok", "could_not_run", "failed"]
    assert document["results"][0]["timeout_ms"] == 900


def test_no_dependencies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-3.1, HL-6.3: a matrix that names none has nothing that is not ok."""
    file = tmp_path / "matrix.yaml"
    file.write_text(HEAD.replace("dependencies:", "dependencies: []"))
    code, out, _ = run(capsys, "run", str(file))
    assert (code, out.count("\n")) == (0, 1)


@pytest.mark.parametrize("command", [("run",), ("manifest", "--format", "compose")])
def test_a_bad_file(command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-3.2, HL-6.3: exit code 2, and every finding with file, line and column, a line each."""
    file = written(tmp_path, row("d", DISK), row("d", DISK, timeout_ms=5000), row("e", "{}"))
    code, out, errors = run(capsys, *command, file)
    assert (code, out) == (2, "")
    lines = errors.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{file}:") and line.split(":")[1].isdigit() for line in lines)
    code, _, errors = run(capsys, *command, str(tmp_path / "absent"))
    assert (code, errors.count("\n")) == (2, 1)


# --- slow probes ------------------------------------------------------------------------------------------------------


class Counter:
    """Counts who is in at once. Python probes call it by a module's name."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = self.calls = 0

    def __call__(self) -> None:
        with self.lock:
            self.now += 1
            self.calls += 1
            self.most = max(self.most, self.now)
        time.sleep(0.02)
        with self.lock:
            self.now -= 1


def test_concurrency_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.4, HL-6.3: at most so many at once, each once, and no thread is left."""
    (tmp_path / "counting_probe.py").write_text("probe = None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import counting_probe  # type: ignore[import-not-found]  # noqa: PLC0415  made by this test

    monkeypatch.setattr(counting_probe, "probe", counter := Counter())
    rows = [
        dependency(f"d{number}", probe=Python(target="counting_probe:probe"), timeout_ms=5000) for number in range(40)
    ]
    before = set(threading.enumerate())
    tried = try_all(rows, quiet, concurrency=4)
    assert [each.dependency.name for each in tried] == [each.name for each in rows]
    assert {each.result.outcome for each in tried} == {OK}
    assert (counter.most, counter.calls) == (4, 40)
    until(lambda: set(threading.enumerate()) <= before, "threads are left")


def test_one_that_overstays_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.11, HL-6.3: a probe that does not come back is a timeout, and what waits behind it runs."""
    gate = threading.Event()

    class Stuck:
        def run(self, timeout: float, clock: Any) -> Any:
            gate.wait(20)
            return result(OK)

        def close(self) -> None:
            """Have nothing to end."""

    monkeypatch.setattr(
        "idkmesh.commands.probes.probe_for", lambda spec: Stuck() if isinstance(spec, Python) else probe_for(spec)
    )
    rows = [
        dependency("stuck", probe=Python(target="m:f"), timeout_ms=500),
        dependency("disk", probe=Disk(path="/", min_free_bytes=1)),
    ]
    told: list[tuple[int, list[str]]] = []
    tried = try_all(rows, lambda back, names: told.append((back, list(names))), concurrency=1)
    gate.set()
    assert (tried[0].result.outcome, tried[0].result.detail) == (FAILED, "timeout")
    assert tried[1].result.outcome is OK
    assert told == [(0, ["stuck"])]


def test_one_that_comes_back_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.11, HL-6.3: what comes after it was given up changes nothing, and its thread goes home too."""
    back = threading.Event()

    class Late:
        def run(self, timeout: float, clock: Any) -> Any:
            time.sleep(timeout + 1.3)
            back.set()
            return result(OK)

        def close(self) -> None:
            """Have nothing to end."""

    class After(Late):
        def run(self, timeout: float, clock: Any) -> Any:
            assert back.wait(20)
            time.sleep(0.05)
            return result(OK)

    kinds = {"m:late": Late, "m:after": After}
    monkeypatch.setattr("idkmesh.commands.probes.probe_for", lambda spec: kinds[spec.target]())
    rows = [
        dependency("late", probe=Python(target="m:late"), timeout_ms=100),
        dependency("after", probe=Python(target="m:after"), timeout_ms=20_000),
    ]
    before = set(threading.enumerate())
    tried = try_all(rows, quiet, concurrency=2)
    assert [each.result.outcome for each in tried] == [FAILED, OK]
    until(lambda: set(threading.enumerate()) <= before, "threads are left")


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.2, HL-6.3: a run for which there is no thread could not be made; the command ends."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        tried = try_all([dependency("a"), dependency("b")], quiet)
    assert {each.result.outcome for each in tried} == {COULD_NOT_RUN}


def terminal_output(command: list[str]) -> tuple[int, str, str]:
    """Run a command whose standard error is a terminal; return exit code, output and what the terminal shows."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, cwd=ROOT) as process:
        os.close(theirs)
        out, _ = process.communicate(timeout=30)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how Linux says that the other side is closed
            piece = b""
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.returncode, out, shown.decode()


def test_progress_is_for_people(tmp_path: Path) -> None:
    """HL-6.3: after a second a terminal is told what is waited for, and after three again; a pipe is not."""
    file = written(tmp_path, row("slow", "{command: {argv: [sleep, '20']}}", timeout_ms=990), row("disk", DISK))
    text = (
        (tmp_path / "matrix.yaml")
        .read_text()
        .replace("timeout_ms: 1000, failure_threshold: 2", "timeout_ms: 3000, failure_threshold: 2")
    )
    (tmp_path / "matrix.yaml").write_text(text.replace("timeout_ms: 990", "timeout_ms: 2000"))
    command = [sys.executable, "-m", "idkmesh", "probes", "run", file]
    code, out, shown = terminal_output(command)
    assert code == 1
    assert "timeout" in out
    assert shown.splitlines() == ["idkmesh: 1 have come back, waiting for slow"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_command(number: signal.Signals, tmp_path: Path) -> None:
    """HL-4.8, HL-6.3: an interrupted run ends as a shell wants it, and the commands that it has started end with it."""
    mark = tmp_path / "pid"
    script = tmp_path / "probe.py"
    script.write_text(f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    probe = f"{{command: {{argv: [{json.dumps(sys.executable)}, {json.dumps(str(script))}]}}}}"
    file = tmp_path / "matrix.yaml"
    file.write_text(
        HEAD.replace("period_ms: 3000, timeout_ms: 1000", "period_ms: 30000, timeout_ms: 30000")
        + row("slow", probe, timeout_ms=19_000)
    )
    command = [sys.executable, "-m", "idkmesh", "probes", "run", str(file)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: mark.exists() and mark.read_text(), "the command does not run")
        process.send_signal(number)
        out, errors = process.communicate(timeout=20)
    assert (process.returncode, out, errors) == (128 + number, b"", b"")
    pid = int(mark.read_text())
    until(lambda: not is_running(pid), "the command goes on")


def test_a_signal_that_is_ignored_stays_so() -> None:
    """HL-6.3: what a shell has started in the background is not ended by its Ctrl-C, and handlers are put back."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with _interruptible():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


def is_running(pid: int) -> bool:
    """Say whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- stanzas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_manifest(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.3: what is printed is the stanza, with the port and the host that were given."""
    code, out, errors = run(capsys, "manifest", "--format", form, "--port", "9000", "--host", "::1", str(EXAMPLE))
    assert (code, errors) == (0, "")
    assert out == manifest(read_matrix(EXAMPLE), form, port=9000, host="::1")


def test_the_formats_are_the_flags() -> None:
    """HL-6.3: the command takes what can be printed."""
    assert tuple(FORMATS) == MANIFEST_FORMATS


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("run",),
        ("manifest", str(EXAMPLE)),
        ("manifest", "--format", "nomad", str(EXAMPLE)),
        ("manifest", "--format", "compose", "--port", "0", str(EXAMPLE)),
        ("manifest", "--format", "compose", "--port", "65536", str(EXAMPLE)),
        ("run", str(EXAMPLE), "more"),
    ],
)
def test_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.3: wrong usage is 2 and one line."""
    code, out, errors = run(capsys, *arguments)
    assert (code, out, errors.count("\n")) == (2, "", 1)
