"""The resources that tell of health, as rows of the control tower's table (HL-5.3, HL-5.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.health.document import dependency_list, one_dependency_document
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import JSON, Response, json_body, json_list_body
from idkmesh.httpd.routes import Access, Answer, Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.health.service import HealthReading
    from idkmesh.httpd.request import Request

PATH: Final = "/api/v1/dependencies"
NAME_FORM: Final = "[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?"
"""The form of a dependency's name, as a matrix may write it. It can be looked for in a path as it is."""
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Stands here too: the library that writes the text takes 80 ms to import, for which no start waits."""

NO_SUCH: Final = Refusal(404, "not_found", "The matrix has no dependency of this name.")


def dependency_routes(reading: Callable[[], HealthReading]) -> tuple[Route, Route]:
    """Return the routes of clause HL-5.3."""

    def all_of_them(_request: Request, _body: bytes) -> Response:
        health = reading()
        head, items = dependency_list(health.snapshot, health.matrix, health.now)
        return Response(200, (), json_list_body(head, "items", items))

    def one_of_them(request: Request, _body: bytes) -> Response | Refusal:
        health = reading()
        name = request.path.rpartition("/")[2]
        document = one_dependency_document(health.snapshot, name, health.now)
        return NO_SUCH if document is None else Response(200, (), json_body(document))

    return (
        Route(
            method="GET",
            path=PATH,
            access=Access.API,
            endpoint=all_of_them,
            operation="listDependencies",
            summary="What is known of each dependency, and what readiness they come to.",
            answers=(Answer(status=200, meaning="All of them.", content_types=(JSON,), schema="dependency-list.json"),),
        ),
        Route(
            method="GET",
            path=PATH + "/{name}",
            access=Access.API,
            endpoint=one_of_them,
            operation="getDependency",
            summary="What is known of one dependency.",
            name_form=NAME_FORM,
            answers=(Answer(status=200, meaning="The dependency.", content_types=(JSON,), schema="dependency.json"),),
        ),
    )


def metrics_route(metrics: Callable[[], bytes]) -> Route:
    """Return the route of clause HL-5.5."""
    return Route(
        method="GET",
        path="/metrics",
        access=Access.API,
        endpoint=lambda _request, _body: Response(200, (), metrics(), METRICS_TYPE),
        operation="getMetrics",
        summary="Health, limits and usage for Prometheus.",
        answers=(Answer(status=200, meaning="Text of format 0.0.4.", content_types=(METRICS_TYPE,)),),
    )
