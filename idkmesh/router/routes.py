"""The router's table: what it serves, and the endpoint of each row (RT-9.4, RT-9.10, RT-11, RT-10.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from idkmesh import __version__
from idkmesh.control_tower import assets
from idkmesh.control_tower.openapi import BEARER, About, openapi_document, openapi_route
from idkmesh.control_tower.topology_routes import projection_row
from idkmesh.httpd.exchange import current_exchange
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import JSON, Response
from idkmesh.httpd.routes import Access, Answer, Route, RouteTable
from idkmesh.router import fields
from idkmesh.router.invocation import parse_invocation
from idkmesh.topology.projection import PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.request import Request
    from idkmesh.httpd.routes import Probe
    from idkmesh.router.service import RouterService
    from idkmesh.service_runtime import ServiceUsage

INVOCATIONS_PATH: Final = "/agent/v1/invocations"
OPENAPI_PATH: Final = "/openapi.json"
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_ANY: Final = ("*/*",)
_ABOUT: Final = About(
    "IDKMesh router",
    "Asks one ready instance of an exact release, and says what it has observed of releases. Every path but the probes "
    "needs the bearer token of a credential. Refusals are the error envelope, or RFC 9457 problem details where Accept "
    "asks for them.",
    {"bearer": BEARER},
)


def router_table(service: RouterService, usage: Callable[[], ServiceUsage], probes: tuple[Probe, ...]) -> RouteTable:
    """Return the table of one router. ``usage`` tells what of its server is in use."""
    projection = service.projection
    routes = [
        _invocations(service),
        _metrics(service, usage),
        openapi_route(OPENAPI_PATH, lambda: router_document(table)),
    ]
    if projection is not None:
        probes = (*probes, projection_row(PATH, projection))
    table = RouteTable(routes, probes)
    return table


def router_document(table: RouteTable) -> dict[str, Any]:
    """Return what the table serves, with the schemas that it refers to (RT-9.10)."""
    rows: tuple[Route | Probe, ...] = (*table.routes, *table.probes)
    named = {answer.schema for row in rows for answer in row.answers}
    named |= {route.body_schema for route in table.routes} | {"error.json", "problem.json"}
    schemas = {name: assets.schema(name) for name in sorted(filter(None, named))}
    return openapi_document(table, __version__, schemas, _ABOUT)


def _invocations(service: RouterService) -> Route:
    def endpoint(request: Request, body: bytes) -> Response | Refusal:
        credential = service.credentials.of(request)
        if isinstance(credential, Refusal):  # the guard has refused it before the body was read
            return credential
        invocation = parse_invocation(body)
        if isinstance(invocation, Refusal):
            return invocation
        exchange = current_exchange.get()
        answer = service.invoke(invocation, credential, request.fields, "" if exchange is None else exchange.request_id)
        if isinstance(answer, Refusal):
            return answer
        return Response(answer.status, fields.from_agent(answer.status, answer.fields), answer.content, None)

    return Route(
        method="POST",
        path=INVOCATIONS_PATH,
        access=Access.API,
        endpoint=endpoint,
        operation="invokeAgent",
        summary="Ask one ready instance of an exact release.",
        body_types=(JSON,),
        body_schema="agent-invocation.json",
        answers=(
            Answer(status=200, meaning="What the agent has answered, as it is, with its status.", content_types=_ANY),
            _refused(400, "It is no invocation, or the agent's own answer."),
            _refused(
                502,
                "AGENT_TRANSPORT_FAILED: but for connect it may have run (RT-9.8); or the agent's own answer.",
            ),
            _refused(503, "AGENT_UNAVAILABLE or too_many_observations: nothing was sent; or the agent's own answer."),
        ),
    )


def _refused(status: int, meaning: str) -> Answer:
    return Answer(status=status, meaning=meaning, content_types=(JSON,), schema="error.json")


def _metrics(service: RouterService, usage: Callable[[], ServiceUsage]) -> Route:
    def endpoint(_request: Request, _body: bytes) -> Response:
        from idkmesh.router.metrics import exposition  # noqa: PLC0415  80 ms, for which no start waits

        return Response(200, (), exposition(service, usage()), METRICS_TYPE)

    return Route(
        method="GET",
        path="/metrics",
        access=Access.API,
        endpoint=endpoint,
        operation="getMetrics",
        summary="Observations and invocations for Prometheus.",
        answers=(Answer(status=200, meaning="Text of format 0.0.4.", content_types=(METRICS_TYPE,)),),
    )
