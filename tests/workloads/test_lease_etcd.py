"""What holds for the lease in etcd alone: its members, lost answers, and an etcd that is paused, killed and back."""

from __future__ import annotations

import base64
import json
import signal
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.etcd_gateway import MAX_OUT, Endpoint, b64, endpoint_of
from idkmesh.workloads.lease.etcd import EtcdLeaseStore
from idkmesh.workloads.lease.lease_times import CALL_SECONDS
from idkmesh.workloads.lease.store import LeaseStoreError
from tests.workloads.etcd_support import WHY_NOT, Etcd, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

LONG, SLACK = 60.0, 1.0


@pytest.fixture(scope="module")
def one_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    member = Etcd(tmp_path_factory.mktemp("etcd"))
    yield member
    member.kill()


@pytest.fixture
def etcd(one_etcd: Etcd) -> Etcd:
    """Return the etcd, without what an earlier test has left in it."""
    everything = {"key": b64("\0"), "range_end": b64("\0")}
    EtcdLeaseStore([one_etcd.url], call_seconds=10)._call().ask("kv/deleterange", everything)
    return one_etcd


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://etcd-1", Endpoint("http", "etcd-1", 2379)),
        ("https://etcd-1:443/", Endpoint("https", "etcd-1", 443)),
        ("http://[::1]:2379", Endpoint("http", "::1", 2379)),
    ],
)
def test_endpoints(url: str, endpoint: Endpoint) -> None:
    """AR-6.1: an endpoint is a scheme, a host and a port."""
    assert endpoint_of(url, "field") == endpoint
    assert endpoint_of(str(endpoint), "field") == endpoint


@pytest.mark.parametrize(
    "url",
    [
        "etcd:2379",
        "ftp://etcd",
        "http://",
        "http://a:b",
        "http://a/path",
        "http://u:secret@a",
        "http://u:secret@a:b",
        "http://[1",
    ],
)
def test_no_endpoints(url: str) -> None:
    """AR-6.1: anything else is refused in one line that names the field, and shows no secret."""
    with pytest.raises(ValueError, match=r"^supervisor\.lease\.etcd\.endpoints: ") as caught:
        EtcdLeaseStore([url])
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="none is named"):
        EtcdLeaseStore([])


@contextmanager
def silent() -> Iterator[str]:
    """Give the URL of something that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def dripping() -> Iterator[str]:
    """Give the URL of something that answers a byte at a time, without an end."""
    ending = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not ending.wait(0.1):
                    connection.sendall(b" ")
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ending.set()
            thread.join(30)


def answering(answer: Any, status: int = 200) -> Any:
    """Return a handler that says this to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving(handler: Any) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(30)


def one_line(store: EtcdLeaseStore) -> str:
    began = time.monotonic()
    with pytest.raises(LeaseStoreError) as caught:
        store.acquire("one", LONG)
    assert time.monotonic() - began < CALL_SECONDS + SLACK
    assert "\n" not in str(caught.value)
    assert "0x" not in str(caught.value)
    return str(caught.value)


def test_nobody_answers() -> None:
    """AR-6.3: what refuses, stays silent or never comes to an end is an error within the deadline of a call."""
    (port,) = free_ports(1)
    assert "refused" in one_line(EtcdLeaseStore([f"http://127.0.0.1:{port}"]))
    with silent() as url:
        assert f"{url}: timeout" in one_line(EtcdLeaseStore([url], call_seconds=0.5))
    with dripping() as url:
        assert f"{url}: timeout" in one_line(EtcdLeaseStore([url], call_seconds=0.5))


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"<html>", 200),
        (b"", 200),
        ([1], 200),
        ({"kvs": "none"}, 200),
        ({"kvs": {"none": 1}}, 200),
        ({"ID": "none"}, 200),
        ({"error": "etcdserver: no leader", "code": 14}, 503),
        (b"Bad Gateway", 502),
    ],
)
def test_no_answer_of_etcd(answer: Any, status: int) -> None:
    """AR-6.3: what is no answer of etcd's is an error, and never a lease."""
    with serving(answering(answer, status)) as url:
        text = one_line(EtcdLeaseStore([url]))
    if status == 503:
        assert "etcdserver: no leader" in text


@pytest.mark.parametrize(
    "responses", [[1], [{"response_range": {"kvs": [{"value": 1}]}}], [{"response_range": []}], []]
)
def test_an_answer_without_our_word(responses: list[Any]) -> None:
    """AR-6.1: a transaction after which our word is not found has given us nothing."""
    with serving(answering({"ID": "1", "responses": responses})) as url:
        assert EtcdLeaseStore([url], call_seconds=10).acquire("one", LONG) is None


def test_one_of_several_members_is_down(etcd: Etcd) -> None:
    """AR-6.1: a member that is down or silent costs its share of the time; the next call asks the good one first."""
    (port,) = free_ports(1)
    with silent() as url:
        store = EtcdLeaseStore([f"http://127.0.0.1:{port}", url, etcd.url], call_seconds=3)
        grant = store.acquire("one", LONG)
        assert grant is not None
        began = time.monotonic()
        assert store.renew(grant, LONG)
        assert store.claim(grant, "web-1", 60)
        assert time.monotonic() - began < 2
        store.release(grant)
        assert store.holder() is None


class Losing(BaseHTTPRequestHandler):
    """Passes everything on to ``target``, and loses the first answer to a transaction."""

    target = ""
    lost = 0

    def do_POST(self) -> None:
        import urllib.request  # noqa: PLC0415  the only one that needs it

        body = self.rfile.read(int(self.headers["Content-Length"]))
        with urllib.request.urlopen(f"{self.target}{self.path}", body, timeout=10) as answer:
            said = answer.read()
        if self.path.endswith("/txn") and type(self).lost == 0:
            type(self).lost += 1
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_a_lost_answer(etcd: Etcd) -> None:
    """AR-5.3, AR-6.1: a transaction that was done and not answered is known as ours when it is sent again."""
    handler = type("Handler", (Losing,), {"target": etcd.url})
    with serving(handler) as url:
        store = EtcdLeaseStore([url, etcd.url], call_seconds=10)
        grant = store.acquire("one", LONG)
        assert handler.lost == 1  # type: ignore[attr-defined]  # made above
        assert grant is not None
        assert store.renew(grant, LONG)
        handler.lost = 0  # type: ignore[attr-defined]  # the same
        store = EtcdLeaseStore([url, etcd.url], call_seconds=10)
        assert store.claim(grant, "web-1", 60)
        assert handler.lost == 1  # type: ignore[attr-defined]  # the same
        assert not store.claim(grant, "web-1", 60)


def test_etcd_is_paused(etcd: Etcd) -> None:
    """AR-6.3: while etcd is stopped each call is an error in time, and afterwards the lease is as it was."""
    store = EtcdLeaseStore([etcd.url], call_seconds=0.5)
    grant = EtcdLeaseStore([etcd.url], call_seconds=10).acquire("one", LONG)
    assert grant is not None
    etcd.signal(signal.SIGSTOP)
    for _ in range(MAX_OUT):
        one_line(store)
    etcd.signal(signal.SIGCONT)
    store = EtcdLeaseStore([etcd.url], call_seconds=10)
    assert store.acquire("other", LONG) is None
    assert store.renew(grant, LONG)


def test_etcd_is_killed(etcd: Etcd) -> None:
    """AR-5.3, AR-6.1: neither the lease nor a claim is lost or shortened by an etcd that was killed and is back."""
    store = EtcdLeaseStore([etcd.url], call_seconds=3)  # a claim lasts longer by as much
    grant = store.acquire("one", LONG)
    assert grant is not None
    assert store.claim(grant, "web-1", 2)
    claimed = time.monotonic()
    etcd.kill()
    one_line(EtcdLeaseStore([etcd.url]))
    etcd.start()
    assert store.renew(grant, LONG)
    while not store.claim(grant, "web-1", 2):
        time.sleep(0.2)
        assert time.monotonic() - claimed < 120
    assert time.monotonic() - claimed >= 2


def test_what_others_have_written(etcd: Etcd) -> None:
    """AR-6.1: a key that was not written by this project is told, and nobody holds a lease under it."""
    store = EtcdLeaseStore([etcd.url], call_seconds=10)
    for value in ("theirs", "[]", "{}"):
        body = {"key": b64("/idkmesh/lease/default"), "value": base64.b64encode(value.encode()).decode()}
        store._call().ask("kv/put", body)
        with pytest.raises(LeaseStoreError, match="was not written by idkmesh"):
            store.holder()
        assert store.acquire("one", LONG) is None
