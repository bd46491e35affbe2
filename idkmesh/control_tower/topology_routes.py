"""The resource that tells of a router's topology, for the tables of a router and of a tower (RT-11, RT-12.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.httpd.responses import JSON
from idkmesh.httpd.routes import Access, Answer, Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.responses import Response

TOWER_PATH: Final = "/api/v1/topology"


def projection_row(path: str, projection: Callable[[], Response]) -> Probe:
    """Return the row of a projection. The front answers it: agents that hold every slot must not hide it (RT-11.7)."""
    return Probe(
        path=path,
        verdict=projection,
        access=Access.API,
        operation="getTopology",
        summary="What the router has observed of each release that was asked for.",
        answers=(
            Answer(
                status=200,
                meaning="All of them; with X-IDKMesh-Age as they were that many seconds ago (RT-11.6).",
                content_types=(JSON,),
                schema="router-topology-status.v1.json",
            ),
        ),
    )
