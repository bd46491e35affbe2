"""Asks a probe path over HTTP as a kubelet's ``httpGet`` does (HL-8.2).

One deadline for all of it. A status of 200 to 399 is a success. A redirect on the same host is followed, one to
another host is not and counts as a success, as with the kubelet. Of a body 10 KiB are read. No proxy of the environment
is used.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import SplitResult, urljoin, urlsplit

from idkmesh.health.probes.bounded_stream import BoundedStream, ResponseReader

MAX_REDIRECTS: Final = 10
MAX_BODY_BYTES: Final = 10 * 1024
"""The kubelet's own bounds."""

MAX_READ_BYTES: Final = 128 * 1024
"""Of one response in all, its head included."""

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
GOOD: Final = range(200, 400)

_MAX_NAMES: Final = 1000

_WORDS: Final[dict[type[Exception], str]] = {
    TimeoutError: "timeout",
    ConnectionRefusedError: "refused",
    ConnectionError: "connection lost",  # http.client.RemoteDisconnected too
    OSError: "unreachable",
    http.client.HTTPException: "no HTTP",
    ValueError: "no HTTP",
}
"""How each error is told: the first that fits."""


@dataclass(frozen=True, slots=True)
class Said:
    """What came of one question. ``warnings`` are the noncritical dependencies that a body of readiness names."""

    ok: bool
    detail: str
    warnings: tuple[str, ...] = ()


def ask(url: str, timeout: float) -> Said:
    """Ask once, for at most ``timeout`` seconds in all. Raises for nothing that the other side does."""
    try:
        return _followed(url, time.monotonic() + timeout)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Said(ok=False, detail=next(word for kind, word in _WORDS.items() if isinstance(error, kind)))


def _followed(url: str, deadline: float) -> Said:
    for _ in range(MAX_REDIRECTS + 1):
        status, location, body = _get(urlsplit(url), deadline)
        if status not in REDIRECTS or not location:
            return Said(status in GOOD, f"status {status}", _warnings(body))
        following = urljoin(url, location)
        if urlsplit(following)[:2] != urlsplit(url)[:2]:
            return Said(ok=True, detail=f"status {status}, to another host")
        url = following
    return Said(ok=False, detail=f"more than {MAX_REDIRECTS} redirects")


def _get(url: SplitResult, deadline: float) -> tuple[int, str | None, bytes]:
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    head = f"GET {target} HTTP/1.1\r\nHost: {url.netloc}\r\nUser-Agent: idkmesh-rehearse\r\nAccept: */*\r\n"
    with socket.create_connection((url.hostname or "", url.port or 80), _left(deadline)) as connection:
        connection.settimeout(_left(deadline))
        connection.sendall((head + "Connection: close\r\n\r\n").encode("ascii"))
        stream = BoundedStream(connection, MAX_READ_BYTES, wait=lambda: _left(deadline), enough=_too_long)
        response = http.client.HTTPResponse(cast("socket.socket", ResponseReader(stream)))
        response.begin()
        body = response.read(MAX_BODY_BYTES)
        return response.status, response.getheader("Location"), body


def _too_long() -> http.client.LineTooLong:
    return http.client.LineTooLong("response")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _warnings(body: bytes) -> tuple[str, ...]:
    """Return the names under ``warnings`` of a probe's body (HL-5.1), or nothing where it has none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    names = document.get("warnings") if isinstance(document, dict) else None
    if not isinstance(names, list):
        return ()
    return tuple(name for name in names[:_MAX_NAMES] if isinstance(name, str))
