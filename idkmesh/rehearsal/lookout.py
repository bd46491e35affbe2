"""Looks whether a dependency takes connections, and at which of its addresses (HL-8.1). For the proxies' loop alone."""

from __future__ import annotations

import errno
import selectors
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.rehearsal.link import Loop
    from idkmesh.rehearsal.reroute import Upstream

WATCH_SECONDS: Final = 0.25
"""How often a dependency is looked at by connecting to it."""

FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The machine has no place for one more socket."""

UNDERWAY: Final = frozenset({0, errno.EINPROGRESS})


@dataclass(frozen=True, slots=True)
class Address:
    """One address of a dependency. A name may have several: ``localhost`` is often ``::1`` and ``127.0.0.1``."""

    family: int
    place: Any

    def connecting(self) -> socket.socket | None:
        """Return a socket that connects without waiting, None where that has failed already.

        Raises :class:`OSError` where the machine is full, which says nothing of the address.
        """
        try:
            made = socket.socket(self.family)
        except OSError as error:
            if error.errno in FULL:
                raise
            return None  # the machine does not know the family
        made.settimeout(0)
        if made.connect_ex(self.place) in UNDERWAY:
            return made
        made.close()
        return None


def addresses(upstream: Upstream) -> tuple[Address, ...]:
    """Return every address of a dependency, in the order that a client tries. Raises :class:`OSError` with its name."""
    try:
        found = socket.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(error.errno, f"{upstream.name}: {upstream.host}: {error.strerror}") from error
    return tuple(Address(each[0], each[4]) for each in found)


class Lookout:
    """Looks again and again, and says what it has seen: ``seen(True)`` where an address takes connections.

    ``address`` is the last that did, at first the first of all.
    """

    def __init__(self, loop: Loop, known: tuple[Address, ...], seen: Callable[[bool], None]) -> None:
        self.address = known[0]
        self._loop = loop
        self._known = known
        self._seen = seen
        self._untried: list[Address] = []
        self._trying = known[0]
        self._probe: socket.socket | None = None
        self._closed = False

    def look(self) -> None:
        """Begin to look, and come back."""
        if self._closed:
            return
        self._loop.after(WATCH_SECONDS, self.look)
        if self._probe is not None:
            # It has said nothing: what comes through the proxy hangs as it would without.
            self._looked(0)
        self._untried = list(self._known)
        self._try()

    def close(self) -> None:
        """Look no more."""
        self._closed = True
        if self._probe is not None:
            self._probe.close()

    def _try(self) -> None:
        """Connect to the next address, as a client would; where there is none left the dependency takes nobody."""
        while self._untried:
            self._trying = self._untried.pop(0)
            try:
                self._probe = self._trying.connecting()
            except OSError:  # nothing has been seen
                return
            if self._probe is not None:
                self._loop.watch(self._probe, selectors.EVENT_WRITE, self._looked)
                return
        self._seen(False)  # noqa: FBT003  the callback's only argument

    def _looked(self, _events: int) -> None:
        if (probe := self._probe) is None:
            return
        self._probe = None
        self._loop.watch(probe, 0, self._looked)
        refused = probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        probe.close()
        if refused:
            self._try()
            return
        self.address = self._trying
        self._seen(True)  # noqa: FBT003  as above
