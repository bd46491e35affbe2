"""The three paths: what is asked, judged by a pure function, and a server of the real profile."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from idkmesh.adapter.log import PromptLog
from idkmesh.adapter.server import ANSWERS, LIMITS, MAX_HEAD_BYTES, AdapterServer, response_of
from idkmesh.adapter.verdict import Verdict
from tests.functional.support import Answer, ending, parse, read_to_end, until

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0
NO = Verdict(live=False, ready=False, started=False, not_live=("health",), not_ready=("health",))
LIVE = replace(NO, live=True)
STARTED = replace(LIVE, started=True)
READY = replace(STARTED, ready=True)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (NO, ("starting", "not_live", "not_ready")),
        (LIVE, ("starting", "live", "not_ready")),
        (STARTED, ("started", "live", "not_ready")),
        (READY, ("started", "live", "ready")),
    ],
)
def test_answers(told: Verdict, words: tuple[str, ...]) -> None:
    """RA-8.1: 200 or 503, with a fixed body that is a status and nothing of the node."""
    for path, word in zip(ANSWERS, words, strict=True):
        response = response_of(path, told)
        assert response.status == (503 if word.startswith("not_") or word == "starting" else 200)
        assert response.body == f'{{"status":"{word}"}}'.encode()
        assert response.headers == ()


@dataclass
class Here:
    """A server on the real profile, with a verdict that the test sets."""

    told: Verdict = READY
    server: AdapterServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = AdapterServer(("127.0.0.1", 0), lambda: self.told, PromptLog(None))

    @property
    def port(self) -> int:
        return self.server.server_port

    def connect(self, data: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), PATIENCE, (source, 0))
        sock.sendall(data)
        return sock

    def exchange(self, data: bytes, source: str = "127.0.0.1") -> Answer:
        with self.connect(data, source) as sock:
            return parse(read_to_end(sock))

    def request(self, target: str = "/ready", method: str = "GET", *fields: str, host: str | None = None) -> bytes:
        host = f"127.0.0.1:{self.port}" if host is None else host
        lines = (f"{method} {target} HTTP/1.1", *((f"Host: {host}",) if host else ()), *fields, "", "")
        return "\r\n".join(lines).encode("latin-1")


@pytest.fixture
def here() -> Iterator[Here]:
    made = Here()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.server_close()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize("path", ANSWERS)
def test_get_and_head(path: str, here: Here) -> None:
    """RA-8.1, RA-8.6: both, with the fields that keep an answer from being stored or taken for another type."""
    for told in (READY, NO):
        here.told = told
        got, headed = here.exchange(here.request(path)), here.exchange(here.request(path, "HEAD"))
        assert got.status == headed.status == (200 if told is READY else 503)
        assert headed.body == b""
        assert json.loads(got.body).keys() == {"status"}
        for answer in (got, headed):
            assert answer.fields["cache-control"] == "no-store"
            assert answer.fields["x-content-type-options"] == "nosniff"
            assert answer.fields["content-length"] == str(len(got.body))
            assert "set-cookie" not in answer.fields
            assert "www-authenticate" not in answer.fields


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/ready/",
        "/ready?",
        "/ready?verbose=1",
        "//ready",
        "/READY",
        "/%72eady",
        "/./ready",
        "/readyz",
        "/healthz",
        "/api/v1/node",
        "http://127.0.0.1/ready",
    ],
)
def test_other_paths(target: str, here: Here) -> None:
    """RA-8.2: nothing else is a path, nothing is cleaned and decoded, and no other path is told about."""
    answer = here.exchange(here.request(target))
    assert answer.status == 404
    assert json.loads(answer.body)["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "status"),
    [("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405), ("PATCH", 405), ("BREW", 501), ("get", 501)],
)
def test_other_methods(method: str, status: int, here: Here) -> None:
    """RA-8.2: GET and HEAD, and the answer says so."""
    answer = here.exchange(here.request("/ready", method))
    assert answer.status == status
    if status == 405:
        assert answer.fields["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost:{port}",
        "127.0.0.1:1",
        "127.0.0.2:{port}",
        "10.244.1.7:{port}",
        "10.244.1.7:18181",
        "127.0.0.1:0{port}",
        "[::1]:{port}",
        "idkmesh.example",
    ],
)
def test_another_host(host: str, here: Here) -> None:
    """RA-8.3: Host is exactly the listen address; a pod's address is not, nor is a name that leads here."""
    answer = here.exchange(here.request(host=host.format(port=here.port)))
    assert answer.status == 403
    assert json.loads(answer.body)["error"]["code"] == "forbidden_host"


def test_no_host(here: Here) -> None:
    """RA-8.3: HTTP/1.0 lets it out, and that is no Host of ours."""
    assert here.exchange(b"GET /ready HTTP/1.0\r\n\r\n").status == 403


def test_another_peer(here: Here) -> None:
    """RA-8.3: another address of this machine is another peer, whatever it asks for."""
    for target in ("/ready", "/other"):
        answer = here.exchange(here.request(target), source="127.0.0.2")
        assert answer.status == 403
        assert json.loads(answer.body)["error"]["code"] == "forbidden"


@pytest.mark.parametrize(
    "line",
    [
        "Forwarded: for=127.0.0.1",
        "X-Forwarded-For: 127.0.0.1",
        "x-forwarded-host: 127.0.0.1",
        "X-FORWARDED-PROTO: https",
        "X-Forwarded-Port: 443",
        "X-Real-IP: 127.0.0.1",
        "Via: 1.1 proxy",
    ],
)
def test_whoever_forwards(line: str, here: Here) -> None:
    """RA-8.3: a request with a field that a proxy adds is refused, on every path."""
    assert here.exchange(here.request("/ready", "GET", line)).status == 403
    assert here.exchange(here.request("/other", "GET", line)).status == 403


def test_the_size_of_a_head(here: Here) -> None:
    """RA-8.5: 4 KiB are answered, one byte more is 431, whether fields or the target have it."""
    bare = len(here.request("/ready", "GET", "X: "))
    assert here.exchange(here.request("/ready", "GET", "X: " + "x" * (MAX_HEAD_BYTES - bare))).status == 200
    assert here.exchange(here.request("/ready", "GET", "X: " + "x" * (MAX_HEAD_BYTES - bare + 1))).status == 431
    assert here.exchange(here.request("/ready", "GET", "X: " + "x" * 100_000)).status == 431
    assert here.exchange(here.request("/" + "x" * MAX_HEAD_BYTES)).status == 431


def test_the_number_of_fields(here: Here) -> None:
    """RA-8.5: 16 fields are answered, Host among them; 17 are 431."""
    assert here.exchange(here.request("/ready", "GET", *(f"X-{n}: 1" for n in range(15)))).status == 200
    assert here.exchange(here.request("/ready", "GET", *(f"X-{n}: 1" for n in range(16)))).status == 431


def test_no_body(here: Here) -> None:
    """RA-8.5: a byte of body is 413, none at all is none; chunks are not known."""
    assert here.exchange(here.request("/ready", "GET", "Content-Length: 1") + b"x").status == 413
    assert here.exchange(here.request("/ready", "GET", "Content-Length: 0")).status == 200
    assert here.exchange(here.request("/ready", "GET", "Transfer-Encoding: chunked")).status == 501
    assert here.exchange(here.request("/ready", "POST", "Content-Length: 1") + b"x").status == 405
    assert here.exchange(here.request("/x", "POST", "Content-Length: 1") + b"x").status == 404
    assert here.exchange(here.request("/ready", "POST", "Content-Length: 1", host="x") + b"x").status == 403


def test_the_profile() -> None:
    """RA-8.5: the numbers of the contract."""
    assert LIMITS.serial
    assert (LIMITS.listen_backlog, LIMITS.max_header_fields, LIMITS.max_header_bytes) == (2, 16, 4096)
    assert (LIMITS.max_body_bytes, LIMITS.request_timeout) == (0, 0.5)


@pytest.mark.parametrize("first", [b"", b"GET /ready HTTP/1.1\r\nHo"])
def test_a_client_that_stalls(first: bytes, here: Here) -> None:
    """RA-8.5: one connection at a time; who sends no request is dropped after 0.5 s, and the next one is served."""
    began = time.monotonic()
    with here.connect(first) as slow:
        until(lambda: here.server.usage().connections == 1)
        with here.connect(here.request()) as waiting:
            assert parse(read_to_end(waiting)).status == 200
        assert time.monotonic() - began >= 0.45
        data, _ = ending(slow)
        assert data == b""


def test_a_client_that_trickles(here: Here) -> None:
    """RA-8.5: the 0.5 s are for the whole request: a byte now and then extends nothing."""
    with here.connect() as slow:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in here.request() * 10:
                slow.sendall(bytes([byte]))
                time.sleep(0.05)
                if time.monotonic() - began > PATIENCE:
                    pytest.fail("it was never dropped")
        assert here.exchange(here.request()).status == 200


@pytest.mark.alone
def test_a_refused_client_that_stays(here: Here) -> None:
    """RA-8.5: who was refused in the middle of a body holds the next one up for 0.5 s, not for two."""
    refused = here.request("/ready", "GET", "Content-Length: 1000000")
    with here.connect(refused) as lingering:
        assert parse(read_to_end(lingering)).status == 413
        assert here.server.usage().connections == 1
        until(lambda: here.server.usage().connections == 0, timeout=1.5)
        assert here.exchange(here.request()).status == 200


def test_no_answer_in_a_drain(here: Here) -> None:
    """RA-9.2: an adapter that ends says no."""
    here.server.begin_drain()
    answer = here.exchange(here.request())
    assert answer.status == 503
    assert json.loads(answer.body)["error"]["code"] == "shutting_down"


def test_no_thread_for_whatever_is_asked(here: Here) -> None:
    """RA-9.1: the loop does it all, what it has to log included."""
    before = threading.active_count()
    for data in (here.request(), here.request("/x"), here.request(host="x"), b"rubbish\r\n\r\n"):
        here.exchange(data)
    assert threading.active_count() == before
