"""One request to an agent, and each way in which it ends."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.clock import SystemClock
from idkmesh.router import forwarding, lookups
from idkmesh.router.forwarding import MAX_ANSWER_BYTES, AgentAnswer, AgentClient, Reason
from idkmesh.topology.model import endpoint_of
from tests.functional.tls_support import certificate, server_context
from tests.router.agents import OK, PATIENCE, answering

if TYPE_CHECKING:
    from pathlib import Path

    from tests.router.agents import Agent

LONG = b"A: " + b"x" * 1000 + b"\r\n"
FIELDS = [("X-One", "1"), ("X-One", "2")]


def asked(agent: Agent | str, content: bytes = b"{}", seconds: float = PATIENCE) -> AgentAnswer | Reason:
    endpoint = endpoint_of(agent if isinstance(agent, str) else agent.url)
    return AgentClient(SystemClock()).ask(endpoint, content, FIELDS, time.monotonic() + seconds)


def answered(agent: Agent) -> AgentAnswer:
    found = asked(agent)
    assert isinstance(found, AgentAnswer), found
    return found


def test_what_is_sent() -> None:
    """RT-9.5, RT-9.7: one POST to / with the content as it stands, one connection, and nothing more."""
    content = b'{"a": 1.00, "b":"\xc3\xa9"}'
    with answering(OK) as agent:
        assert asked(agent, content) == AgentAnswer(
            200, (("Content-Type", "application/json"), ("Content-Length", "2")), b"{}"
        )
        (request,) = agent.requests
    assert (
        request
        == (
            f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{agent.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\nX-One: 1\r\nX-One: 2\r\n\r\n"
        ).encode()
        + content
    )


@pytest.mark.parametrize(
    ("reply", "status", "content"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", 200, b"to the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", 200, b"old"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nX: y\r\n\r\n", 200, b"abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 204, b""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302, b""),
        (b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 1\r\n\r\nn", 401, b"n"),
        (b"HTTP/1.1 503 No\r\nRetry-After: 0\r\nContent-Length: 1\r\n\r\nn", 503, b"n"),
        (b"HTTP/1.1 599 Own\r\nContent-Length: 0\r\n\r\n", 599, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x00", 200, b"\x1f\x8b\x00"),
    ],
)
def test_answers_are_taken_as_they_are(reply: bytes, status: int, content: bytes) -> None:
    """RT-9.5, RT-9.7: any framing, any status; no redirect is followed, nothing is asked again, nothing is decoded."""
    with answering(reply) as agent:
        found = answered(agent)
        assert (found.status, found.content) == (status, content)
        assert len(agent.requests) == 1


def hold(reply: bytes) -> Any:
    """Send, and keep the connection open until the router has closed it."""

    def script(connection: socket.socket) -> None:
        connection.sendall(reply)
        connection.recv(1)

    return script


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", Reason.CLOSED),
        (b"HTTP/1.1 200", Reason.CLOSED),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", Reason.CLOSED),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", Reason.CLOSED),
        (hold(b"hello\r\n\r\n"), Reason.MALFORMED),
        (hold(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na"), Reason.MALFORMED),
        (hold(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), Reason.MALFORMED),
        (hold(b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n"), Reason.MALFORMED),
        (hold(b"HTTP/1.1 101 Other\r\nUpgrade: x\r\n\r\n"), Reason.MALFORMED),
        (hold(b"HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n"), Reason.MALFORMED),
        (hold(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), Reason.MALFORMED),
        (hold(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_ANSWER_BYTES + 1)), Reason.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_ANSWER_BYTES + 1), Reason.TOO_LARGE),
        (hold(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 120_000), Reason.TOO_LARGE),
        (hold(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + LONG * 110 + b"\r\n"), Reason.TOO_LARGE),
        (hold(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b\x01\r\n\r\n"), Reason.MALFORMED),
        (hold(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: b\x7f\r\n\r\n"), Reason.MALFORMED),
    ],
    ids=lambda value: value.value if isinstance(value, Reason) else "",
)
def test_what_is_no_answer_has_one_word(reply: Any, reason: Reason) -> None:
    """RT-9.6, RT-9.7, RT-9.8: asked once, and never again."""
    with answering(reply) as agent:
        assert asked(agent) is reason
        assert len(agent.requests) == 1


def test_the_largest_answer_is_one() -> None:
    """RT-9.6: 2 MiB of content, declared or not."""
    content = b"x" * MAX_ANSWER_BYTES
    for head in (b"", b"Content-Length: %d\r\n" % MAX_ANSWER_BYTES):
        with answering(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + content) as agent:
            assert answered(agent).content == content


def test_what_is_around_the_content_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-9.6: chunks of a byte, interim answers without end: there is a bound on all that comes."""
    monkeypatch.setattr(forwarding, "MAX_RECEIVED_BYTES", 100_000)
    for reply in (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000,
    ):
        with answering(reply) as agent:
            assert asked(agent) is Reason.TOO_LARGE


def trickle(reply: bytes) -> Any:
    def script(connection: socket.socket) -> None:
        for byte in reply:
            connection.sendall(bytes([byte]))
            time.sleep(0.1)

    return script


@pytest.mark.parametrize(
    "script",
    [trickle(OK), trickle(b"HTTP/1.1 100 Continue\r\n\r\n" * 9), lambda connection: connection.recv(1)],
    ids=["an answer", "interim ones", "nothing"],
)
def test_the_time_is_for_all_of_it(script: Any) -> None:
    """RT-9.6: a byte now and then extends nothing: the deadline is an instant."""
    with answering(script) as agent:
        began = time.monotonic()
        assert asked(agent, seconds=0.5) is Reason.TIMEOUT
        assert time.monotonic() - began < PATIENCE / 4
        assert len(agent.requests) == 1


def test_an_agent_that_takes_nothing() -> None:
    """RT-9.6: what is sent has the same deadline."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert asked(url, b"x" * 32 * 1024 * 1024, seconds=0.5) is Reason.TIMEOUT


def test_nobody_there() -> None:
    """RT-9.8: refused, and a name that there is not: nothing was sent."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert asked(f"http://127.0.0.1:{taken.getsockname()[1]}") is Reason.CONNECT
    assert asked("http://nobody.invalid:80") is Reason.CONNECT


def test_a_backlog_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-9.6: who swallows a connection has the time of one, not of the whole."""
    monkeypatch.setattr("idkmesh.router.agent_network.CONNECT_SECONDS", 0.3)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        held = [socket.socket() for _ in range(4)]
        for each in held:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        began = time.monotonic()
        assert asked(f"http://127.0.0.1:{listener.getsockname()[1]}") is Reason.CONNECT
        assert time.monotonic() - began < PATIENCE / 2
        for each in held:
            each.close()


def test_a_resolver_that_hangs_takes_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-9.6: at most so many look-ups are out; the next fails at once, and an address needs none."""
    gate, out = threading.Event(), []
    real = socket.getaddrinfo

    def hanging(host: str, *arguments: Any, **options: Any) -> Any:
        if not options["flags"] & socket.AI_NUMERICHOST:
            out.append(host)
            gate.wait(PATIENCE)
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    monkeypatch.setattr(lookups, "MOST_OUT", 2)
    client = AgentClient(SystemClock())
    for _ in range(4):
        assert client.ask(endpoint_of("http://slow.example:80"), b"1", [], time.monotonic() + 0.1) is Reason.CONNECT
    assert len(out) == 2
    with answering(OK) as agent:
        found = client.ask(agent.endpoint, b"1", [], time.monotonic() + PATIENCE)
        assert isinstance(found, AgentAnswer)
    gate.set()


def test_nothing_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """RT-9.5: no proxy, and no password file."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password s3cret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with answering(OK) as agent:
        answered(agent)
        assert b"uthorization" not in agent.requests[0]


def test_no_cookie_is_kept() -> None:
    """RT-9.5: what one agent sets, another one on the same host does not get."""
    client = AgentClient(SystemClock())
    with answering(OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=1\r\n\r\n")) as first, answering(OK) as second:
        for agent in (first, second, first):
            client.ask(agent.endpoint, b"1", [], time.monotonic() + PATIENCE)
        assert all(b"ookie" not in request for request in (*first.requests, *second.requests))


def test_tls_is_spoken_to_who_shows_a_name_that_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-1.2, RT-9.5, RT-9.6: with the authorities of the system; nobody else gets a byte, plain or silent ones too."""
    authority = tmp_path / "authority.pem"
    authority.write_bytes(certificate()[0])
    monkeypatch.setenv("SSL_CERT_FILE", os.fspath(authority))
    forwarding._trust.cache_clear()
    with answering(OK, context=server_context()) as agent:
        assert isinstance(asked(f"https://127.0.0.1:{agent.port}"), AgentAnswer)
        assert agent.requests[0].startswith(b"POST / HTTP/1.1\r\nHost: 127.0.0.1:")
        assert asked(f"https://localhost:{agent.port}") is Reason.CONNECT, "another name than the certificate's"
        monkeypatch.delenv("SSL_CERT_FILE")
        forwarding._trust.cache_clear()
        assert asked(f"https://127.0.0.1:{agent.port}") is Reason.CONNECT
        assert len(agent.requests) == 1
    monkeypatch.setattr("idkmesh.router.agent_network.CONNECT_SECONDS", 0.3)
    with answering(OK) as plain, socket.create_server(("127.0.0.1", 0)) as silent:
        assert asked(f"https://127.0.0.1:{plain.port}") is Reason.CONNECT
        assert not any(b"POST" in request for request in plain.requests)
        began = time.monotonic()
        assert asked(f"https://127.0.0.1:{silent.getsockname()[1]}") is Reason.CONNECT
        assert time.monotonic() - began < PATIENCE / 2, "a handshake has the time of a connection"
