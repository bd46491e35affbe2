"""What the tests of the probes share: runs that are timed, and dependencies that behave badly."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from idkmesh.clock import SystemClock
from idkmesh.health.model import Outcome
from idkmesh.health.probes import DeadlineProbe, probe_for
from scripts.bench.benchlib.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.health.model import ProbeSpec, Result

CLOCK = SystemClock()
SLACK = 5.0
"""How much later than its deadline a run may end on a busy machine, in seconds. What has no deadline has no end."""

OK, FAILED, COULD_NOT_RUN = Outcome.OK, Outcome.FAILED, Outcome.COULD_NOT_RUN
Said = tuple[Outcome, str]


def result_of(probe: ProbeSpec | DeadlineProbe, timeout: float = 20.0) -> Result:
    """Run a probe once and check what holds for every result (HL-4.1, HL-4.12)."""
    if not isinstance(probe, DeadlineProbe):
        probe = probe_for(probe)
    began = time.monotonic()
    result = probe.run(timeout, CLOCK)
    took = time.monotonic() - began
    assert took < timeout + SLACK
    assert began <= result.began <= began + SLACK
    assert 0 <= result.latency <= took
    assert 0 < len(result.detail) <= 200
    assert result.detail.isprintable()
    return result


def hangs(probe: DeadlineProbe) -> bool:
    """Run a probe, and say whether a call of it is still out at the end."""
    return probe.run(0.1, SystemClock()).hanging


def said(probe: ProbeSpec | DeadlineProbe, timeout: float = 20.0) -> Said:
    result = result_of(probe, timeout)
    return result.outcome, result.detail


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def settled(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait for what others do, with an end."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def processes(word: str) -> list[int]:
    """Return the processes that have ``word`` in ``PROBE_TEST``, a variable that is inherited, and have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"PROBE_TEST={word}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


@contextlib.contextmanager
def listening(place: tuple[str, int] | str = ("127.0.0.1", 0), backlog: int = 16) -> Iterator[socket.socket]:
    """Give a socket that listens, and accepts nothing of its own."""
    with socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET) as listener:
        listener.bind(place)
        listener.listen(backlog)
        yield listener


@contextlib.contextmanager
def serving(serve: Callable[[socket.socket], None], listener: socket.socket | None = None) -> Iterator[tuple[str, int]]:
    """Give the address of a server that calls ``serve`` with each connection, and closes it afterwards."""
    with contextlib.ExitStack() as stack:
        listener = listener or stack.enter_context(listening())
        ending = threading.Event()

        def accept() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    if ending.is_set():
                        return
                    connection.settimeout(30)
                    with contextlib.suppress(OSError):
                        serve(connection)

        thread = threading.Thread(target=accept, name="test-server")
        thread.start()
        name = listener.getsockname()
        try:
            yield name
        finally:
            ending.set()
            with socket.socket(listener.family) as waker:
                waker.connect(name)
                thread.join(30)


def head_of(connection: socket.socket) -> bytes:
    """Read a request up to the end of its head."""
    head = b""
    while b"\r\n\r\n" not in head and (piece := connection.recv(65536)):
        head += piece
    return head


def closed_port() -> int:
    """Return a port that refuses. The system gives it to none of the tests beside this one."""
    return free_port()
