"""`tcp` and `dns` against real sockets and the real resolver."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from idkmesh.health.model import Dns, Tcp
from idkmesh.health.probes import connecting, probe_for
from idkmesh.health.probes.connecting import connect, connected_to_itself, telling
from idkmesh.health.probes.probe import Deadline
from idkmesh.health.probes.resolving import MAX_ADDRESSES, Address
from idkmesh.health.probes.words import ProbeError
from tests.health.probe_support import (
    CLOCK,
    COULD_NOT_RUN,
    FAILED,
    OK,
    closed_port,
    descriptors,
    hangs,
    listening,
    said,
    serving,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.health.model import Outcome


@pytest.fixture
def silent() -> Iterator[Address]:
    """Give an address that answers no attempt: the backlog is full, and the system drops what comes."""
    with listening(backlog=0) as listener, contextlib.ExitStack() as stack:
        place = listener.getsockname()
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(place)
        yield Address(socket.AF_INET, place)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_connects_and_closes() -> None:
    """HL-4.10: the server sees a connection that says nothing and ends."""
    seen: list[bytes] = []
    with serving(lambda connection: seen.append(connection.recv(1))) as (host, port):
        assert said(Tcp(host=host, port=port)) == (OK, "connected")
        assert settled(lambda: seen == [b""])


def test_by_name() -> None:
    """HL-4.10: the system's resolver says where a name is, and one of its addresses is enough."""
    with listening() as listener:
        assert said(Tcp(host="localhost", port=listener.getsockname()[1])) == (OK, "connected")


def test_a_server_that_accepts_nothing_and_one_that_resets() -> None:
    """HL-4.10: to connect is all that is asked for."""
    with listening() as listener:
        assert said(Tcp(host="127.0.0.1", port=listener.getsockname()[1])) == (OK, "connected")
    with serving(reset) as (host, port):
        assert said(Tcp(host=host, port=port))[0] is OK


def test_refused() -> None:
    """HL-4.12: `refused` is the word for a port at which nobody listens, by address and by name."""
    port = closed_port()
    assert said(Tcp(host="127.0.0.1", port=port)) == (FAILED, "refused")
    assert said(Tcp(host="localhost", port=port)) == (FAILED, "refused")


def test_timeout(silent: Address) -> None:
    """HL-4.1: an address that answers nothing ends with the deadline."""
    assert said(Tcp(host="127.0.0.1", port=int(silent.place[1])), 0.3) == (FAILED, "timeout")


@pytest.mark.parametrize("port", [-1, 65_536, 2**70])
def test_no_valid_port(port: int) -> None:
    """HL-4.2: a declaration that cannot be is no failure of the dependency."""
    outcome, _ = said(Tcp(host="127.0.0.1", port=port))
    assert outcome is COULD_NOT_RUN


def test_a_silent_address_hides_none_behind_it(silent: Address) -> None:
    """HL-4.10: the next address of a name is tried beside one that is silent, well before the deadline."""
    with listening() as listener:
        began = CLOCK.monotonic()
        good = Address(socket.AF_INET, listener.getsockname())
        connect([silent, silent, good], Deadline(CLOCK, began + 5)).close()
        assert 2 * connecting.ATTEMPT_SECONDS <= CLOCK.monotonic() - began < 4.5


def test_the_slower_address_may_win(silent: Address) -> None:
    """HL-4.10: attempts that are silent go on while others fail; only their end or the deadline ends the run."""
    refusing = Address(socket.AF_INET, ("127.0.0.1", closed_port()))
    before = descriptors()
    with pytest.raises(ProbeError, match=r"^timeout$"):
        connect([silent, refusing], Deadline(CLOCK, CLOCK.monotonic() + 0.5))
    assert descriptors() == before


def test_many_silent_addresses_share_the_time(silent: Address) -> None:
    """HL-4.1: sixteen addresses are all tried within one deadline, and nothing is left of them."""
    before, began = descriptors(), CLOCK.monotonic()
    with pytest.raises(ProbeError, match=r"^timeout$"):
        connect([silent] * MAX_ADDRESSES, Deadline(CLOCK, began + 0.4))
    assert CLOCK.monotonic() - began < 0.4 * MAX_ADDRESSES / 2
    assert descriptors() == before


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((errno.ENETUNREACH, errno.ECONNREFUSED), (FAILED, "refused")),
        ((errno.EADDRNOTAVAIL, errno.ENETUNREACH), (FAILED, "unreachable")),
        ((errno.EMFILE, errno.ECONNREFUSED), (FAILED, "refused")),
        ((errno.EMFILE,), (COULD_NOT_RUN, "the machine is full")),
    ],
)
def test_the_error_that_tells_most(numbers: tuple[int, ...], expected: tuple[Outcome, str]) -> None:
    """HL-4.12: that this machine has no IPv6 hides nothing that the dependency says over IPv4."""
    error = telling([OSError(number, "") for number in numbers])
    assert (error.outcome, error.detail) == expected


def test_a_socket_that_is_connected_to_itself() -> None:
    """HL-4.10: TCP can connect a port to itself where nobody listens. That is no dependency."""
    with socket.socket() as alone:
        alone.bind(("127.0.0.1", 0))
        alone.connect(alone.getsockname())
        assert connected_to_itself(alone)


def test_it_counts_as_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.10: nobody listens there."""
    monkeypatch.setattr(connecting, "connected_to_itself", lambda _: True)
    with listening() as listener:
        assert said(Tcp(host="127.0.0.1", port=listener.getsockname()[1])) == (FAILED, "refused")


def test_a_family_that_this_machine_lacks() -> None:
    """HL-4.12: an address that cannot be tried hides none that can, and alone it is unreachable."""
    lacking = Address(socket.AF_APPLETALK, ("127.0.0.1", 1))
    with listening() as listener:
        connect(
            [lacking, Address(socket.AF_INET, listener.getsockname())], Deadline(CLOCK, CLOCK.monotonic() + 5)
        ).close()
    with pytest.raises(ProbeError, match=r"^unreachable$"):
        connect([lacking], Deadline(CLOCK, CLOCK.monotonic() + 5))


def test_dns() -> None:
    """HL-4.10: a name that the system knows is well, an address is one too."""
    assert said(Dns(name="localhost")) == (OK, "resolved")
    assert said(Dns(name="::1")) == (OK, "resolved")


@pytest.mark.parametrize("spec", [Dns(name="no-such-host.invalid"), Tcp(host="no-such-host.invalid", port=80)])
def test_no_such_name(spec: Dns | Tcp) -> None:
    """HL-4.10, HL-4.12: a name that nobody has is a failure, or one of the name servers where there are none."""
    outcome, detail = said(spec, 10)
    assert outcome is FAILED
    assert detail in {"no such name", "no answer from the name servers"}


@pytest.mark.parametrize("name", ["a..b", "x" * 64, "a\0b"])
def test_no_valid_name(name: str) -> None:
    """HL-4.2: what cannot be a name is a fault of the matrix."""
    assert said(Dns(name=name)) == (COULD_NOT_RUN, "no valid name or port")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (socket.EAI_AGAIN, (FAILED, "no answer from the name servers")),
        (socket.EAI_FAIL, (FAILED, "the resolver failed")),
        (socket.EAI_MEMORY, (COULD_NOT_RUN, "the machine is full")),
    ],
)
def test_words_of_the_resolver(number: int, expected: tuple[Outcome, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.12: what the resolver says, in our words."""

    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(number, "secret")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert said(Dns(name="localhost")) == expected


def test_a_resolver_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.11: failed once, then not run, by one thread at most; well again once it has come back."""
    gate, before, real = threading.Event(), threading.active_count(), socket.getaddrinfo

    def hang(host: str, port: int | None, **options: int) -> object:
        if not options.get("flags"):
            gate.wait()
        return real(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    probe = probe_for(Dns(name="localhost"))
    try:
        assert said(probe, 0.1) == (FAILED, "timeout")
        for _ in range(5):
            assert said(probe, 0.1) == (COULD_NOT_RUN, "still waiting")
        assert (hangs(probe), threading.active_count()) == (True, before + 1)
    finally:
        gate.set()
    assert settled(lambda: threading.active_count() == before)
    assert said(probe) == (OK, "resolved")
    assert not hangs(probe)


def test_an_address_needs_no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.11: a resolver that hangs delays no probe of an address."""
    real = socket.getaddrinfo

    def numeric(host: str, port: int | None, **options: int) -> object:
        assert options["flags"], "asked for a name"
        return real(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", numeric)
    with listening() as listener:
        assert said(Tcp(host="127.0.0.1", port=listener.getsockname()[1])) == (OK, "connected")
