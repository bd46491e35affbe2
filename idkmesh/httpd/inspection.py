"""How the request rules judge some bytes, as a document: a pure function, nothing is served or stored."""

from __future__ import annotations

import re
from typing import Any, Final

from idkmesh.httpd.request_rules import HeadLimits, Refusal, Request, read_head

KIND: Final = "idkmesh-http-request-inspection"
SCHEMA_VERSION: Final = "0.1"

_find_length = re.compile(rb"\r\ncontent-length:[ \t]*+", re.IGNORECASE).search


def inspect_request(data: bytes, limits: HeadLimits, max_body_bytes: int) -> dict[str, Any]:
    """Return the verdict on ``data``, a request's bytes as a client would send them (HS-3.1 to HS-3.10, HS-6.2).

    The document has ``verdict`` (``accepted``, ``refused``, or ``incomplete`` where the bytes end before the head
    does), the refusal's ``status``, ``code``, ``reason``, ``rfc`` and ``offset`` in bytes (null unless refused), a
    ``message``, and ``request`` and ``body`` (null unless the head broke no rule). ``body`` counts bytes:
    ``declared_bytes`` (null without Content-Length; 2**63 for 10**18 and more), ``present_bytes`` of those declared,
    and ``trailing_bytes`` beyond them, which the server never interprets. Fields are decoded as Latin-1.
    """
    verdict = read_head(data, limits)
    if isinstance(verdict, tuple):
        return _whole_head(*verdict, max_body_bytes)
    if verdict is None:
        return _document("incomplete", None, _what_is_missing(data), None, None)
    return _document("refused", verdict, verdict.message, None, None)


def _whole_head(request: Request, rest: bytes, max_body_bytes: int) -> dict[str, Any]:
    length = request.content_length or 0
    present = min(length, len(rest))
    body = {
        "declared_bytes": request.content_length,
        "present_bytes": present,
        "trailing_bytes": len(rest) - present,
    }
    if length > max_body_bytes:
        refusal = _too_large(request.head, max_body_bytes)
        return _document("refused", refusal, refusal.message, request, body)
    missing = f" Its body waits for {length - present} more bytes." if present < length else ""
    return _document("accepted", None, "The head breaks no rule." + missing, request, body)


def _too_large(head: bytes, max_body_bytes: int) -> Refusal:
    field = _find_length(head)
    return Refusal(
        413,
        "payload_too_large",
        f"The declared body is larger than {max_body_bytes} bytes.",
        reason="content_length_over_limit",
        rfc="RFC 9110 15.5.14",
        offset=None if field is None else field.end(),
    )


def _what_is_missing(data: bytes) -> str:
    start = data.rfind(b"\r\n") + 2
    if b"\r\n" not in data:
        return "The bytes end before the request line does."
    if start == len(data) or data[start:] == b"\r":
        return "The bytes end before the empty line that ends the head."
    return f"The bytes end inside the header line that starts at byte {start}."


def _document(
    verdict: str, refusal: Refusal | None, message: str, request: Request | None, body: dict[str, int | None] | None
) -> dict[str, Any]:
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict,
        "status": refusal and refusal.status,
        "code": refusal and refusal.code,
        "reason": refusal and refusal.reason,
        "rfc": refusal and refusal.rfc,
        "offset": refusal and refusal.offset,
        "message": message,
        "request": request and _describe(request),
        "body": body,
    }


def _describe(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "target": request.target,
        "path": request.path,
        "query": request.query,
        "version": request.version,
        "authority": request.authority,
        "fields": [{"name": name, "value": value} for name, value in request.fields],
        "content_length": request.content_length,
        "expect_continue": request.expect_continue,
    }
