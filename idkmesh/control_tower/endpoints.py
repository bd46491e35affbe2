"""The control tower's table: what it serves, to whom, and the endpoint of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.control_tower import assets
from idkmesh.control_tower.event_routes import event_list, event_stream
from idkmesh.control_tower.health_routes import dependency_routes, metrics_route
from idkmesh.control_tower.inspection_routes import http_request_route, probes_route, readiness_command_route
from idkmesh.control_tower.module_routes import module_routes
from idkmesh.control_tower.node import node_row
from idkmesh.control_tower.openapi import openapi_document, openapi_route
from idkmesh.control_tower.probes import probe_rows
from idkmesh.control_tower.topology_routes import TOWER_PATH, projection_row
from idkmesh.httpd.responses import JSON, Response, json_body
from idkmesh.httpd.routes import Access, Answer, Route, RouteTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from idkmesh.control_tower.event_feed import EventFeed
    from idkmesh.control_tower.probes import ProbeState
    from idkmesh.health.service import HealthReading
    from idkmesh.httpd.request import Request
    from idkmesh.httpd.routes import EventStream, Probe
    from idkmesh.service_runtime import ServiceIdentity, ServiceLimits
    from idkmesh.workloads.reading import WorkloadReading

_HTML: Final = "text/html; charset=utf-8"


class Tower(Protocol):
    """What a control tower says of itself. In a worker."""

    def status(self) -> dict[str, Any]:
        """Return the status document (CT-5)."""

    def health_reading(self) -> HealthReading:
        """Return what is known of its dependencies and of itself."""

    def workload_reading(self) -> WorkloadReading:
        """Return what is known of the modules that it supervises."""

    def metrics(self) -> bytes:
        """Return the text of HL-5.5."""

    def node(self) -> Response:
        """Answer how the node is (RA-5.1). On the front."""


def control_tower_table(  # noqa: PLR0913  what one table differs in from another
    identity: ServiceIdentity,
    limits: ServiceLimits,
    probes: ProbeState,
    tower: Tower,
    feed: EventFeed,
    *,
    topology: Callable[[], Response] | None = None,
) -> RouteTable:
    """Return the table of clause CT-3.1. ``tower`` gives what is to be said of this moment.

    ``topology`` gives the projection of a router, if there is one that observes (RT-12.1).
    """
    routes = (
        *_page_routes(),
        _status_route(tower.status),
        *dependency_routes(tower.health_reading),
        *module_routes(tower.workload_reading),
        metrics_route(tower.metrics),
        event_list(feed),
        _schema_route(),
        http_request_route(limits),
        probes_route(),
        readiness_command_route(),
    )
    inline = [*probe_rows(probes), node_row(tower.node)]
    if topology is not None:
        inline.append(projection_row(TOWER_PATH, topology))
    return _with_openapi(identity, routes, tuple(inline), event_stream(feed))


def _status_route(status: Callable[[], dict[str, Any]]) -> Route:
    return Route(
        method="GET",
        path="/api/v1/status",
        access=Access.API,
        endpoint=lambda _request, _body: Response(200, (), json_body(status())),
        operation="getStatus",
        summary="What the service is, the limits in force, and what is used of them.",
        answers=(Answer(status=200, meaning="Status.", content_types=(JSON,), schema="control-tower-status.json"),),
    )


def _schema_route() -> Route:
    return Route(
        method="GET",
        path="/api/v1/schemas/{name}",
        access=Access.API,
        endpoint=_schema,
        operation="getSchema",
        summary="A published JSON Schema.",
        names=assets.SCHEMA_NAMES,
        answers=(Answer(status=200, meaning="A JSON Schema (2020-12).", content_types=("application/schema+json",)),),
    )


def _with_openapi(
    identity: ServiceIdentity, routes: tuple[Route, ...], probes: tuple[Probe, ...], stream: EventStream
) -> RouteTable:
    """Add the route whose answer describes the whole table, itself included."""

    def document() -> dict[str, Any]:
        schemas = {name: assets.schema(name) for name in assets.SCHEMA_NAMES}
        return openapi_document(table, identity.service_version, schemas)

    table = RouteTable((*routes, openapi_route("/api/v1/openapi.json", document)), probes, stream)
    return table


def _page_routes() -> tuple[Route, Route]:
    page = Route(
        method="GET",
        path="/",
        access=Access.PAGE,
        endpoint=lambda _request, _body: Response(200, (), assets.static_bytes(assets.PAGE), _HTML),
        operation="getPage",
        summary="The page for a browser.",
        answers=(Answer(status=200, meaning="The page.", content_types=(_HTML,)),),
    )
    static = Route(
        method="GET",
        path="/static/{name}",
        access=Access.PAGE,
        endpoint=_static,
        operation="getStaticFile",
        summary="A file of the page.",
        names=tuple(assets.STATIC_TYPES),
        answers=(Answer(status=200, meaning="The file.", content_types=tuple(assets.STATIC_TYPES.values())),),
    )
    return page, static


def _schema(request: Request, _body: bytes) -> Response:
    return Response(200, (), assets.schema_bytes(_last_part(request)), "application/schema+json")


def _static(request: Request, _body: bytes) -> Response:
    name = request.path.removeprefix("/static/")
    return Response(200, (), assets.static_bytes(name), assets.STATIC_TYPES[name])


def _last_part(request: Request) -> str:
    """Return the name in a path that the table matched, so it is one of a fixed list."""
    return request.path.rpartition("/")[2]
