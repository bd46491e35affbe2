from __future__ import annotations

import contextlib
import errno
import socket
import sys
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.health.probes.words import failed, word_of
from idkmesh.workloads import port_check
from idkmesh.workloads.model import Instance, InstanceState, Word
from idkmesh.workloads.port_check import CONNECT_SECONDS, check_port, judged, reported_probe

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        yield server


def test_accepted_passes(listener: socket.socket) -> None:
    """AR-3.5: a port that accepts passes."""
    probe = check_port("127.0.0.1", listener.getsockname()[1], opened=False)
    assert (probe.word, probe.reason) == (Word.PASSES, "connected")
    assert probe.seconds >= 0


@pytest.mark.parametrize("opened", [True, False])
def test_refused_fails(listener: socket.socket, opened: bool) -> None:
    """AR-3.5: a refusal fails, whether the port was open before or not."""
    port = listener.getsockname()[1]
    listener.close()
    probe = check_port("127.0.0.1", port, opened=opened)
    assert (probe.word, probe.reason) == (Word.FAILS, "refused")


@pytest.mark.parametrize(
    "number",
    [
        *(errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL),
        *(errno.EAFNOSUPPORT, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN),
        *(errno.EACCES, errno.EPERM, errno.ECONNABORTED, errno.EINVAL, errno.EIO),
    ],
    ids=lambda number: errno.errorcode[number],
)
def test_other_errors_say_nothing(number: int) -> None:
    """AR-3.5: no route, no address and local errors say nothing, also where the port was open before."""
    assert judged(word_of(OSError(number, "")), opened=True).word is Word.NOTHING


def test_timeout_fails_only_where_it_was_open() -> None:
    """AR-3.5: silence fails where the port has been open in this life of the instance; else it says nothing."""
    assert judged(failed("timeout"), opened=True).word is Word.FAILS
    assert judged(failed("timeout"), opened=False).word is Word.NOTHING
    assert judged(word_of(OSError(errno.ETIMEDOUT, "")), opened=True).word is Word.FAILS


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux drops what finds a full backlog")
def test_the_deadline_is_total(listener: socket.socket) -> None:
    """AR-3.5: a connection has 2 s in all, shortened here; nobody accepts, so that the backlog is full."""
    place = listener.getsockname()
    with contextlib.ExitStack() as held:
        for _ in range(8):
            each = held.enter_context(socket.socket())
            each.setblocking(False)
            each.connect_ex(place)
        began = time.monotonic()
        probe = check_port(place[0], place[1], opened=True, timeout=0.25)
        assert probe.word is Word.FAILS
        assert time.monotonic() - began >= 0.25
    assert CONNECT_SECONDS == 2.0


@pytest.mark.parametrize("address", [None, "", "localhost", "web-1.lxd", "127.0.0.1\0", "256.1.1.1"])
def test_no_address_says_nothing(address: str | None) -> None:
    """AR-3.5: no address says nothing; no name is looked up for one."""
    assert check_port(address, 80, opened=True).word is Word.NOTHING


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_no_port_says_nothing(port: int) -> None:
    """AR-3.5: what is no port is our fault, and never the instance's."""
    assert check_port("127.0.0.1", port, opened=True).word is Word.NOTHING


def test_no_descriptor_is_no_failure(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    """AR-3.5: a machine that is out of descriptors says nothing of its instances."""

    def full(*_: object) -> None:
        raise OSError(errno.EMFILE, "")

    monkeypatch.setattr("idkmesh.health.probes.connecting.socket.socket", full)
    assert check_port("127.0.0.1", 80, opened=True).word is Word.NOTHING


def test_a_fault_of_ours_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-3.5: it raises nothing, whatever goes wrong."""

    def broken(*_: object) -> None:
        raise KeyError("a fault")

    monkeypatch.setattr(port_check, "connect", broken)
    probe = check_port("127.0.0.1", 80, opened=True)
    assert (probe.word, probe.reason) == (Word.NOTHING, "a fault of the port check: KeyError")


@pytest.mark.parametrize(("health", "word"), [(True, Word.PASSES), (False, Word.FAILS)])
def test_the_platforms_own_health(health: bool, word: Word) -> None:
    """AR-3.5: what the platform's load balancer reports of a backend is taken as it is."""
    instance = Instance(module="web", name="web-1", state=InstanceState.RUNNING, identity="a", port_health=health)
    probe = reported_probe(instance)
    assert probe is not None
    assert probe.word is word


def test_no_report_is_no_word() -> None:
    """AR-3.5: where the platform reports nothing, the connection decides."""
    assert reported_probe(Instance(module="w", name="w", state=InstanceState.RUNNING, identity="a")) is None
