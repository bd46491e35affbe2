"""Names to addresses with the system's resolver, which cannot be interrupted."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.descriptors import want_descriptors
from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    from idkmesh.health.probes.probe import Deadline
    from idkmesh.health.probes.words import ProbeError

MAX_ADDRESSES: Final = 16
"""Addresses of a name that are tried. A name of more is a pool, and one that is well is found among so many."""

MAX_PORT: Final = 65_535
NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
NO_SUCH_NAME: Final = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


class Address(NamedTuple):
    """Where to connect to: a family of sockets, and an address as it takes them."""

    family: int
    place: tuple[str | int, ...] | tuple[int, bytes]


class Resolver:
    """The lookups of one probe."""

    def __init__(self) -> None:
        self.calls = Abandonable("probe-resolver")

    def addresses(self, host: str, port: int | None, deadline: Deadline) -> list[Address]:
        """Return the addresses of a name, each once, or raise what the run says. An address is its own, at once."""
        # The system's resolver would take a port modulo 65,536, and a name up to its NUL.
        if (port is not None and not 0 < port <= MAX_PORT) or "\0" in host:
            raise could_not_run("no valid name or port")
        try:
            try:
                return _look_up(host, port, NUMERIC)
            except socket.gaierror:
                want_descriptors()
                return self.calls.call(lambda: _look_up(host, port, 0), deadline)
        except socket.gaierror as error:
            raise _word_of(error) from None
        except UnicodeError:  # of the idna codec
            raise could_not_run("no valid name or port") from None


def _look_up(host: str, port: int | None, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(Address(family, place) for family, _, _, _, place in found))[:MAX_ADDRESSES]


def _word_of(error: socket.gaierror) -> ProbeError:
    if error.errno in NO_SUCH_NAME:
        return failed("no such name")
    if error.errno == socket.EAI_AGAIN:
        return failed("no answer from the name servers")
    if error.errno == socket.EAI_MEMORY:
        return could_not_run("the machine is full")
    return failed("the resolver failed")
