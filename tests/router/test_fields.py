"""Which fields go on, and which come back."""

from __future__ import annotations

import pytest

from idkmesh.router.fields import from_agent, to_agent

HOP_BY_HOP = (
    *("Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade"),
    *("Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info"),
)


def names(fields: object) -> list[str]:
    assert isinstance(fields, list | tuple)
    return [name for name, _ in fields]


@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_hop_by_hop_fields_are_dropped_both_ways(name: str) -> None:
    """RT-9.5: in any case of letters."""
    for each in (name, name.lower(), name.upper()):
        assert names(to_agent([(each, "x")], "id")) == ["X-Request-ID"]
        assert from_agent(200, [(each, "x")])[:-1] == ()


def test_fields_that_connection_names_are_dropped_both_ways() -> None:
    """RT-9.5, RFC 9110 7.6.1: of each Connection field, with white space and in any case."""
    fields = [
        ("Connection", "close, X-One"),
        ("connection", "\tx-two ,"),
        ("X-One", "1"),
        ("x-TWO", "2"),
        ("X-Three", "3"),
    ]
    assert names(to_agent(fields, "id")) == ["X-Three", "X-Request-ID"]
    assert from_agent(200, fields)[:-1] == (("X-Three", "3"),)


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Cookie", "Cookie2", "X-IDKMesh-UI-Token", "Host", "Expect", "Content-Length", "Range"),
        *("Content-Type", "Content-Encoding", "Content-MD5", "Content-Digest", "If-Match", "If-None-Match", "Digest"),
        *("X-Request-ID", "Want-Digest", "Repr-Digest", "Max-Forwards"),
    ],
)
def test_what_is_the_routers_alone_does_not_leave(name: str) -> None:
    """RT-9.5: credentials, and what is about the caller's own request."""
    for each in (name, name.lower(), name.upper()):
        assert to_agent([(each, "x")], "id") == [("X-Request-ID", "id")]


def test_the_rest_goes_on_in_order() -> None:
    """RT-9.5: end-to-end fields, those that stand twice too."""
    fields = [("Accept", "text/plain"), ("traceparent", "00-1"), ("X-A", "1"), ("x-a", "2"), ("Accept-Encoding", "br")]
    assert to_agent(fields, "id") == [*fields, ("X-Request-ID", "id")]


def test_what_every_answer_of_the_router_has_is_not_the_agents() -> None:
    """RT-9.5, HS-12.2: no field twice, and none that loosens what protects the caller; all others come back."""
    own = [
        *("Date", "Content-Length", "X-Request-ID", "Cache-Control", "Referrer-Policy", "Content-Security-Policy"),
        *("X-Content-Type-Options", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"),
        *("X-IDKMesh-Service", "x-idkmesh-anything"),
    ]
    passed = [
        ("Content-Type", "text/plain"), ("Content-Encoding", "gzip"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"),
        ("Location", "http://elsewhere/"), ("ETag", '"x"'), ("Retry-After", "7"), ("Server", "s"),
    ]  # fmt: skip
    assert from_agent(200, [*((name, "x") for name in own), *passed])[:-1] == tuple(passed)


def test_what_an_agent_has_answered_is_marked() -> None:
    """RT-9.5, RFC 9209 2: the router's own member comes after those of who answered before it, with the status."""
    theirs = ("Proxy-Status", "cache; hit")
    assert from_agent(503, [theirs]) == (theirs, ("Proxy-Status", "idkmesh-router; received-status=503"))
