"""A replica of the shop's web server. ``python -m idkmesh.demo.shop.web FIRST_PORT CACHE_PORT STORE_PORT``.

``web-1`` listens on the first port, ``web-2`` on the next. ``GET /`` shows what is sold, ``POST /`` orders: the router
asks for that as of an agent. ``/livez`` and ``/readyz`` are answered from its own probes.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from idkmesh import BoundedWSGIServer, ProbeMatrix, serve_until_signal
from idkmesh.demo.asking import ask
from idkmesh.demo.files import WEB_MATRIX
from idkmesh.demo.settings import ADDRESS
from idkmesh.demo.shop.answering import note_pid
from idkmesh.health.middleware import HealthMiddleware

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment


class Shop:
    """The application itself."""

    def __init__(self, name: str, cache: int, store: int) -> None:
        self._name = name
        self._cache = cache
        self._store = store

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request: 503 where what it needs does not answer."""
        try:
            status, content = "200 OK", self._content(environ)
        except OSError as error:
            status, content = "503 Service Unavailable", {"error": str(error), "by": self._name}
        body = json.dumps(content).encode()
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    def _content(self, environ: WSGIEnvironment) -> dict[str, Any]:
        if environ["REQUEST_METHOD"] == "POST":
            wanted = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or "null")
            return {**ask(self._store, "POST", "/orders", wanted), "by": self._name}
        return {"products": self._products(), "by": self._name}

    def _products(self) -> Any:  # noqa: ANN401  JSON
        try:
            return ask(self._cache, "GET", "/products", seconds=0.5)
        except OSError:  # slow or gone: what it keeps is in the store too
            return ask(self._store, "GET", "/products")


def main() -> None:
    """Serve until SIGTERM."""
    name = os.environ.get("IDKMESH_INSTANCE", "web-1")
    first, cache, store = (int(port) for port in sys.argv[1:4])
    application = HealthMiddleware(Shop(name, cache, store), ProbeMatrix.load(WEB_MATRIX))
    note_pid()
    server = BoundedWSGIServer((ADDRESS, first + int(name.rpartition("-")[2]) - 1), application)
    application.start()
    try:
        serve_until_signal(server)
    finally:
        application.close()


if __name__ == "__main__":
    main()
