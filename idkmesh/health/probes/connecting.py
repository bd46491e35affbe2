"""Connections under one deadline, however many addresses a name has."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from typing import TYPE_CHECKING, Final

from idkmesh.health.model import Outcome
from idkmesh.health.probes.words import could_not_run, failed, word_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.health.probes.probe import Deadline
    from idkmesh.health.probes.resolving import Address
    from idkmesh.health.probes.words import ProbeError

ATTEMPT_SECONDS: Final = 0.25
"""How long an address is waited for before the next is tried beside it (RFC 8305 section 5)."""

BACKLOG_SECONDS: Final = 0.02
"""How often a Unix socket whose backlog is full is tried: no system tells when it has room."""

# EAGAIN is none of them: on Linux it says that no local port is left.
UNDERWAY: Final = {0, errno.EINPROGRESS, getattr(errno, "WSAEWOULDBLOCK", errno.EINPROGRESS)}

CONNECTED: Final = {0, errno.ECONNRESET}
"""How an attempt ends well. A reset is refused in TCP's handshake, and only after it called so: how soon a server
resets what it has accepted must not decide."""


def connect(addresses: Sequence[Address], deadline: Deadline) -> socket.socket:
    """Return a socket that is connected to the first address that answers, or raise what the run says.

    Each next address is tried once one has failed or has been silent for a while, and the silent ones go on: an address
    that swallows packets hides none behind it. The caller closes the socket.
    """
    pause = min(ATTEMPT_SECONDS, deadline.left() / (len(addresses) + 1))
    race = _Race()
    try:
        for number, address in enumerate(addresses, start=1):
            deadline.wait()
            race.begin(address)
            last = number == len(addresses)
            until = deadline.at if last else min(deadline.at, deadline.clock.monotonic() + pause)
            while race.running and (left := until - deadline.clock.monotonic()) > 0:
                failures = len(race.errors)
                if (winner := race.wait(left)) is not None:
                    return winner
                if not last and len(race.errors) > failures:
                    break
        raise failed("timeout") if race.running or not race.errors else telling(race.errors)
    finally:
        race.close()


def telling(errors: Sequence[OSError]) -> ProbeError:
    """Return the error that tells most: that one address is unreachable often tells of this machine alone."""
    words = [word_of(error) for error in errors]
    return min(words, key=lambda word: (word.outcome is Outcome.COULD_NOT_RUN, word.detail == "unreachable"))


def connected_to_itself(connection: socket.socket) -> bool:
    """Say whether both ends are one: TCP can do so where the port is free and was also chosen for this end."""
    try:
        return bool(connection.getsockname() == connection.getpeername())
    except OSError:  # a peer that has reset the connection, and is somebody else
        return False


class _Race:
    """The attempts that are under way, and the errors of those that have ended."""

    def __init__(self) -> None:
        self.errors: list[OSError] = []
        self._selector = selectors.DefaultSelector()

    @property
    def running(self) -> bool:
        return bool(self._selector.get_map())

    def begin(self, address: Address) -> None:
        try:
            attempt = socket.socket(address.family, socket.SOCK_STREAM)
        except OSError as error:
            self.errors.append(error)
            return
        attempt.settimeout(0)
        number = attempt.connect_ex(address.place)
        if number in UNDERWAY:
            self._selector.register(attempt, selectors.EVENT_WRITE, attempt)
            return
        attempt.close()
        self.errors.append(OSError(number, os.strerror(number)))

    def wait(self, seconds: float) -> socket.socket | None:
        """Return a socket as soon as one is connected, or None at the end of the time or of an attempt."""
        for key, _ in self._selector.select(seconds):
            attempt: socket.socket = key.data
            self._selector.unregister(attempt)
            number = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number in CONNECTED and not connected_to_itself(attempt):
                return attempt
            attempt.close()
            number = errno.ECONNREFUSED if number in CONNECTED else number
            self.errors.append(OSError(number, os.strerror(number)))
        return None

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.data.close()
        self._selector.close()


def connect_unix(path: str, deadline: Deadline) -> socket.socket:
    """Return a socket that is connected to a Unix socket, or raise what the run says. The caller closes it."""
    if not hasattr(socket, "AF_UNIX"):
        raise could_not_run("no Unix sockets on this system")
    if "\0" in path[1:]:  # the system would take what stands before; at the start it names an abstract socket
        raise could_not_run("no valid path of a socket")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(0)
        while True:
            try:
                connection.connect(path)
                return connection
            except BlockingIOError:
                time.sleep(min(BACKLOG_SECONDS, deadline.wait()))
    except BaseException as error:
        connection.close()
        if (isinstance(error, OSError) and error.errno is None) or isinstance(
            error, ValueError
        ):  # too long, or no text
            raise could_not_run("no valid path of a socket") from None
        raise
