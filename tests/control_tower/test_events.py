"""The tower's events over HTTP: what it records of itself, the list, and the stream."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from referencing import Registry, Resource

from idkmesh.control_tower import assets
from idkmesh.control_tower.event_query import LIST_PARAMETERS, EventQuery, parse_event_query
from idkmesh.control_tower_ui import ControlTowerServer
from idkmesh.events.envelope import Event
from idkmesh.events.errors import StoreError
from idkmesh.events.retention import Retention
from idkmesh.health.self_watch import nothing_but_itself
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.streams import Beginning, HistoryLostError
from idkmesh.service_runtime import ServiceLimits
from tests.control_tower.conftest import TOKEN
from tests.functional.support import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.control_tower.conftest import Tower

STARTED = 4
"""Events of the start of a tower that depends on nothing."""


def emit(tower: Tower, count: int = 1, *, subject: str | None = None, **data: Any) -> None:
    """Record events of the test, and wait until they are committed."""
    feed = tower.server.events
    for number in range(count):
        event = Event(
            type="test.happened",
            source="/test",
            subject=subject,
            time=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
            data={"number": number, **data},
        )
        feed.emit(event)
    assert feed._recorder.flush(PATIENCE)


def page(tower: Tower, query: str = "") -> dict[str, Any]:
    answer = tower.api(f"GET /api/v1/events{query}")
    assert answer.status == 200, answer.body
    document: dict[str, Any] = answer.json()
    return document


def items(tower: Tower, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page(tower, query)["items"]
    return found


class Stream:
    """A client of the tower's stream that reads raw bytes."""

    def __init__(self, tower: Tower, *fields: str, query: str = "") -> None:
        self.sock = socket.create_connection(tower.address[:2], timeout=PATIENCE)
        head = [f"GET /api/v1/events/stream{query} HTTP/1.1", f"Host: {tower.host}", *fields]
        self.sock.sendall("\r\n".join([*head, f"Authorization: Bearer {TOKEN}", "", ""]).encode())
        self.data = b""
        self.until(b"\r\n\r\n")

    def until(self, wanted: bytes) -> None:
        while wanted not in self.data:
            more = self.sock.recv(65536)
            assert more, self.data[-500:]
            self.data += more

    def to_end(self) -> None:
        while more := self.sock.recv(65536):
            self.data += more

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in re.findall(rb"^id: .*\ndata: (.*)\n\n", self.data, re.MULTILINE)]

    @property
    def position(self) -> str:
        found = re.search(rb"X-IDKMesh-Stream-Position: (\S+)", self.data)
        assert found
        return found[1].decode()


@contextlib.contextmanager
def streaming(tower: Tower, *fields: str, query: str = "") -> Iterator[Stream]:
    stream = Stream(tower, *fields, query=query)
    with stream.sock:
        yield stream


@pytest.fixture
def own(start: Any) -> Iterator[Tower]:
    """Run a tower of the test's own that depends on nothing, and whose first events are committed."""
    with start(matrix=nothing_but_itself()) as tower:
        until(lambda: tower.server.events.snapshot().newest >= STARTED)
        yield tower


def validate(document: Any, name: str) -> None:
    schemas = [assets.schema(other) for other in ("event.json", "event-list.json")]
    registry: Any = Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in schemas)
    jsonschema.Draft202012Validator(assets.schema(name), registry=registry).validate(document)


# --- what the tower records -------------------------------------------------------------------------------------------


def test_start_is_recorded(own: Tower) -> None:
    """EV-1.6, CT-9.7: the settings and the start, with the limits in force and the address."""
    loaded = items(own)[0]
    (started,) = items(own, "?type=idkmesh.server.started")
    assert loaded["type"] == "idkmesh.configuration.loaded"
    assert loaded["source"] == started["source"] == "/control-tower"
    assert loaded["data"]["limits"] == own.api("GET /api/v1/status").json()["operations"]["limits"]
    assert loaded["data"]["events"]["event_retention_count"] == 100_000
    assert started["data"]["port"] == own.server.server_port
    assert TOKEN not in json.dumps([loaded, started])


def test_drain_is_recorded(start: Any, tmp_path: Path) -> None:
    """EV-1.6, EV-3.3, CT-9.7: the beginning and the end of a drain are there when the service has ended."""
    store = tmp_path / "events.sqlite3"
    with start(store=store):
        pass
    with start(store=store) as again:
        # What a start records is written beside it, and so may be what the probes have found out during the drain.
        until(lambda: len(items(again, "?type=idkmesh.configuration.loaded")) == 2)
        types = [event["type"] for event in items(again)]
        began, ended = (items(again, f"?type=idkmesh.drain.{word}")[0]["data"] for word in ("started", "ended"))
    first, second = [at for at, name in enumerate(types) if name == "idkmesh.configuration.loaded"]
    assert first == 0
    drains = ["idkmesh.drain.started", "idkmesh.drain.ended"]
    assert [name for name in types[:second] if name in drains] == drains
    assert (began["in_flight"], began["streams"], ended["abandoned"]) == (0, 0, 0)
    assert ended["seconds"] < 5


def test_overload_is_recorded_once(start: Any) -> None:
    """EV-1.6, HS-13.2: a crossing is one event when it begins and one when it is over, however many met the limit."""
    with start(limits=ServiceLimits(max_concurrent_requests=1)) as tower:
        core = tower.server._core
        held = core.limiter.admit()
        for _ in range(5):
            assert tower.api("GET /api/v1/status").code == "overloaded"
        held.release()
        until(lambda: items(tower, "?type=idkmesh.overload.ended"))
        (began,) = items(tower, "?type=idkmesh.overload.began")
        (ended,) = items(tower, "?type=idkmesh.overload.ended&subject=max_concurrent_requests")
        assert began["data"] == {"limit": "max_concurrent_requests", "value": 1}
        assert ended["data"]["hits"] >= 5


# --- the list ---------------------------------------------------------------------------------------------------------


def test_list_is_what_its_schema_says(own: Tower) -> None:
    """EV-1.1, EV-4.1: kind, version, items, page; each item is a CloudEvents document."""
    emit(own, 3, subject="it")
    document = page(own)
    validate(document, "event-list.json")
    assert (document["kind"], document["schema_version"]) == ("idkmesh-list", "0.1")
    event = document["items"][-1]
    assert event["id"] == f"{event['epoch']}.{event['sequence']}"
    assert int(event["sequence"]) == STARTED + 3
    assert document["page"] == {"next_cursor": event["id"], "limit": 50}


def test_pages_forward(own: Tower) -> None:
    """EV-4.3: pages follow each other without gap or repeat, and the last cursor goes on where it ended."""
    emit(own, 22 - STARTED)
    seen: list[int] = []
    cursor = ""
    for _ in range(4):
        document = page(own, f"?limit=6{cursor}")
        seen += [int(event["sequence"]) for event in document["items"]]
        cursor = f"&cursor={document['page']['next_cursor']}"
    assert seen == list(range(1, 23))
    assert page(own, f"?limit=6{cursor}")["items"] == []
    emit(own)
    assert [int(event["sequence"]) for event in items(own, f"?limit=6{cursor}")] == [23]


def test_pages_backward(own: Tower) -> None:
    """EV-4.3: newest first, with a null cursor at the end."""
    emit(own, 10 - STARTED)
    seen: list[int] = []
    cursor: str | None = None
    while True:
        document = page(own, f"?order=desc&limit=4{'&cursor=' + cursor if cursor else ''}")
        seen += [int(event["sequence"]) for event in document["items"]]
        cursor = document["page"]["next_cursor"]
        if cursor is None:
            break
    assert seen == list(range(10, 0, -1))


def test_filters_are_exact(own: Tower) -> None:
    """EV-4.2: type, source and subject, each alone and together; percent-encoded as any query."""
    emit(own, subject="a b/ü")
    emit(own, subject="other")
    assert [event["subject"] for event in items(own, "?type=test.happened")] == ["a b/ü", "other"]
    assert [event["subject"] for event in items(own, "?subject=a+b%2F%C3%BC&source=/test")] == ["a b/ü"]
    assert items(own, "?type=test") == []
    assert items(own, "?type=test.happened&source=/control-tower") == []


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("limit=0", "invalid_limit"),
        ("limit=201", "invalid_limit"),
        ("limit=", "invalid_limit"),
        ("limit=%D9%A1", "invalid_limit"),
        ("limit=1e1", "invalid_limit"),
        ("order=up", "invalid_order"),
        ("cursor=5", "invalid_cursor"),
        ("cursor=", "invalid_cursor"),
        ("cursor=ffffffffffffffff.-1", "invalid_cursor"),
        ("cursor=ffffffffffffffff.1", "unknown_cursor"),
        ("colour=red", "unknown_parameter"),
        ("Limit=1", "unknown_parameter"),
        ("type=a&type=a", "repeated_parameter"),
        ("type", "malformed_query"),
        ("type=a&", "malformed_query"),
        ("type=%ff", "malformed_query"),
        ("type=%", "malformed_query"),
        ("type=%4", "malformed_query"),
        ("type=%zz", "malformed_query"),
    ],
)
def test_wrong_parameters(tower: Any, query: str, reason: str) -> None:
    """EV-4.2, EV-4.4: 400 invalid_request, with the reason."""
    answer = tower.api(f"GET /api/v1/events?{query}")
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.json()["error"]["details"]["reason"] == reason


def test_names_of_parameters_are_shown_short_and_escaped(tower: Any) -> None:
    """EV-4.2: the message says which one, whatever stands in it."""
    answer = tower.api("GET /api/v1/events?" + "%1b" + "x" * 5000 + "=1")
    message = answer.json()["error"]["message"]
    assert "\\x1bxxx" in message
    assert len(message) < 300


def test_cursor_beyond_the_newest(own: Tower) -> None:
    """EV-4.4: 400: there is no such position."""
    epoch = own.server.events.snapshot().epoch
    assert own.api(f"GET /api/v1/events?cursor={epoch}.{STARTED}").status == 200
    answer = own.api(f"GET /api/v1/events?cursor={epoch}.{STARTED + 1}")
    assert answer.json()["error"]["details"]["reason"] == "unknown_cursor"


def test_cursor_below_the_floor(start: Any) -> None:
    """EV-2.4, EV-4.4, EV-5.4, SSE-10: what retention gave up is 410 in list and stream; the floor itself is not."""
    with start(retention=Retention(event_retention_count=100)) as tower:
        emit(tower, 300)
        feed = tower.server.events
        while not feed.snapshot().floor:
            feed._recorder._tidy_at = 0.0  # a commit is followed by the housekeeping of the next minute
            emit(tower)
        state = feed.snapshot()
        below, at = f"{state.epoch}.{state.floor - 1}", f"{state.epoch}.{state.floor}"
        assert tower.api(f"GET /api/v1/events?cursor={below}").code == "cursor_expired"
        assert tower.api(f"GET /api/v1/events?cursor={below}").status == 410
        answer = tower.api("GET /api/v1/events/stream", f"Last-Event-ID: {below}")
        assert (answer.status, answer.code) == (410, "cursor_expired")
        assert int(items(tower, f"?cursor={at}&limit=1")[0]["sequence"]) == state.floor + 1
        assert int(items(tower, "?limit=1")[0]["sequence"]) == state.floor + 1
        with streaming(tower, f"Last-Event-ID: {at}") as stream:
            stream.until(b"id: %s" % f"{state.epoch}.{state.newest:012d}".encode())


def test_query_values_that_are_right() -> None:
    """EV-4.2: each parameter, and what holds without it."""
    assert parse_event_query("", LIST_PARAMETERS) == EventQuery()
    query = parse_event_query("limit=200&order=desc&cursor=0123456789abcdef.7&type=t&source=s", LIST_PARAMETERS)
    assert isinstance(query, EventQuery)
    assert (query.limit, query.descending, query.wanted) == (200, True, {"type": "t", "source": "s"})
    assert query.cursor is not None
    assert query.cursor.text == "0123456789abcdef.000000000007"
    assert isinstance(parse_event_query("limit=5", ("type",)), Refusal)


# --- the stream -------------------------------------------------------------------------------------------------------


def test_stream_carries_what_the_list_has(own: Tower) -> None:
    """EV-5.1 to EV-5.3: from the beginning, then live; the same documents as in the list."""
    epoch = own.server.events.snapshot().epoch
    with streaming(own, f"Last-Event-ID: {epoch}.0") as stream:
        stream.until(f"id: {epoch}.{STARTED:012}".encode())
        emit(own, 3)
        stream.until(f"id: {epoch}.{STARTED + 3:012}".encode())
        stream.until(b'"number":2}}\n\n')
        assert stream.documents == items(own)
        assert stream.position == f"{epoch}.000000000000"


def test_reconnect_gets_the_missed_events_alone(own: Tower) -> None:
    """EV-5.3, SSE-07: twenty are read, five happen while nobody reads, and the next stream has exactly those."""
    with streaming(own, f"Last-Event-ID: {own.server.events.snapshot().epoch}.0") as stream:
        emit(own, 20 - STARTED)
        stream.until(b'"number":%d}}\n\n' % (19 - STARTED))
        last = stream.documents[-1]["id"]
    emit(own, 5)
    with streaming(own, f"last-event-id: {last}") as again:
        again.until(b'"number":4}}\n\n')
        assert [int(event["sequence"]) for event in again.documents] == [21, 22, 23, 24, 25]


def test_stream_position_without_an_event(own: Tower) -> None:
    """EV-5.1, EV-5.3: who loses a stream before its first event resumes from the field, and misses nothing."""
    with streaming(own) as stream:
        position = stream.position
    emit(own)
    with streaming(own, f"Last-Event-ID: {position}") as again:
        again.until(b'"number":0}}\n\n')
        assert [int(event["sequence"]) for event in again.documents] == [STARTED + 1]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "abc",
        "-1",
        "1e9",
        "7",
        "999999999999999999999",
        "ffffffffffffffff.1",
        f"EPOCH.{STARTED + 1}",
        "EPOCH.-1",
        "EPOCH.1 ",
        "EPOCH.0x1",
        "EPOCH." + "9" * 19,
        "\u00fc",
        "x" * 10_000,
        "EPOCH.1\r\nLast-Event-ID: EPOCH.1",
    ],
)
def test_last_event_id_that_is_no_position(own: Tower, value: str) -> None:
    """EV-5.4, SSE-10: garbage, another epoch, too high, and twice: 400 invalid_last_event_id, never a dead stream."""
    epoch = own.server.events.snapshot().epoch
    if value in {"", "EPOCH.1 "}:  # empty is none; the field's own white space is not part of the value
        with streaming(own, f"Last-Event-ID: {value.replace('EPOCH', epoch)}") as stream:
            assert stream.data.startswith(b"HTTP/1.0 200")
        return
    answer = own.api("GET /api/v1/events/stream", f"Last-Event-ID: {value.replace('EPOCH', epoch)}")
    assert (answer.status, answer.code) == (400, "invalid_last_event_id")


def test_empty_last_event_id_is_none(own: Tower) -> None:
    """EV-5.3: an empty field is what a browser means by none."""
    with streaming(own, "Last-Event-ID:") as stream:
        assert stream.data.startswith(b"HTTP/1.0 200")


def test_stream_filters(own: Tower) -> None:
    """EV-5.5: the same filters, for history and live; anything else is 400, a position in the query too."""
    epoch = own.server.events.snapshot().epoch
    with streaming(own, f"Last-Event-ID: {epoch}.0", query="?type=test.happened&subject=b") as stream:
        emit(own, subject="a")
        emit(own, subject="b")
        stream.until(b'"number":0}}\n\n')
        assert [event["subject"] for event in stream.documents] == ["b"]
    for query in ("limit=5", "cursor=x", "last_event_id=1", "type=a&type=b"):
        assert own.api(f"GET /api/v1/events/stream?{query}").status == 400


def test_who_may_stream(tower: Any) -> None:
    """CT-2.2 to CT-2.4: the stream asks for Host, Origin and token as everything else does."""
    line = "GET /api/v1/events/stream"
    assert tower.ask(line).status == 401
    assert tower.api(line, "Origin: http://evil.example").code == "forbidden_origin"
    assert tower.api(line, "Sec-Fetch-Site: same-site").code == "forbidden_origin"
    assert tower.ask(line, f"Authorization: Bearer {TOKEN}", host="evil.example").code == "forbidden_host"
    assert tower.api("POST /api/v1/events/stream", body=b"").code == "method_not_allowed"


def test_order_of_refusals(start: Any) -> None:
    """CT-3.6: the token stands before the query, the query before the position, the position before the limit."""
    with start(limits=ServiceLimits(max_sse_clients=1)) as tower, streaming(tower):
        line = "GET /api/v1/events/stream"
        assert tower.ask(f"{line}?x=1").status == 401
        assert tower.api(f"{line}?x=1", "Last-Event-ID: x").code == "invalid_request"
        assert tower.api(line, "Last-Event-ID: x").code == "invalid_last_event_id"
        answer = tower.api(line)
        assert (answer.status, answer.code, answer.fields["retry-after"]) == (503, "too_many_streams", "1")
        operations = tower.api("GET /api/v1/status").json()["operations"]
        assert operations["streams"]["refused_total"] == 1
        assert {row["code"]: row["total"] for row in operations["refusals"]}["too_many_streams"] == 1
        assert operations["usage"]["sse_clients"] == 1


def test_stream_that_has_ended_is_in_the_minute(start: Any) -> None:
    """CT-5.10, HS-13.4: a stream counts from its opening, and its peak stays when it has gone."""
    with start() as tower:
        with streaming(tower):
            pass
        deadline = time.monotonic() + 30
        while (operations := tower.api("GET /api/v1/status").json()["operations"])["usage"]["sse_clients"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert operations["peaks"]["last_minute"]["sse_clients"] == 1
        assert operations["peaks"]["last_minute"]["connections"] >= 1


def test_overload_does_not_reach_the_stream(start: Any) -> None:
    """CT-3.6, EV-5.6: with every slot taken a stream opens, and tells of the overload."""
    with start(limits=ServiceLimits(max_concurrent_requests=1)) as tower:
        held = tower.server._core.limiter.admit()
        with streaming(tower) as stream:
            assert tower.api("GET /api/v1/status").code == "overloaded"
            stream.until(b"idkmesh.overload.began")
        held.release()


def test_drain_is_told_before_the_stream_ends(own: Tower) -> None:
    """EV-5.8: the last event is the drain's own, and then comes the goodbye, without an id."""
    with streaming(own) as stream:
        own.server.begin_drain()
        stream.to_end()
        assert stream.data.endswith(b'event: shutting_down\ndata: {"reason":"shutting_down"}\n\n')
        assert stream.documents[-1]["type"] == "idkmesh.drain.started"


def test_another_process_writes_the_same_store(start: Any, tmp_path: Path) -> None:
    """EV-2.9, EV-5.3: events of another tower on the same store arrive here, in one order."""
    store = tmp_path / "events.sqlite3"
    with start(store=store) as here, start(store=store) as there:
        epoch = here.server.events.snapshot().epoch
        with streaming(here, f"Last-Event-ID: {epoch}.0") as stream:
            threads = [threading.Thread(target=emit, args=(tower, 50)) for tower in (here, there)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            stream.until(f"id: {epoch}.000000000104".encode())
            stream.until(b"}\n\n")
            sequences = [int(event["sequence"]) for event in stream.documents]
            assert sequences == list(range(1, len(sequences) + 1))


def test_replaced_store_ends_the_streams(own: Tower) -> None:
    """EV-2.7, EV-5.12, CT-4.6: a damaged store is put aside: streams end, the old position is refused, all is told."""
    emit(own, 200)
    path = own.server.events.path
    with streaming(own) as stream:
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * 4096 * 8)
        with contextlib.suppress(AssertionError):
            own.api("GET /api/v1/events?limit=200")
            emit(own, 1)
        stream.to_end()
        old = stream.position
    until(lambda: own.server.events.snapshot().warning)
    answer = own.api("GET /api/v1/events/stream", f"Last-Event-ID: {old}")
    assert answer.code == "invalid_last_event_id"
    assert own.ask("GET /readyz").json()["warnings"] == ["event_store"]
    assert items(own)[0]["type"] == "idkmesh.events.quarantined"


def test_history_of_large_events_is_read_in_small_parts(own: Tower) -> None:
    """EV-2.10, EV-5.10: of the largest events no more is read than a stream is given."""
    emit(own, 30, text="x" * 60_000)
    feed = own.server.events
    messages, position = feed.after(feed.channel.beginning, STARTED, {})
    assert (len(messages), position) == (2, STARTED + 2)
    epoch = feed.channel.beginning.name
    with streaming(own, f"Last-Event-ID: {epoch}.0") as stream:
        stream.until(f"id: {epoch}.000000000032".encode())
        stream.until(b"}\n\n")
        assert [int(event["sequence"]) for event in stream.documents][:31] == list(range(1, 32))
    assert 0 < len(items(own, "?limit=200")) < 32


def test_history_of_another_store_is_refused(own: Tower) -> None:
    """EV-5.12: a batch is judged by the epoch of the snapshot that it was read from."""
    feed = own.server.events
    with pytest.raises(HistoryLostError):
        feed.after(Beginning(0, str, "0" * 16), 0, {})


def test_a_store_that_cannot_be_read_is_told_once(own: Tower, caplog: pytest.LogCaptureFixture) -> None:
    """EV-2.8: 500 with a line in the log, and a line when it can be read again; a stream that needs it ends."""
    feed = own.server.events
    recorder: Any = feed._recorder
    read = recorder.read

    def fail(*arguments: Any, **options: Any) -> Any:
        raise StoreError("the event store is away")

    recorder.read = fail
    caplog.set_level("INFO", "idkmesh")
    for _ in range(3):
        assert own.api("GET /api/v1/events").code == "internal_error"
    with pytest.raises(HistoryLostError):
        feed.after(feed.channel.beginning, 0, {})
    recorder.read = read
    assert own.api("GET /api/v1/events").status == 200
    until(lambda: "can be read again" in caplog.text)
    assert caplog.text.count("is away") == 1


def test_a_refused_close_closes_nothing(own: Tower) -> None:
    """EV-3.1, HS-9.5: server_close() within the service's own threads is refused, and the store stays open."""
    outcome: list[object] = []

    def close_within() -> None:
        try:
            own.server.server_close()
        except RuntimeError as error:
            outcome.append(error)

    actions = own.server.service_actions

    def once() -> None:
        own.server.service_actions = actions  # type: ignore[method-assign]
        close_within()

    own.server.service_actions = once  # type: ignore[method-assign]
    until(lambda: outcome)
    emit(own)
    assert len(items(own)) == STARTED + 1


def test_serving_again_writes_each_event_once(tmp_path: Path) -> None:
    """EV-2.2, HS-9.4: a tower that is stopped and serves again has one recorder."""
    before = [thread.name for thread in threading.enumerate()].count("event-recorder")
    server = ControlTowerServer(("127.0.0.1", 0), TOKEN, store=tmp_path / "events.sqlite3")
    for _ in range(3):
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        until(lambda: server._front_thread is not None)
        server.shutdown()
        thread.join(PATIENCE)
    assert [thread.name for thread in threading.enumerate()].count("event-recorder") == before + 1
    for number in range(50):
        server.events.observe("test", {"number": number})
    assert server.events._recorder.flush(PATIENCE)
    found = server.events._recorder.read(0, 200, {}).events
    assert [event.sequence for event in found] == list(range(1, len(found) + 1))
    documents = [json.loads(event.document_text()) for event in found]
    tests = [document["data"]["number"] for document in documents if document["type"] == "idkmesh.test"]
    assert tests == list(range(50))
    server.server_close()


def test_token_stands_in_no_event_and_no_file(own: Tower) -> None:
    """CT-2.6, SEC-04: nor in the store, nor in what is beside it."""
    with streaming(own):
        emit(own)
    assert TOKEN not in json.dumps(items(own))
    for file in Path(own.server.events.path).parent.rglob("*"):
        if file.is_file():
            assert TOKEN.encode() not in file.read_bytes()
