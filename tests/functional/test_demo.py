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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.console import EXIT_PIPE_CLOSED
from idkmesh.demo import files
from idkmesh.demo.children import shop_processes
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
from idkmesh.commands.demo import Request, demo
_, store, flood, ingress, pause, wedge = table(Figures())
# What the machine may break by being busy, a probe's 500 ms, is not asked; nor what takes a minute, nor twice
# for the 5 s of pressure.
rows = [
    replace(fault, seconds=1.0, stays=tuple(each for each in fault.stays if "ready" not in each.what))
    for fault in (store, *(replace(each, after=pause.after[1:]) for each in (flood, ingress)), pause)
]
rows.append(replace(wedge, seconds=1.0, then=wedge.then[:1], stays=(), after=wedge.after[:1]))
sys.exit(console.run(lambda: demo(Request(0, 600.0), rows, 0.2)))
"""

BROKEN = """
import sys
for name in ("httpcore", "rich"):
    sys.modules[name] = None
from dataclasses import replace
from idkmesh import console
from idkmesh.demo.faults import Expectation, table
from idkmesh.demo.settings import Figures
from idkmesh.commands.demo import Request, demo
never = Expectation(what="pigs fly", bound=0.0, holds=lambda seen, before: False)
row = replace(table(Figures())[0], seconds=60.0, stays=(never,))
sys.exit(console.run(lambda: demo(Request(0, 600.0), [row])))
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
def nothing_left(demo: Demo) -> Iterator[None]:
    """Expect the end meanwhile, and no process and no folder of it after that."""
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
    until(lambda: all(started_at(pid) != start for pid, start in known.items() if start), known)
    assert not folder.exists()


@contextlib.contextmanager
def plain(*command: str) -> Iterator[Demo]:
    """Run one whose output is a pipe, and whose input says nothing."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment()
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

    def __init__(self, command: tuple[str, ...]) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 90, 0, 0))
        self.slave = slave
        self.modes: list[Any] = termios.tcgetattr(slave)
        process = subprocess.Popen(
            [sys.executable, "-c", LEADER, *command], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=environment(TERM="xterm-256color"),
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
    demo = Terminal(command)
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


@pytest.mark.slow
def test_all_faults() -> None:
    """DM-1.1, DM-1.2, DM-1.4, DM-1.6, DM-2.1, DM-2.5, DM-3.2 to DM-3.5, DM-5.2: each as announced, on real parts."""
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
    lines = re.findall(r"^ *[\d.]+ s  (\w+) +(.*)$", text, re.MULTILINE)
    assert [words for tone, words in lines if tone == "missed"] == []
    assert sum(tone in {"seen", "late"} for tone, _ in lines) >= 14
    assert "\x1b" not in text
    assert token not in text


@pytest.mark.parametrize("how", ["q", "Ctrl-D", "Ctrl-C", "Ctrl-\\", "SIGTERM", "SIGHUP", "closed"])
def test_every_end(how: str) -> None:
    """DM-4.1, DM-5.1, DM-5.2: whatever ends it, nothing is left, and the terminal is as it was."""
    keys = {"q": b"q", "Ctrl-D": b"\x04", "Ctrl-C": b"\x03", "Ctrl-\\": b"\x1c"}
    with terminal(*COMMAND, "demo", "--port=0") as demo:
        demo.wait_for("q quit", LONG)
        assert "#token=" in demo.text
        assert termios.tcgetattr(demo.slave) != demo.modes
        with nothing_left(demo):
            if how in keys:
                demo.press(keys[how])
            elif how == "closed":
                os.close(demo.slave)
                os.close(demo.master)
            else:
                demo.process.send_signal(getattr(signal, how))
            code = demo.process.wait(PATIENCE)
        if how != "closed":
            assert code == 0, demo.text
            assert termios.tcgetattr(demo.slave) == demo.modes


def test_keys_and_what_is_there_without_the_extra() -> None:
    """DM-1.3, DM-2.1, DM-2.3, DM-3.4, DM-4.1, DM-5.3: a fault by its key, ended by `u`, the schedule by `s`, Ctrl-Z.

    There is no router, which a line says, and no panel; what does not hold is exit code 1 with `--for`.
    """
    with terminal(sys.executable, "-c", BROKEN) as demo, nothing_left(demo):
        demo.wait_for("without the package httpcore there is no router: pip install 'idkmesh[demo]'")
        until(lambda: termios.tcgetattr(demo.slave) != demo.modes, "the keys", LONG)
        assert not (demo.folder / files.ROUTER).exists()
        demo.press(b"1")
        demo.wait_for("not yet: the parts are starting")
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
        demo.press(b"\x1a")
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


def test_a_demo_that_is_killed() -> None:
    """DM-5.2: SIGKILL leaves its folder, and no process."""
    with plain(*COMMAND, "demo", "--port=0") as demo:
        demo.wait_for_shop()
        folder, before = demo.folder, descendants(demo.process.pid)
        assert len(before) >= 9
        demo.process.kill()
        until(lambda: all(started_at(pid) != start for pid, start in before.items()), before, LONG)
        assert folder.exists()
        subprocess.run(["rm", "-r", str(folder)], check=True)


def test_a_part_that_ends() -> None:
    """DM-5.1, DM-5.3: the tower is killed: one line, exit code 1, and the rest ends too."""
    with plain(*COMMAND, "demo", "--port=0") as demo, nothing_left(demo):
        until(lambda: towers(demo), "the tower", LONG)
        (tower,) = towers(demo)
        os.kill(tower, signal.SIGKILL)
        assert re.search(r"^idkmesh: the control tower has ended by itself(: .+)?$", demo.ended(1), re.MULTILINE)


def test_a_second_signal() -> None:
    """DM-5.1: what hangs has 10 s to end, and none once somebody has asked twice."""
    with plain(*COMMAND, "demo", "--port=0") as demo, nothing_left(demo):
        demo.wait_for_shop()
        (hanging,) = (pid for pid, name in shop_processes(demo.folder).items() if name == "web-2")
        os.kill(hanging, signal.SIGSTOP)
        began = time.monotonic()
        demo.process.terminate()
        demo.wait_for("ending: ")
        demo.process.terminate()
        demo.ended()
        assert time.monotonic() - began < GRACE_SECONDS


def test_it_ends_by_itself() -> None:
    """DM-4.2, DM-5.3: `--for` ends it, with 0 where nothing was missed: here nothing could be over in time."""
    with plain(*COMMAND, "demo", "--port=0", "--for=1") as demo, nothing_left(demo):
        text = demo.ended()
    assert re.search(r"note    ending: 0 seen in time, 0 late, 0 not as announced\nended\n$", text)


@pytest.mark.parametrize("flag", ["--for=0", "--for=1.5", "--for=-1", "--port=x"])
def test_wrong_usage(flag: str) -> None:
    """DM-5.3: one line and exit code 2."""
    code, out, errors = idkmesh("demo", flag)
    assert (code, out, errors.count("\n")) == (2, "", 1)


def test_a_port_that_is_taken() -> None:
    """DM-1.5: one line and exit code 1, and nothing is started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code, out, errors = idkmesh("demo", f"--port={listener.getsockname()[1]}")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"idkmesh: cannot listen on 127\.0\.0\.1:\d+: the port is in use; .*\n", errors)


def towers(demo: Demo) -> list[int]:
    """Return the number of the control tower, once its program runs."""
    found = []
    for pid in descendants(demo.process.pid):
        with contextlib.suppress(OSError):
            if b"control-tower" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found
