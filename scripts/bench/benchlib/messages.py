"""What a client makes of the bytes it got: the status, and whether the response is complete."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .processes import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    Headers = Sequence[tuple[str, str]]

BROWSER_HEADERS = (
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Sec-CH-UA", '"Chromium";v="126", "Not.A/Brand";v="24"'),
    ("Sec-CH-UA-Mobile", "?0"),
    ("Sec-CH-UA-Platform", '"Linux"'),
    ("Sec-Fetch-Site", "same-origin"),
    ("Sec-Fetch-Mode", "cors"),
    ("Sec-Fetch-Dest", "empty"),
)
"""What a browser sends beside ``Host`` and ``Connection``: twelve fields with those two."""


@dataclass(frozen=True)
class Response:
    """A response as received. ``complete`` says that the body has the declared length."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool
    size: int
    """Bytes of head and body."""


def parse(data: bytes) -> Response | None:
    """Read a response from the bytes received so far; None while the head is incomplete or when it is no HTTP."""
    head, separator, body = data.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    parts = status_line.split(" ", 2)
    if not separator or len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
        return None
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    declared = headers.get("content-length", "")
    complete = declared.isdecimal() and len(body) == int(declared)
    return Response(int(parts[1]), headers, body, complete, len(data))


def request(port: int, path: str, headers: Headers = (), method: str = "GET") -> bytes:
    """Return a request head as bytes, with ``Connection: close``."""
    fields = [("Host", f"{HOST}:{port}"), ("Connection", "close"), *headers]
    return "".join(
        [f"{method} {path} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in fields), "\r\n"]
    ).encode()


def fetch(port: int, path: str, headers: Headers = (), timeout: float = 5.0) -> Response | None:
    """Make one request and read until the server closes; None when nothing or no HTTP came back.

    Raises ``OSError`` when the connection fails or nothing arrives for ``timeout`` seconds.
    """
    with socket.create_connection((HOST, port), timeout) as connection:
        connection.sendall(request(port, path, headers))
        return parse(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
