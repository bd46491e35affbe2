"""What is an event, and what is none."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing import Registry, Resource

from idkmesh.events.envelope import (
    MAX_ATTRIBUTE_CHARACTERS,
    MAX_DATA_BYTES,
    MAX_DATA_LEVELS,
    Event,
    EventError,
    Position,
    StoredEvent,
    parse_position,
)
from tests.events.support import NOW, ROOT, event

EPOCH = "0123456789abcdef"
SCHEMAS = {
    name: json.loads((ROOT / "idkmesh" / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("event", "event-list")
}
REGISTRY: Registry[Any] = Registry().with_resources(
    [(schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()]
)

scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(), max_size=20)  # surrogates too
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
attributes = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=MAX_ATTRIBUTE_CHARACTERS)
times = st.datetimes(dt.datetime(1000, 1, 2), dt.datetime(9999, 12, 30), timezones=st.timezones())  # noqa: DTZ001  bounds


def stored(made: Event, sequence: int = 42) -> StoredEvent:
    return StoredEvent(
        EPOCH, sequence, made.type, made.source, made.subject, made.time_text, made.data_text, made.digest
    )


def check(document: object, name: str) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMAS[name], registry=REGISTRY)
    validator.validate(document)


@given(st.dictionaries(texts, values, max_size=5), attributes, attributes, st.none() | attributes, times)
def test_every_event_is_a_document(
    data: dict[str, Any], kind: str, source: str, subject: str | None, time: dt.datetime
) -> None:
    """EV-1.1, EV-1.3: the document is one line, as published; the digest is of the bytes of `data` as they stand."""
    made = Event(type=kind, source=source, subject=subject, time=time, data=data)
    line = stored(made).document_text()
    assert "\n" not in line
    assert "\r" not in line
    document = json.loads(line)
    check(document, "event")
    assert ("subject" in document) == (subject is not None)
    assert document["type"] == kind
    raw = line.encode()
    body = made.data_text.encode()
    assert raw.endswith(b'"data":' + body + b"}")
    assert document["datadigest"] == "sha-256:" + hashlib.sha256(body).hexdigest()
    text = json.dumps(document["data"], sort_keys=True, separators=(",", ":"))
    assert text == json.dumps(json.loads(made.data_text), sort_keys=True, separators=(",", ":"))


def test_document_as_it_is() -> None:
    """EV-1.1 to EV-1.4: each attribute in its form, none invented."""
    made = event(7, subject="a limit", data={"b": 1, "a": ["ü", None]})
    digest = hashlib.sha256('{"a":["ü",null],"b":1}'.encode()).hexdigest()
    assert stored(made).document_text() == (
        '{"specversion":"1.0","id":"0123456789abcdef.000000000042","type":"test.numbered","source":"/test",'
        '"subject":"a limit","time":"2026-01-02T03:04:05.678Z","datacontenttype":"application/json",'
        f'"sequence":"000000000042","epoch":"0123456789abcdef","datadigest":"sha-256:{digest}",'
        '"data":{"a":["ü",null],"b":1}}'
    )
    assert stored(made).attributes == {"type": "test.numbered", "source": "/test", "subject": "a limit"}
    assert stored(event()).attributes == {"type": "test.numbered", "source": "/test"}


def test_a_list_of_documents() -> None:
    """EV-4.1: a page of events is as published, and one with an item that is no event is not."""
    page = {
        "kind": "idkmesh-list",
        "schema_version": "0.1",
        "items": [json.loads(stored(event()).document_text())],
        "page": {"next_cursor": str(Position(EPOCH, 42)), "limit": 50},
    }
    check(page, "event-list")
    page["items"] = [{"type": "no event"}]
    with pytest.raises(jsonschema.ValidationError):
        check(page, "event-list")


@given(st.integers(1, 10**12 - 1), st.integers(1, 10**12 - 1))
def test_sequences_sort_as_texts(one: int, other: int) -> None:
    """EV-1.2: 12 digits, so that texts sort as numbers do."""
    first, second = Position(EPOCH, one).text, Position(EPOCH, other).text
    assert (first < second) == (one < other)


@given(st.from_regex(r"[0-9a-f]{16}", fullmatch=True), st.integers(0, 10**18 - 1))
def test_positions_are_read_back(epoch: str, sequence: int) -> None:
    """EV-1.2: a position is read with and without its zeros."""
    position = Position(epoch, sequence)
    assert parse_position(position.text) == parse_position(str(position)) == position
    assert parse_position(f"{epoch}.{sequence}") == position
    assert stored(event(), sequence).id == Position(EPOCH, sequence).text
    assert stored(event(), sequence).position == (EPOCH, sequence)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", EPOCH, f"{EPOCH}.", f".{1}", f"{EPOCH}.-1", f"{EPOCH}.+1", f"{EPOCH}.1 ", f" {EPOCH}.1",
        f"{EPOCH}.1\n", f"{EPOCH}.1.1", f"{EPOCH.upper()}.1", f"{EPOCH[1:]}.1", f"{EPOCH}0.1", f"{EPOCH}.٣",
        f"{EPOCH}.1_0", f"{EPOCH}.0x1", f"{EPOCH}.{'1' * 19}", f"{EPOCH},1", "\x00",
    ],
)  # fmt: skip
def test_what_is_no_position(text: str) -> None:
    """EV-1.2: anything else names no position."""
    assert parse_position(text) is None


@given(st.text())
def test_any_text_is_a_position_or_none(text: str) -> None:
    """EV-1.2: nothing raises, and what is read is written the same way but for its zeros."""
    position = parse_position(text)
    assert position is None or parse_position(position.text) == position


@pytest.mark.parametrize("name", ["type", "source", "subject"])
@pytest.mark.parametrize("value", ["", "x" * 257, "a\nb", "a\x00", "a\x1b[31m", "\ud800", "a\u2028b", 7, b"a", ["a"]])
def test_refused_attributes(name: str, value: object) -> None:
    """EV-1.5: 1 to 256 printable characters; the line names the attribute."""
    with pytest.raises(EventError) as refused:
        event(**{name: value})
    assert str(refused.value).startswith(f"{name}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["type", "source", "subject"])
def test_attributes_at_their_bounds(name: str) -> None:
    """EV-1.5: 1 and 256 characters are taken, of any script."""
    for value in ("x", "x" * 256, "ü 漢 \U0001f600"):
        assert getattr(event(**{name: value}), name) == value


def test_no_type_and_no_source() -> None:
    """EV-1.4, EV-1.5: what is not given is not invented; only a subject may be absent."""
    for name in ("type", "source"):
        with pytest.raises(EventError, match=f"^{name}: "):
            event(**{name: None})
    assert event(subject=None).subject is None


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-01-02T03:04:05.000Z"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, 999_999, tzinfo=dt.UTC), "2026-01-02T03:04:05.999Z"),
        (
            dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
            "2026-01-01T21:34:00.000Z",
        ),
        (dt.datetime(7, 1, 2, tzinfo=dt.UTC), "0007-01-02T00:00:00.000Z"),
    ],
)
def test_time_as_text(time: dt.datetime, text: str) -> None:
    """EV-1.4: RFC 3339 in UTC with milliseconds."""
    assert event(time=time).time_text == text


@pytest.mark.parametrize(
    "time",
    [
        dt.datetime(2026, 1, 2),  # noqa: DTZ001  that it has no zone is the point
        dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        dt.datetime(9999, 12, 31, 23, 59, tzinfo=dt.timezone(dt.timedelta(hours=-1))),
        "2026-01-02T03:04:05Z",
        None,
        0,
    ],
)
def test_refused_times(time: object) -> None:
    """EV-1.4, EV-1.5: a time that is none, has no zone, or leaves the calendar in UTC."""
    with pytest.raises(EventError, match=r"^time: "):
        event(time=time)


def deep(levels: int) -> dict[str, Any]:
    inner: Any = 0
    for _ in range(levels - 1):
        inner = [inner]
    return {"a": inner}


def holding_itself() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["a"] = [data, data]
    return data


def lists_of_lists() -> dict[str, Any]:
    inner: list[Any] = []
    for _ in range(30):
        inner = [inner] * 10
    return {"a": inner}


@pytest.mark.parametrize(
    "data",
    [
        None, [], "a", 7, {1: 2}, {"a": {None: 1}}, {"a": math.nan}, {"a": [math.inf]}, {"a": -math.inf}, {"a": {1, 2}},
        {"a": b"b"}, {"a": NOW}, {"a": object()}, {"a": "x" * MAX_DATA_BYTES}, {"a": "ü" * 40_000}, {"a": 10**5000},
        {"a": [0] * 100_000}, deep(MAX_DATA_LEVELS + 1), holding_itself(), lists_of_lists(), {"a": "\ud800" * 20_000},
    ],
)  # fmt: skip
def test_refused_data(data: Any) -> None:
    """EV-1.5: no object, no JSON, too long or too deep; refused at once, in one line that names it."""
    with pytest.raises(EventError) as refused:
        event(data=data)
    assert str(refused.value).startswith("data: refused, ")
    assert len(str(refused.value)) < 200


def test_data_at_its_bounds() -> None:
    """EV-1.5: 65,536 bytes and 32 levels are taken, and one more is not."""
    room = MAX_DATA_BYTES - len('{"a":""}')
    assert len(event(data={"a": "x" * room}).data_text) == MAX_DATA_BYTES
    with pytest.raises(EventError):
        event(data={"a": "x" * (room + 1)})
    assert event(data=deep(MAX_DATA_LEVELS)).data_text.count("[") == MAX_DATA_LEVELS - 1


def test_halves_of_surrogate_pairs() -> None:
    """EV-1.5: one half is its escape, in names too; two halves that meet are the character that they are."""
    made = event(data={"\ud800": "a\udfffb", "pair": "\ud83d\ude00"})
    assert made.data_text == '{"pair":"\U0001f600","\\ud800":"a\\udfffb"}'
    assert json.loads(made.data_text)["pair"] == "\U0001f600"
    made.data_text.encode()


def test_what_happens_to_the_mapping_later() -> None:
    """EV-1.3: an event is what it was when it was made."""
    data = {"a": 1}
    made = event(data=data)
    data["a"] = 2
    assert made.data_text == '{"a":1}'
