"""Responses as bytes, the envelope, and content negotiation of errors."""

from __future__ import annotations

import json
import time
import weakref
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.httpd import refusals
from idkmesh.httpd.errors import ERROR_CODES
from idkmesh.httpd.head_faults import FAULTS, refuse
from idkmesh.httpd.request import HeadLimits, Refusal, Request
from idkmesh.httpd.request_rules import judge_head
from idkmesh.httpd.responses import (
    Response,
    ResponseRenderer,
    error_document,
    header_lines,
    json_body,
    json_list_body,
    prefers_problem_json,
    problem_document,
    refusal_details,
)
from idkmesh.service_runtime import ServiceIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

DATE = "Sun, 29 Nov 2026 12:00:00 GMT"
RENDERER = ResponseRenderer(ServiceIdentity(service="test", service_version="1.2"), retry_after=7)
BROKEN = Refusal(400, "invalid_request", "No.", reason="bare_lf", rfc="RFC 9112 2.2", offset=3)
FULL = Refusal(503, "overloaded", "Full.")


def request(method: str = "GET", *fields: str) -> Request:
    head = "".join(f"{line}\r\n" for line in (f"{method} / HTTP/1.1", "Host: a", *fields, ""))
    judged = judge_head(head.encode("latin-1"), HeadLimits())
    assert isinstance(judged, Request)
    return judged


def parse(data: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    fields = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return status, fields, body


def test_response_is_http_1_0_with_length_date_id_and_close() -> None:
    """HS-7.1, HS-12.2: every response says its length, its id, who answers, and ends its connection."""
    data = RENDERER.render(Response(200, (("X-Extra", "a"),), b"{}"), request(), "id-1", DATE)
    status, fields, body = parse(data)
    named = dict(fields)
    assert status == "HTTP/1.0 200 OK"
    assert body == b"{}"
    assert len(named) == len(fields), "no field twice"
    assert named["Date"] == DATE
    assert named["Content-Length"] == "2"
    assert named["Content-Type"] == "application/json"
    assert named["X-Request-ID"] == "id-1"
    assert named["X-Extra"] == "a"
    assert named["X-IDKMesh-Service"] == "test"
    assert named["Cache-Control"] == "no-store"
    assert named["Connection"] == "close"
    assert "frame-ancestors 'none'" in named["Content-Security-Policy"]
    assert "unsafe" not in named["Content-Security-Policy"]


def test_an_answer_of_somebody_else_can_be_passed_on() -> None:
    """HS-7.1, HS-12.1: an unregistered status has no phrase, no type is made up, and a refusal tells what is known."""
    status, fields, body = parse(RENDERER.render(Response(299, (), b"raw", None), request(), "i", DATE))
    assert (status, body) == ("HTTP/1.0 299 ", b"raw")
    assert "Content-Type" not in dict(fields)
    refusal = Refusal(503, "AGENT_UNAVAILABLE", "No.", reason="r", details=(("state", "empty"), ("tries", 0)))
    assert refusal_details(refusal) == {"reason": "r", "state": "empty", "tries": 0}


def test_head_has_the_fields_of_get_and_no_body() -> None:
    """HS-7.7, CT-3.4: RFC 9110 9.3.2."""
    response = Response(200, (), b"hello", "text/plain")
    get = RENDERER.render(response, request("GET"), "i", DATE)
    head = RENDERER.render(response, request("HEAD"), "i", DATE)
    assert head + b"hello" == get


@pytest.mark.parametrize("status", [204, 304])
def test_bodiless_statuses_carry_neither_body_nor_length(status: int) -> None:
    """HS-7.7: RFC 9110 15.3.5 and 15.4.5."""
    data = RENDERER.render(Response(status, (), b"dropped"), request(), "i", DATE)
    assert data.endswith(b"\r\n\r\n")
    assert b"Content-" not in data.replace(b"Content-Security-Policy", b"").replace(b"X-Content-Type", b"")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "\0", "a\x7f", "\u0100"])
def test_no_value_adds_a_line(value: str) -> None:
    """A control byte, or a character that is no byte, raises instead of reaching the wire."""
    with pytest.raises(ValueError, match="not a header field"):
        header_lines([("X-Name", value)])
    with pytest.raises(ValueError, match="not a header field"):
        RENDERER.render(Response(200, (("X-Name", value),)), None, "i", DATE)
    with pytest.raises(ValueError, match="not a header field"):
        RENDERER.render(Response(200, (), b"", value), None, "i", DATE)


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\n", "ä"])
def test_field_name_is_a_token(name: str) -> None:
    """RFC 9110 5.1."""
    with pytest.raises(ValueError, match="not a header field"):
        header_lines([(name, "v")])


def test_request_id_cannot_add_a_line() -> None:
    """The id is safe already; the renderer does not rely on it."""
    with pytest.raises(ValueError, match="request id"):
        RENDERER.render(Response(200), None, "a\r\nb", DATE)


@given(st.text(), st.text())
def test_header_lines_are_lines_or_errors(name: str, value: str) -> None:
    """Whatever the text, there is one line or an error."""
    try:
        line = header_lines([(name, value)])
    except ValueError:
        return
    assert line.count("\r\n") == line.count("\r") == line.count("\n") == 1
    assert line.endswith("\r\n")


def test_refusal_is_the_envelope() -> None:
    """HS-12.1: JSON by default, with what is known of the broken rule."""
    status, fields, body = parse(RENDERER.render_refusal(BROKEN, None, "i", DATE))
    assert status == "HTTP/1.0 400 Bad Request"
    assert dict(fields)["Content-Type"] == "application/json"
    assert "Retry-After" not in dict(fields)
    assert json.loads(body) == {
        "api_version": "v1",
        "schema_version": "0.1",
        "kind": "idkmesh-api-error",
        "ok": False,
        "error": {
            "code": "invalid_request",
            "message": "No.",
            "retryable": False,
            "details": {"reason": "bare_lf", "rfc": "RFC 9112 2.2", "offset": 3},
        },
    }


def test_refusal_as_problem_details() -> None:
    """HS-12.1: RFC 9457 where Accept asks for it."""
    data = RENDERER.render_refusal(BROKEN, request("GET", "Accept: application/problem+json"), "i", DATE)
    _, fields, body = parse(data)
    assert dict(fields)["Content-Type"] == "application/problem+json"
    assert json.loads(body) == problem_document(BROKEN)
    assert problem_document(BROKEN)["title"] == "Bad Request"
    assert problem_document(BROKEN)["code"] == "invalid_request"


def test_503_says_when_to_ask_again() -> None:
    """HS-5.2: Retry-After with every 503, from the limits."""
    _, fields, body = parse(RENDERER.render_refusal(FULL, None, "i", DATE))
    assert dict(fields)["Retry-After"] == "7"
    assert json.loads(body)["error"]["retryable"] is True


def test_refusal_carries_its_own_fields() -> None:
    """A 405 carries Allow."""
    refusal = Refusal(405, "method_not_allowed", "No.", headers=(("Allow", "GET"),))
    assert b"\r\nAllow: GET\r\n" in RENDERER.render_refusal(refusal, request(), "i", DATE)


@pytest.mark.parametrize(
    ("accept", "problem"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/*", False),
        ("text/html, application/xhtml+xml, */*;q=0.8", False),
        ("application/problem+json", True),
        ("APPLICATION/Problem+JSON", True),
        ("application/problem+json, */*", True),
        ("application/problem+json, application/json", False),
        ("application/json, application/problem+json", False),
        ("application/problem+json, application/json;q=0.9", True),
        ("application/problem+json;q=0.5, application/json", False),
        ("application/problem+json;q=0.5, */*;q=0.1", True),
        ("application/problem+json;q=0.5, */*;q=0.6", False),
        ("application/problem+json;q=0.5, application/*;q=0.6, */*;q=0.1", False),
        ("application/problem+json;q=0", False),
        ("application/problem+json;q=0.000, text/html", False),
        ("application/problem+json ; q=1.000", True),
        ("application/problem+json;charset=utf-8;q=0.7", True),
        ("application/problem+json;q=2, application/json;q=0.1", False),
        ("application/problem+json;q=0.1234", False),
        ("application/problem+json;q=", False),
        ("application/problem+jsonx", False),
        ("application/problem+json".ljust(1024, ","), True),
        ("application/problem+json".ljust(1025, ","), False),
    ],
)
def test_negotiation(accept: str | None, problem: bool) -> None:
    """HS-12.1: RFC 9110 12.5.1; JSON is the default, problem details must be named and liked no less."""
    assert prefers_problem_json(accept) is problem


def cost(head: bytes) -> float:
    """Return the seconds that judging a head and refusing its request take, the best of several."""
    times = []
    for _ in range(7):
        started = time.thread_time()
        judged = judge_head(head, HeadLimits())
        assert isinstance(judged, Request)
        RENDERER.render_refusal(FULL, judged, "id", DATE)
        times.append(time.thread_time() - started)
    return min(times)


@pytest.mark.parametrize("name", [b"Accept", b"Expect", b"Content-Type", b"Origin", b"Connection"])
@pytest.mark.parametrize("value", [b"application/problem+json" + b"," * 64_000, b"application/problem+json;a" * 2460])
def test_no_field_makes_a_refusal_long(name: bytes, value: bytes) -> None:
    """HS-6.4, HS-12.1: the longest lists cost about what the same bytes cost in a field that nobody looks into."""

    def head(field: bytes) -> bytes:
        return b"POST / HTTP/1.1\r\nHost: a\r\n" + 3 * (field + b": " + value + b"\r\n") + b"\r\n"

    ratios: list[float] = []
    while len(ratios) < 3 and (not ratios or ratios[-1] > 3):  # a busy machine gets another chance
        ratios.append(cost(head(name)) / cost(head(b"X-Else")))
    assert min(ratios) <= 3


@given(st.text())
def test_negotiation_never_fails(accept: str) -> None:
    """Whatever stands in Accept, there is an answer."""
    assert prefers_problem_json(accept + ", application/problem+json") in {True, False}


def test_json_is_compact_utf_8_and_strict() -> None:
    """CT-7.3: no space, no NaN; a lone surrogate is escaped and does not fail the answer."""
    assert json_body({"a": [1, "ü"]}) == '{"a":[1,"ü"]}'.encode()
    assert json.loads(json_body({"a": "\ud800"})) == {"a": "\ud800"}
    with pytest.raises(ValueError, match="JSON"):
        json_body({"a": float("nan")})


def test_a_list_is_written_item_by_item() -> None:
    """HL-1.5: a thousand items in one call would hold up all answers: each is written and let go before the next."""

    class Item(dict[str, int]):
        """Can be referred to weakly."""

    def items() -> Iterator[Item]:
        former: weakref.ref[Item] | None = None
        for number in range(3):
            assert former is None or former() is None
            item = Item(number=number)
            former = weakref.ref(item)
            yield item
            del item

    body = json_list_body({"kind": "list", "page": {}}, "items", items())
    assert body == b'{"kind":"list","page":{},"items":[{"number":0},{"number":1},{"number":2}]}'
    assert json.loads(json_list_body({"a": 1}, "items", [])) == {"a": 1, "items": []}


def test_each_code_has_one_status() -> None:
    """HS-12.3: a refusal's own idea of its code is the table's, wherever it is made."""
    values = [value for value in vars(refusals).values() if isinstance(value, Refusal)]
    for refusal in (*values, *refusals.DENIED.values()):
        row = ERROR_CODES[refusal.code]
        assert (refusal.status, refusal.retryable) == (row.status, row.retryable), refusal


@pytest.mark.parametrize("reason", FAULTS)
def test_each_fault_has_a_code_of_the_table(reason: str) -> None:
    """HS-12.3: what the request rules refuse is in the table too, with the same status."""
    refusal = refuse(reason, 0)
    row = ERROR_CODES[refusal.code]
    assert (refusal.status, refusal.retryable) == (row.status, row.retryable)


def test_envelope_has_no_details_where_nothing_is_known() -> None:
    """The member is there all the same: a reader needs no special case."""
    assert error_document(FULL)["error"]["details"] == {}
