"""Starts the program on this project's server: ``python -m benchlib.serve_ours FORM --port PORT [limits]``.

Forms: ``handler`` and ``wsgi`` are the drop-in with the program of ``app.py`` unchanged; ``files`` is the standard
library's file handler; ``routes`` is a table of routes behind the control tower's own guard
(``Host``, ``Origin``, token), with ``/healthz`` answered by the front.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, cast

from idkmesh.control_tower.security import SessionGuard
from idkmesh.httpd import BoundedHTTPServer, BoundedWSGIServer, use_short_switch_interval
from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import Access, Answer, Probe, Route, RouteApplication, RouteTable
from idkmesh.service_runtime import SETTINGS, ServiceLimits

from . import app
from .processes import HOST
from .serve_peer import files, serve_forever

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from idkmesh.httpd.application import Application


ANSWERS = (Answer(status=200, meaning="The program's document.", content_types=("application/json",)),)


def response(path: str) -> Response:
    """Return what the program answers for a path. The headers are the server's own."""
    return Response(200, (), app.answer(path))


def route(path: str) -> Route:
    """Return a route that needs the session token, as the control tower's own do."""
    return Route(
        method="GET",
        path=path,
        access=Access.API,
        endpoint=lambda _request, _body: response(path),
        operation=path,
        summary=path,
        answers=ANSWERS,
    )


HEALTH = Probe(
    path="/healthz", verdict=lambda: response("/healthz"), operation="health", summary="Liveness.", answers=ANSWERS
)


class RoutesServer(BoundedHTTPServer):
    """The bounded server with the program as a table of routes."""

    def __init__(self, address: tuple[str, int], limits: ServiceLimits, token: str) -> None:
        self._guard = SessionGuard(token)
        super().__init__(address, None, limits=limits)

    def _make_application(self) -> Application:
        return RouteApplication(RouteTable(map(route, ("/", *app.ANSWERS)), [HEALTH]), self._guard)

    def server_bind(self) -> None:
        """Bind, and tell the guard which port that gave."""
        super().server_bind()
        self._guard.listen_at(self.server_name, self.server_port)


def bind(form: str, port: int, limits: ServiceLimits, token_file: Path | None) -> BoundedHTTPServer:
    """Return the server of a form, bound."""
    address = (HOST, port)
    if form == "routes":
        return RoutesServer(address, limits, token_file.read_text(encoding="ascii") if token_file else "")
    if form == "wsgi":
        return BoundedWSGIServer(address, cast("WSGIApplication", app.wsgi), limits=limits)
    return BoundedHTTPServer(address, files() if form == "files" else app.Handler, limits=limits)


def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=("handler", "wsgi", "files", "routes"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--short-switch-interval", action="store_true")
    for setting in SETTINGS:
        parser.add_argument(setting.flag, dest=setting.name, type=setting.kind, default=setting.default)
    chosen = parser.parse_args()
    if chosen.short_switch_interval:
        use_short_switch_interval()
    limits = ServiceLimits(**{setting.name: getattr(chosen, setting.name) for setting in SETTINGS})
    serve_forever(bind(chosen.form, chosen.port, limits, chosen.token_file))


if __name__ == "__main__":
    main()
