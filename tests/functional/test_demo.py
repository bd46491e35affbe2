"""``idkmesh demo`` as a process, on a terminal of its own and without one, with everything that it starts."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.console import EXIT_PIPE_CLOSED
from idkmesh.demo import files
from idkmesh.demo.children import shop_processes
from idkmesh.demo.faults import table
from idkmesh.demo.folder import processes_of
from idkmesh.demo.ports import PAGE_PORT
from idkmesh.demo.settings import Figures
from idkmesh.workloads.drivers.process_guard import GRACE_SECONDS, started_at
from tests.functional.supervise_support import PATIENCE, until
from tests.test_cli import COMMAND, environment, idkmesh

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="who runs is read from /proc")

LONG = 90.0
"""For what waits for several bounds: a test gives up after that. No test passes because of it."""

SHORT = """
import sys
from dataclasses import replace
from idkmesh import console
from idkmesh.demo.faults import table
from idkmesh.demo.settings import Figures
from idkmesh.commands import demo
_, store, flood, ingress, pause, wedge = table(Figures())
# What the machine may break by being busy, a probe's 500 ms, is not asked; nor what takes a minute, nor twice
# for the 5 s of pressure.
rows = [
    replace(fault, seconds=1.0, stays=tuple(each for each in fault.stays if "ready" not in each.what))
    for fault in (store, *(replace(each, after=pause.after[1:]) for each in (flood, ingress)), pause)
]
rows.append(replace(wedge, seconds=1.0, then=wedge.then[:2], stays=(), after=(wedge.after[0], wedge.after[-1])))
demo.table, demo.CALM_SECONDS = lambda figures, routed: tuple(rows), 0.2
sys.exit(console.run(lambda: demo.demo(demo.Request(0, 600.0))))
"""

CALM = """
import sys
from idkmesh import console
from idkmesh.commands import demo
demo.CALM_SECONDS = 3600.0
sys.exit(console.run(lambda: demo.demo(demo.Request(0))))
"""
"""The demo as it is, in which faults come by keys alone: it may wait for its test."""

BROKEN = """
import sys
for name in ("httpcore", "rich"):
    sys.modules[name] = None
from dataclasses import replace
from idkmesh import console
from idkmesh.demo.faults import Expectation, table
from idkmesh.demo.settings import Figures
from idkmesh.commands import demo
never = Expectation(what="pigs fly", bound=0.0, holds=lambda seen, before: False)
row = replace(table(Figures())[0], seconds=60.0, stays=(never,))
demo.table = lambda figures, routed: (row,)
sys.exit(console.run(lambda: demo.demo(demo.Request(0, 600.0))))
"""


def descendants(pid: int) -> dict[int, int]:
    """Return the numbers of all that a process has started, however deep, and when each began."""
    found: dict[int, int] = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text(encoding="ascii").split()):
                found |= {child: started_at(child)} | descendants(child)
    return found


class Demo:
    """A demo that runs. ``text`` is all that it has printed."""

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        self.process = process
        self.text = ""
        self._output = output
        self._unread = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            while not self._unread.is_set() and (self.process.poll() is None or self._has_output(0)):
                if not self._has_output(0.05):
                    continue
                if not (data := os.read(self._output, 65_536)):
                    break
                self.text += data.decode("utf-8", "replace")

    def _has_output(self, seconds: float) -> bool:
        return bool(select.select([self._output], [], [], seconds)[0])

    def stop_reading(self) -> None:
        self._unread.set()
        self._reader.join(PATIENCE)

    def wait_for(self, words: str, seconds: float = PATIENCE) -> None:
        until(lambda: words in self.text or self.process.poll() is not None, words, seconds)
        assert words in self.text, self.text

    def wait_for_shop(self) -> None:
        until(lambda: len(shop_processes(self.folder)) == 5, "the shop", LONG)

    def __repr__(self) -> str:
        return self.text

    @property
    def folder(self) -> Path:
        self.wait_for(": look at them")
        (name,) = re.findall(r"its files are in (.+): look at them", self.text)
        return Path(name)

    def ended(self, code: int = 0) -> str:
        """Wait for the end, and return what was printed."""
        assert self.process.wait(PATIENCE) == code, self.text
        self._reader.join(PATIENCE)
        return self.text


@contextlib.contextmanager
def nothing_left(demo: Demo, *, killed: bool = False) -> Iterator[None]:
    """Expect the end meanwhile, and no process of it after that, nor a folder where it was not ``killed``."""
    folder, known = demo.folder, descendants(demo.process.pid)
    watching = threading.Event()

    def watch() -> None:
        while not watching.wait(0.2):
            known.update(descendants(demo.process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
        demo.process.wait(PATIENCE)
    finally:
        watching.set()
        watcher.join()
    until(lambda: all(started_at(pid) != start for pid, start in known.items() if start), known, LONG)
    assert len(known) >= 2
    assert folder.exists() == killed


@contextlib.contextmanager
def plain(*command: str, **more: str) -> Iterator[Demo]:
    """Run one whose output is a pipe, and whose input says nothing."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(**more)
    )
    assert process.stdout is not None
    demo = Demo(process, process.stdout.fileno())
    try:
        yield demo
    finally:
        process.terminate()
        process.wait(PATIENCE)
        demo._reader.join(PATIENCE)
        process.stdout.close()


class Terminal(Demo):
    """A demo with a terminal of its own, whose other end is here."""

    def __init__(self, command: tuple[str, ...], **more: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 90, 0, 0))
        self.slave = slave
        self.modes: list[Any] = termios.tcgetattr(slave)
        process = subprocess.Popen(
            [sys.executable, "-c", LEADER, *command], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=environment(TERM="xterm-256color", **more),
        )  # fmt: skip
        super().__init__(process, self.master)

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)


LEADER = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal its own, as a login does, and becomes the program."""


@contextlib.contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    with closing(Terminal(command)) as demo:
        yield demo


@contextlib.contextmanager
def closing(demo: Terminal) -> Iterator[Terminal]:
    """End it, if that is not done, and its terminal."""
    try:
        yield demo
    finally:
        demo.process.terminate()
        demo.process.wait(PATIENCE)
        demo._reader.join(PATIENCE)
        for descriptor in (demo.master, demo.slave):
            with contextlib.suppress(OSError):  # the test has closed it
                os.close(descriptor)


def get(origin: str, path: str, token: str = "") -> tuple[int, bytes]:
    fields = {"Authorization": f"Bearer {token}"} if token else {}
    client = http.client.HTTPConnection(origin.removeprefix("http://"), timeout=PATIENCE)
    with contextlib.closing(client):
        client.request("GET", path, headers=fields)
        answer = client.getresponse()
        return answer.status, answer.read()


def play_all_faults() -> str:
    """Run each fault once, and return what was printed."""
    with plain(sys.executable, "-c", SHORT) as demo, nothing_left(demo):
        folder = demo.folder
        demo.wait_for("all parts are well", LONG)
        assert sorted(shop_processes(folder).values()) == ["cache-1", "store-1", "web-1", "web-2", "worker-1"]
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {(folder / name).stat().st_mode & 0o777 for name in (files.TOWER_TOKEN, files.ROUTER_TOKEN)} == {0o600}
        assert idkmesh("modules", "check", str(folder / files.MODULES))[0] == 0
        assert idkmesh("router", "--check", "--config", str(folder / files.ROUTER))[0] == 0
        token = (folder / files.TOWER_TOKEN).read_text().strip()
        (origin,) = re.findall(r"open (http://\S+)/ with the token in ", demo.text)
        assert get(origin, "/")[0] == 200
        for fault in ("stop the store", "flood the server", "fill the ingress", "pause a node"):
            demo.wait_for(f"{fault}: over", LONG)
        document = json.loads(get(origin, "/api/v1/events?type=idkmesh.agent.invoked", token)[1])
        assert document["items"]
        demo.wait_for("wedge a replica: over", LONG)
        demo.process.send_signal(signal.SIGTERM)
        text = demo.ended()
    assert token not in text
    return text


@pytest.fixture(scope="module", autouse=True)
def played(request: pytest.FixtureRequest) -> Iterator[Future[str] | None]:
    """Begin that with the first test of this file, where its own is chosen: it waits for bounds, and does little."""
    if not any(each.name == "test_all_faults" for each in request.session.items):
        yield None
        return
    with ThreadPoolExecutor(1) as beside:
        yield beside.submit(play_all_faults)


WAYS = {
    "q": "slow the cache", "Ctrl-D": "stop the store", "Ctrl-C": "flood the server", "Ctrl-\\": "fill the ingress",
    "SIGTERM": "pause a node", "SIGHUP": "wedge a replica", "closed": "pause a node", "SIGKILL": "pause a node",
}  # fmt: skip
"""Each way to end it, and the fault in the middle of which it comes."""

KEYS = {"q": b"q", "Ctrl-D": b"\x04", "Ctrl-C": b"\x03", "Ctrl-\\": b"\x1c"}
FAULT_KEYS = {fault.name: fault.key.encode() for fault in table(Figures())}


class Ahead:
    """Demos on terminals, of which the next one starts while the one before is tested."""

    def __init__(self, count: int, places: pytest.TempPathFactory) -> None:
        self._left = count
        self._places = places
        self._begun: list[Terminal] = []
        self._begin()

    def _begin(self) -> None:
        if self._left:
            self._left -= 1
            self._begun.append(self._another())

    def _another(self) -> Terminal:
        """Start one whose folder no other demo of this machine finds, which would remove what a killed one leaves."""
        return Terminal((sys.executable, "-c", CALM), TMPDIR=str(self._places.mktemp("demo")))

    @contextlib.contextmanager
    def next(self) -> Iterator[Terminal]:
        """Give the one that was begun, and begin another."""
        demo = self._begun.pop() if self._begun else self._another()
        self._begin()
        with closing(demo):
            yield demo

    def close(self) -> None:
        for demo in self._begun:
            with closing(demo):
                pass


@pytest.fixture(scope="module")
def ahead(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ahead]:
    wanted = sum("ahead" in getattr(each, "fixturenames", ()) for each in request.session.items)
    demos = Ahead(wanted, tmp_path_factory)
    try:
        yield demos
    finally:
        demos.close()


@pytest.mark.parametrize("how", WAYS)
def test_every_end(how: str, ahead: Ahead) -> None:
    """DM-1.5, DM-3.4, DM-4.1, DM-4.2, DM-5.1, DM-5.2: whatever ends it, in the middle of a fault, nothing is left.

    The terminal has its modes and its cursor. After SIGKILL it has not, and the folder stays until another demo begins.
    """
    with ahead.next() as demo:
        demo.wait_for("all parts are well", LONG)
        demo.press(FAULT_KEYS[WAYS[how]])
        demo.wait_for(f"{WAYS[how]}: ")
        assert "#token=" in demo.text
        assert termios.tcgetattr(demo.slave) != demo.modes
        if how == "q":
            suspend(demo)
        with nothing_left(demo, killed=how == "SIGKILL"):
            if how in KEYS:
                demo.press(KEYS[how])
            elif how == "closed":
                os.close(demo.slave)
                os.close(demo.master)
            else:
                demo.process.send_signal(getattr(signal, how))
            until(lambda: demo.process.poll() is not None, demo, LONG)  # 20 s are its own (DM-5.1)
            code = demo.process.returncode
        if how == "SIGKILL":
            assert_the_next_one_removes(demo.folder)
        elif how != "closed":
            assert code == 0, demo.text
            assert termios.tcgetattr(demo.slave) == demo.modes
            demo.ended()
            assert has_cursor(demo)


def has_cursor(demo: Demo) -> bool:
    return demo.text.rindex("\x1b[?25h") > demo.text.rindex("\x1b[?25l")


def suspend(demo: Terminal) -> None:
    """DM-4.1: Ctrl-Z gives modes and cursor to the shell; the keys are read again once it goes on."""
    modes = termios.tcgetattr(demo.slave)
    demo.press(b"\x1a")
    until(lambda: state(demo.process.pid) == "T", "Ctrl-Z")
    assert termios.tcgetattr(demo.slave) == demo.modes
    until(lambda: has_cursor(demo), "the cursor")
    demo.process.send_signal(signal.SIGCONT)
    until(lambda: termios.tcgetattr(demo.slave) == modes, "the keys again")


def assert_the_next_one_removes(folder: Path) -> None:
    """DM-1.5, DM-4.2, DM-5.2, DM-5.3: the usual port is another's, which it says, and takes a free one.

    It ends by itself, with 0: nothing could be over in time, so nothing was missed.
    """
    until(lambda: not processes_of(folder), "the commands that the tower had begun", LONG)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # then somebody else has it
            stack.enter_context(socket.create_server(("127.0.0.1", PAGE_PORT)))
        demo = stack.enter_context(plain(*COMMAND, "demo", "--for=1", TMPDIR=str(folder.parent)))
        with nothing_left(demo):
            text = demo.ended()
    assert f"removed {folder}, which a demo has left that was killed\n" in text
    assert not folder.exists()
    (page,) = re.findall(r"^open http://127\.0\.0\.1:(\d+)/", text, re.MULTILINE)
    assert f"port {PAGE_PORT} is in use, by another demo perhaps: this page is at {page}\n" in text
    assert re.search(r"note    ending: 0 seen in time, 0 late, 0 not as announced\nended\n$", text)


def test_keys_and_what_is_there_without_the_extra() -> None:
    """DM-1.3, DM-2.1, DM-2.3, DM-3.4, DM-4.1, DM-5.3: a fault by its key, ended by `u`, the schedule by `s`, Ctrl-Z.

    There is no router, which a line says, and no panel; what does not hold is exit code 1 with `--for`.
    """
    with closing(Terminal((sys.executable, "-c", BROKEN), BROWSER="true")) as demo, nothing_left(demo):
        demo.wait_for("without the package httpcore there is no router: pip install 'idkmesh[demo]'")
        until(lambda: termios.tcgetattr(demo.slave) != demo.modes, "the keys", LONG)
        assert not (demo.folder / files.ROUTER).exists()
        demo.press(b"1")
        demo.wait_for("not yet: the parts are starting")
        demo.press(b"o")
        demo.wait_for("the link was handed to a browser", LONG)
        demo.wait_for("all parts are well", LONG)
        demo.press(b"sx\x1b[A1")
        demo.wait_for("the schedule is off")
        demo.wait_for("slow the cache: echo 1500 > cache.delay")
        until((demo.folder / "cache.delay").exists, "what was announced")
        assert (demo.folder / "cache.delay").read_text() == "1500\n"
        demo.wait_for("the cache is failing: seen", LONG)
        demo.press(b"1u")
        demo.wait_for("one at a time: slow the cache is on; u ends it")
        demo.wait_for("slow the cache: over", LONG)
        assert not (demo.folder / "cache.delay").exists()
        modes = termios.tcgetattr(demo.slave)
        demo.press(b"1\x1a")
        until(lambda: state(demo.process.pid) == "T", "Ctrl-Z")
        assert termios.tcgetattr(demo.slave) == demo.modes
        demo.process.send_signal(signal.SIGCONT)
        until(lambda: termios.tcgetattr(demo.slave) == modes, "the keys again")
        demo.press(b"q")
        assert "missed  pigs fly: it does not, after " in demo.ended(1)


def state(pid: int) -> str:
    """Return what a process does, proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def test_an_output_that_nobody_reads() -> None:
    """DM-5.1: it ends as a program behind a closed pipe does, and nothing of it is left."""
    with plain(*COMMAND, "demo", "--port=0") as demo, nothing_left(demo):
        assert demo.process.stdout is not None
        demo.stop_reading()
        demo.process.stdout.close()
        demo.ended(EXIT_PIPE_CLOSED)


def test_a_part_that_ends() -> None:
    """DM-5.1, DM-5.3: the tower is killed: one line, exit code 1, and the rest ends too."""
    with plain(*COMMAND, "demo", "--port=0") as demo, nothing_left(demo):
        until(lambda: towers(demo), "the tower", LONG)
        (tower,) = towers(demo)
        os.kill(tower, signal.SIGKILL)
        assert re.search(r"^idkmesh: the control tower has ended by itself(: .+)?$", demo.ended(1), re.MULTILINE)


def test_a_second_signal(ahead: Ahead) -> None:
    """DM-5.1: what hangs has 10 s to end, and none once somebody has asked twice."""
    with ahead.next() as demo, nothing_left(demo):
        demo.wait_for_shop()
        (hanging,) = (pid for pid, name in shop_processes(demo.folder).items() if name == "web-2")
        os.kill(hanging, signal.SIGSTOP)
        began = time.monotonic()
        demo.process.terminate()
        demo.wait_for("ending: ")
        demo.process.terminate()
        demo.ended()
        assert time.monotonic() - began < GRACE_SECONDS


@pytest.mark.parametrize("flag", ["--for=0", "--for=1.5", "--for=-1", "--port=x"])
def test_wrong_usage(flag: str) -> None:
    """DM-5.3: one line and exit code 2."""
    code, out, errors = idkmesh("demo", flag)
    assert (code, out, errors.count("\n")) == (2, "", 1)


def test_a_port_that_is_taken() -> None:
    """DM-1.5: one line and exit code 1, and nothing is started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = [idkmesh("demo", f"--port={port}"), idkmesh("demo", IDKMESH_PORT=str(port))]
    for code, out, errors in done:
        assert (code, out) == (1, "")
        assert re.fullmatch(rf"idkmesh: cannot listen on 127\.0\.0\.1:{port}: the port is in use; .*\n", errors)


def test_a_variable_that_is_no_port() -> None:
    """DM-1.5, CT-9.11: it is named, with exit code 2."""
    code, out, errors = idkmesh("demo", IDKMESH_PORT="x")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"idkmesh: IDKMESH_PORT.*\n", errors)


@pytest.mark.slow
def test_all_faults(played: Future[str]) -> None:
    """DM-1.1, DM-1.2, DM-1.4, DM-1.6, DM-2.1, DM-2.5, DM-3.2 to DM-3.5, DM-5.2: each as announced, on real parts."""
    text = played.result()
    lines = re.findall(r"^ *[\d.]+ s  (\w+) +(.*)$", text, re.MULTILINE)
    assert [words for tone, words in lines if tone == "missed"] == []
    assert sum(tone in {"seen", "late"} for tone, _ in lines) >= 14
    assert "\x1b" not in text


def towers(demo: Demo) -> list[int]:
    """Return the number of the control tower, once its program runs."""
    found = []
    for pid in descendants(demo.process.pid):
        with contextlib.suppress(OSError):
            if b"control-tower" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found
