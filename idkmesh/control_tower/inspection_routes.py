"""The resources that judge what a request carries, as rows of the control tower's table (CT-6)."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any, Final

from idkmesh.httpd.inspection import inspect_request
from idkmesh.httpd.request import HeadLimits, Refusal
from idkmesh.httpd.responses import JSON, Response, json_body
from idkmesh.httpd.routes import Access, Answer, Route

if TYPE_CHECKING:
    from idkmesh.httpd.request import Request
    from idkmesh.service_runtime import ServiceLimits

MAX_PROBES_BYTES: Final = 256 * 1024
"""Of one text of declarations. Hundreds of documents fit, and the worst text takes a second or two of one processor."""

MAX_FINDINGS: Final = 1000
"""That one answer tells. A hostile text of that length makes 50,000, which are 13 MB."""

SOURCE: Final = "body"
"""What findings call the text."""

TOO_LARGE: Final = Refusal(
    413, "payload_too_large", f"The body is longer than {MAX_PROBES_BYTES:,} bytes: idkmesh inspect reads larger files."
)

FORM_TOO_LARGE: Final = Refusal(413, "payload_too_large", "The body is longer than any readiness command.")


def http_request_route(limits: ServiceLimits) -> Route:
    """Return the route of clauses CT-6.1 and CT-6.2."""
    head_limits = HeadLimits(limits.max_header_fields, limits.max_header_bytes)

    def endpoint(_request: Request, body: bytes) -> Response:
        return Response(200, (), json_body(inspect_request(body, head_limits, limits.max_body_bytes)))

    verdict = Answer(
        status=200,
        meaning="The verdict, also where it is a refusal.",
        content_types=(JSON,),
        schema="http-request-inspection.json",
    )
    return Route(
        method="POST",
        path="/api/v1/inspect/http-request",
        access=Access.API,
        endpoint=endpoint,
        operation="inspectHttpRequest",
        summary="Say how the request rules judge raw request bytes.",
        body_types=("message/http", "application/octet-stream"),
        answers=(verdict,),
    )


def probes_route() -> Route:
    """Return the route of clauses CT-6.4 and CT-6.5."""
    # Two at once take twice as long each, and leave the front half of its share of the interpreter.
    one_at_a_time = threading.Lock()

    def endpoint(_request: Request, body: bytes) -> Response | Refusal:
        if len(body) > MAX_PROBES_BYTES:
            return TOO_LARGE
        with one_at_a_time:
            return Response(200, (), json_body(_probes_document(body)))

    findings = Answer(
        status=200,
        meaning="The findings, none where nothing is plainly wrong.",
        content_types=(JSON,),
        schema="inspection.json",
    )
    return Route(
        method="POST",
        path="/api/v1/inspect/probes",
        access=Access.API,
        endpoint=endpoint,
        operation="inspectProbes",
        summary="Judge the probes that a probe matrix, Kubernetes manifests or a Compose file declare.",
        body_types=("application/yaml", "application/json", "application/octet-stream"),
        answers=(findings,),
    )


def readiness_command_route() -> Route:
    """Return the route of clause CT-6.6."""

    def endpoint(_request: Request, body: bytes) -> Response | Refusal:
        judge: Any = importlib.import_module("idkmesh.workloads.readiness_inspection")  # as below: the rules of YAML
        if len(body) > judge.MAX_BODY_BYTES:
            return FORM_TOO_LARGE
        return Response(200, (), json_body(judge.inspect_readiness(body)))

    verdict = Answer(
        status=200,
        meaning="The verdict, also where it is a refusal.",
        content_types=(JSON,),
        schema="readiness-inspection.json",
    )
    return Route(
        method="POST",
        path="/api/v1/inspect/readiness-command",
        access=Access.API,
        endpoint=endpoint,
        operation="inspectReadinessCommand",
        summary="Judge a readiness command, and write it as YAML for a declaration of modules.",
        body_types=("application/json",),
        answers=(verdict,),
    )


def _probes_document(body: bytes) -> dict[str, Any]:
    # Imported here: the rules and the YAML parser take a fifth of a second, for which no start waits.
    rules: Any = importlib.import_module("idkmesh.inspection.inspect")
    report: Any = importlib.import_module("idkmesh.inspection.report_json")
    document: dict[str, Any] = report.json_report(rules.inspect_bytes(body, SOURCE), [SOURCE], MAX_FINDINGS)
    return document
