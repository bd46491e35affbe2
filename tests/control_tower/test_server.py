"""The control tower over sockets: what it answers, to whom."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any

import jsonschema
import openapi_spec_validator
import pytest

from idkmesh.control_tower import assets
from idkmesh.control_tower.inspection_routes import MAX_FINDINGS, MAX_PROBES_BYTES
from idkmesh.control_tower_ui import ControlTowerServer
from idkmesh.service_runtime import ServiceLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN = "secret-token-of-the-test-suite-0123456789"
PROBES = ("/healthz", "/livez", "/readyz", "/startupz")
PAGES = ("/", *(f"/static/{name}" for name in assets.STATIC_TYPES))
API = ("/api/v1/status", "/api/v1/openapi.json", *(f"/api/v1/schemas/{name}" for name in assets.SCHEMA_NAMES))


def validate(document: Any, name: str) -> None:
    jsonschema.Draft202012Validator(assets.schema(name)).validate(document)


@pytest.mark.parametrize("path", PROBES)
@pytest.mark.parametrize("host", ["10.244.0.5:8000", "pod", "evil.example", "localhost"])
def test_probes_answer_under_any_host(tower: Any, path: str, host: str) -> None:
    """CT-4.1, PROBE-10: a kubelet sends the pod's address, no Accept, HTTP/1.0; no token."""
    answer = tower.ask(f"GET {path}", "User-Agent: kube-probe/1.30", "Sec-Fetch-Site: cross-site", host=host)
    assert answer.status == 200
    if path in {"/healthz", "/livez"}:
        assert answer.body == b"ok"
    else:
        validate(answer.json(), "probe.json")
        assert answer.json()["status"] == ("ready" if path == "/readyz" else "started")
    assert tower.send(f"GET {path} HTTP/1.0\r\n\r\n".encode()).startswith(b"HTTP/1.0 200 ")


@pytest.mark.parametrize("path", [*PAGES, *API, "/nowhere", "//evil.example/"])
@pytest.mark.parametrize("host", ["evil.example", "10.244.0.5:8000", "127.0.0.1", "localhost.evil.example"])
def test_every_other_path_needs_this_host(tower: Any, path: str, host: str) -> None:
    """CT-2.2, PROBE-10, SEC-01: before routing and whatever the token, with nothing told."""
    answer = tower.ask(f"GET {path}", f"X-IDKMesh-UI-Token: {TOKEN}", host=host)
    assert (answer.status, answer.code) == (403, "forbidden_host")
    assert path == "/" or path.encode() not in answer.body


def test_legitimate_hosts_over_both_names(tower: Any) -> None:
    """CT-2.2, SEC-01: each form of this machine's own name."""
    port = tower.server.server_port
    for name in ("localhost", "LOCALHOST", "localhost.", "127.0.0.1", "[::1]"):
        assert tower.ask("GET /", host=f"{name}:{port}").status == 200


@pytest.mark.parametrize("path", API)
def test_api_needs_the_token(tower: Any, path: str) -> None:
    """CT-2.4, CT-2.7, SEC-07: 401 without, 200 with, in either field; loopback and a proxy's fields grant nothing."""
    for fields in (
        ("X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", f"Cookie: t={TOKEN}"),
        ("X-Forwarded-For: 203.0.113.5", "X-Real-IP: 127.0.0.1"),
        (),
    ):
        answer = tower.ask(f"GET {path}", *fields)
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.fields["www-authenticate"].startswith("Bearer")
    assert tower.ask(f"GET {path}?token={TOKEN}").status == 401
    assert tower.api(f"GET {path}").status == 200
    assert tower.ask(f"GET {path}", f"Authorization: Bearer {TOKEN}").status == 200


@pytest.mark.parametrize("path", [*PAGES, *API])
def test_foreign_origins(tower: Any, path: str) -> None:
    """CT-2.3, SEC-02: another site, another port of this machine, an opaque origin."""
    for field in (
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1:1",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ):
        answer = tower.api(f"GET {path}", field)
        assert (answer.status, answer.code) == (403, "forbidden_origin")
        assert not any(name.startswith("access-control-") for name in answer.fields)
    assert tower.api(f"GET {path}", f"Origin: http://{tower.host}", "Sec-Fetch-Site: same-origin").status == 200


def test_preflight_gets_no_permission(tower: Any) -> None:
    """CT-2.3, SEC-02: a preflight of another origin is refused without a CORS field."""
    answer = tower.ask(
        "OPTIONS /api/v1/inspect/http-request", "Origin: http://evil.example", "Access-Control-Request-Method: POST"
    )
    assert answer.status == 403
    assert not any(name.startswith("access-control-") for name in answer.fields)


@pytest.mark.parametrize("path", [*PROBES, *PAGES, *API])
def test_head_is_get_without_a_body(tower: Any, path: str) -> None:
    """CT-3.4, HTTP-10: same fields, same length, no byte of a body."""
    get, head = tower.api(f"GET {path}"), tower.api(f"HEAD {path}")
    assert head.body == b""
    moving = {"date", "x-request-id"} | ({"content-length"} if path == "/api/v1/status" else set())
    assert get.fields.keys() == head.fields.keys()
    assert {k: v for k, v in get.fields.items() if k not in moving} == {
        k: v for k, v in head.fields.items() if k not in moving
    }
    assert len(get.body) == int(get.fields["content-length"])


@pytest.mark.parametrize(
    "path", [*PROBES, "/", "/static/css/base.css", "/metrics", "/api/v1/status", "/api/v1/events/stream"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_known_methods_get_405_with_allow(tower: Any, path: str, method: str) -> None:
    """CT-3.5, HTTP-10: RFC 9110 15.5.6."""
    answer = tower.api(f"{method} {path}")
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert answer.fields["allow"] == "GET, HEAD"


@pytest.mark.parametrize("method", ["get", "BREW", "PROPFIND", "G"])
def test_unknown_methods_get_501(tower: Any, method: str) -> None:
    """CT-3.5, HTTP-10: RFC 9110 9.1."""
    for path in ("/healthz", "/", "/api/v1/status"):
        answer = tower.api(f"{method} {path}")
        assert (answer.status, answer.code) == (501, "not_implemented")


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example/..%2f",
        "///evil.example/",
        "/\\evil.example/",
        "/%5cevil.example",
        "/%2f/evil.example",
        "/static/%00",
        "/static/css/base.css%00.png",
        "/static/..%2f..%2fetc/passwd",
        "/static/%2e%2e/x",
        "/static/../api/v1/status",
        "/static/c%3a%5cwindows%5cwin.ini",
        "/static/%5c%5chost%5cshare",
        "/static/con",
        "/static/a%20%2e",
        "/static/index.html",
        "/static/",
        "/%zz",
        "/%",
        "/" + "a" * 3000,
        "/api/v1/schemas/../status",
        "/api/v1/schemas/none.json",
        "/favicon.ico",
    ],
)
def test_strange_paths_are_404(tower: Any, target: str) -> None:
    """CT-3.2, HTTP-11, HTTP-13: never a file outside the list, never a redirect, never a 500."""
    answer = tower.api(f"GET {target}")
    assert (answer.status, answer.code) == (404, "not_found")
    assert "location" not in answer.fields


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("GET /healthz", None),
        ("GET /", None),
        ("GET /api/v1/status", None),
        ("GET /x", None),
        ("GET /", "evil.example"),
    ],
)
def test_every_answer_carries_the_fields(tower: Any, line: str, host: str | None) -> None:
    """CT-2.8, HS-12.2, SEC-08: who answers, the caller's id, no storing, no sniffing, no framing."""
    answer = tower.ask(line, "X-Request-ID: my-id.1", host=host)
    fields = answer.fields
    assert fields["x-request-id"] == "my-id.1"
    assert fields["x-idkmesh-service"] == "control-tower"
    assert fields["x-idkmesh-read-only"] == "true"
    assert fields["cache-control"] == "no-store"
    assert fields["x-content-type-options"] == "nosniff"
    assert fields["referrer-policy"] == "no-referrer"
    assert fields["connection"] == "close"
    assert "default-src 'self'" in fields["content-security-policy"]
    assert "unsafe" not in fields["content-security-policy"]
    assert "frame-ancestors 'none'" in fields["content-security-policy"]
    assert "set-cookie" not in fields
    assert tower.ask(line, "X-Request-ID: a b<script>", host=host).fields["x-request-id"] != "a b<script>"


@pytest.mark.parametrize("path", [*PROBES, *PAGES, *API])
@pytest.mark.parametrize("query", ["?", "?a=b&c", "?%00\\../..", "?token=x", "?a?b"])
def test_queries_are_ignored(tower: Any, path: str, query: str) -> None:
    """CT-3.3: the answer is that of the path alone."""
    plain, asked = tower.api(f"GET {path}"), tower.api(f"GET {path}{query}")
    assert (asked.status, plain.status) == (200, 200)
    if path != "/api/v1/status":  # which tells the time
        assert asked.body == plain.body


def test_the_servers_limits_are_the_towers(start: Any) -> None:
    """CT-1.4, HS-2.6: fields, body and cap as elsewhere; a full house still answers probes and still refuses."""
    with start(limits=ServiceLimits(max_header_fields=4, max_body_bytes=3, max_concurrent_requests=1)) as tower:
        assert tower.api("GET /api/v1/status", "A: 1", "B: 2").status == 200
        assert tower.api("GET /api/v1/status", "A: 1", "B: 2", "C: 3").status == 431
        inspect = ("POST /api/v1/inspect/http-request", "Content-Type: message/http")
        assert tower.api(*inspect, body=b"abc").status == 200
        assert tower.api(*inspect, body=b"abcd").code == "payload_too_large"
        with tower.server.limiter.admit():
            full = tower.api("GET /api/v1/status")
            assert (full.status, full.code) == (503, "overloaded")
            assert [tower.ask(f"GET {path}").status for path in PROBES] == [200] * 4
            assert tower.ask("GET /", host="evil.example").status == 403
        assert tower.api("GET /api/v1/status").status == 200


def test_status_is_its_schema_and_tells_the_limits_in_force(start: Any) -> None:
    """CT-5.1 to CT-5.3: valid, with this server's own limits, and the asking request in flight."""
    limits = ServiceLimits(max_concurrent_requests=3, request_timeout=2.5, retry_after=9)
    with start(limits=limits) as tower:
        tower.ask("GET /nowhere")
        document = tower.api("GET /api/v1/status").json()
    validate(document, "control-tower-status.json")
    operations = document["operations"]
    assert operations["limits"]["max_concurrent_requests"] == 3
    assert operations["limits"]["request_timeout_seconds"] == 2.5
    assert operations["limits"]["retry_after_seconds"] == 9
    assert operations["usage"]["in_flight"] == 1
    assert operations["usage"]["connections"] == 1
    assert operations["usage"]["admitted_total"] == 1
    assert operations["usage"]["refused_total"] == 1
    assert operations["usage"]["draining"] is False


def test_served_openapi_validates_and_names_what_is_served(tower: Any) -> None:
    """CT-7.1: every GET path in the document is answered, the parametrised ones for each name."""
    answer = tower.api("GET /api/v1/openapi.json")
    document = answer.json()
    openapi_spec_validator.validate(document)
    for path, item in document["paths"].items():
        schema: dict[str, Any] = item["parameters"][0]["schema"] if "parameters" in item else {"enum": [""]}
        known = [] if "modules" in path else list(tower.server.health.snapshot().records)
        names = schema.get("enum", known)
        assert all(re.fullmatch(schema.get("pattern", ".*"), name) for name in names)
        for name in names if "get" in item else []:
            assert tower.api(f"GET {path.replace('{name}', name)}").status == 200


@pytest.mark.parametrize("name", assets.SCHEMA_NAMES)
def test_schemas_are_served_as_carried(tower: Any, name: str) -> None:
    """CT-7.2: the bytes of the package."""
    answer = tower.api(f"GET /api/v1/schemas/{name}")
    assert answer.body == assets.schema_bytes(name)
    assert answer.fields["content-type"] == "application/schema+json"


@pytest.mark.parametrize("name", assets.STATIC_TYPES)
def test_static_files_have_their_type(tower: Any, name: str) -> None:
    """CT-8.1: every file that the page names, without a token."""
    answer = tower.ask(f"GET /static/{name}")
    assert answer.body == assets.static_bytes(name)
    assert answer.fields["content-type"] == assets.STATIC_TYPES[name]


def test_the_page_does_not_carry_the_token(tower: Any) -> None:
    """CT-2.6: no served file knows it."""
    for path in PAGES:
        assert TOKEN.encode() not in tower.ask(f"GET {path}").body


def test_inspection_answers_how_the_rules_judge(tower: Any) -> None:
    """CT-6.2: 200 for a verdict, whichever it is; the refusal's status, code, reason, clause and byte."""
    raw = b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"
    for kind in ("message/http", "application/octet-stream"):
        answer = tower.api("POST /api/v1/inspect/http-request", f"Content-Type: {kind}", body=raw)
        assert answer.status == 200
        document = answer.json()
        validate(document, "http-request-inspection.json")
        assert (document["verdict"], document["status"], document["code"]) == ("refused", 400, "invalid_request")
        assert document["rfc"].startswith("RFC 9112")
        assert document["offset"] == 20
    good = tower.api(
        "POST /api/v1/inspect/http-request", "Content-Type: message/http", body=b"GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n"
    ).json()
    validate(good, "http-request-inspection.json")
    assert good["verdict"] == "accepted"
    assert good["request"]["path"] == "/a"


def test_inspection_shows_markup_as_data(tower: Any) -> None:
    """CT-2.8: what a request carries comes back as JSON text, whatever it is."""
    raw = b"GET /<script>alert(1)</script> HTTP/1.1\r\nHost: a\r\nX: <img src=x onerror=alert(1)> \xe2\x80\xae\r\n\r\n"
    answer = tower.api("POST /api/v1/inspect/http-request", "Content-Type: message/http", body=raw)
    assert answer.fields["content-type"] == "application/json"
    assert "<script>" in answer.json()["request"]["target"]


@pytest.mark.parametrize(
    ("fields", "body", "expected"),
    [
        ((), b"x", (415, "unsupported_media_type")),
        (("Content-Type: application/json",), b"{}", (415, "unsupported_media_type")),
        (("Content-Type: application/x-www-form-urlencoded",), b"a=b", (415, "unsupported_media_type")),
        (("Content-Type: message/http",), None, (411, "length_required")),
        (("Content-Type: message/http", "Content-Length: 2097153"), None, (413, "payload_too_large")),
        (("Content-Type: message/http", "Content-Length: 99999999999999999999"), None, (413, "payload_too_large")),
    ],
)
def test_inspection_refuses_what_it_does_not_read(
    tower: Any, fields: tuple[str, ...], body: bytes | None, expected: tuple[int, str]
) -> None:
    """CT-6.1, HS-6.2, HS-6.5, SEC-02: type, length, size."""
    answer = tower.api("POST /api/v1/inspect/http-request", *fields, body=body)
    assert (answer.status, answer.code) == expected


def test_inspection_needs_the_token_and_the_origin(tower: Any) -> None:
    """CT-2.3, CT-2.4, SEC-02: a form of another page does nothing."""
    path = "POST /api/v1/inspect/http-request"
    for kind in ("message/http", "text/plain", "multipart/form-data; boundary=a", "application/x-www-form-urlencoded"):
        field = f"Content-Type: {kind}"
        assert tower.ask(path, field, f"Cookie: t={TOKEN}", body=b"x").status == 401
        for foreign in ("Origin: null", "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: cross-site"):
            assert tower.api(path, field, foreign, body=b"x").status == 403
        assert tower.api(path, field, body=b"x").status == (200 if kind == "message/http" else 415)
    assert tower.api(path.replace("POST", "GET")).status == 405


DECLARATIONS = ("POST /api/v1/inspect/probes", "Content-Type: application/yaml")


def test_inspection_of_probes(tower: Any) -> None:
    """CT-6.4: 200 with the command's document, for declarations, for what is no YAML, and for what is no UTF-8."""
    pod = (
        b"kind: Pod\napiVersion: v1\nspec:\n  containers: [{name: a, livenessProbe: {httpGet: {path: /db, port: 1}}}]\n"
    )
    for kind in ("application/yaml", "application/json", "application/octet-stream"):
        answer = tower.api(DECLARATIONS[0], f"Content-Type: {kind}", body=pod)
        assert answer.status == 200
        document = answer.json()
        validate(document, "inspection.json")
        rules = {finding["rule"]: (finding["line"], finding["file"]) for finding in document["findings"]}
        assert rules["PB103"] == (4, "body")
        assert document["omitted"] == 0
    for body, place in ((b"a: [1\nb: 2\n", (2, 2)), (b"a: 1\nb: \xc3\xa9\xff\n", (2, 5))):
        document = tower.api(*DECLARATIONS, body=body).json()
        validate(document, "inspection.json")
        (finding,) = document["findings"]
        assert (finding["rule"], (finding["line"], finding["column"])) == ("PB001", place)


@pytest.mark.parametrize(
    ("fields", "body", "expected"),
    [
        ((), b"a: 1", (415, "unsupported_media_type")),
        (("Content-Type: text/plain",), b"a: 1", (415, "unsupported_media_type")),
        (("Content-Type: application/yaml",), None, (411, "length_required")),
        (("Content-Type: application/yaml",), b"#" * (MAX_PROBES_BYTES + 1), (413, "payload_too_large")),
    ],
)
def test_inspection_of_probes_refuses_what_it_does_not_read(
    tower: Any, fields: tuple[str, ...], body: bytes | None, expected: tuple[int, str]
) -> None:
    """CT-6.4: type, length, and a size of its own below that of the server."""
    answer = tower.api(DECLARATIONS[0], *fields, body=body)
    assert (answer.status, answer.code) == expected


def test_inspection_of_probes_needs_the_token_and_the_origin(tower: Any) -> None:
    """CT-2.3, CT-2.4: nobody else has a text judged."""
    assert tower.ask(*DECLARATIONS, body=b"a: 1").status == 401
    assert tower.api(*DECLARATIONS, "Origin: null", body=b"a: 1").status == 403


def test_inspection_of_probes_tells_no_more_than_fits(tower: Any) -> None:
    """CT-6.5: at most 1,000 findings, and all are counted; the longest text is read."""
    body = b"a: 1\n" * (MAX_PROBES_BYTES // 5)
    answer = tower.api(*DECLARATIONS, body=body)
    document = answer.json()
    validate(document, "inspection.json")
    assert len(document["findings"]) == MAX_FINDINGS
    assert MAX_FINDINGS + document["omitted"] == sum(document["counts"].values()) > 50_000
    assert len(answer.body) < 1024 * 1024


def test_errors_as_problem_details(tower: Any) -> None:
    """CT-7.3: RFC 9457 where Accept asks for it, from the front and from the routes."""
    for line in ("GET /nowhere", "GET /api/v1/status"):
        answer = tower.ask(line, "Accept: application/problem+json")
        assert answer.fields["content-type"] == "application/problem+json"
        validate(answer.json(), "problem.json")
        assert answer.json()["status"] == answer.status
        validate(tower.ask(line).json(), "error.json")


def test_probes_in_a_drain(start: Callable[..., Any]) -> None:
    """CT-4.4, HS-9.1: readiness says so at once, liveness holds, everything else is 503 with Retry-After."""
    with start(limits=ServiceLimits(retry_after=3)) as tower:
        tower.server.begin_drain()
        for path in ("/healthz", "/livez"):
            answer = tower.ask(f"GET {path}", host="pod")
            assert (answer.status, answer.body) == (200, b"ok")
        for path in ("/readyz", "/startupz"):
            answer = tower.ask(f"GET {path}", host="pod")
            assert (answer.status, answer.code) == (503, "shutting_down")
            assert answer.fields["retry-after"] == "3"
            head = tower.ask(f"HEAD {path}")
            assert (head.status, head.body) == (503, b"")
        for path in ("/", "/api/v1/status", "/nowhere"):
            answer = tower.api(f"GET {path}")
            assert (answer.status, answer.code) == (503, "shutting_down")
            assert answer.fields["retry-after"] == "3"
        assert tower.ask("GET /", host="evil.example").status == 403


def test_ipv6(start: Callable[..., Any]) -> None:
    """CT-9.2, CLI-10: ::1 is bound as IPv6, named in brackets, and accepted as Host."""
    try:
        socket.socket(socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with start(("::1", 0)) as tower:
        assert tower.server.origin == f"http://[::1]:{tower.server.server_port}"
        assert tower.ask("GET /").status == 200
        assert tower.ask("GET /", host=f"127.0.0.1:{tower.server.server_port}").status == 200


def test_impossible_towers_are_refused_when_made(tmp_path: Path) -> None:
    """CT-2.1, CT-2.5: the class keeps the rules, whoever makes one."""
    for host in ("0.0.0.0", "::", "", "192.0.2.1"):
        with pytest.raises(ValueError, match="no loopback address"):
            ControlTowerServer((host, 0), TOKEN, store=tmp_path / "events.sqlite3")
    with pytest.raises(ValueError, match="32 to 4096"):
        ControlTowerServer(("127.0.0.1", 0), "short", store=tmp_path / "events.sqlite3")


def test_link_carries_the_token_in_the_fragment(tower: Any) -> None:
    """CT-9.2, SEC-04: the fragment is what a browser does not send."""
    assert tower.server.link == f"{tower.server.origin}/#token={TOKEN}"


def test_answers_are_compact_json(tower: Any) -> None:
    """CT-7.3: no byte more than needed."""
    body = tower.api("GET /api/v1/status").body
    assert body == json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()
