"""One table of routes: it serves, it says what a request is refused for, and the OpenAPI document is made from it.

Laws:

- A path matches when it equals a route's path, byte for byte: nothing is decoded, joined or cleaned, so no trick with
  ``%2e``, ``//`` or a NUL reaches anything, and no answer redirects. Names that are known only at run time match by
  their form, which has no ``/``; whether there is one of that name is the endpoint's to say, after the token.
- The order of the refusals is that of clause HS-3.13. What is judged here is pure: of the request head and the table.
- HEAD is answered on every route that answers GET. A stream has a place in the table like any other resource.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from http import HTTPMethod
from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.httpd.request import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from idkmesh.httpd.application import Responder, Subscription
    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.request import Request
    from idkmesh.httpd.responses import Response
    from idkmesh.httpd.streams import Channel

    Endpoint = Callable[[Request, bytes], Response | Refusal]
    Verdict = Callable[[], Response | Refusal]

REGISTERED_METHODS: Final = frozenset(method.value for method in HTTPMethod)
"""The methods of RFC 9110 and PATCH (RFC 5789): 405 where a resource has no such method, any other method is 501."""


class Access(enum.Enum):
    """Who may ask for a route."""

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
class Parameter:
    """One documented parameter of a query or field of a request; ``schema`` is its JSON Schema."""

    name: str
    meaning: str
    schema: Mapping[str, object]
    place: str = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A resource that a worker serves.

    ``path`` is exact, or ends in ``{name}``, which stands for each of ``names`` and nothing else, or, where these are
    known only at run time, for whatever ``name_form`` matches as a whole. ``body_types`` are the media types of the
    body that the endpoint reads, ``body_schema`` the name of its published JSON Schema, if it has one; without any it
    reads none. ``endpoint`` gets the request and the body's bytes.
    ``operation`` is its name in the OpenAPI document.
    """

    method: str
    path: str
    access: Access
    endpoint: Endpoint
    operation: str
    summary: str
    answers: tuple[Answer, ...]
    names: tuple[str, ...] = ()
    name_form: str | None = None
    body_types: tuple[str, ...] = ()
    body_schema: str | None = None
    parameters: tuple[Parameter, ...] = ()

    def paths(self) -> tuple[str, ...]:
        """Return every path that this route answers."""
        return tuple(self.path.replace("{name}", name) for name in self.names) or (self.path,)

    def methods(self) -> tuple[str, ...]:
        """Return every method that this route answers."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A resource that the front serves, outside the cap and in a drain too.

    Without ``access`` it is for anybody under any ``Host``. ``verdict`` reads stored state; it never waits. GET and
    HEAD only.
    """

    path: str
    verdict: Verdict
    operation: str
    summary: str
    answers: tuple[Answer, ...]
    access: Access | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStream:
    """A resource that is a stream of ``channel``'s events (EV-5).

    ``subscribe`` says where a stream begins and what it carries, or refuses it. It runs on the front: it reads the
    request and stored state, and never waits. GET and HEAD only.
    """

    path: str
    access: Access
    channel: Channel
    subscribe: Callable[[Request], Subscription | Refusal]
    operation: str
    summary: str
    answers: tuple[Answer, ...]
    parameters: tuple[Parameter, ...] = ()

    def methods(self) -> tuple[str, ...]:
        """Return every method that this resource answers."""
        return ("GET", "HEAD")


class RouteTable:
    """Routes, probes and at most one stream by path. Raises ``ValueError`` where two have the same method and path."""

    def __init__(
        self, routes: Iterable[Route], probes: Iterable[Probe] = (), stream: EventStream | None = None
    ) -> None:
        self.routes = tuple(routes)
        self.probes = tuple(probes)
        self.stream = stream
        self._probes = {probe.path: probe for probe in self.probes}
        self._resources: dict[str, dict[str, Route | EventStream]] = {}
        self._forms: dict[str, tuple[re.Pattern[str], dict[str, Route | EventStream]]] = {}
        for route in self.routes:
            if route.name_form is not None:
                self._add_form(route, route.name_form)
                continue
            for path in route.paths():
                self._add(path, route)
        if stream is not None:
            self._add(stream.path, stream)
        if len(self._probes) < len(self.probes) or not self._probes.keys().isdisjoint(self._resources):
            raise ValueError("a probe's path is used twice")

    def _add_form(self, route: Route, form: str) -> None:
        prefix, braces, rest = route.path.partition("{name}")
        if not prefix.endswith("/") or not braces or rest or prefix in self._forms or re.fullmatch(form, "/"):
            raise ValueError(f"names by their form are the last part of a path that no other route has: {route.path}")
        self._forms[prefix] = re.compile(form), dict.fromkeys(route.methods(), route)

    def _add(self, path: str, route: Route | EventStream) -> None:
        resource = self._resources.setdefault(path, {})
        for method in route.methods():
            if method in resource:
                raise ValueError(f"two routes answer {method} {path}")
            resource[method] = route

    def probe(self, path: str) -> Probe | None:
        """Return the probe at ``path``, or None."""
        return self._probes.get(path)

    def resource(self, path: str) -> Mapping[str, Route | EventStream] | None:
        """Return what is at ``path`` by method, or None."""
        resource = self._resources.get(path)
        if resource is None and self._forms:
            prefix, slash, name = path.rpartition("/")
            form = self._forms.get(prefix + slash)
            if form is not None and form[0].fullmatch(name):
                return form[1]
        return resource


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
        self.channel = table.stream.channel if table.stream is not None else None

    def preempt(self, request: Request) -> Response | Refusal | None:
        """Answer a probe, or refuse a foreign ``Host``."""
        probe = self._table.probe(request.path)
        if probe is None:
            return self._guard.refuse_host(request)
        refusal = None
        if probe.access is not None:
            refusal = self._guard.refuse_host(request) or self._guard.refuse_origin(request)
        if refusal is None and request.method not in {"GET", "HEAD"}:
            refusal = wrong_method(request.method, ("GET", "HEAD"))
        if refusal is None and probe.access is Access.API:
            refusal = self._guard.refuse_token(request)
        return refusal or probe.verdict()

    def streams(self, request: Request) -> bool:
        """Say whether the request is for the table's stream."""
        return self._table.stream is not None and request.path == self._table.stream.path

    def judge(self, request: Request) -> Responder | Subscription | Refusal:
        """Give the worker its endpoint or the hub its stream, or refuse in the order of clause HS-3.13."""
        refusal = self._guard.refuse_origin(request)
        if refusal is not None:
            return refusal
        resource = self._table.resource(request.path)
        if resource is None:
            return not_found()
        route = resource.get(request.method)
        if route is None:
            return wrong_method(request.method, resource)
        if route.access is Access.API:
            refusal = self._guard.refuse_token(request)
        if isinstance(route, EventStream):
            return refusal or route.subscribe(request)
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
            415, "unsupported_media_type", f"Send one of these types: {supported}.", headers=(("Accept", supported),)
        )
    if request.content_length is None:
        return Refusal(411, "length_required", "This resource reads a body: declare its Content-Length.")
    return None


def not_found() -> Refusal:
    """Refuse a path that no route has. The path is not repeated: it may be the work of somebody else."""
    return Refusal(404, "not_found", "No resource has this path.")


def wrong_method(method: str, allowed: Iterable[str]) -> Refusal:
    """Refuse a method on a known path: 405 with ``Allow`` for a registered one, 501 for any other (RFC 9110 §9.1)."""
    allow = ", ".join(sorted(allowed))
    if method not in REGISTERED_METHODS:
        return Refusal(501, "not_implemented", f"This method is not known here. This resource answers {allow}.")
    return Refusal(405, "method_not_allowed", f"This resource answers {allow}.", headers=(("Allow", allow),))
