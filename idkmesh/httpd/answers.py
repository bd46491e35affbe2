"""The end of a connection: a response that the front writes, what a worker has left of one, and lingering."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Final

from idkmesh.httpd import tls
from idkmesh.httpd.connection import LINGER_BYTES, LINGER_SECONDS, Connection, Event, State
from idkmesh.httpd.exchange import input_waits
from idkmesh.httpd.outbox import MEMORY_BYTES, WOULD_BLOCK, Outbox, send_some
from idkmesh.httpd.request_rules import Refusal, Request
from idkmesh.httpd.responses import stored_for

if TYPE_CHECKING:
    from idkmesh.httpd.core import Core
    from idkmesh.httpd.keeper import Keeper
    from idkmesh.httpd.responses import Response
    from idkmesh.httpd.stored_body import StoredBody

LOOK_SECONDS: Final = 0.5
"""The longest time between two looks at how much a client has taken of its response."""
WRITE_TURN_BYTES: Final = 1024 * 1024
"""The most that one connection is sent before the others have their turn."""
DISCARD_BYTES: Final = 256 * 1024


class Answers:
    """Writes responses without waiting, and ends each connection as HS-4.4 and HS-4.6 say. On the front's thread."""

    def __init__(self, core: Core, keeper: Keeper) -> None:
        """Hold with `keeper` who has not taken all of its response."""
        self._core = core
        self._keeper = keeper
        self._timeout = core.limits.request_timeout
        self._look_seconds = min(self._timeout / 4, LOOK_SECONDS)
        # In the serial profile who lingers keeps the next one out.
        self._linger_seconds = min(LINGER_SECONDS, self._timeout) if core.limits.serial else LINGER_SECONDS

    def refuse(self, connection: Connection, refusal: Refusal, now: float) -> None:
        """Answer that the request is not served."""
        core = self._core
        core.count_refusal(refusal)
        # What a refused client has still to send is not known, unless it asked for nothing but the answer.
        if connection.request is None or connection.state is State.READING_BODY:
            connection.unread = True
        request_id = core.request_id(connection)
        data = core.renderer.render_refusal(refusal, connection.request, request_id, core.http_date())
        self.send(connection, data, refusal.status, now)

    def answer(self, connection: Connection, response: Response, now: float) -> None:
        """Answer what the front itself knows."""
        core = self._core
        request_id = core.request_id(connection)
        data = core.renderer.render(response, connection.request, request_id, core.http_date())
        self.send(connection, data, response.status, now, stored_for(response, connection.request))

    def send(
        self, connection: Connection, data: bytes, status: int, now: float, stored: StoredBody | None = None
    ) -> None:
        """Answer with the bytes of a whole response, or of all but its stored body."""
        connection.status = status
        connection.body = connection.early = b""
        try:
            sent = send_some(connection.sock, data, connection.flags)
        except OSError:
            self._keeper.drop(connection)
            return
        connection.written += sent
        whole = sent == len(data) and stored is None
        if whole and not connection.unread:
            self._keeper.drop(connection)
            return
        self._keeper.release(connection)
        connection.advance(Event.ANSWERED)
        if whole:
            self._linger(connection, now)
            return
        connection.outbox = Outbox()
        connection.outbox.add(memoryview(data)[sent:])
        try:
            connection.outbox.reduce(MEMORY_BYTES)  # there may be as many readers as connections
            if stored is not None:
                stored.add_to(connection.outbox)
        except OSError as error:
            self._core.cannot_spool(error)
            self._keeper.drop(connection)
            return
        self.wait_to_write(connection, now)

    def wait_to_write(self, connection: Connection, now: float) -> None:
        """Wait for the client to take what is left, with as little in memory as that needs."""
        outbox, request = connection.outbox, connection.request
        if outbox is None:
            return
        if request is not None:
            if self._core.access_log:
                self._core.request_id(connection)  # which the fields tell
            connection.request = request_line_of(request)
        # Holding less always succeeds, and the worker has charged more: the head and the body, which are gone.
        self._core.budget.hold(connection, connection.kept + outbox.memory)
        connection.await_reader(now)
        self._keeper.hold(connection, now + self._look_seconds)

    def write(self, connection: Connection, now: float) -> None:
        """Send what the client takes now."""
        outbox = connection.outbox
        if outbox is None:
            return
        try:
            sent = outbox.send(connection.sock, WRITE_TURN_BYTES, exposed=connection.exposed)
        except OSError:
            self._keeper.drop(connection)
            return
        if sent:
            connection.written += sent
            connection.progress_at = now
            self._core.budget.hold(connection, connection.kept + outbox.memory)
        if not outbox.remaining:
            self.written(connection, now)

    def written(self, connection: Connection, now: float) -> None:
        """End or linger, now that the response is gone."""
        if connection.outbox is not None:
            connection.outbox.close()
            connection.outbox = None
        if connection.unread or input_waits(connection.sock):
            self._keeper.release(connection)
            self._linger(connection, now)
        else:
            self._keeper.drop(connection)

    def _linger(self, connection: Connection, now: float) -> None:
        """Half-close, then read and discard: a client in the middle of a large body still reads its answer."""
        connection.advance(Event.SENT)
        core = self._core
        core.budget.hold(connection, 0)
        core.log_access(connection)
        connection.body = b""
        connection.request = connection.reader = connection.responder = None  # a head may be 320 KiB
        connection.stream = None
        sock = connection.sock
        try:
            if isinstance(sock, ssl.SSLSocket):
                tls.notify_close(sock)
            sock.shutdown(socket.SHUT_WR)  # on an SSLSocket it also ends the TLS layer: what follows is discarded raw
        except OSError:
            self._keeper.drop(connection)
            return
        self._keeper.hold(connection, min(now + self._linger_seconds, core.linger_until))
        self.discard(connection)

    def discard(self, connection: Connection) -> None:
        """Read on without looking, for a lingering connection."""
        while True:
            try:
                data = connection.sock.recv(DISCARD_BYTES, connection.flags)
            except WOULD_BLOCK:
                return
            except OSError:
                break
            connection.discarded += len(data)
            if not data or connection.discarded >= LINGER_BYTES:
                break
            if len(data) < DISCARD_BYTES:
                return
        self._keeper.drop(connection)

    def still_taken(self, connection: Connection, now: float) -> bool:
        """Say whether a client still takes its response (HS-4.4), and look again soon if so."""
        connection.look(now)
        end = connection.progress_at + self._timeout
        if now >= end:
            return False
        self._keeper.deadlines.set(connection, min(end, now + self._look_seconds))
        return True


def request_line_of(request: Request) -> Request:
    """Return what a log line needs of a request, without the fields and the bytes of its head."""
    return Request(
        method=request.method,
        target=request.target,
        path=request.path,
        query=request.query,
        version=request.version,
        fields=[],
        index={},
        head=b"",
        content_length=None,
        expect_continue=False,
        authority="",
    )
