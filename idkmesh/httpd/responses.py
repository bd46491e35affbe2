"""A response as a value, and its bytes: status line, header block, envelope.

Laws:

- Every response ends its connection (``Connection: close``) and says its length, but for a stream of events.
- What is the same in every response is rendered once, when the renderer is made.
- No value can add a line to the head: a name or value with a control byte raises ``ValueError``.
- The answer to HEAD has the header fields of the answer to GET and no body (RFC 9110 §9.3.2); 204 and 304 have none.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from idkmesh.httpd.errors import ERROR_CODES
from idkmesh.httpd.request import MAX_LIST_CHARACTERS
from idkmesh.service_runtime import service_headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from idkmesh.httpd.request import Refusal, Request
    from idkmesh.httpd.stored_body import StoredBody
    from idkmesh.service_runtime import ServiceIdentity

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

CONTENT_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""For whatever a browser may take for a page: the service's own files alone, nothing inline, no markup from strings."""

_BODILESS: Final = frozenset({HTTPStatus.NO_CONTENT.value, HTTPStatus.NOT_MODIFIED.value})
_STATUS_LINES: Final = {status.value: f"HTTP/1.0 {status.value} {status.phrase}\r\nDate: " for status in HTTPStatus}
# RFC 9110 §5.6.2 (token) and §5.5 (field value: no control byte but HTAB).
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
# RFC 9110 §12.4.2: at most three decimals.
_WEIGHT: Final = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: ``status``, the body's bytes and type, and header fields beyond those that every response has.

    ``content_type`` is None where none is said, or where ``headers`` say it. ``stored`` is, instead of ``body``, that
    of an answer that is the same for many.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str | None = JSON
    stored: StoredBody | None = None


class ResponseRenderer:
    """Writes responses and refusals of one service as the bytes to send. ``retry_after`` is in seconds.

    Every response has the fields of :func:`~idkmesh.service_runtime.service_headers` and :data:`CONTENT_POLICY`.
    """

    def __init__(self, identity: ServiceIdentity, *, retry_after: int = 1) -> None:
        policy = ("Content-Security-Policy", CONTENT_POLICY)
        self._constant = header_lines((*service_headers(identity), policy, ("Connection", "close"))) + "\r\n"
        self._retry_after = ("Retry-After", str(retry_after))

    def render(self, response: Response, request: Request | None, request_id: str, now_http_date: str) -> bytes:
        """Return the whole response. ``now_http_date`` is an IMF-fixdate (RFC 9110 §5.6.7), ``request_id`` a safe id.

        Of a body that is stored the head alone: :func:`stored_for` says whether it follows. An unregistered status has
        no phrase (RFC 9112 §4). Raises ``ValueError`` for what would be no field line.
        """
        status = response.status
        if status in _BODILESS:
            # RFC 9110 §8.6: no Content-Length in a 204; in a 304 it would be that of a representation not at hand.
            entity, body = "", b""
        else:
            body = response.body
            kind = "" if response.content_type is None else _content_type_line(response.content_type)
            length = len(body) if response.stored is None else response.stored.length
            entity = f"{kind}Content-Length: {length}\r\n"
            if request is not None and request.method == "HEAD":
                body = b""
        extra = header_lines(response.headers) if response.headers else ""
        if not request_id.isprintable():
            raise ValueError("a request id is printable ASCII")
        line = _STATUS_LINES.get(status) or f"HTTP/1.0 {status:03} \r\nDate: "
        head = f"{line}{now_http_date}\r\n{entity}X-Request-ID: {request_id}\r\n{extra}{self._constant}"
        return head.encode("latin-1") + body

    def stream_head(
        self, content_type: str, fields: Iterable[tuple[str, str]], request_id: str, now_http_date: str
    ) -> bytes:
        """Return the head of a 200 whose body has no length: it ends where the connection ends (RFC 9112 §6.3)."""
        extra = header_lines((("Content-Type", content_type), ("X-Request-ID", request_id), *fields))
        return f"{_STATUS_LINES[200]}{now_http_date}\r\n{extra}{self._constant}".encode("latin-1")

    def render_refusal(self, refusal: Refusal, request: Request | None, request_id: str, now_http_date: str) -> bytes:
        """Return the envelope of a refusal as a whole response, in the representation that ``Accept`` prefers."""
        return self.render(self.refusal_response(refusal, request), request, request_id, now_http_date)

    def refusal_response(self, refusal: Refusal, request: Request | None) -> Response:
        """Return a refusal as a response: the envelope or problem+json; a 503 says when to ask again."""
        headers = refusal.headers
        if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers = (*headers, self._retry_after)
        problem = request is not None and prefers_problem_json(request.get("accept"))
        return Response(refusal.status, headers, _refusal_body(refusal, problem), PROBLEM_JSON if problem else JSON)


def stored_for(response: Response, request: Request | None) -> StoredBody | None:
    """Return the stored body that follows the head of a response to a request, None where none does."""
    bodiless = response.status in _BODILESS or (request is not None and request.method == "HEAD")
    return None if bodiless else response.stored


def is_field(name: str, value: str) -> bool:
    """Say whether a name and a value may stand in a head (RFC 9110 §5.1, §5.5)."""
    return _FIELD_NAME.fullmatch(name) is not None and _FIELD_VALUE.fullmatch(value) is not None


def header_lines(fields: Iterable[tuple[str, str]]) -> str:
    """Return fields as header lines, each with its CRLF. Raises ``ValueError`` for what would be no single field."""
    lines = []
    for name, value in fields:
        if not is_field(name, value):  # the value is not shown: it may be a secret, and this ends in a log
            raise ValueError(f"not a header field: {name!r}")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)


@lru_cache(maxsize=64)
def _content_type_line(content_type: str) -> str:
    return header_lines((("Content-Type", content_type),))


def json_body(document: Mapping[str, Any]) -> bytes:
    """Return a document as compact UTF-8 JSON. NaN and infinities, which JSON has not, raise ``ValueError``."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Only a lone surrogate cannot be encoded, and Python's escape of one is JSON's too.
    return text.encode("utf-8", "backslashreplace")


def json_list_body(head: Mapping[str, Any], member: str, items: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the document of ``head``, which has members, and of a list under ``member`` as :func:`json_body` does.

    Each item is taken and written by itself: one call for a long list would hold the interpreter, and so would the
    collector with all that is in it; and with the interpreter everybody who is to answer within milliseconds.
    """
    texts = b",".join(map(json_body, items))
    return b"%b,%b:[%b]}" % (json_body(head)[:-1], json.dumps(member).encode(), texts)


def error_document(refusal: Refusal) -> dict[str, Any]:
    """Return the error envelope of clause HS-12.1 for a refusal."""
    return {
        "api_version": "v1",
        "schema_version": "0.1",
        "kind": "idkmesh-api-error",
        "ok": False,
        "error": {
            "code": refusal.code,
            "message": refusal.message,
            "retryable": ERROR_CODES[refusal.code].retryable,
            "details": refusal_details(refusal),
        },
    }


def problem_document(refusal: Refusal) -> dict[str, Any]:
    """Return the same as problem details (RFC 9457).

    The type is ``about:blank``, so the title is the status phrase (§4.2.1); the code is an extension member.
    """
    return {
        "type": "about:blank",
        "title": HTTPStatus(refusal.status).phrase,
        "status": refusal.status,
        "detail": refusal.message,
        "code": refusal.code,
        "retryable": ERROR_CODES[refusal.code].retryable,
        "details": refusal_details(refusal),
    }


def refusal_details(refusal: Refusal) -> dict[str, str | int]:
    """Return what is known: ``reason``, ``rfc`` and ``offset``, each where there is one, and what else there is."""
    details = (("reason", refusal.reason), ("rfc", refusal.rfc), ("offset", refusal.offset), *refusal.details)
    return {name: value for name, value in details if value is not None}


# Under overload the same few refusals are answered thousands of times a second.
@lru_cache(maxsize=64)
def _refusal_body(refusal: Refusal, problem: bool) -> bytes:  # noqa: FBT001  one of two representations
    return json_body(problem_document(refusal) if problem else error_document(refusal))


def prefers_problem_json(accept: str | None) -> bool:
    """Say whether an ``Accept`` field asks for problem+json: named, wanted, and liked no less than plain JSON.

    Weights and precedence are those of RFC 9110 §12.5.1: the most specific range decides, a malformed one counts for
    nothing. At equal weight problem+json wins only if plain JSON is not named too: JSON is the default, for a field of
    more than :data:`MAX_LIST_CHARACTERS` as well.
    """
    if not accept or len(accept) > MAX_LIST_CHARACTERS or PROBLEM_JSON not in accept.lower():
        return False
    weights = _accept_weights(accept)
    problem = weights.get(PROBLEM_JSON, 0.0)
    plain = weights.get(JSON, weights.get("application/*", weights.get("*/*", 0.0)))
    return problem > plain or (problem == plain > 0.0 and JSON not in weights)


def _accept_weights(accept: str) -> dict[str, float]:
    """Return the weight of each media range, in lower case and without parameters; of one named twice, the larger."""
    weights: dict[str, float] = {}
    for element in accept.lower().split(","):
        media_range, *parameters = (part.strip(" \t") for part in element.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name == "q":
                weight = float(value) if _WEIGHT.fullmatch(value) else 0.0
        weights[media_range] = max(weight, weights.get(media_range, 0.0))
    return weights
