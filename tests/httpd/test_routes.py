"""The table of routes: what is refused, in which order, and what is answered."""

from __future__ import annotations

from http import HTTPMethod
from typing import Any

import pytest

from idkmesh.httpd.application import Subscription
from idkmesh.httpd.request import HeadLimits, Refusal, Request
from idkmesh.httpd.request_rules import judge_head
from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import Access, Probe, Route, RouteApplication, RouteTable

NO_HOST = Refusal(403, "forbidden_host", "host")
NO_ORIGIN = Refusal(403, "forbidden_origin", "origin")
NO_TOKEN = Refusal(401, "unauthorized", "token")
ALIVE = Response(200, (), b"ok", "text/plain")


class StubGuard:
    """Refuses what a field asks it to."""

    def refuse_host(self, request: Request) -> Refusal | None:
        return NO_HOST if request.get("x-bad-host") else None

    def refuse_origin(self, request: Request) -> Refusal | None:
        return NO_ORIGIN if request.get("x-bad-origin") else None

    def refuse_token(self, request: Request) -> Refusal | None:
        return None if request.get("x-token") else NO_TOKEN


class StubExchange:
    def __init__(self, request: Request, body: bytes) -> None:
        self.request = request
        self.body = body
        self.response: Response | None = None

    def respond(self, response: Response) -> None:
        self.response = response


def route(method: str, path: str, access: Access = Access.API, **more: Any) -> Route:
    return Route(
        method=method,
        path=path,
        access=access,
        endpoint=lambda request, body: Response(200, (), f"{request.method} {request.path} ".encode() + body),
        operation="op",
        summary="s",
        answers=(),
        **more,
    )


TABLE = RouteTable(
    (
        route("GET", "/", Access.PAGE),
        route("GET", "/api"),
        route("POST", "/api/inspect", body_types=("message/http", "application/octet-stream")),
        route("GET", "/api/{name}/x", names=("one", "two")),
    ),
    (Probe(path="/healthz", verdict=lambda: ALIVE, operation="h", summary="s", answers=()),),
)
APPLICATION = RouteApplication(TABLE, StubGuard())


def make(line: str, *fields: str) -> Request:
    head = "".join(f"{text}\r\n" for text in (f"{line} HTTP/1.1", "Host: a", *fields, ""))
    judged = judge_head(head.encode("latin-1"), HeadLimits())
    assert isinstance(judged, Request), judged
    return judged


def outcome(line: str, *fields: str, body: bytes = b"") -> tuple[int, str]:
    """Return status and code, or status and body, of what the front and a worker would do."""
    request = make(line, *fields)
    answer = APPLICATION.preempt(request) or APPLICATION.judge(request)
    if callable(answer):
        exchange = StubExchange(request, body)
        answer(exchange)  # type: ignore[arg-type]
        assert exchange.response is not None
        answer = exchange.response
    assert not isinstance(answer, Subscription)
    return answer.status, answer.code if isinstance(answer, Refusal) else answer.body.decode()


TOKEN = "X-Token: 1"
WRONG = ("X-Bad-Origin: 1", "X-Bad-Host: 1")


@pytest.mark.parametrize(
    ("line", "fields", "expected"),
    [
        ("GET /healthz", WRONG, (200, "ok")),
        ("HEAD /healthz", WRONG, (200, "ok")),
        ("POST /healthz", WRONG, (405, "method_not_allowed")),
        ("GET /nowhere", WRONG, (403, "forbidden_host")),
        ("GET /nowhere", ("X-Bad-Origin: 1",), (403, "forbidden_origin")),
        ("PATCH /nowhere", (), (404, "not_found")),
        ("BREW /nowhere", (), (404, "not_found")),
        ("DELETE /api", (), (405, "method_not_allowed")),
        ("BREW /api", (), (501, "not_implemented")),
        ("get /api", (), (501, "not_implemented")),
        ("GET /api", (), (401, "unauthorized")),
        ("POST /api/inspect", (), (401, "unauthorized")),
        ("POST /api/inspect", (TOKEN,), (415, "unsupported_media_type")),
        ("POST /api/inspect", (TOKEN, "Content-Type: text/plain"), (415, "unsupported_media_type")),
        ("POST /api/inspect", (TOKEN, "Content-Type: message/http"), (411, "length_required")),
        ("GET /", (), (200, "GET / ")),
        ("GET /?x=1", (), (200, "GET / ")),
        ("GET /api", (TOKEN,), (200, "GET /api ")),
        ("HEAD /api", (TOKEN,), (200, "HEAD /api ")),
        ("OPTIONS /api", (), (405, "method_not_allowed")),
        ("OPTIONS *", (), (404, "not_found")),
    ],
)
def test_order_of_refusals(line: str, fields: tuple[str, ...], expected: tuple[int, str]) -> None:
    """HS-3.13, CT-3.5, CT-3.6: probe, Host, Origin, 404, 405 or 501, 401, 415, 411; then the endpoint."""
    assert outcome(line, *fields) == expected


def test_body_reaches_the_endpoint() -> None:
    """CT-6.1: each type is read, parameters and case aside."""
    for kind in ("message/http", "Application/Octet-Stream", "message/http; msgtype=request"):
        fields = (TOKEN, f"Content-Type: {kind}", "Content-Length: 3")
        assert outcome("POST /api/inspect", *fields, body=b"abc") == (200, "POST /api/inspect abc")


@pytest.mark.parametrize("method", sorted(method.value for method in HTTPMethod if method.value != "CONNECT"))
def test_405_lists_the_methods(method: str) -> None:
    """HS-3.13: a registered method that a resource has not is 405 with Allow (RFC 9110 15.5.6)."""
    for path, allow in (("/api", "GET, HEAD"), ("/api/inspect", "POST"), ("/healthz", "GET, HEAD")):
        request = make(f"{method} {path}", TOKEN, "Content-Type: message/http", "Content-Length: 0")
        answer = APPLICATION.preempt(request) or APPLICATION.judge(request)
        if method in allow.split(", "):
            assert not isinstance(answer, Refusal)
        else:
            assert isinstance(answer, Refusal)
            assert (answer.status, answer.headers) == (405, (("Allow", allow),))


def test_415_says_which_types_would_do() -> None:
    """RFC 9110 15.5.16."""
    answer = APPLICATION.judge(make("POST /api/inspect", TOKEN))
    assert isinstance(answer, Refusal)
    assert answer.headers == (("Accept", "message/http, application/octet-stream"),)


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example/..%2f",
        "///evil.example/",
        "/\\evil.example/",
        "/%5cevil.example",
        "/%2f/evil.example",
        "http://evil.example//",
        "//",
        "/api/",
        "/API",
        "/%61pi",
        "/api/./one/x",
        "/api/one%2fx",
        "/api/one/x/",
        "/api/three/x",
        "/api/{name}/x",
        "/api/%00/x",
        "/api/../api",
        "/%zz",
        "/%",
        "/" + "a" * 3000,
    ],
)
def test_a_path_matches_as_it_is_or_not_at_all(target: str) -> None:
    """CT-3.2: nothing is decoded or cleaned, nothing redirects."""
    assert outcome(f"GET {target}", TOKEN) == (404, "not_found")


def test_names_are_a_fixed_list() -> None:
    """CT-3.2: a placeholder stands for its names alone."""
    assert outcome("GET /api/one/x", TOKEN) == (200, "GET /api/one/x ")
    assert outcome("GET /api/two/x", TOKEN) == (200, "GET /api/two/x ")


def test_a_table_has_one_row_for_each_method_and_path() -> None:
    """CT-3.1: two rows for one request are an error of the program, told at start."""
    with pytest.raises(ValueError, match="two routes answer HEAD /"):
        RouteTable((route("GET", "/"), route("HEAD", "/")))
    with pytest.raises(ValueError, match="used twice"):
        RouteTable((route("GET", "/healthz"),), TABLE.probes)
    with pytest.raises(ValueError, match="used twice"):
        RouteTable((), TABLE.probes * 2)
    RouteTable((route("GET", "/"), route("POST", "/")))
