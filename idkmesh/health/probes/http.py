"""``http``: ask a URL (HL-4.9).

Laws of this module:

1. One deadline for all: the lookup, the connection, the handshake, each byte. Progress extends nothing.
2. At most :data:`MAX_READ_BYTES` are read. The verdict is the status; what follows is read so that the server can
   finish, and thrown away. A body that stalls or is cut short before that bound is a failure: its server is not well.
3. Nothing is taken from the environment but the headers that the matrix names: no proxy, no netrc.
"""

from __future__ import annotations

import http.client
import os
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, cast

from idkmesh.health.probes.bounded_stream import BoundedStream, ResponseReader
from idkmesh.health.probes.connecting import connect, connect_unix
from idkmesh.health.probes.http_request import request_of
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.resolving import Resolver
from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    import socket

    from idkmesh.health.model import Http
    from idkmesh.health.probes.http_request import Request
    from idkmesh.health.probes.probe import Deadline

MAX_READ_BYTES: Final = 64 * 1024
"""Read of one response, its head included. A longer body is left where it is."""

PIECE_BYTES: Final = 8192

TRUST_SECONDS: Final = 300.0
"""How long the system's certificates are kept: to read them takes 20 ms, and they may be renewed."""

INFORMATIONAL: Final = range(100, 200)
SWITCHING: Final = 101
OK: Final = range(200, 400)


class HttpProbe(DeadlineProbe):
    """Asks a URL once, and follows no redirect."""

    def __init__(self, spec: Http) -> None:
        self._spec = spec
        self._resolver = Resolver()
        self._context: tuple[ssl.SSLContext, float] | None = None
        super().__init__(self._resolver.calls)

    def attempt(self, deadline: Deadline) -> str:
        """Ask, and return the status of an answer that is expected."""
        request = request_of(self._spec, os.environ)
        try:
            status = self._asked(request, deadline)
        except http.client.RemoteDisconnected:
            raise failed("closed without an answer") from None
        except ssl.SSLCertVerificationError:
            raise failed("certificate") from None
        except ssl.SSLError:
            raise failed("TLS") from None
        except (http.client.HTTPException, ValueError):
            raise failed("no HTTP") from None
        if status not in (self._spec.expect or OK):
            raise failed(f"status {status}")
        return f"status {status}"

    def _asked(self, request: Request, deadline: Deadline) -> int:
        with ExitStack() as stack:
            connection = stack.enter_context(self._connected(request, deadline))
            if request.tls:
                connection = stack.enter_context(self._secured(connection, request.host, deadline))
            stream = BoundedStream(connection, MAX_READ_BYTES, wait=deadline.wait, enough=_EnoughError)
            stream.send(request.head)
            return _status_of(ResponseReader(stream, PIECE_BYTES), self._spec.method)

    def _connected(self, request: Request, deadline: Deadline) -> socket.socket:
        if self._spec.unix_socket is not None:
            return connect_unix(self._spec.unix_socket, deadline)
        return connect(self._resolver.addresses(request.host, request.port, deadline), deadline)

    def _secured(self, connection: socket.socket, host: str, deadline: Deadline) -> ssl.SSLSocket:
        now = deadline.clock.monotonic()
        if self._context is None or now - self._context[1] > TRUST_SECONDS:
            self._context = (ssl.create_default_context(), now)
        try:
            secured = self._context[0].wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)
        except ValueError:
            raise could_not_run("no valid name or port") from None
        try:
            secured.settimeout(deadline.wait())  # a handshake is one call, and its timeout a total
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured


class _EnoughError(Exception):
    """The bound of what is read is reached."""


def _status_of(stream: ResponseReader, method: str) -> int:
    """Read the response and return its status."""
    try:
        response = _response(stream, method)
        while response.status in INFORMATIONAL and response.status != SWITCHING:
            response = _response(stream, method)
    except _EnoughError:
        raise failed("a head over 64 KiB") from None
    try:
        while response.read(PIECE_BYTES):
            pass
    except http.client.IncompleteRead:
        raise failed("cut short") from None
    except _EnoughError:
        return response.status
    if response.length:
        raise failed("cut short")
    return response.status


def _response(stream: ResponseReader, method: str) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(cast("socket.socket", stream), method=method)
    response.begin()
    return response
