"""The one module of the soak's tower, and the agent of its router: ``python -m scripts.lib.soak.agent PORT``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from idkmesh import BoundedWSGIServer, serve_until_signal
from idkmesh.service_runtime import ServiceLimits
from scripts.lib.soak.tower import BACKLOG, PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

LIMITS: Final = ServiceLimits(max_concurrent_requests=PLACES, listen_backlog=BACKLOG)
"""As many places as the router before it has. With fewer its own 503 is what the router passes on (RT-9.5)."""


def echo(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with what came."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"null"
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    raise SystemExit(serve_until_signal(BoundedWSGIServer(("127.0.0.1", int(sys.argv[1])), echo, limits=LIMITS)))
