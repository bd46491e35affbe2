"""The channel between a source of events and the server that streams them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.httpd.sse import Message
from idkmesh.httpd.streams import BACKLOG, Beginning, Channel, HistoryLostError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class NoHistory:
    def after(self, beginning: Beginning, position: int, wanted: Mapping[str, str]) -> tuple[Sequence[Message], int]:
        raise HistoryLostError


def messages(first: int, count: int) -> list[Message]:
    return [Message(position, b"x", {}) for position in range(first, first + count)]


def test_events_wait_in_order_behind_their_beginning() -> None:
    """EV-5.3: a server that starts later finds the beginning first, and every event after it."""
    channel = Channel(NoHistory(), Beginning(7, str, "a"), b"")
    channel.publish(messages(8, 3))
    first, *rest = channel.published
    assert first is channel.beginning
    assert [item.position for item in rest if isinstance(item, Message)] == [8, 9, 10]


def test_what_nobody_takes_is_bounded() -> None:
    """EV-5.10: beyond a bound, events that no server takes are left to history, from a new beginning."""
    channel = Channel(NoHistory(), Beginning(0, str, "a"), b"")
    for number in range(5 * BACKLOG):
        channel.publish(messages(number + 1, 1))
        assert len(channel.published) <= BACKLOG
    positions = [item.position if isinstance(item, Message) else item.newest for item in channel.published]
    assert positions == list(range(positions[0], 5 * BACKLOG + 1))
    assert channel.beginning.name == "a"
