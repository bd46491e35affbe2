"""The stable error codes, in one table: status, whether a retry helps, what it means, what to do.

The error envelope (:mod:`idkmesh.httpd.responses`) and the page ``docs/reference/errors.md`` come from this table; a
test compares them. A code keeps its name and its status; a new situation gets a new code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row: ``code`` is answered with ``status``; ``retryable`` says whether the same request may succeed later."""

    code: str
    status: int
    meaning: str
    remedy: str
    retryable: bool = False
    again: str = ""
    """Whether asking again helps, where one word does not say it."""


_ROWS: Final = (
    ErrorCode(
        "invalid_request",
        400,
        "The request breaks a rule of HTTP. details.reason names the rule, details.rfc its clause, details.offset the "
        "byte where it was broken.",
        "Mend the client; POST the bytes to /api/v1/inspect/http-request to see the rule.",
    ),
    ErrorCode(
        "unauthorized",
        401,
        "The token is missing; of the control tower also: it is another one.",
        "Open the link that the command printed, or send the token as `Authorization: Bearer TOKEN`.",
    ),
    ErrorCode(
        "forbidden",
        403,
        "Whoever asks is not who may: of a readiness adapter another peer, or one that asks for somebody else; of a "
        "router a token that is of none of its credentials.",
        "Ask a readiness adapter from its own machine, directly, and without the fields that a proxy adds; a router "
        "with the token of a credential that its configuration names.",
    ),
    ErrorCode(
        "forbidden_host",
        403,
        "The request names a host that is not this machine's loopback address with the port of this service.",
        "Use the address that the command printed. A page on another site must not reach this service.",
    ),
    ErrorCode(
        "forbidden_origin",
        403,
        "A page of another origin sent the request.",
        "Send it from the service's own page, or from a program that sends no Origin.",
    ),
    ErrorCode(
        "invalid_last_event_id",
        400,
        "Last-Event-ID is no position of this event store: malformed, of another store, or beyond the newest event.",
        "Ask GET /api/v1/events for what there is, and open the stream without Last-Event-ID.",
    ),
    ErrorCode("not_found", 404, "No resource has this path.", "GET /api/v1/openapi.json lists the paths."),
    ErrorCode(
        "method_not_allowed",
        405,
        "The resource does not answer this method.",
        "Use a method of the Allow field.",
    ),
    ErrorCode(
        "request_timeout",
        408,
        "The body was not complete in time.",
        "Send the request again, faster; or raise --request-timeout.",
        retryable=True,
    ),
    ErrorCode(
        "cursor_expired",
        410,
        "The position lies before the oldest event that is kept: what followed it is gone.",
        "Read on from the oldest event that is kept: GET /api/v1/events without a cursor.",
    ),
    ErrorCode(
        "length_required",
        411,
        "The resource reads a body, and the request declares no Content-Length.",
        "Send Content-Length.",
    ),
    ErrorCode(
        "payload_too_large",
        413,
        "The declared body is larger than max_body_bytes, or than the resource reads.",
        "Send less; or raise --max-body-bytes where that is the bound.",
    ),
    ErrorCode("uri_too_long", 414, "The request line is longer than 65,536 bytes.", "Send a shorter target."),
    ErrorCode(
        "unsupported_media_type",
        415,
        "The resource does not read this Content-Type.",
        "Send a type that the Accept field of the answer lists.",
    ),
    ErrorCode(
        "headers_too_large",
        431,
        "A header line, the number of header fields or their sum is over its limit.",
        "Send fewer or shorter header fields.",
    ),
    ErrorCode(
        "internal_error",
        500,
        "A handler failed. The log names the request id.",
        "Look up the request id in the log of the service.",
    ),
    ErrorCode(
        "not_implemented",
        501,
        "The method or the transfer coding is not known here.",
        "Use a registered method; send Content-Length in place of Transfer-Encoding.",
    ),
    ErrorCode(
        "overloaded",
        503,
        "As many requests are being handled as max_concurrent_requests allows, or the buffers are full.",
        "Wait for Retry-After seconds and send the request again.",
        retryable=True,
    ),
    ErrorCode(
        "shutting_down",
        503,
        "The service is draining: what was admitted is finished, nothing new is.",
        "Wait for Retry-After seconds and send the request again; another instance, or the next start, answers.",
        retryable=True,
    ),
    ErrorCode(
        "too_many_streams",
        503,
        "As many event streams are open as max_sse_clients allows.",
        "Close one; or raise --max-sse-clients. One browser needs one stream, however many tabs it has.",
        retryable=True,
    ),
    ErrorCode(
        "AGENT_UNAVAILABLE",
        503,
        "The router knows of no ready endpoint of the release; details.state says what it knows. Nothing was sent.",
        "Wait for Retry-After seconds and ask again; look whether the release is declared and an instance registered.",
        retryable=True,
    ),
    ErrorCode(
        "AGENT_TRANSPORT_FAILED",
        502,
        "The agent's endpoint did not answer, or not within the bounds; details.reason is connect, timeout, closed, "
        "malformed or too_large. But for connect, the agent may have run what it was asked.",
        "Look at the instance, which is registered still.",
        again="After connect nothing was sent, and the same request may succeed later; after anything else ask again "
        "only where running twice does no harm.",
    ),
    ErrorCode(
        "too_many_observations",
        503,
        "The router observes as many releases as max_observations allows, and this one is none of them.",
        "Raise max_observations, or wait: one that was not used for an hour is observed no more.",
        retryable=True,
    ),
    ErrorCode(
        "version_not_supported",
        505,
        "The request speaks another major version of HTTP.",
        "Speak HTTP/1.1 or HTTP/1.0.",
    ),
)

ERROR_CODES: Final[Mapping[str, ErrorCode]] = {row.code: row for row in _ROWS}
"""Every code that this version answers, by name."""
