"""How the shop's programs answer: a table of paths, in JSON, on :class:`~idkmesh.BoundedHTTPServer`."""

from __future__ import annotations

import json
import os
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idkmesh import BoundedHTTPServer, serve_until_signal
from idkmesh.demo.settings import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Answer = Callable[[Any], Any]


def serve(port: int, answers: Mapping[str, Answer]) -> None:
    """Answer ``"GET /path"`` by what the table has for it, until SIGTERM. Each gets the body's JSON, or None."""
    note_pid()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            answer = answers.get(f"{self.command} {self.path}")
            length = int(self.headers["Content-Length"] or 0)
            given = json.loads(self.rfile.read(length)) if length else None
            status, content = (HTTPStatus.NOT_FOUND, None) if answer is None else (HTTPStatus.OK, answer(given))
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002  the standard library's name
            """Say nothing: a probe each second would fill the log."""

    serve_until_signal(BoundedHTTPServer((ADDRESS, port), Handler))


def note_pid() -> None:
    """Write down which process this instance is, as daemons do: an operator signals it by that."""
    name = os.environ.get("IDKMESH_INSTANCE")
    if name:
        part = Path(f"{name}.pid.part")
        part.write_text(f"{os.getpid()}\n", encoding="ascii")
        part.replace(f"{name}.pid")
