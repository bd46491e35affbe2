"""How LXD or Incus is reached: its Unix socket, or TLS with a client's certificate (AR-8.2, AR-8.4).

Laws of this module:

1. One deadline for all of a request: the lookup, the connection, the handshake, each byte. Progress extends nothing.
2. A connection is for one request: a daemon that starts again leaves none behind that is half dead.
3. Before anything is sent the daemon has shown the certificate that is pinned, where one is.
"""

from __future__ import annotations

import json
import ssl
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from idkmesh.addresses import url_host
from idkmesh.clock import SystemClock
from idkmesh.health.probes.connecting import connect, connect_unix
from idkmesh.health.probes.probe import Deadline
from idkmesh.health.probes.resolving import Resolver
from idkmesh.health.probes.words import ProbeError, word_of
from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.drivers.lxd_answers import LxdError, metadata_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from idkmesh.health.probes.resolving import Address
    from idkmesh.workloads.model import LxdPlatform

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Of one response: a listing of several thousand instances with their state."""

DEFAULT_PORT: Final = 8443
_PIECE_BYTES: Final = 64 * 1024
_CLOCK: Final = SystemClock()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the daemon is. ``url`` is None at a Unix socket."""

    socket: str | None
    host: str
    port: int

    @property
    def shown(self) -> str:
        """The place as people write it."""
        return self.socket if self.socket is not None else f"https://{self.netloc}"

    @property
    def netloc(self) -> str:
        """Host and port, as a request names them."""
        return "lxd" if self.socket is not None else f"{url_host(self.host)}:{self.port}"


def seconds_from_now(seconds: float) -> Deadline:
    """Return the deadline that is so many seconds away."""
    return Deadline(_CLOCK, _CLOCK.monotonic() + seconds)


class LxdLink:
    """Connections to one daemon, and requests in one project. Any thread may call any method.

    Raises :class:`DriverError` where the platform's files cannot be used.
    """

    def __init__(self, platform: LxdPlatform) -> None:
        self.place = _place_of(platform)
        self._project = quote(platform.project, safe="")
        self._resolver = Resolver()
        self._resolving = threading.Lock()
        self._pinned: bytes | None = None
        self._context: ssl.SSLContext | None = None
        if self.place.socket is None:
            self._context, self._pinned = _trust(platform)

    def ask(
        self,
        method: str,
        path: str,
        deadline: Deadline,
        body: object = None,
        *,
        hidden: Sequence[str] = (),
        **query: str,
    ) -> object:
        """Send a request and return the metadata of the answer, or raise :class:`LxdError`, without ``hidden``."""
        with self.asked(method, path, deadline, body, **query) as connection:
            received = bytearray()
            while piece := receive(connection, deadline):
                received += piece
                if len(received) > MAX_ANSWER_BYTES:
                    raise LxdError(f"an answer over {MAX_ANSWER_BYTES // 1024**2} MiB")
        return metadata_of(bytes(received), hidden)

    def asked(self, method: str, path: str, deadline: Deadline, body: object = None, **query: str) -> socket.socket:
        """Send a request and return the connection on which its answer will come, whole, and then its end."""
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {self.target(path, **query)} HTTP/1.1\r\nHost: {self.place.netloc}\r\nUser-Agent: idkmesh\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        with ExitStack() as stack:
            connection = stack.enter_context(self.connect(deadline))
            send(connection, head.encode() + content, deadline)
            stack.pop_all()
            return connection

    def target(self, path: str, **query: str) -> str:
        """Return what a request names: a path, in the project."""
        start = "&" if "?" in path else "?"
        return "&".join([f"{path}{start}project={self._project}", *(f"{key}={value}" for key, value in query.items())])

    def connect(self, deadline: Deadline) -> socket.socket:
        """Return a connection to the daemon, or raise :class:`LxdError`. The caller closes it."""
        try:
            if self.place.socket is not None:
                return connect_unix(self.place.socket, deadline)
            with ExitStack() as stack:
                connection = stack.enter_context(connect(self._addresses(deadline), deadline))
                secured = stack.enter_context(self._secured(connection, deadline))
                stack.pop_all()
                return secured
        except ProbeError as error:
            raise LxdError(error.detail) from None
        except OSError as error:
            raise told(error) from None

    def _addresses(self, deadline: Deadline) -> list[Address]:
        if not self._resolving.acquire(timeout=deadline.left()):
            raise LxdError("timeout")
        try:
            return self._resolver.addresses(self.place.host, self.place.port, deadline)
        finally:
            self._resolving.release()

    def _secured(self, connection: socket.socket, deadline: Deadline) -> ssl.SSLSocket:
        assert self._context is not None  # noqa: S101  for the type checker: there is one where there is no Unix socket
        connection.settimeout(deadline.wait())  # a handshake is one call, and its timeout a total
        secured = self._context.wrap_socket(connection, server_hostname=self.place.host)
        if self._pinned is not None and secured.getpeercert(binary_form=True) != self._pinned:
            secured.close()
            raise LxdError("another certificate than the pinned one")
        return secured


def send(connection: socket.socket, data: bytes, deadline: Deadline) -> None:
    """Send it all, or raise :class:`LxdError`."""
    try:
        connection.settimeout(deadline.wait())  # of sendall, the timeout is a total
        connection.sendall(data)
    except ProbeError as error:
        raise LxdError(error.detail) from None
    except OSError as error:
        raise told(error) from None


def receive(connection: socket.socket, deadline: Deadline) -> bytes:
    """Return what has come next, nothing at the end, or raise :class:`LxdError`."""
    try:
        connection.settimeout(deadline.wait())
        return connection.recv(_PIECE_BYTES)
    except ProbeError as error:
        raise LxdError(error.detail) from None
    except OSError as error:
        raise told(error) from None


def told(error: OSError) -> LxdError:
    """Return an error of the system in our words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return LxdError("a certificate that is not trusted")
    if isinstance(error, ssl.SSLError):
        return LxdError("TLS: this client's certificate is refused, or the other side speaks none")
    return LxdError(word_of(error).detail)


def _place_of(platform: LxdPlatform) -> Place:
    if platform.socket is not None:
        return Place(platform.socket, "", 0)
    parts = urlsplit(platform.url or "")
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        port = 0
    if parts.scheme != "https" or not parts.hostname or not port:
        raise DriverError("lxd: the platform has no socket and no URL such as https://HOST:8443; give one of them")
    return Place(None, parts.hostname, port)


def _trust(platform: LxdPlatform) -> tuple[ssl.SSLContext, bytes | None]:
    """Return how TLS is spoken, and the certificate that the daemon must show."""
    pinned = None
    file = platform.server_cert
    try:
        if file is None:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False  # it is this certificate or none, under whatever name
            context.load_verify_locations(file)
            pinned = ssl.PEM_cert_to_DER_cert(Path(file).read_text(encoding="ascii"))
        file = platform.cert
        if platform.cert is not None:
            context.load_cert_chain(platform.cert, platform.key)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no certificate in PEM"
        raise DriverError(f"lxd: {file} cannot be used ({reason}): give certificates and keys in PEM") from None
    return context, pinned
