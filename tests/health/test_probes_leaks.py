"""Two hundred runs of all kinds and ends leave nothing."""

from __future__ import annotations

import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from idkmesh.health.model import Command, Disk, Dns, File, Http, Python, Tcp
from idkmesh.health.probes import probe_for
from tests.health.probe_support import (
    FAILED,
    OK,
    closed_port,
    descriptors,
    head_of,
    listening,
    processes,
    result_of,
    serving,
    settled,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from idkmesh.health.model import ProbeSpec

RUNS = 200


def answer(connection: socket.socket) -> None:
    head_of(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("threads", [1, 4])
def test_two_hundred_runs(threads: int, monkeypatch: pytest.MonkeyPatch, children: Callable[..., list[int]]) -> None:
    """HL-4.1, HL-4.8, EXEC-04: no zombie, no process, no descriptor and no thread is left, also where runs overlap."""
    word = uuid.uuid4().hex
    monkeypatch.setenv("PROBE_TEST", word)
    with listening() as silent, serving(answer) as (host, port):
        specs: tuple[ProbeSpec, ...] = (
            Command(argv=("true",)),
            Command(argv=("no-such-program",)),
            Command(argv=("sh", "-c", "kill -9 $$")),
            Command(argv=("sh", "-c", "(sleep 3600 & sleep 3600 &) ; exit 1")),
            Command(argv=("sh", "-c", "trap '' TERM; sleep 3600 & sleep 3600")),
            Tcp(host=host, port=port),
            Tcp(host="localhost", port=closed_port()),
            Http(url=f"http://{host}:{port}"),
            Http(url=f"http://127.0.0.1:{silent.getsockname()[1]}"),
            Http(url=f"http://localhost:{closed_port()}"),
            Dns(name="localhost"),
            File(path=sys.executable),
            Disk(path="/", min_free_bytes=1),
            Python(target="os:getcwd"),
        )
        before, threads_before = descriptors(), threading.active_count()

        def run(spec: ProbeSpec) -> None:
            probe = probe_for(spec)
            for _ in range(max(1, RUNS // len(specs) // 2)):
                assert result_of(probe, 0.25).detail

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, specs * 2))
        # A busy machine reaps a child after its deadline.
        assert settled(lambda: children() == [] and processes(word) == [])
        assert settled(lambda: descriptors() == before and threading.active_count() == threads_before)


def test_a_probe_recovers() -> None:
    """HL-4.2: a run knows nothing of those before it: what was refused is well once somebody listens."""
    port = closed_port()
    probe = probe_for(Tcp(host="127.0.0.1", port=port))
    assert result_of(probe).outcome is FAILED
    with listening(("127.0.0.1", port)):
        assert result_of(probe).outcome is OK
    assert result_of(probe).outcome is FAILED
