"""Which header fields go on to an agent, and which of its come back (RT-9.5). Pure.

Both ways drop what is of one connection alone: the fields of RFC 9110 §7.6.1, and those that ``Connection`` names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    Fields = Iterable[tuple[str, str]]

HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
        *("proxy-authenticate", "proxy-authorization", "proxy-authentication-info"),
    }
)

CREDENTIALS: Final = frozenset({"authorization", "cookie", "cookie2", "x-idkmesh-ui-token"})
"""Of the caller, for the router: no agent is to have them."""

_OF_THE_REQUEST: Final = frozenset({"host", "expect", "content-length", "accept-charset", "max-forwards", "range"})
"""About the caller's own request. What it asks of the agent is another one, whole, and sent without waiting."""

_OF_ITS_CONTENT: Final = ("content-", "if-", "digest", "repr-digest", "want-")
"""Beginnings of names of fields about the body that the caller sent, or about a resource of the router's."""

_OWN: Final = frozenset(
    {
        *("date", "content-length", "x-request-id", "cache-control", "referrer-policy", "content-security-policy"),
        *("x-content-type-options", "cross-origin-opener-policy", "cross-origin-resource-policy"),
    }
)
"""Fields that every answer of the router has, with its own values (HS-12.2)."""

_OWN_PREFIX: Final = "x-idkmesh-"


def to_agent(fields: Fields, request_id: str) -> list[tuple[str, str]]:
    """Return the fields of the request that an agent gets, but for ``Host`` and those of its content."""
    kept = [
        (name, value)
        for name, value in _end_to_end(fields)
        if (lower := name.lower()) not in CREDENTIALS | _OF_THE_REQUEST
        and not lower.startswith(_OF_ITS_CONTENT)
        and lower != "x-request-id"
    ]
    return [*kept, ("X-Request-ID", request_id)]


def from_agent(status: int, fields: Fields) -> tuple[tuple[str, str], ...]:
    """Return the fields of an agent's answer that the caller gets, beside those of the router's own.

    The last says that the agent has answered, and how (RFC 9209 §2.1.4): an agent's 503 may be, byte for byte, what the
    router itself would say where it had no place.
    """
    passed = tuple(
        (name, value)
        for name, value in _end_to_end(fields)
        if (lower := name.lower()) not in _OWN and not lower.startswith(_OWN_PREFIX)
    )
    return (*passed, ("Proxy-Status", f"idkmesh-router; received-status={status}"))


def _end_to_end(fields: Fields) -> list[tuple[str, str]]:
    known = list(fields)
    named = {
        option.strip(" \t").lower()
        for name, value in known
        if name.lower() == "connection"
        for option in value.split(",")
    }
    return [(name, value) for name, value in known if name.lower() not in HOP_BY_HOP | named]
