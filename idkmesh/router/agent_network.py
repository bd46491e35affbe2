"""The network that a request to an agent goes through: one connection, and one deadline for all of it (RT-9.6).

Laws of this module:

1. The deadline is an instant. Each wait is for what is left of it, so that no answer that trickles extends it.
2. The bound of an answer is counted here, as its bytes arrive, before anything is made of them.
3. A word of the system's, which may hold an address, goes no further.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpcore

from idkmesh.health.probes.connecting import connect
from idkmesh.health.probes.probe import Deadline
from idkmesh.health.probes.words import ProbeError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

    from idkmesh.router.lookups import Lookups

CONNECT_SECONDS: Final = 2.0
"""For the look-up of a name, the connection and the handshake (RT-9.6)."""

_SLICE: Final = 64 * 1024


class TooLargeError(Exception):
    """More bytes have come than an answer may have."""


@dataclass(slots=True)
class Progress:
    """What became of one request: whether the agent has ``ended`` it."""

    ended: bool = False


class AgentNetwork(httpcore.NetworkBackend):
    """Opens the one connection of a request. ``most`` bytes of an answer are read, the head included."""

    def __init__(self, deadline: Deadline, lookups: Lookups, most: int) -> None:
        self.progress = Progress()
        self._deadline = deadline
        self._lookups = lookups
        self._most = most

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002  the deadline's instead
        local_address: str | None = None,  # noqa: ARG002  any
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002  none
    ) -> AgentStream:
        """Connect. Raises :class:`httpcore.ConnectError`."""
        clock = self._deadline.clock
        until = Deadline(clock, min(self._deadline.at, clock.monotonic() + CONNECT_SECONDS))
        try:
            connection = connect(self._lookups.addresses(host, port, until), until)
        except (ProbeError, OSError):
            raise httpcore.ConnectError from None
        return AgentStream(connection, self._deadline, until, self.progress, self._most)


class AgentStream(httpcore.NetworkStream):
    """One connection to an agent. ``until`` is the deadline of a handshake, if there is one."""

    def __init__(
        self, connection: socket.socket, deadline: Deadline, until: Deadline, progress: Progress, most: int
    ) -> None:
        self._connection = connection
        self._deadline = deadline
        self._until = until
        self._progress = progress
        self._left = most

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002  the deadline's instead
        """Read once. Raises :class:`TooLargeError` for a byte too much."""
        if not self._left:
            raise TooLargeError
        try:
            self._connection.settimeout(self._left_seconds(self._deadline))
            data = self._connection.recv(min(max_bytes, self._left))
        except TimeoutError:
            raise httpcore.ReadTimeout from None
        except OSError:
            raise httpcore.ReadError from None
        self._left -= len(data)
        self._progress.ended = not data
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002  the deadline's instead
        """Send all of it."""
        rest = memoryview(buffer)
        try:
            while rest:
                self._connection.settimeout(self._left_seconds(self._deadline))
                rest = rest[self._connection.send(rest[:_SLICE]) :]
        except TimeoutError:
            raise httpcore.WriteTimeout from None
        except OSError:
            raise httpcore.WriteError from None

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002  the deadline's instead
    ) -> AgentStream:
        """Shake hands, within the time of a connection. Raises :class:`httpcore.ConnectError`."""
        try:
            secured = ssl_context.wrap_socket(
                self._connection, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._connection = secured
            secured.settimeout(self._left_seconds(self._until))  # a handshake is one call, and its timeout a total
            secured.do_handshake()
        except (OSError, ValueError):  # ssl.SSLError is an OSError; a name that no certificate can have
            self.close()
            raise httpcore.ConnectError from None
        return self

    def close(self) -> None:
        """Close."""
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401  httpcore's own
        """Return the TLS object, which httpcore asks for."""
        if info == "ssl_object" and isinstance(self._connection, ssl.SSLSocket):
            return self._connection
        return None

    @staticmethod
    def _left_seconds(deadline: Deadline) -> float:
        left = deadline.left()
        if left <= 0:
            raise TimeoutError
        return left
