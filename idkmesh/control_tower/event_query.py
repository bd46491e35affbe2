"""What a request asks of the events: its query and its ``Last-Event-ID``. Pure; clauses EV-4 and EV-5."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from idkmesh.events.envelope import FILTERS, Position, parse_position
from idkmesh.httpd.request import Refusal
from idkmesh.service_runtime import log_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.httpd.request import Request

MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50
LIST_PARAMETERS: Final = ("limit", "cursor", "order", *FILTERS)

_LIMIT: Final = re.compile(r"[1-9][0-9]{0,2}")
_HALF_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")  # which parse_qsl takes for itself
_SHOWN: Final = 64

INVALID_LAST_EVENT_ID: Final = Refusal(
    400,
    "invalid_last_event_id",
    "Last-Event-ID is no position of this event store. Open the stream without it, and ask the list for what there is.",
)
CURSOR_EXPIRED: Final = Refusal(
    410,
    "cursor_expired",
    "Events after this position are gone: retention has given them up. Read on from the oldest event that is kept.",
)
UNKNOWN_CURSOR: Final = Refusal(
    400,
    "invalid_request",
    "The cursor is no position of this event store: it is of another store, or beyond the newest event.",
    reason="unknown_cursor",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """A query that was understood. ``wanted`` maps attributes to the one value that is asked for."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    limit: int = DEFAULT_LIMIT
    cursor: Position | None = None
    descending: bool = False


def parse_event_query(query: str, parameters: tuple[str, ...]) -> EventQuery | Refusal:
    """Read the query of a request that may have these parameters (EV-4.2), each once."""
    if _HALF_ESCAPE.search(query):
        return _refused("malformed_query", "A % in the query is not followed by two hexadecimal digits.")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict") if query else []
    except ValueError:
        return _refused("malformed_query", "The query is not of the form name=value&name=value in UTF-8.")
    given = dict(pairs)
    for name in given:
        if name not in parameters:
            known = ", ".join(parameters)
            shown = log_value(name[:_SHOWN])
            return _refused("unknown_parameter", f"There is no parameter '{shown}' here; there are: {known}.")
    if len(given) < len(pairs):
        return _refused("repeated_parameter", "A parameter is given twice.")
    return _judged(given)


def _judged(given: Mapping[str, str]) -> EventQuery | Refusal:
    limit, order = given.get("limit", str(DEFAULT_LIMIT)), given.get("order", "asc")
    if not _LIMIT.fullmatch(limit) or int(limit) > MAX_LIMIT:
        return _refused("invalid_limit", f"limit is a whole number from 1 to {MAX_LIMIT}.")
    if order not in {"asc", "desc"}:
        return _refused("invalid_order", "order is asc or desc.")
    cursor = None
    if "cursor" in given:
        cursor = parse_position(given["cursor"])
        if cursor is None:
            return _refused("invalid_cursor", "cursor is EPOCH.SEQUENCE, as an event's id or next_cursor gives it.")
    wanted = {name: given[name] for name in FILTERS if name in given}
    return EventQuery(wanted=wanted, limit=int(limit), cursor=cursor, descending=order == "desc")


def last_event_id(request: Request) -> Position | Refusal | None:
    """Return the position that ``Last-Event-ID`` names; None without one (EV-5.3, EV-5.4)."""
    values = [value for name, value in request.fields if name.lower() == "last-event-id"]
    if not values or values == [""]:
        return None
    position = parse_position(values[0]) if len(values) == 1 else None
    return position if position is not None else INVALID_LAST_EVENT_ID


def _refused(reason: str, message: str) -> Refusal:
    return Refusal(400, "invalid_request", message, reason=reason)
