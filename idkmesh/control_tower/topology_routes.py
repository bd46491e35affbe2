"""The resource that tells of a router's topology, as a row of the control tower's table (RT-12.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.router.routes import projection_route

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.routes import Route

PATH: Final = "/api/v1/topology"


def topology_routes(projection: Callable[[], bytes] | None) -> tuple[Route, ...]:
    """Return the route of clause RT-12.1; none where no router observes anything continuously (RT-11.4)."""
    return () if projection is None else (projection_route(PATH, projection),)
