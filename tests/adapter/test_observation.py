"""The document that any program's command may print, its parser, and the published schema that says the same."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.adapter.observation import (
    KIND,
    MAX_DOCUMENT_BYTES,
    MAX_NUMBER,
    Failure,
    Observation,
    ObservationError,
    failure_document,
    observation_document,
    parse_observation,
)
from idkmesh.control_tower import assets
from tests.adapter.observations import EXAMPLE, EXAMPLE_FILE, WELL

if TYPE_CHECKING:
    from collections.abc import Iterator

SPECIFICATION = Path(__file__).parents[2] / "docs" / "specifications" / "READINESS_ADAPTER_V0_1.md"


def ecma_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Judge as ECMA 262 does, where ``$`` is the end; in Python it is also before a last line feed."""
    if isinstance(instance, str) and not re.search(pattern.removesuffix("$") + r"\Z", instance):
        yield jsonschema.ValidationError("does not match")


SCHEMA = assets.schema("node-observation.json")
VALIDATOR = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": ecma_pattern})(SCHEMA)


def parsed(document: Any) -> Observation | Failure | str:
    """Return what the parser makes of a document, or why it refuses it."""
    try:
        return parse_observation(json.dumps(document).encode())
    except ObservationError as error:
        return str(error)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each member and item of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (*path, key)
        yield from places(part, (*path, key))


def changed(path: tuple[Any, ...], value: Any) -> Any:
    """Return the example with another value in one place."""
    document = copy.deepcopy(EXAMPLE)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


PLACES = list(places(EXAMPLE))
NUMBERS = [path for path in PLACES if path[-1] in {"limit", "used", "behind_ms", "owner_pid"}]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, MAX_NUMBER, MAX_NUMBER + 1, 0.5, [], {}, [{}], [1]),
    *(
        "",
        "ok",
        "failed",
        "failing",
        "unknown",
        "available",
        "exhausted",
        "a",
        "A-1",
        "-a",
        "a b",
        "a\n",
        "ä",
        "\ud800",
    ),
    *("a" * 63, "a" * 64, "a" * 128, "a" * 129, "a" * 200, "a" * 201),
]


def test_the_example() -> None:
    """RA-2.1: the printed example is the one in the specification, fits the schema, and is read."""
    (printed,) = re.findall(
        r"^  ```json\n(.*?)^  ```", SPECIFICATION.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert json.loads(printed) == EXAMPLE
    VALIDATOR.validate(EXAMPLE)
    assert isinstance(parse_observation(EXAMPLE_FILE.read_bytes()), Observation)
    assert EXAMPLE["kind"] == KIND


def test_there_and_back() -> None:
    """RA-2.2: what is written is what was meant, member by member."""
    assert observation_document(WELL) == EXAMPLE
    assert parsed(observation_document(WELL)) == WELL


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_schema_and_parser_agree(path: tuple[Any, ...]) -> None:
    """RA-2.4: in each place any value is judged by the parser as by the schema, and a refusal names a member."""
    for value in VALUES:
        document = changed(path, value)
        told = parsed(document)
        assert VALIDATOR.is_valid(document) is not isinstance(told, str), (value, told)
        if isinstance(told, str):
            assert told.startswith("the observation is refused: ")
            assert "\n" not in told


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_missing_member(path: tuple[Any, ...]) -> None:
    """RA-2.4: each member has to be there."""
    document = copy.deepcopy(EXAMPLE)
    at = document
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    assert VALIDATOR.is_valid(document) is not isinstance(parsed(document), str)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    )
)
def test_any_document(document: Any) -> None:
    """RA-2.4: no JSON at all brings the parser out of its way, alone or in a place of the example."""
    for each in (document, EXAMPLE | {"listeners": document}, EXAMPLE | {"node": document}):
        assert VALIDATOR.is_valid(each) is not isinstance(parsed(each), str)


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    """RA-2.4: rubbish is refused in one line that repeats nothing of it."""
    with pytest.raises(ObservationError, match=r"\Athe observation is refused: [ -~]+\Z"):
        parse_observation(data)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b" " * (MAX_DOCUMENT_BYTES + 1), "it has more than 262144 bytes"),
        (b"", "it is no JSON in UTF-8"),
        (b"\xff{}", "it is no JSON in UTF-8"),
        (b"\xef\xbb\xbf{}", "it is no JSON in UTF-8"),
        (b"[" * 100_000, "it is no JSON in UTF-8"),
        (b'{"a":' * 20_000, "it is no JSON in UTF-8"),
        (b"1" * 100_000, "it is no JSON in UTF-8"),
        (b"[]", "it is no object"),
        (b'{"a":NaN}', "it has a number that JSON has not"),
        (b'{"a":[{"b":-Infinity}]}', "it has a number that JSON has not"),
        (b'{"kind":"x","kind":"x"}', "a member stands in it twice"),
        (EXAMPLE_FILE.read_bytes() + b"{}", "something follows the document"),
        (b'{"kind":"idkmesh-probe-run"}', "it is no idkmesh-node-observation of version 0.1"),
    ],
    ids=range(13),
)
def test_what_no_reader_takes(data: bytes, what: str) -> None:
    """RA-2.4: size, form and kind are judged before anything in it."""
    with pytest.raises(ObservationError, match=re.escape(f"the observation is refused: {what}") + r"\Z"):
        parse_observation(data)


def test_the_largest_document() -> None:
    """RA-2.4: the bound is a contract: one byte less than too many is read."""
    data = EXAMPLE_FILE.read_bytes()
    assert parse_observation(data + b" " * (MAX_DOCUMENT_BYTES - len(data))) == WELL


def test_listeners_in_number_and_by_name() -> None:
    """RA-2.4: 64 listeners are read and 65 are not; two of one name are refused, which no schema says."""
    (one,) = EXAMPLE["listeners"]
    many = [one | {"name": f"l{number}"} for number in range(65)]
    assert isinstance(parsed(EXAMPLE | {"listeners": many[:64]}), Observation)
    assert parsed(EXAMPLE | {"listeners": many}) == "the observation is refused: listeners must be a list of at most 64"
    twice = parsed(EXAMPLE | {"listeners": [one, one]})
    assert twice == "the observation is refused: two listeners have the same name"


@pytest.mark.parametrize("path", NUMBERS, ids=lambda path: ".".join(map(str, path)))
def test_a_number_is_written_whole(path: tuple[Any, ...]) -> None:
    """RA-2.4: `1.0` is no whole number to every reader, so it is to none."""
    told = parsed(changed(path, 1.0))
    assert isinstance(told, str)
    assert "a whole number" in told


def test_what_is_not_known_is_passed_over() -> None:
    """RA-2.4: an addition is no new version, at any depth."""
    document = copy.deepcopy(EXAMPLE) | {"more": {"deep": [1, 2.5, "x"]}}
    document["node"]["more"] = document["capacity"]["more"] = document["listeners"][0]["more"] = None
    assert parsed(document) == WELL


def test_a_failure_says_so() -> None:
    """RA-2.3: a failed look needs no other member, and its reason is kept for people."""
    assert parsed(failure_document("nobody listens")) == Failure(
        "the node's command says that it failed: nobody listens"
    )
    assert isinstance(parsed({"kind": KIND, "schema_version": "0.1", "result": "failed"}), Failure)
    assert isinstance(parsed(EXAMPLE | {"result": "failed", "node": 5}), Failure)
    for reason in ("", "a" * 201, "two\nlines", 5, None):
        document = failure_document("") | {"reason": reason}
        assert isinstance(parsed(document), str)
        assert not VALIDATOR.is_valid(document)
    VALIDATOR.validate(failure_document("nobody listens"))
