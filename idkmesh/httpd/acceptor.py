"""The listener: when it is watched, and how connections come out of it.

Laws
    * It accepts until nobody waits, before the front does anything else: the backlog is short (HS-5.8).
    * A full machine (EMFILE and its kin) is told once and tried again after a pause (HS-4.8). A listener with a reserve
      accepts one a turn meanwhile (HS-4.9). What went wrong with one newcomer alone passes it over. Any other error of
      accept is a fault and propagates.
"""

from __future__ import annotations

import errno
import selectors
import socket
from logging import WARNING
from typing import TYPE_CHECKING, Any, Final, Protocol

from idkmesh.httpd import tls
from idkmesh.httpd.connection import Connection, State
from idkmesh.httpd.crossing import QUIET_SECONDS
from idkmesh.httpd.reserve import Reserve

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.core import Core

ACCEPTS_PER_TURN: Final = 1024
"""Bounds a turn in which newcomers arrive as fast as they are accepted."""
MACHINE_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
NEWCOMERS_OWN: Final = frozenset(
    number
    for name in (
        "ECONNABORTED",
        "EPROTO",
        "EPERM",
        "ENETDOWN",
        "ENETUNREACH",
        "EHOSTDOWN",
        "EHOSTUNREACH",
        "ENONET",
        "ENOPROTOOPT",
    )
    if (number := getattr(errno, name, None)) is not None
)
"""Faults of the connection that was to be accepted, passed on by accept(2) on Linux; EPERM is a firewall's no."""
PAUSE_SECONDS: Final = 0.1


class Room(Protocol):
    """What the front does for newcomers."""

    def make_room(self, now: float) -> bool:
        """Say whether one more connection may come; evict for it where it may."""

    def take_in(self, fresh: list[Connection]) -> None:
        """Read what newcomers have sent, and hold them."""

    def shed(self, now: float) -> None:
        """End some connections that nobody misses: the machine has no descriptor left."""


class Acceptor:
    """Accepts connections on one listening socket, for the front that watches it with `selector`."""

    def __init__(
        self,
        core: Core,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        room: Room,
    ) -> None:
        """Do not listen yet; `room` is what the front does for newcomers."""
        self.listener = listener
        self._core = core
        self._selector = selector
        self._room = room
        self._accept: Callable[[], tuple[int, Any]] = listener._accept  # type: ignore[attr-defined]  # noqa: SLF001  accept() would make a second socket object, or do a TLS handshake
        self._family, self._type, self._proto = listener.family, listener.type, listener.proto
        self._reserve = Reserve(core.reserve)
        self._serial = core.limits.serial
        self._most = ACCEPTS_PER_TURN
        self._wanted = False
        self._watched = False
        self._resume_at = 0.0
        self._full = False

    @property
    def paused(self) -> bool:
        """Whether the machine is full and the next try is still to come."""
        return self._resume_at > 0.0

    def start(self, most: int = ACCEPTS_PER_TURN) -> None:
        """Watch the listener; accept at most `most` connections a turn."""
        self._most = 1 if self._serial else most
        self._wanted = True
        self._reserve.fill()
        self._watch(on=True)

    def stop(self) -> None:
        """Leave who waits in the accept queue there."""
        self._wanted = False
        self._resume_at = 0.0
        self._watch(on=False)

    def close(self) -> None:
        """Give up the reserve: there is no newcomer any more."""
        self._reserve.close()

    def settle(self, now: float) -> None:
        """At the end of a turn: go on after a pause; in the serial profile accept only while nobody is served."""
        if self._resume_at and now >= self._resume_at:
            self._resume_at = 0.0
            self._watch(on=self._wanted)
        self._reserve.fill()
        if self._serial and self._wanted and not self._resume_at:
            self._watch(on=self._core.connections == 0)

    def accept(self, now: float) -> list[Connection]:
        """Accept whoever waits (one in the serial profile); those returned are for the front to take in."""
        fresh: list[Connection] = []
        accepted = 0
        while accepted < self._most:
            try:
                descriptor, address = self._accept()
            except BlockingIOError:
                self._full = False
                break
            except OSError as error:
                if error.errno in NEWCOMERS_OWN:
                    continue
                if error.errno not in MACHINE_FULL:
                    raise
                lent = self._accept_anyway(error, now)
                if lent is None:
                    break
                descriptor, address = lent
                accepted = self._most  # the next one may be nobody, and would cost the reserve another descriptor
            accepted += 1
            room = self._room.make_room(now)
            if not room and fresh:  # who came in this turn has no better right to stay than others that are silent
                self._room.take_in(fresh)
                fresh = []
                room = self._room.make_room(now)
            if not room:
                self._turn_away(descriptor)
                self._core.evict(now)
                continue
            connection = self._welcome(descriptor, address, now)
            if connection is not None:
                fresh.append(connection)
        return fresh

    def _welcome(self, descriptor: int, address: Any, now: float) -> Connection | None:
        if descriptor in self._reserve.lent:
            sock = self._reserve.socket(self._family, self._type, self._proto, descriptor)
        else:
            sock = socket.socket(self._family, self._type, self._proto, fileno=descriptor)
        sock.settimeout(0)
        if not address:  # AF_UNIX: the peer has none, and handlers take its first item for their log
            address = ("", 0)
        core = self._core
        core.accepted += 1
        if core.verify is None or core.verified(sock, address):
            core.connections += 1
            core.connections_peak.note(core.connections, now)
            if core.tls is None:
                return Connection(sock, address, now, State.READING_HEAD)
            try:
                return Connection(tls.wrap(core.tls, sock), address, now, State.HANDSHAKE)
            except (OSError, ValueError):  # it has left already
                core.connections -= 1
        sock.close()
        return None

    def _turn_away(self, descriptor: int) -> None:
        if descriptor in self._reserve.lent:
            self._reserve.take_back(descriptor)
        else:
            socket.close(descriptor)

    def _accept_anyway(self, error: OSError, now: float) -> tuple[int, Any] | None:
        """Accept by the reserve. None where nobody waits, or where it has nothing left, which is a pause."""
        try:
            lent = self._reserve.accept(self._accept)
        except BlockingIOError:
            return None
        except OSError as other:
            if other.errno in NEWCOMERS_OWN:
                return None
            if other.errno not in MACHINE_FULL:
                raise
            lent = None
        if lent is None:
            self._pause(error, now)
        else:
            self._core.full_until = now + QUIET_SECONDS
        return lent

    def _pause(self, error: OSError, now: float) -> None:
        if not self._full:
            self._full = True
            self._core.log.write(
                f"cannot accept a connection: {error.strerror}; trying again every {PAUSE_SECONDS} s", WARNING
            )
        self._room.shed(now)
        self._core.full_until = now + QUIET_SECONDS
        self._watch(on=False)
        self._resume_at = now + PAUSE_SECONDS

    def _watch(self, *, on: bool) -> None:
        if on and not self._watched:
            self._selector.register(self.listener, selectors.EVENT_READ, self.listener)
        elif self._watched and not on:
            self._selector.unregister(self.listener)
        self._watched = on
