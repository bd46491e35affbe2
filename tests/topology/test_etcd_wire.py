"""What goes over a watch of etcd, and when it has ended, as bytes and times in a test's hands."""

from __future__ import annotations

import base64
import contextlib
import gc
import itertools
import json
import socket
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.etcd.gateway import EtcdError, Members
from idkmesh.etcd.gateway import endpoint_of as member_of
from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, Target, endpoint_of, snapshot_of
from idkmesh.topology.providers import boundary, etcd_follower, etcd_releases, etcd_stream, etcd_wire
from idkmesh.topology.providers.crossings import nobody
from idkmesh.topology.providers.etcd_follower import REQUEST_SECONDS, WORDS, Follower
from idkmesh.topology.providers.etcd_releases import EtcdReleases, KeyValue, TooManyKeysError, snapshot_of_keys
from idkmesh.topology.providers.etcd_stream import BEAT_SECONDS, SILENT_SECONDS, WatchStream
from idkmesh.topology.providers.etcd_wire import (
    MAX_HEAD_BYTES,
    PROGRESS,
    WatchMessage,
    WatchReader,
    WireError,
    create,
    head,
    message_of,
)
from idkmesh.topology.providers.ring import Ring
from idkmesh.topology.providers.watches import Watches
from tests.topology.support import WAIT, Heard

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
NOW = 1000.0
ONE = Target("a", "1", "r")
A = endpoint_of("http://h:1")


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def line(**result: Any) -> bytes:
    return json.dumps({"result": {"header": {"revision": "7"}, **result}}).encode() + b"\n"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


PUT = line(
    events=[
        {"kv": {"key": b64("/k"), "value": b64("v"), "mod_revision": "7", "version": "2"}},
        {"kv": {"key": b64("/e"), "version": "1"}},
    ]
)
DELETE = line(events=[{"type": "DELETE", "kv": {"key": b64("/k"), "mod_revision": "8"}}])
WHOLE = HEAD + chunk(line(created=True)) + chunk(PUT + DELETE) + chunk(line(watch_id="-1"))
MESSAGES = [
    WatchMessage(created=True),
    WatchMessage(changes=(KeyValue(b"/k", b"v", first=False), KeyValue(b"/e", b""))),
    WatchMessage(changes=(KeyValue(b"/k", None),)),
    WatchMessage(),
]


@given(st.lists(st.integers(1, len(WHOLE) - 1), max_size=20))
def test_messages_in_any_pieces(cuts: list[int]) -> None:
    """RT-7.2: an answer says the same, in whatever pieces it comes."""
    reader, said = WatchReader(), []
    places = [0, *sorted(set(cuts)), len(WHOLE)]
    for begin, end in itertools.pairwise(places):
        said += reader.feed(WHOLE[begin:end])
    assert said == MESSAGES


def test_messages_byte_by_byte() -> None:
    """RT-7.2: the same, a byte at a time."""
    reader = WatchReader()
    assert [message for byte in WHOLE for message in reader.feed(bytes([byte]))] == MESSAGES


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", Cause.REFUSED),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", Cause.REFUSED),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", Cause.UNREACHABLE),
        (b"SSH-2.0-OpenSSH\r\n\r\n", Cause.UNREACHABLE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", Cause.UNREADABLE),
        (b"x" * (MAX_HEAD_BYTES + 1), Cause.UNREADABLE),
        (HEAD + b"0\r\n\r\n", Cause.LOST),
        (HEAD + b"-1\r\n", Cause.UNREADABLE),
        (HEAD + b"1_0\r\n", Cause.UNREADABLE),
        (HEAD + b"fffffffff\r\n", Cause.UNREADABLE),
        (HEAD + b"2\r\n{}xx", Cause.UNREADABLE),
        (HEAD + chunk(b"<html>\n"), Cause.UNREADABLE),
        (HEAD + chunk(b"[]\n"), Cause.UNREADABLE),
        (HEAD + chunk(b"null\n"), Cause.UNREADABLE),
        (HEAD + chunk(b"[" * 100_000 + b"\n"), Cause.UNREADABLE),
        (HEAD + chunk(line(events=[{"kv": {"key": "?"}}])), Cause.UNREADABLE),
        (HEAD + chunk(line(events=[{}])), Cause.UNREADABLE),
        (HEAD + chunk(line(events=5)), Cause.UNREADABLE),
    ],
)
def test_what_is_no_answer(answer: bytes, cause: Cause) -> None:
    """RT-5.4, RT-7.3: anything else is one word, and never half of a message."""
    with pytest.raises(WireError) as told:
        WatchReader().feed(answer)
    assert told.value.cause is cause


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_message_over_its_bound(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    """RT-7.5: a message of exactly its bound is read, of a longer one no more is held, whatever its pieces."""
    assert etcd_wire.MAX_LINE_BYTES == 64 * 1024 * 1024
    monkeypatch.setattr(etcd_wire, "MAX_LINE_BYTES", 100)
    longest = line(watch_id="-1").strip().ljust(100)
    reader = WatchReader()
    assert reader.feed(HEAD + chunk(longest) + chunk(b"\n")) == [WatchMessage()]
    for _ in range(pieces - 1):
        assert reader.feed(chunk(b"x" * (100 // pieces + 1))) == []
    with pytest.raises(WireError) as told:
        reader.feed(chunk(b"x" * (100 // pieces + 1)))
    assert told.value.cause is Cause.UNREADABLE


@pytest.mark.parametrize("more", [b"", chunk(PUT), chunk(b"<html>\n")])
def test_a_reader_that_nobody_needs(more: bytes) -> None:
    """RT-7.5: what a reader holds, up to its bound, goes with it at once: etcd's next watch may bring as much."""
    reader = WatchReader()
    with contextlib.suppress(WireError):
        reader.feed(HEAD + more)
    gone = weakref.ref(reader)
    gc.disable()
    try:
        del reader
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({"result": {"canceled": True, "compact_revision": "5"}}, Cause.LOST),
        ({"result": {"canceled": True, "cancel_reason": "etcdserver: permission denied"}}, Cause.REFUSED),
        (
            {"result": {"created": True, "canceled": True, "cancel_reason": "etcdserver: permission denied"}},
            Cause.REFUSED,
        ),
        ({"result": {"created": True, "canceled": True}}, Cause.LOST),
        ({"error": {"message": "etcdserver: no leader", "http_code": 503}}, Cause.UNREACHABLE),
        ({"error": {"message": "etcdserver: user name is empty"}}, Cause.REFUSED),
    ],
)
def test_how_a_watch_ends(said: dict[str, Any], cause: Cause) -> None:
    """RT-7.2, RT-7.6, RT-5.4: what etcd says at the end of a watch is one word of a closed list."""
    assert message_of(json.dumps(said).encode()).over is cause


def test_what_is_asked() -> None:
    """RT-7.2, RT-7.3, RT-7.6: the request closes its connection, so that it can be asked on, and wants a leader."""
    assert b"\r\nConnection: close\r\n" in head("h:1")
    assert b"\r\nGrpc-Metadata-hasleader: true\r\n" in head("h:1")
    assert head("[::1]:2379").startswith(b"POST /v3/watch HTTP/1.1\r\nHost: [::1]:2379\r\n")
    asked = json.loads(create("/p", 8).split(b"\r\n")[1])["create_request"]
    assert asked == {"key": b64("/p/"), "range_end": b64("/p0"), "start_revision": 8}


# --- times -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[WatchStream, socket.socket]]:
    near, far = socket.socketpair()
    stream = WatchStream(near, NOW)
    far.settimeout(30)
    yield stream, far
    stream.close()
    far.close()


def test_a_stream_is_asked_whether_it_goes_on(pair: tuple[WatchStream, socket.socket]) -> None:
    """RT-7.3: every 0.5 s, and not before."""
    stream, far = pair
    assert stream.keep(NOW) == NOW + BEAT_SECONDS == NOW + 0.5
    for beat in range(1, 4):
        assert stream.keep(NOW + beat * BEAT_SECONDS) > NOW + beat * BEAT_SECONDS
        assert far.recv(1000) == PROGRESS


def drained(stream: WatchStream) -> list[WatchMessage]:
    """Return all that has come."""
    said: list[WatchMessage] = []
    while True:
        said += stream.receive()
        if not stream._came:
            return said


def test_a_stream_is_silent_after_two_seconds(pair: tuple[WatchStream, socket.socket]) -> None:
    """RT-7.3: two seconds after a question without a message end it; what has come counts, however late it is read."""
    stream, far = pair
    stream.keep(NOW + BEAT_SECONDS)
    far.sendall(HEAD + chunk(line(watch_id="-1")))
    late = NOW + 60
    assert drained(stream) == [WatchMessage()]
    assert stream.keep(late) == late + BEAT_SECONDS
    assert drained(stream) == []
    assert stream.keep(late + SILENT_SECONDS - 0.001) == late + SILENT_SECONDS
    far.sendall(b"5\r\nhal")  # bytes that are no message
    assert drained(stream) == []
    with pytest.raises(WireError) as told:
        stream.keep(late + SILENT_SECONDS)
    assert told.value.cause is Cause.SILENT


def test_a_reader_that_was_busy(pair: tuple[WatchStream, socket.socket]) -> None:
    """RT-7.3: the time in which messages are handled is no silence of etcd's, nor one in which nothing was asked."""
    stream, far = pair
    stream.keep(NOW + BEAT_SECONDS)
    far.sendall(HEAD + chunk(line(watch_id="-1")))
    assert stream.receive() == [WatchMessage()]
    busy = NOW + 30
    assert stream.keep(busy) == busy, "more may have come"
    assert drained(stream) == []
    assert stream.keep(busy) == busy + BEAT_SECONDS
    # Nothing is asked for a while, and nothing comes: nobody can tell from this.
    far.sendall(chunk(line(watch_id="-1")))
    assert drained(stream) == [WatchMessage()]
    assert stream.keep(busy + 30) == busy + 30 + BEAT_SECONDS


def test_a_stream_that_does_not_stop(pair: tuple[WatchStream, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-7.2, RT-5.7: a part is read at a time, and asked in between, however much waits: an end is looked at."""
    monkeypatch.setattr(etcd_stream, "READ_BYTES", len(HEAD) + 10)
    stream, far = pair
    far.sendall(HEAD + chunk(line(watch_id="-1") * 20))
    assert len(stream.receive()) <= 1
    now = NOW + BEAT_SECONDS + SILENT_SECONDS
    assert stream.keep(now) == now
    assert far.recv(1000) == PROGRESS
    assert stream.keep(now + 60) == now + 60, "what waits is read before it is judged"
    assert len(drained(stream)) >= 19


@pytest.mark.parametrize("said", [b"\n", b" ", b"\n" * 500])
def test_a_stream_that_says_nothing(
    pair: tuple[WatchStream, socket.socket], monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """RT-7.3, RT-13.3: bytes without an end that are no message are silence, though there is always more to be read."""
    monkeypatch.setattr(etcd_stream, "READ_BYTES", 100)
    monkeypatch.setattr(etcd_stream, "LATE_BYTES", 1000)
    stream, far = pair
    far.sendall(HEAD + chunk(line(watch_id="-1")))
    assert drained(stream) == [WatchMessage()]
    asked = NOW + BEAT_SECONDS
    stream.keep(asked)
    far.sendall(chunk(said) * (10_000 // len(chunk(said))))
    for _ in range(11):
        assert stream.receive() == []
        assert stream.keep(asked + SILENT_SECONDS - 0.001) == asked + SILENT_SECONDS - 0.001
    for _ in range(10):
        assert stream.receive() == []
        assert stream.keep(asked + SILENT_SECONDS) == asked + SILENT_SECONDS
    assert stream.receive() == []
    with pytest.raises(WireError) as told:
        stream.keep(asked + SILENT_SECONDS)
    assert told.value.cause is Cause.SILENT


def test_a_stream_whose_other_end_is_gone(pair: tuple[WatchStream, socket.socket]) -> None:
    """RT-7.3: an end of the connection is seen at once."""
    stream, far = pair
    far.close()
    with pytest.raises(WireError) as told:
        stream.receive()
    assert told.value.cause is Cause.UNREACHABLE
    with pytest.raises(WireError):
        stream.keep(NOW + BEAT_SECONDS)


def test_a_stream_that_takes_nothing(pair: tuple[WatchStream, socket.socket]) -> None:
    """RT-7.3: questions that cannot be sent are not heaped up."""
    stream, _ = pair
    stream.ask(b"x" * 10_000_000)
    assert len(stream._unsent) > 0
    before = len(stream._unsent)
    stream.keep(NOW + BEAT_SECONDS)
    assert len(stream._unsent) <= before


def test_the_times_of_a_loss() -> None:
    """RT-7.3, RT-5.5: a loss is found, and trust in what was known is over, within 5 s."""
    assert (BEAT_SECONDS, SILENT_SECONDS, boundary.TRUST_SECONDS) == (0.5, 2.0, 2.0)
    assert BEAT_SECONDS + SILENT_SECONDS + boundary.TRUST_SECONDS <= 5.0


def test_trust_has_an_end_between_two_requests() -> None:
    """RT-7.3: a listing that took until then fails the watches before the next request, not after it."""
    watches, ring, heard = Watches(), Ring(), Heard()
    watches.add(ONE, heard)
    follower = Follower(Members([]), "/p", watches, ring, boundary.Boundary(WORDS, lambda *_: None, nobody))
    try:
        now = time.monotonic()
        follower.boundary.ended(now)
        assert 0 < follower._seconds() <= REQUEST_SECONDS
        assert heard.events == []
        follower.boundary.lost(Cause.UNREACHABLE, now)
        follower.boundary.ended(now - boundary.TRUST_SECONDS)
        assert follower._seconds() == REQUEST_SECONDS
        assert heard.events == [Failed(Cause.UNREACHABLE)]
    finally:
        ring.close()


@pytest.mark.parametrize(("wanted", "cause"), [(WAIT + 1, Cause.REFUSED), (1.0, Cause.SILENT)])
def test_what_was_left_of_the_trust_is_no_silence(monkeypatch: pytest.MonkeyPatch, wanted: float, cause: Cause) -> None:
    """RT-7.3, RT-5.4: a last request that has no time for its answer does not make a refusal silent."""

    def silent(*_: object) -> None:
        raise EtcdError("timeout", silent=True)

    monkeypatch.setattr(etcd_follower, "asked", silent)
    monkeypatch.setattr(boundary, "TRUST_SECONDS", WAIT)
    monkeypatch.setattr(etcd_follower, "REQUEST_SECONDS", wanted)
    watches, ring = Watches(), Ring()
    known = boundary.Boundary(WORDS, lambda *_: None, nobody)
    follower = Follower(Members([member_of("http://h:1", "f")]), "/p", watches, ring, known)
    try:
        now = time.monotonic()
        follower.boundary.ended(now)
        follower.boundary.lost(Cause.REFUSED, now)
        follower._round()
        assert follower.boundary.cause is cause
    finally:
        ring.close()


# --- releases --------------------------------------------------------------------------------------------------------

OURS = ("/p/a/1/r", "/p/a/1/r/i", "/p/a/1/r/j", "/p/b/1/r/i")
KEYS = (*OURS, "/p/a/1/r/i/k", "/p/a/1/r/", "/p/a/1", "/q/a/1/r/i")
VALUES = (b"", b"{}", b'{"endpoint": "http://h:1", "more": [1]}', b'{"endpoint": "http://g:2"}', None, b"\xff")


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), max_size=40))
def test_any_course_of_keys(course: list[tuple[str, bytes | None]]) -> None:
    """RT-7.1, RT-7.5: after any course a release is what its keys say now, as if they had just been listed."""
    followed, listed = EtcdReleases("/p"), EtcdReleases("/p")
    now: dict[bytes, bytes] = {}
    for key, value in ((key.encode(), value) for key, value in course):
        if value is not None:
            followed.hear([KeyValue(key, value, key not in now)])
            now[key] = value
        elif now.pop(key, None) is not None:  # etcd tells of no deletion of what is not there
            followed.hear([KeyValue(key, None)])
    listed.hear(KeyValue(key, value) for key, value in now.items())
    for target in (ONE, Target("b", "1", "r"), Target("c", "1", "r")):
        assert followed.snapshot(target) == listed.snapshot(target)
    assert followed.unreadable == listed.unreadable
    assert followed._releases.keys() == listed._releases.keys(), "what has no key is not held"
    assert followed._keys == listed._keys == len([key for key in now if key.decode() in OURS])
    assert followed.others == listed.others == len([key for key in now if key.decode() not in OURS])


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"[]",
        b'"http://h:1"',
        b"{}",
        b'{"endpoint": null}',
        b'{"endpoint": 5}',
        b'{"endpoint": "h:1"}',
        b'{"endpoint": "http://h"}',
        b'{"endpoint": "http://h:1/path"}',
        b'{"endpoint": "http://h:1", "endpoint": "http://g:2"}',
        b"{" * 100_000,
        b"\xef\xbb\xbf{}",
        b"<html>",
        b"\xff",
    ],
)
def test_records_that_are_no_endpoint(value: bytes) -> None:
    """RT-7.5: each of them is counted, and none is used."""
    releases = EtcdReleases("/p")
    releases.hear([KeyValue(b"/p/a/1/r", b""), KeyValue(b"/p/a/1/r/i", b'{"endpoint": "http://h:1"}')])
    releases.hear([KeyValue(b"/p/a/1/r/j", value)])
    assert releases.snapshot(ONE) == snapshot_of([A], unreadable=1)
    releases.hear([KeyValue(b"/p/a/1/r/j", b'{"endpoint": "http://h:1"}')])
    assert releases.snapshot(ONE) == snapshot_of([A])
    releases.hear([KeyValue(b"/p/a/1/r", None)])
    assert releases.snapshot(ONE) == NOT_DECLARED


@pytest.mark.parametrize("path", ["foo bar/1/r", "a/1/-r", "a/x y/r", "/1/r", "\xe4/1/r", "a" * 129 + "/1/r"])
def test_keys_of_others(path: str) -> None:
    """RT-7.1, RT-7.5, RT-10.6: a key whose path is no release is counted as another's, not warned of, not held."""
    releases = EtcdReleases("/p")
    key = f"/p/{path}".encode("latin-1")
    changes = [KeyValue(key, b""), KeyValue(key + b"/i", b"not ours"), KeyValue(key, b"again", first=False)]
    assert releases.hear(changes) == set()
    assert (releases.unreadable, releases.others, releases._keys, releases._releases) == (0, 2, 0, {})
    assert releases.hear([KeyValue(key + b"/i", None)]) == set()
    assert releases.others == 1
    assert releases.hear([KeyValue(b"/p/a/1/r/j", b"not ours")]) == {ONE}
    assert releases.unreadable == 1


@pytest.mark.parametrize("rest", ["", "i/meta", "/", "/i", "i/"])
def test_keys_of_others_below_a_release(rest: str) -> None:
    """RT-7.1, RT-2.6: what has not the form of an instance's key makes an empty release no malformed one."""
    releases = EtcdReleases("/p")
    other = KeyValue(f"/p/a/1/r/{rest}".encode(), b"not ours")
    assert releases.hear([KeyValue(b"/p/a/1/r", b""), other]) == {ONE}
    assert releases.hear([other]) == set()
    assert (releases.unreadable, releases._keys, releases.others) == (0, 1, 2)
    assert releases.snapshot(ONE) == snapshot_of([])
    ours = KeyValue(b"/p/a/1/r/i", b'{"endpoint": "http://h:1"}')
    assert snapshot_of_keys("/p/a/1/r", declared=True, below=[other, ours]) == snapshot_of([A])


def test_too_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-7.5: more releases and instances than a router holds are a fault; keys of others are none of them."""
    monkeypatch.setattr(etcd_releases, "MOST_KEYS", 3)
    releases = EtcdReleases("/p")
    releases.hear(KeyValue(f"/p/a/1/r/{number}".encode(), b"") for number in range(3))
    releases.hear(KeyValue(f"/p/a/1/r/{number}/x".encode(), b"") for number in range(9))
    assert releases.others == 9
    with pytest.raises(TooManyKeysError, match="more than 3 releases and instances below the prefix, keys of"):
        releases.hear([KeyValue(b"/p/a/1/r/x", b"")])
