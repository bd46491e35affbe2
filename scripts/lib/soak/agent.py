"""The one module of the soak's tower, and the agent of its router: ``python -m scripts.lib.soak.agent PORT``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from idkmesh import BoundedWSGIServer, serve_until_signal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment


def echo(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with what came."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"null"
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    raise SystemExit(serve_until_signal(BoundedWSGIServer(("127.0.0.1", int(sys.argv[1])), echo)))
