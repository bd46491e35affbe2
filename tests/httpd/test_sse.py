"""The encoder, against a parser that is written from the standard alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.httpd.sse import comment_frame, event_frame


def events_of(stream: bytes) -> list[tuple[str, str, str]]:
    """Parse as the WHATWG HTML standard says (9.2.6): (event, data, last event id) of each event that is dispatched."""
    found: list[tuple[str, str, str]] = []
    event, data, last_id = "", "", ""
    for line in re.split("\r\n|\r|\n", stream.decode("utf-8").removeprefix("\ufeff"))[:-1]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                found.append((event, data.removesuffix("\n"), last_id))
            event = data = ""
        elif name == "event":
            event = value
        elif name == "data":
            data += value + "\n"
        elif name == "id" and "\0" not in value:
            last_id = value
    return found


@pytest.mark.parametrize(
    "data",
    [
        "a\rb",
        "a\r\nb",
        "a\n\nb",
        "a\n",
        "\n",
        " lead",
        ":x",
        "a\r\r\nb",
        "id: 9\n\ndata: forged",
        "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g",
        "\ufeffx",
        "x" * 2**20,
    ],
)
def test_text_arrives_as_it_was(data: str) -> None:
    """EV-5.2, SSE-02: lines end at CR, LF and CRLF alone; every other character arrives as it was."""
    expected = data.replace("\r\n", "\n").replace("\r", "\n")
    assert events_of(event_frame(data, event_id="7")) == [("", expected, "7")]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_one_event(data: str) -> None:
    """EV-5.2, SSE-02: whatever the data is, a reader sees one event with that data, line ends as LF."""
    expected = data.replace("\r\n", "\n").replace("\r", "\n")
    assert events_of(event_frame(data, event="e", event_id="i")) == [("e", expected, "i")]


def test_half_a_surrogate_pair_ends_no_stream() -> None:
    """EV-5.2, SSE-02: what UTF-8 cannot say is replaced, and the event arrives."""
    assert events_of(event_frame("a\ud800b", event_id="1")) == [("", "a\ufffdb", "1")]


@pytest.mark.parametrize("value", ["a\ndata: forged", "7\n\ndata: forged", "a\rb", "a\r\nb", "nul\0"])
def test_no_value_adds_a_field(value: str) -> None:
    """EV-5.2, SSE-01: a name, an id or a comment with a line end or NUL is refused, and nothing is made of it."""
    with pytest.raises(ValueError, match="one line without NUL"):
        event_frame("x", event=value)
    with pytest.raises(ValueError, match="one line without NUL"):
        event_frame("x", event_id=value)
    with pytest.raises(ValueError, match="one line without NUL"):
        comment_frame(value)


def test_a_comment_is_no_event() -> None:
    """EV-5.7: a comment has no empty line after it, and leaves the event that follows alone."""
    assert comment_frame("at 7") == b": at 7\n"
    assert events_of(comment_frame("at 7") + event_frame("x", event_id="8")) == [("", "x", "8")]
