"""The resources that tell of health, as rows of the control tower's table (HL-5.3, HL-5.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.control_tower.list_routes import Named, Told, list_and_item_routes
from idkmesh.health.document import dependency_list, one_dependency_document
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import Response, json_list_body
from idkmesh.httpd.routes import Access, Answer, Route

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from idkmesh.health.service import HealthReading

PATH: Final = "/api/v1/dependencies"
NAME_FORM: Final = "[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?"
"""The form of a dependency's name, as a matrix may write it. It can be looked for in a path as it is."""
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Stands here too: the library that writes the text takes 80 ms to import, for which no start waits."""

NO_SUCH: Final = Refusal(404, "not_found", "The matrix has no dependency of this name.")


def dependency_routes(reading: Callable[[], HealthReading]) -> tuple[Route, Route]:
    """Return the routes of clause HL-5.3."""

    def every() -> bytes:
        health = reading()
        head, items = dependency_list(health.snapshot, health.matrix, health.now)
        return json_list_body(head, "items", items)

    def one(name: str) -> dict[str, Any] | None:
        health = reading()
        return one_dependency_document(health.snapshot, name, health.now)

    summary = "What is known of each dependency, and what readiness they come to."
    told = (
        Told("listDependencies", summary, "All of them.", "dependency-list.json"),
        Told("getDependency", "What is known of one dependency.", "The dependency.", "dependency.json"),
    )
    return list_and_item_routes(PATH, every, Named(NAME_FORM, one, NO_SUCH), told)


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
