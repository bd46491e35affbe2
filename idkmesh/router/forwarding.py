"""Asks an agent, once, and says what came of it (RT-9.5 to RT-9.7).

``httpcore`` writes the request and reads the answer. It knows no redirect, cookie, proxy or password file, and with one
connection for each request there is none that the other side may have closed meanwhile: so nothing is sent twice.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpcore

from idkmesh.health.probes.probe import Deadline
from idkmesh.httpd.responses import is_field
from idkmesh.router.agent_network import AgentNetwork, TooLargeError
from idkmesh.router.lookups import Lookups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from idkmesh.clock import Clock
    from idkmesh.router.agent_network import Progress
    from idkmesh.topology.model import Endpoint

INVOCATION_SECONDS: Final = 30.0
"""From the selection to the answer's last byte (RT-9.6)."""

MAX_ANSWER_BYTES: Final = 2 * 1024 * 1024
"""Of an answer's content, as much as a request's may have."""

MAX_HEAD_BYTES: Final = 100 * 1024
"""Of the fields of an answer's head."""

MAX_RECEIVED_BYTES: Final = MAX_ANSWER_BYTES + 1024 * 1024
"""Of all that comes on the connection: heads and the lengths of chunks too, which must not be longer than these."""

_STATUSES: Final = range(200, 600)


class Reason(enum.Enum):
    """Why there is no answer: all that is told of it (RT-9.8)."""

    CONNECT = "connect"
    """Nobody was reached, so nothing was sent."""
    TIMEOUT = "timeout"
    CLOSED = "closed"
    """The connection ended before the answer did."""
    MALFORMED = "malformed"
    """What came is no HTTP."""
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent has answered. ``fields`` are all that came, in order."""

    status: int
    fields: tuple[tuple[str, str], ...]
    content: bytes


class AgentClient:
    """Asks agents. Any thread may call any method; there is nothing to close."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lookups = Lookups()

    def ask(
        self, endpoint: Endpoint, content: bytes, fields: Iterable[tuple[str, str]], until: float
    ) -> AgentAnswer | Reason:
        """Send ``content``, which is JSON, and return what came of it until an instant (monotonic seconds)."""
        network = AgentNetwork(Deadline(self._clock, until), self._lookups, MAX_RECEIVED_BYTES)
        try:
            return self._asked(endpoint, content, fields, network)
        except httpcore.ConnectError:
            return Reason.CONNECT
        except httpcore.TimeoutException:
            return Reason.TIMEOUT
        except TooLargeError:
            return Reason.TOO_LARGE
        except httpcore.RemoteProtocolError as error:
            return _protocol_reason(error, network.progress)
        except httpcore.NetworkError:
            return Reason.CLOSED

    def _asked(
        self, endpoint: Endpoint, content: bytes, fields: Iterable[tuple[str, str]], network: AgentNetwork
    ) -> AgentAnswer:
        url = httpcore.URL(endpoint.url + "/")
        secure = url.scheme == b"https"
        head = [
            ("Host", endpoint.url.partition("//")[2]),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(content))),
            ("Connection", "close"),
            *fields,
        ]
        request = httpcore.Request(
            "POST", url, headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in head],
            content=content,
        )  # fmt: skip
        context = _trust() if secure else None
        with (
            httpcore.HTTPConnection(url.origin, ssl_context=context, network_backend=network) as connection,
            contextlib.closing(connection.handle_request(request)) as response,
        ):
            if response.status not in _STATUSES:
                raise httpcore.RemoteProtocolError
            received = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers)
            _judge_head(received)
            return AgentAnswer(response.status, received, _content(response, received))


def _judge_head(fields: Iterable[tuple[str, str]]) -> None:
    """Refuse what h11 lets through: a field with a control byte, which cannot be passed on, and too long a head.

    Of a head that comes whole at once h11 does not ask how long it is.
    """
    length = 0
    for name, value in fields:
        length += len(name) + len(value) + len(": \r\n")
        if not is_field(name, value):
            raise httpcore.RemoteProtocolError
    if length > MAX_HEAD_BYTES:
        raise TooLargeError


def _content(response: httpcore.Response, fields: Iterable[tuple[str, str]]) -> bytes:
    """Read an answer's content, as it is coded. Raises :class:`TooLargeError`."""
    for name, value in fields:
        if name.lower() == "content-length" and int(value) > MAX_ANSWER_BYTES:  # of what h11 takes, a number
            raise TooLargeError
    content = bytearray()
    for part in response.iter_stream():
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            raise TooLargeError
    return bytes(content)


def _protocol_reason(error: httpcore.RemoteProtocolError, progress: Progress) -> Reason:
    """Say what an agent has done to HTTP: ended too early, written too long a head, or something else."""
    if progress.ended:
        return Reason.CLOSED
    hint = getattr(error.__cause__, "error_status_hint", 0)
    return Reason.TOO_LARGE if hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE else Reason.MALFORMED


@functools.cache
def _trust() -> ssl.SSLContext:
    """Return how TLS is spoken: the system's authorities, and the name must be the certificate's."""
    return ssl.create_default_context()
