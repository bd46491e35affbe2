"""One table of routes: it serves, it says what a request is refused for, and the OpenAPI document is made from it.

Laws:

- A path matches when it equals a route's path, byte for byte: nothing is decoded, joined or cleaned, so no trick with
  ``%2e``, ``//`` or a NUL reaches anything, and no answer redirects.
- The order of the refusals is that of clause HS-3.13. What is judged here is pure: of the request head and the table.
- HEAD is answered on every route that answers GET.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from http import HTTPMethod
from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.httpd.request import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from idkmesh.httpd.application import Responder
    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.request import Request
    from idkmesh.httpd.responses import Response

    Endpoint = Callable[[Request, bytes], Response | Refusal]

REGISTERED_METHODS: Final = frozenset(method.value for method in HTTPMethod)
"""The methods of RFC 9110 and PATCH (RFC 5789): 405 where a resource has no such method, any other method is 501."""


class Access(enum.Enum):
    """Who may ask for a route."""

    PROBE = "probe"
    """Anybody, under any ``Host``; answered by the front from stored state, outside the cap and in a drain too."""
    PAGE = "page"
    """A loopback ``Host`` and no foreign origin."""
    API = "api"
    """The same, and the session token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One documented answer of a route. ``schema`` is the name of the published JSON Schema of its body."""

    status: int
    meaning: str
    content_types: tuple[str, ...]
    schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row of the table.

    ``path`` is exact, or ends in ``{name}``, which stands for each of ``names`` and nothing else. ``body_types`` are
    the media types of the body that the endpoint reads; without any it reads none. ``endpoint`` gets the request and
    the body's bytes; it runs in a worker, that of a probe on the front.
    """

    method: str
    path: str
    access: Access
    endpoint: Endpoint
    operation: str
    summary: str
    answers: tuple[Answer, ...]
    names: tuple[str, ...] = ()
    body_types: tuple[str, ...] = ()

    def paths(self) -> tuple[str, ...]:
        """Return every path that this route answers."""
        return tuple(self.path.replace("{name}", name) for name in self.names) or (self.path,)


@dataclass(frozen=True, slots=True)
class Resource:
    """What stands at one path: a route for each method, and the methods as ``Allow`` lists them."""

    routes: Mapping[str, Route]
    probe: bool

    @property
    def allow(self) -> str:
        """The value of ``Allow``."""
        return ", ".join(sorted(self.routes))


class RouteTable:
    """Routes by path. Raises ``ValueError`` for two routes with the same method and path, or mixed probe access."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        rows: dict[str, dict[str, Route]] = {}
        for route in self.routes:
            for path in route.paths():
                for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
                    if rows.setdefault(path, {}).setdefault(method, route) is not route:
                        raise ValueError(f"two routes answer {method} {path}")
        self._resources = {path: _resource(path, methods) for path, methods in rows.items()}

    def find(self, path: str) -> Resource | None:
        """Return what stands at ``path``, or None."""
        return self._resources.get(path)


def _resource(path: str, routes: Mapping[str, Route]) -> Resource:
    probes = {route.access is Access.PROBE for route in routes.values()}
    if len(probes) > 1:
        raise ValueError(f"{path} is a probe for one method and none for another")
    return Resource(routes, probes.pop())


class Guard(Protocol):
    """Who may ask: each method refuses, or passes with None. All run on the front."""

    def refuse_host(self, request: Request) -> Refusal | None:
        """Judge the authority that the request names."""

    def refuse_origin(self, request: Request) -> Refusal | None:
        """Judge the page that sent the request, where a browser says so."""

    def refuse_token(self, request: Request) -> Refusal | None:
        """Judge the session token."""


class RouteApplication:
    """The program that a table of routes is: an :class:`~idkmesh.httpd.application.Application`."""

    def __init__(self, table: RouteTable, guard: Guard) -> None:
        self._table = table
        self._guard = guard

    def preempt(self, request: Request) -> Response | Refusal | None:
        """Answer a probe, or refuse a foreign ``Host``."""
        resource = self._table.find(request.path)
        if resource is None or not resource.probe:
            return self._guard.refuse_host(request)
        route = resource.routes.get(request.method)
        return wrong_method(request.method, resource.allow) if route is None else route.endpoint(request, b"")

    def judge(self, request: Request) -> Responder | Refusal:
        """Give the worker its endpoint, or refuse in the order of clause HS-3.13."""
        refusal = self._guard.refuse_origin(request)
        if refusal is not None:
            return refusal
        resource = self._table.find(request.path)
        if resource is None:
            return not_found()
        route = resource.routes.get(request.method)
        if route is None:
            return wrong_method(request.method, resource.allow)
        refusal = self._guard.refuse_token(request) if route.access is Access.API else None
        return refusal or refuse_body(route, request) or _responder(route.endpoint)


def _responder(endpoint: Endpoint) -> Responder:
    def respond(exchange: Exchange) -> None:
        exchange.respond(endpoint(exchange.request, exchange.body))

    return respond


def refuse_body(route: Route, request: Request) -> Refusal | None:
    """Refuse a body of a type that the route does not read (415), or one without a declared length (411, HS-6.5)."""
    if not route.body_types:
        return None
    media_type = (request.get("content-type") or "").partition(";")[0].strip(" \t").lower()
    if media_type not in route.body_types:
        supported = ", ".join(route.body_types)
        # RFC 9110 §15.5.16: Accept tells which types would do.
        return Refusal(
            415, "unsupported_media_type", f"send one of these types: {supported}", headers=(("Accept", supported),)
        )
    if request.content_length is None:
        return Refusal(411, "length_required", "this resource reads a body: declare its Content-Length")
    return None


def not_found() -> Refusal:
    """Refuse a path that no route has. The path is not repeated: it may be the work of somebody else."""
    return Refusal(404, "not_found", "no resource has this path: GET /api/v1/openapi.json lists those there are")


def wrong_method(method: str, allow: str) -> Refusal:
    """Refuse a method on a known path: 405 with ``Allow`` for a registered one, 501 for any other (RFC 9110 §9.1)."""
    if method not in REGISTERED_METHODS:
        return Refusal(501, "not_implemented", f"this method is unknown here: use {allow}")
    return Refusal(405, "method_not_allowed", f"this resource answers {allow}", headers=(("Allow", allow),))
