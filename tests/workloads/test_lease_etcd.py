"""What holds for the lease in etcd alone: its members, lost answers, and an etcd that is paused, killed and back."""

from __future__ import annotations

import base64
import gc
import json
import signal
import socket
import threading
import time
import weakref
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.etcd.gateway import (
    MAX_OUT,
    Endpoint,
    EtcdAnswerError,
    EtcdError,
    Members,
    asked,
    b64,
    endpoint_of,
    in_time,
)
from idkmesh.workloads.lease.etcd import MAX_HOLDER_CHARACTERS, EtcdLeaseStore
from idkmesh.workloads.lease.lease_times import CALL_SECONDS
from idkmesh.workloads.lease.store import Grant, LeaseStoreError
from tests.workloads.etcd_support import WHY_NOT, Etcd, answering, free_ports, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

LONG, SLACK = 60.0, 5.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


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
        ("http://[fe80::1%eth0]:2379", Endpoint("http", "fe80::1%eth0", 2379)),
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
        "http://a:0",
        "http://a b:2379",
        "http://ex\N{LATIN SMALL LETTER A WITH DIAERESIS}mple:2379",
        "http://a\x7f",
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
def dripping(begin: bytes = HEAD, drop: bytes = b" ") -> Iterator[str]:
    """Give the URL of something that answers a drop at a time, without an end."""
    ending = threading.Event()

    class Dripping(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.sendall(begin)
                while not ending.wait(0.1):
                    self.request.sendall(drop)

    with ThreadingTCPServer(("127.0.0.1", 0), Dripping) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            ending.set()
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


@pytest.mark.parametrize(("begin", "drop"), [(HEAD, b" "), (HEAD[:-2], b"x"), (b"", b"H"), (HEAD[:-2], b"X: y\r\n")])
def test_answers_that_trickle(begin: bytes, drop: bytes) -> None:
    """AR-6.3, RT-3.5: one that is left ends with its connection: who trickles locks no member out, for however long."""
    with dripping(begin, drop) as url:
        one = endpoint_of(url, "f")
        members = Members([one])
        for _ in range(MAX_OUT + 1):
            with pytest.raises(EtcdError):
                asked(members, one, "kv/range", {}, 0.5)
        members.wait(time.monotonic() + LONG)
        assert members.order() == [one]


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


NASTY = "\x1b[31mno\r\nway\x07\u202e\ud800"


def test_words_of_etcd_are_one_clean_line() -> None:
    """AR-6.3: what a member says of its fault is told in one printable line of bounded length."""
    with serving(answering({"error": NASTY + "x" * 5000}, 500)) as url:
        text = one_line(EtcdLeaseStore([url]))
    assert text.isprintable()
    assert "no way" in text
    assert len(text) < 400


def test_a_redirect_is_not_followed() -> None:
    """AR-6.3: a member that sends elsewhere has not answered, and nobody else is asked for it."""
    asked = []

    class Elsewhere(answering({})):  # type: ignore[misc]  # made above
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Elsewhere) as url:
        text = one_line(EtcdLeaseStore([url]))
    assert "sends elsewhere" in text
    assert asked == ["/v3/kv/range"]


@pytest.mark.parametrize("chunk", [b"x", b"\x1f\x8b"])
def test_an_answer_without_an_end(chunk: bytes) -> None:
    """AR-6.3: no more than 1 MiB of an answer is taken, and what is packed is not unpacked."""
    sent: list[int] = []

    class Endless(answering({})):  # type: ignore[misc]  # made above
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip" if chunk != b"x" else "identity")
            self.end_headers()
            with suppress(OSError):
                while len(sent) < 256:
                    self.wfile.write(chunk * (512 * 1024 // len(chunk)))
                    sent.append(1)

    with serving(Endless) as url:
        assert "over 1 MiB" in one_line(EtcdLeaseStore([url]))
    assert len(sent) < 256


def test_no_answer_leaves_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-6.3: whatever a parser makes of an answer, it is a line, and no thread ends with an error of its own."""
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    for body in (b"[" * 100_000, b'{"ID":' + b"[" * 400 + b"]" * 400 + b"}", b"9" * 10_000):
        with serving(answering(body)) as url:
            one_line(EtcdLeaseStore([url]))
    assert raised == []


@pytest.mark.parametrize("kind", [EtcdError, EtcdAnswerError])
def test_an_answer_goes_with_its_request(kind: type[EtcdError]) -> None:
    """AR-6.3, RT-7.5: what is wrong with an answer is told without it: it may have 64 MiB, each second."""
    one = Endpoint("http", "h", 1)
    gone: list[weakref.ref[threading.Event]] = []

    def errand(_: object) -> None:
        answer = threading.Event()
        gone.append(weakref.ref(answer))
        raise kind("over its bound", silent=True, refused=True)

    gc.disable()
    try:
        with pytest.raises(kind, match="over its bound") as caught:
            in_time(Members([one]), one, errand, LONG)
        assert gone[0]() is None
    finally:
        gc.enable()
    assert (caught.value.silent, caught.value.refused) == (True, True)


@pytest.mark.parametrize("number", ["9" * 30, "1_0", "1.0", True, [1], None])
def test_a_number_that_is_none(number: object) -> None:
    """AR-6.3: a number of etcd's has 64 bits: what is none is an error, and is not sent back to it."""
    with serving(answering({"ID": number, "kvs": [{"create_revision": number}]})) as url:
        store = EtcdLeaseStore([url])
        with pytest.raises(LeaseStoreError):
            store.renew(Grant("one", "1.1"), LONG)
        with pytest.raises(EtcdError):
            store._call().grant(LONG)


def written(holder: object) -> Any:
    value = base64.b64encode(json.dumps({"holder": holder}).encode()).decode()
    return answering({"kvs": [{"value": value, "create_revision": "7"}]})


def test_the_holder_is_fit_to_be_shown() -> None:
    """AR-6.4: a standby shows the holder's name, which anybody who can write to etcd may have written."""
    with serving(written("host-1:17")) as url:
        assert EtcdLeaseStore([url]).holder() == "host-1:17"
    with serving(written(NASTY + "x" * 5000)) as url:
        name = EtcdLeaseStore([url]).holder()
    assert name is not None
    assert name.isprintable()
    assert len(name) <= MAX_HOLDER_CHARACTERS
    for holder in (7, ["x"], None, ""):
        with serving(written(holder)) as url, pytest.raises(LeaseStoreError, match="was not written by idkmesh"):
            EtcdLeaseStore([url]).holder()


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
        store = EtcdLeaseStore([f"http://127.0.0.1:{port}", url, etcd.url], call_seconds=9)
        grant = store.acquire("one", LONG)
        assert grant is not None
        began = time.monotonic()
        assert store.renew(grant, LONG)
        assert store.claim(grant, "web-1", 60)
        assert time.monotonic() - began < 5, "the silent one would have cost three seconds twice"
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
    claimed = time.monotonic()
    assert store.claim(grant, "web-1", 2)
    etcd.kill()
    one_line(EtcdLeaseStore([etcd.url]))
    etcd.start()
    assert store.renew(grant, LONG)
    while not store.claim(grant, "web-1", 2):
        time.sleep(0.2)
        assert time.monotonic() - claimed < 120
    assert time.monotonic() - claimed >= 2


def test_a_key_that_was_removed(etcd: Etcd) -> None:
    """AR-6.1, AR-6.2: etcd's lease goes on without the key, which is what is held: who renews it holds nothing."""
    store = EtcdLeaseStore([etcd.url], call_seconds=10)
    grant = store.acquire("one", LONG)
    assert grant is not None
    assert store.renew(grant, LONG)
    store._call().ask("kv/deleterange", {"key": b64("/idkmesh/lease/default")})
    assert not store.renew(grant, LONG)
    assert EtcdLeaseStore([etcd.url], call_seconds=10).acquire("other", LONG) is not None
    assert not store.renew(grant, LONG)


def test_what_others_have_written(etcd: Etcd) -> None:
    """AR-6.1: a key that was not written by this project is told, and nobody holds a lease under it."""
    store = EtcdLeaseStore([etcd.url], call_seconds=10)
    for value in ("theirs", "[]", "{}"):
        body = {"key": b64("/idkmesh/lease/default"), "value": base64.b64encode(value.encode()).decode()}
        store._call().ask("kv/put", body)
        with pytest.raises(LeaseStoreError, match="was not written by idkmesh"):
            store.holder()
        assert store.acquire("one", LONG) is None
