"""What a body asks for, and what of it is refused."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.control_tower import assets
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import error_document
from idkmesh.router.invocation import MEMBERS, Invocation, parse_invocation
from idkmesh.topology.model import Target

HEAD = b'{"agentId":"echo","agentCardVersion":"1.0.0","releaseId":"r1","input":'
ECHO = Target("echo", "1.0.0", "r1")
SCHEMA = jsonschema.Draft202012Validator(assets.schema("agent-invocation.json"))


def parsed(body: bytes) -> Invocation:
    found = parse_invocation(body)
    assert isinstance(found, Invocation), found
    return found


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"null",
            b"true",
            b'""',
            b"0",
            b"-0.0",
            b"1e400",
            b"[]",
            b"{}",
            b'{"a":1,"a":2}',
            b'"\\ud800"',
            b'"\xc3\xa9"',
        ),
        *(b"1.0000000000000000000000001", b"9" * 10_000, b"[ 1 ,\n2 ]", b'{"input":{"agentId":1}}', b'"}"'),
    ],
)
def test_input_goes_on_as_it_stands(text: bytes) -> None:
    """RT-9.4, RT-9.5: any JSON value, byte for byte: no number, text or doubled member becomes another one."""
    assert parsed(HEAD + text + b"}") == Invocation(ECHO, text)
    assert parsed(HEAD + b" \r\n" + text + b"\t}\n") == Invocation(ECHO, text)


def test_members_come_in_any_order() -> None:
    """RT-9.4: the order is nobody's, and a name may be written with escapes."""
    body = b' { "input" : [1] ,"releaseId":"r1","agentCardVersion":"1.0.0", "\\u0061gentId":"echo" } '
    assert parsed(body) == Invocation(ECHO, b"[1]")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        *((body, "not_json") for body in (b"", b"{", b"}", b'{"input"', b'{"input":', b"nope")),
        *((body, "not_json") for body in (b"\xff", b"\xef\xbb\xbf{}")),
        *((HEAD + tail, "not_json") for tail in (b"}", b"1", b"1,}", b"1}x", b"NaN}", b"-Infinity}", b"01}", b"'a'}")),
        *((HEAD + tail, "not_json") for tail in (b'"\x01"}', b'"a\nb"}', b"[1,]}", b"{1:2}}", b'1 "x":1}', b'"\\x"}')),
        *((body, "not_an_object") for body in (b"[]", b"1", b'"{}"', b"null")),
        (b'{"input":' + b"[" * 200_000, "too_deep"),
        (b"{}", "missing_member"),
        (HEAD[:-9] + b"}", "missing_member"),
        (HEAD + b'1,"url":"x"}', "unknown_member"),
        (HEAD + b'1,"Input":2}', "unknown_member"),
        (HEAD + b'1,"input":2}', "doubled_member"),
        (HEAD + b'1,"agentId":"echo"}', "doubled_member"),
        *((HEAD.replace(b'"echo"', value) + b"1}", "wrong_type") for value in (b"1", b"null", b'["echo"]', b"true")),
        *((HEAD.replace(b'"echo"', value) + b"1}", "wrong_form") for value in (b'""', b'"a/b"', b'"a "', b'"\\u0000"')),
        (HEAD.replace(b"echo", b"e" * 129) + b"1}", "wrong_form"),
        (HEAD.replace(b"echo", b"e" * 128).replace(b'"r1"', b'"' + b"r" * 128 + b'"') + b"1}", "wrong_form"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused(body: bytes, reason: str) -> None:
    """RT-9.4: 400 invalid_request with the rule's name."""
    found = parse_invocation(body)
    assert isinstance(found, Refusal)
    assert (found.status, found.code, found.reason) == (400, "invalid_request", reason)


@pytest.mark.parametrize("place", range(4))
def test_nothing_of_a_refused_body_is_repeated(place: int) -> None:
    """RT-9.4, RT-11.5: whatever member it stands in, as a name, or behind."""
    secret = "s3cret"
    members: dict[str, Any] = {"agentId": "echo", "agentCardVersion": "1.0.0", "releaseId": "r1", "input": 1}
    members[MEMBERS[place]] = f"{secret}/{secret}"
    bodies = [json.dumps({**members, secret: secret}), json.dumps(members)[:-1], json.dumps(members) + secret]
    if place < 3:
        bodies.append(json.dumps(members))
    for body in bodies:
        found = parse_invocation(body.encode())
        assert isinstance(found, Refusal)
        assert secret not in json.dumps(error_document(found))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    ),
    st.booleans(),
)
def test_any_value_is_taken(value: Any, ascii_only: bool) -> None:
    """RT-9.4: whatever JSON can say, written either way."""
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    found = parse_invocation(HEAD + text + b"}")
    try:
        text.decode()
    except UnicodeDecodeError:
        assert isinstance(found, Refusal)
    else:
        assert found == Invocation(ECHO, text)


@given(st.binary(max_size=60))
def test_any_bytes_are_judged(data: bytes) -> None:
    """RT-9.4: nothing raises, and what is taken is JSON to others too."""
    found = parse_invocation(HEAD + data)
    if isinstance(found, Invocation):
        assert json.loads(HEAD + data).keys() == set(MEMBERS)


@pytest.mark.parametrize("name", ["echo", "a", "A.b_c-9", "", "-a", "a-", "a/b", "a ", "\u00e9", "e" * 65, "e" * 129])
@pytest.mark.parametrize("member", MEMBERS[:3])
def test_the_published_schema_judges_alike(member: str, name: str) -> None:
    """RT-9.10, RT-1.1: the form of each name, and what is missing, unknown or of another type, is in the schema too."""
    whole = json.loads(HEAD + b"null}")
    documents = [whole | {member: name}, {each: value for each, value in whole.items() if each != member}]
    documents += [whole | {member: [name]}, whole | {f"{member}s": name}, whole, whole | {"input": {name: [name]}}]
    for document in documents:
        refused = isinstance(parse_invocation(json.dumps(document).encode()), Refusal)
        assert SCHEMA.is_valid(document) is not refused, document
