"""Who may ask the control tower, without a socket."""

from __future__ import annotations

import pytest

from idkmesh.control_tower.security import (
    SessionGuard,
    allowed_authorities,
    checked_token,
    loopback_address,
    new_token,
)
from idkmesh.httpd.request import HeadLimits, Request
from idkmesh.httpd.request_rules import judge_head

PORT = 8765
TOKEN = "t" * 31 + "~"


def guard(address: str = "127.0.0.1", port: int = PORT) -> SessionGuard:
    made = SessionGuard(TOKEN)
    made.listen_at(address, port)
    return made


def request(*fields: str, target: str = "/", version: str = "1.1") -> Request:
    head = "".join(f"{line}\r\n" for line in (f"GET {target} HTTP/{version}", *fields, ""))
    judged = judge_head(head.encode("latin-1"), HeadLimits())
    assert isinstance(judged, Request), judged
    return judged


def host_code(host: str | None, target: str = "/", version: str = "1.1") -> str | None:
    fields = () if host is None else (f"Host: {host}",)
    refusal = guard().refuse_host(request(*fields, target=target, version=version))
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("localhost", "127.0.0.1"),
        ("LOCALHOST", "127.0.0.1"),
        ("localhost.", "127.0.0.1"),
    ],
)
def test_loopback_addresses(host: str, address: str) -> None:
    """CT-2.1: what may be bound."""
    assert loopback_address(host) == address


@pytest.mark.parametrize(
    "host",
    [
        "",
        "0.0.0.0",
        "::",
        "[::]",
        "*",
        "192.0.2.1",
        "10.0.0.1",
        "fe80::1",
        "fe80::1%lo",
        "::1%lo",
        "::ffff:127.0.0.1",
        "2130706433",
        "127.1",
        "127.0.0.1:80",
        "node.example",
        "localhost.example",
        "127.0.0.1.example",
        " 127.0.0.1",
        "[127.0.0.1",
    ],
)
def test_anything_else_is_refused_in_one_line(host: str) -> None:
    """CT-2.1, SEC-05: other addresses, names, wildcards and the empty host."""
    with pytest.raises(ValueError, match="no loopback address") as caught:
        loopback_address(host)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "host",
    [
        "localhost:8765",
        "LOCALHOST:8765",
        "LocalHost:8765",
        "localhost.:8765",
        "127.0.0.1:8765",
        "[::1]:8765",
    ],
)
def test_hosts_of_this_service(host: str) -> None:
    """CT-2.2, SEC-01: each legitimate form."""
    assert host_code(host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8765",
        "localhost.evil.example:8765",
        "127.0.0.1.evil.example:8765",
        "0.0.0.0:8765",
        "127.0.0.2:8765",
        "localhost:8766",
        "localhost:08765",
        "localhost:",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "localhost..:8765",
        "192.0.2.1:8765",
    ],
)
def test_foreign_hosts(host: str) -> None:
    """CT-2.2, SEC-01: another name, or another port, is a page that was re-pointed here."""
    assert host_code(host) == "forbidden_host"


def test_no_host_is_foreign() -> None:
    """CT-2.2: an HTTP/1.0 request without Host names nobody."""
    assert host_code(None, version="1.0") == "forbidden_host"


def test_absolute_form_is_judged_by_its_own_authority() -> None:
    """CT-2.2: RFC 9112 3.2.2."""
    assert host_code("localhost:8765", "http://evil.example:8765/") == "forbidden_host"
    assert host_code("evil.example", "http://127.0.0.1:8765/") is None


def test_the_bound_address_is_a_host() -> None:
    """CT-2.2: 127.0.0.2 if that was bound."""
    assert guard("127.0.0.2").refuse_host(request("Host: 127.0.0.2:8765")) is None


def test_port_80_may_be_left_out() -> None:
    """CT-2.2: RFC 9110 4.2.1."""
    assert {"localhost", "localhost:80", "[::1]"} <= allowed_authorities("127.0.0.1", 80)
    assert "localhost" not in allowed_authorities("127.0.0.1", 8080)


def test_nobody_is_let_in_before_the_port_is_known() -> None:
    """CT-2.2: the guard refuses until it is told where it is."""
    assert SessionGuard(TOKEN).refuse_host(request("Host: localhost:8765")) is not None


@pytest.mark.parametrize(
    ("fields", "passes"),
    [
        ((), True),
        (("Origin: http://localhost:8765",), True),
        (("Origin: http://127.0.0.1:8765",), True),
        (("Origin: http://[::1]:8765",), True),
        (("Origin: null",), False),
        (("Origin: http://evil.example",), False),
        (("Origin: http://127.0.0.1:8766",), False),
        (("Origin: https://127.0.0.1:8765",), False),
        (("Origin: http://127.0.0.1:8765/",), False),
        (("Origin:",), False),
        (("Origin: http://localhost:8765", "Origin: http://evil.example"), False),
        (("Sec-Fetch-Site: same-origin",), True),
        (("Sec-Fetch-Site: none",), True),
        (("Sec-Fetch-Site: same-site",), False),
        (("Sec-Fetch-Site: cross-site",), False),
        (("Sec-Fetch-Site: anything",), False),
        (("Origin: http://localhost:8765", "Sec-Fetch-Site: cross-site"), False),
        (("Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"), False),
        (("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: none"), False),
        (("Sec-Fetch-Site: none", "sec-fetch-site: same-origin"), True),
        (("Origin: http://evil.example", "Origin: http://localhost:8765"), False),
    ],
)
def test_origins(fields: tuple[str, ...], passes: bool) -> None:
    """CT-2.3: only the page itself, or a program that says nothing."""
    refusal = guard().refuse_origin(request("Host: a", *fields))
    assert (refusal is None) is passes
    assert refusal is None or (refusal.status, refusal.code) == (403, "forbidden_origin")


@pytest.mark.parametrize(
    ("fields", "passes"),
    [
        ((), False),
        ((f"X-IDKMesh-UI-Token: {TOKEN}",), True),
        ((f"Authorization: Bearer {TOKEN}",), True),
        ((f"authorization: bearer {TOKEN}",), True),
        ((f"Authorization: Bearer   {TOKEN}",), True),
        ((f"Authorization: Basic {TOKEN}",), False),
        ((f"Authorization: {TOKEN}",), False),
        (("Authorization: Bearer",), False),
        ((f"X-IDKMesh-UI-Token: {TOKEN}x",), False),
        ((f"X-IDKMesh-UI-Token: {TOKEN[:-1]}",), False),
        (("X-IDKMesh-UI-Token:",), False),
        (("X-IDKMesh-UI-Token: \xff",), False),
        (("X-IDKMesh-UI-Token: wrong", f"Authorization: Bearer {TOKEN}"), False),
        ((f"Cookie: token={TOKEN}",), False),
        (("X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Real-IP: 127.0.0.1"), False),
    ],
)
def test_tokens(fields: tuple[str, ...], passes: bool) -> None:
    """CT-2.4, CT-2.7: the token in one of two fields, and nothing else."""
    refusal = guard().refuse_token(request("Host: a", *fields))
    assert (refusal is None) is passes
    if refusal is not None:
        assert (refusal.status, refusal.code) == (401, "unauthorized")
        assert dict(refusal.headers)["WWW-Authenticate"].startswith("Bearer")
        assert TOKEN not in refusal.message


def test_a_token_in_the_query_is_no_token() -> None:
    """CT-2.6: it would end in logs."""
    assert guard().refuse_token(request("Host: a", target=f"/api/v1/status?token={TOKEN}")) is not None


@pytest.mark.parametrize("text", ["a" * 32, "A-z.0_~" * 5, "x" * 4096])
def test_token_grammar(text: str) -> None:
    """CT-2.5: 32 to 4096 unreserved characters, a line end after them dropped."""
    assert checked_token(text, "f") == text
    assert checked_token(text + "\n", "f") == text
    assert checked_token(text + "\r\n", "f") == text


@pytest.mark.parametrize("text", ["", "a" * 31, "a" * 4097, "a" * 31 + " ", "a" * 40 + "\nb", " " + "a" * 40, "é" * 40])
def test_other_tokens_are_refused_without_showing_them(text: str) -> None:
    """CT-2.5: the line names the source and not the token."""
    with pytest.raises(ValueError, match="some-file: a token is 32 to 4096") as caught:
        checked_token(text, "some-file")
    assert "\n" not in str(caught.value)
    assert not text.strip() or text.strip() not in str(caught.value)


def test_random_tokens_follow_the_grammar() -> None:
    """CT-2.5: 256 bits."""
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    for token in tokens:
        assert checked_token(token, "new") == token
