"""The program under test: one response, in the three forms that servers take (handler class, WSGI, ASGI).

A response carries ``Content-Type``, ``Content-Length`` and the seven headers of ``PROGRAM_HEADERS``; what a server adds
of its own (``Server``, ``Date``, ``Connection``) is the server's. Paths: ``/`` and ``/healthz`` answer a small JSON
document, ``/large`` a large body, ``/sleep`` waits and ``/burn`` computes first. A POST is read to its end.
"""

from __future__ import annotations

import json
import os
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

WORK_SECONDS = float(os.environ.get("BENCH_WORK_SECONDS", "0.02"))
LARGE_BYTES = int(os.environ.get("BENCH_LARGE_BYTES", "1048576"))
BODY_BYTES = int(os.environ.get("BENCH_BODY_BYTES", "0"))

CONTENT_TYPE = "application/json; charset=utf-8"
PROGRAM_HEADERS = (
    ("X-Request-ID", "0123456789abcdef0123456789abcdef"),
    ("X-IDKMesh-Service", "benchmark"),
    ("X-IDKMesh-Service-Version", "0.1.0"),
    ("X-IDKMesh-API-Version", "v1"),
    ("X-IDKMesh-Read-Only", "true"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)


def document(size: int) -> bytes:
    """Return a readiness document as JSON, padded to ``size`` bytes where it is shorter."""
    fields: dict[str, object] = {
        "status": "ready",
        "failing": [],
        "warnings": [],
        "service": "idkmesh-control-tower",
        "service_version": "0.1.0",
        "mode": "read-only",
        "api_version": "v1",
    }
    plain = json.dumps(fields, separators=(",", ":"))
    padding = size - len(plain) - len(',"padding":""')
    return (plain if padding < 0 else f'{plain[:-1]},"padding":"{"x" * padding}"}}').encode()


SMALL = document(BODY_BYTES)
LARGE = b"x" * LARGE_BYTES


def sleep() -> bytes:
    """Answer after a wait that needs no processor."""
    time.sleep(WORK_SECONDS)
    return SMALL


def burn() -> bytes:
    """Answer after this thread has used that much processor time."""
    until = time.thread_time() + WORK_SECONDS
    while time.thread_time() < until:
        sum(range(1000))
    return SMALL


ANSWERS: dict[str, Callable[[], bytes]] = {"/sleep": sleep, "/burn": burn, "/large": lambda: LARGE}


def answer(path: str) -> bytes:
    """Return the body for a path."""
    return ANSWERS[path]() if path in ANSWERS else SMALL


class Handler(BaseHTTPRequestHandler):
    """The program as a plain ``BaseHTTPRequestHandler`` subclass, with nothing that any server would have to know."""

    def do_GET(self) -> None:
        """Answer with the path's body."""
        body = answer(self.path)
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        for name, value in PROGRAM_HEADERS:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Read the body, then answer as for GET."""
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Write no access log: no server in the comparison does."""


def wsgi(environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    """Answer as a WSGI application."""
    if environ["REQUEST_METHOD"] == "POST":
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    body = answer(environ["PATH_INFO"])
    headers = [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(body))), *PROGRAM_HEADERS]
    start_response("200 OK", headers)
    return [body]


async def asgi(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer as an ASGI application; it runs on the event loop, so only for paths that do not wait."""
    if scope["type"] != "http":
        return
    while scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    body = answer(scope["path"])
    lengths = (b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*lengths, *ASGI_HEADERS]})
    await send({"type": "http.response.body", "body": body})


ASGI_HEADERS = tuple((name.lower().encode(), value.encode()) for name, value in PROGRAM_HEADERS)
