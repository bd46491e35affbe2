"""What the inspection of a request says about accepted, refused and incomplete bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.httpd.inspection import inspect_request
from idkmesh.httpd.request_rules import HeadLimits

LIMITS = HeadLimits()
MAX_BODY = 100
NOT_REFUSED = {"status": None, "code": None, "reason": None, "rfc": None, "offset": None}


def inspect(data: bytes) -> dict[str, Any]:
    document = inspect_request(data, LIMITS, MAX_BODY)
    assert (document["kind"], document["schema_version"]) == ("idkmesh-http-request-inspection", "0.1")
    return document


def test_accepted() -> None:
    """HS-3.x: an accepted request is shown as it is read, field by field, with nothing refused."""
    document = inspect(b"GET http://e:80/a?b HTTP/1.1\r\nHost: h\r\nA: caf\xe9 \r\nExpect: 100-continue\r\n\r\n")
    assert document == {
        "kind": "idkmesh-http-request-inspection",
        "schema_version": "0.1",
        "verdict": "accepted",
        **NOT_REFUSED,
        "message": "The head breaks no rule.",
        "request": {
            "method": "GET",
            "target": "http://e:80/a?b",
            "path": "/a",
            "query": "b",
            "version": "HTTP/1.1",
            "authority": "e:80",
            "fields": [
                {"name": "Host", "value": "h"},
                {"name": "A", "value": "caf\xe9"},
                {"name": "Expect", "value": "100-continue"},
            ],
            "content_length": None,
            "expect_continue": True,
        },
        "body": {"declared_bytes": None, "present_bytes": 0, "trailing_bytes": 0},
    }


@pytest.mark.parametrize(
    ("fields", "body", "expected", "message"),
    [
        (b"", b"", (None, 0, 0), ""),
        (b"", b"abc", (None, 0, 3), ""),
        (b"Content-Length: 0\r\n", b"", (0, 0, 0), ""),
        (b"Content-Length: 3\r\n", b"abc", (3, 3, 0), ""),
        (b"Content-Length: 3\r\n", b"abcde", (3, 3, 2), ""),
        (b"Content-Length: 3\r\n", b"a", (3, 1, 0), " Its body waits for 2 more bytes."),
        (b"Content-Length: 100\r\n", b"", (100, 0, 0), " Its body waits for 100 more bytes."),
    ],
)
def test_body(fields: bytes, body: bytes, expected: tuple[int | None, int, int], message: str) -> None:
    """HS-6.1: without a length there is no body; bytes beyond it are counted, never interpreted."""
    document = inspect(b"POST / HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n" + body)
    assert document["verdict"] == "accepted"
    assert tuple(document["body"].values()) == expected
    assert document["message"] == "The head breaks no rule." + message


@pytest.mark.parametrize(("declared", "counted"), [(b"101", 101), (b"99999999999999999999", 2**63)])
def test_declared_body_too_large(declared: bytes, counted: int) -> None:
    """HS-6.2, HTTP-01: a well-formed length over the limit is 413, with the head shown and the value's offset."""
    start = b"POST / HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: \t"
    document = inspect(start + declared + b"\r\n\r\nabc")
    assert (document["verdict"], document["status"], document["code"]) == ("refused", 413, "payload_too_large")
    assert (document["reason"], document["rfc"]) == ("content_length_over_limit", "RFC 9110 15.5.14")
    assert document["offset"] == len(start)
    assert document["message"] == "The declared body is larger than 100 bytes."
    assert document["request"]["content_length"] == counted
    assert document["body"] == {"declared_bytes": counted, "present_bytes": 3, "trailing_bytes": 0}


def test_refused() -> None:
    """HS-3.5: a broken rule is named with its status, code, reason, clause and byte; there is no request to show."""
    document = inspect(b"GET / HTTP/1.1\r\nHost : h\r\n\r\nabc")
    assert document == {
        "kind": "idkmesh-http-request-inspection",
        "schema_version": "0.1",
        "verdict": "refused",
        "status": 400,
        "code": "invalid_request",
        "reason": "space_before_colon",
        "rfc": "RFC 9112 5.1",
        "offset": 20,
        "message": "There is white space between a field's name and its colon.",
        "request": None,
        "body": None,
    }


def test_refused_at_the_first_byte() -> None:
    """HS-3.4: an offset of 0 is an offset, not a missing one."""
    assert inspect(b"\r\n")["offset"] == 0


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        (b"", "before the request line does"),
        (b"GET / HT", "before the request line does"),
        (b"GET / HTTP/1.1\r", "before the request line does"),
        (b"GET / HTTP/1.1\r\n", "before the empty line that ends the head"),
        (b"GET / HTTP/1.1\r\nHost: h", "inside the header line that starts at byte 16"),
        (b"GET / HTTP/1.1\r\nHost: h\r", "inside the header line that starts at byte 16"),
        (b"GET / HTTP/1.1\r\nHost: h\r\n", "before the empty line that ends the head"),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r", "before the empty line that ends the head"),
    ],
)
def test_incomplete(data: bytes, missing: str) -> None:
    """HS-3.10: bytes that break no rule so far are no refusal; the message says what they lack."""
    document = inspect(data)
    assert document["verdict"] == "incomplete"
    assert document["message"] == f"The bytes end {missing}."
    assert {key: document[key] for key in NOT_REFUSED} == NOT_REFUSED
    assert document["request"] is None
    assert document["body"] is None


def test_limits_are_the_caller_s() -> None:
    """HS-3.9: the inspection judges by the limits in force, not by the defaults."""
    data = b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n"
    assert inspect_request(data, HeadLimits(max_header_fields=2), MAX_BODY)["verdict"] == "accepted"
    assert inspect_request(data, HeadLimits(max_header_fields=1), MAX_BODY)["reason"] == "too_many_fields"


@given(
    st.one_of(
        st.binary(max_size=40),
        st.binary(max_size=20).map(lambda value: b"GET / HTTP/1.1\r\nHost: h\r\nA: " + value + b"\r\n\r\n"),
    )
)
def test_any_bytes_give_one_shape_of_json(data: bytes) -> None:
    """Whatever the bytes, the document has the same keys, and is JSON text that reads back the same."""
    document = inspect(data)
    assert list(document) == list(inspect(b""))
    assert json.loads(json.dumps(document, allow_nan=False).encode("ascii")) == document
    assert (document["verdict"] == "refused") == (document["status"] is not None)
