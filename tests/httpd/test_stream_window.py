"""The window of the latest events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.httpd.sse import Message
from idkmesh.httpd.stream_window import OVERHEAD_BYTES, TAKE_BYTES, Window, matches


def message(position: int, size: int = 10, **attributes: str) -> Message:
    return Message(position, b"%d," % position + b"x" * size, attributes)


def filled(count: int, limit: int = 1000, size: int = 10) -> Window:
    window = Window(5, limit)
    for position in range(6, 6 + count):
        window.append(message(position, size))
    return window


def test_empty_window_begins_behind_a_position() -> None:
    """EV-5.3: before the first event a stream stands at the newest position, and there is nothing to send."""
    window = Window(5)
    assert (window.oldest, window.newest) == (5, 5)
    assert window.after(5, {}) == (b"", 5)


def test_the_next_event_only() -> None:
    """EV-5.3: an event that does not follow is a fault of the program, never a gap in a stream."""
    window = filled(2)
    for wrong in (7, 9):
        with pytest.raises(ValueError, match="does not follow"):
            window.append(message(wrong))


def test_old_events_go_and_the_newest_stays() -> None:
    """EV-5.10: the window has a bound in bytes; the newest event is there whatever its size."""
    window = filled(10, limit=3 * (13 + OVERHEAD_BYTES) + 1)
    assert (window.oldest, window.newest) == (12, 15)
    window.append(message(16, size=5000))
    assert (window.oldest, window.newest) == (15, 16)
    assert window.after(15, {})[1] == 16


def test_a_take_has_a_bound() -> None:
    """EV-5.10: a stream is given 64 KiB at a time, or one event that is larger."""
    window = filled(5, limit=10**6, size=30_000)
    data, position = window.after(5, {})
    assert position == 7
    assert len(data) <= TAKE_BYTES
    window.append(message(11, size=200_000))
    data, position = window.after(10, {})
    assert (position, len(data)) == (11, 200_003)


def test_what_is_not_wanted_is_passed_by() -> None:
    """EV-5.5: a filter moves the position without bytes."""
    window = Window(0)
    for position in range(1, 6):
        window.append(message(position, kind="odd" if position % 2 else "even"))
    data, position = window.after(0, {"kind": "even"})
    assert (data.count(b","), position) == (2, 5)
    assert window.after(0, {"kind": "none"}) == (b"", 5)
    assert window.after(0, {})[0].count(b",") == 5


def test_a_position_ahead_waits() -> None:
    """EV-5.4: a position that another process has just committed, and that is not published here yet, skips nothing."""
    window = filled(2)
    assert window.after(8, {}) == (b"", 8)
    window.append(message(8))
    assert window.after(8, {}) == (b"", 8)
    window.append(message(9))
    assert window.after(8, {})[1] == 9


@given(st.lists(st.integers(0, 40_000), max_size=30), st.integers(1, 200_000))
def test_every_event_once_and_in_order(sizes: list[int], limit: int) -> None:
    """EV-5.3: taken to its end from the oldest position, the window gives each kept event once, in order."""
    window = Window(0, limit)
    for position, size in enumerate(sizes, 1):
        window.append(message(position, size))
    position, seen = window.oldest, []
    while position < window.newest:
        data, position = window.after(position, {})
        seen += [int(part) for part in data.replace(b"x", b"").split(b",")[:-1]]
    assert seen == list(range(window.oldest + 1, window.newest + 1))


def test_matches() -> None:
    """EV-4.2: exact matches, of all that is asked for; what an event does not have matches nothing."""
    assert matches({"type": "a", "source": "b"}, {"type": "a", "source": "b"})
    assert not matches({"type": "a", "source": "b"}, {"type": "A"})
    assert not matches({"type": "a"}, {"subject": "a"})
    assert matches({}, {})
