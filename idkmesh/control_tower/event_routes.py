"""The two resources that answer with events, as rows of the control tower's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.control_tower.event_query import DEFAULT_LIMIT, MAX_LIMIT
from idkmesh.httpd.responses import JSON
from idkmesh.httpd.routes import Access, Answer, EventStream, Parameter, Route

if TYPE_CHECKING:
    from idkmesh.control_tower.event_feed import EventFeed

_ID: Final = r"^[0-9a-f]{16}\.[0-9]{1,18}$"
_TEXT: Final = {"type": "string"}

_FILTERS: Final = (
    Parameter(name="type", meaning="Events of exactly this type.", schema=_TEXT),
    Parameter(name="source", meaning="Events of exactly this source.", schema=_TEXT),
    Parameter(name="subject", meaning="Events about exactly this subject.", schema=_TEXT),
)


def event_list(feed: EventFeed) -> Route:
    """Return the route of clause EV-4."""
    limits = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
    orders = {"type": "string", "enum": ["asc", "desc"], "default": "asc"}
    position = {"type": "string", "pattern": _ID}
    return Route(
        method="GET",
        path="/api/v1/events",
        access=Access.API,
        endpoint=feed.list,
        operation="listEvents",
        summary="Events that the store keeps, a page at a time.",
        parameters=(
            Parameter(name="limit", meaning="Events of a page.", schema=limits),
            Parameter(name="cursor", meaning="The position that the page begins after.", schema=position),
            Parameter(name="order", meaning="Oldest first, or newest first.", schema=orders),
            *_FILTERS,
        ),
        answers=(Answer(status=200, meaning="A page.", content_types=(JSON,), schema="event-list.json"),),
    )


def event_stream(feed: EventFeed) -> EventStream:
    """Return the stream of clause EV-5."""
    resume = Parameter(
        name="Last-Event-ID",
        meaning="The id of the last event that the client has; every later one follows. Without it: from now on.",
        schema={"type": "string", "pattern": _ID},
        place="header",
    )
    return EventStream(
        path="/api/v1/events/stream",
        access=Access.API,
        channel=feed.channel,
        subscribe=feed.subscribe,
        operation="streamEvents",
        summary="Events as they are committed.",
        parameters=(resume, *_FILTERS),
        answers=(Answer(status=200, meaning="The stream, until it ends.", content_types=("text/event-stream",)),),
    )
