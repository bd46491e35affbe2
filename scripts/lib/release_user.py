"""A user's program: a request to each of the two servers, with public names alone. It prints what was answered.

It is run where the package was installed and nothing else, and judged there by type checkers as users run them.
"""

from __future__ import annotations

import threading
import urllib.request
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, assert_type

from idkmesh import BoundedHTTPServer, BoundedWSGIServer, RequestLimiter, ServiceLimits, Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

    from idkmesh.health.middleware import HealthMiddleware

BODY = b"hello\n"
LIMITS = ServiceLimits(max_concurrent_requests=2, request_timeout=5)


class Hello(BaseHTTPRequestHandler):
    """What the standard library's server would run."""

    def do_GET(self) -> None:
        """Say hello."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)


def hello(_: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Say hello."""
    start_response("200 OK", [("Content-Length", str(len(BODY)))])
    return [BODY]


def asked(server: BoundedHTTPServer) -> bytes:
    """Serve one request on a loopback port and drain."""
    with server:
        threading.Thread(target=server.serve_forever).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=30) as answer:
            body: bytes = answer.read()
        assert_type(server.usage().admitted_total, int)
        server.shutdown()
    return body


def beaten(watchdog: Watchdog, wrapped: HealthMiddleware | None = None) -> bool:
    """Tell whether a watchdog is the middleware's own, where there is one."""
    return wrapped is None or wrapped.watchdog is watchdog


def main() -> None:
    """Ask both."""
    assert_type(RequestLimiter(2).admit() is not None, bool)
    bodies = [
        asked(BoundedHTTPServer(("127.0.0.1", 0), Hello, limits=LIMITS)),
        asked(BoundedWSGIServer(("127.0.0.1", 0), hello, limits=LIMITS)),
    ]
    print("served" if bodies == [BODY, BODY] and beaten(Watchdog(5.0)) else bodies)


if __name__ == "__main__":
    main()
