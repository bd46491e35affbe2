"""The latest events, which every open stream is written from. Pure: bytes and positions.

Each event is kept once, however many streams carry it; a stream is a position in here. Who falls behind the oldest
that is kept has to resume from history (EV-5.10).
"""

from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.httpd.sse import Message

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""What all streams together keep. At 500 bytes an event and 200 events a second that is 40 s to catch up in."""
OVERHEAD_BYTES: Final = 512
"""What an event costs beside its bytes: the objects that hold it, and its attributes."""
TAKE_BYTES: Final = 64 * 1024
"""How much one stream is given at a time, and so, with one event on top, what it keeps unsent at most."""


class Window:
    """The events from `first` on. Positions are whole numbers that follow each other."""

    __slots__ = ("_asked", "_kept", "_limit", "_made", "_messages", "newest")

    def __init__(self, newest: int, limit: int = WINDOW_BYTES) -> None:
        """Start empty behind position `newest`; keep at most `limit` bytes, but always the newest event."""
        self._messages: collections.deque[Message] = collections.deque()
        self._limit = limit
        self._kept = 0
        self._asked: tuple[int, Mapping[str, str]] | None = None
        self._made = (b"", newest)
        """What :meth:`after` was asked last and answered: the streams that keep up all ask for the same."""
        self.newest = newest

    @property
    def oldest(self) -> int:
        """The least position that a stream can go on from: every event after it is here."""
        return self.newest - len(self._messages)

    def append(self, message: Message) -> None:
        """Add the next event. :raises ValueError: it is not the next, so a stream would have a gap."""
        if message.position != self.newest + 1:
            raise ValueError(f"event {message.position} does not follow event {self.newest}")
        self._asked = None
        self._messages.append(message)
        self.newest = message.position
        self._kept += len(message.frame) + OVERHEAD_BYTES
        while self._kept > self._limit and len(self._messages) > 1:
            self._kept -= len(self._messages.popleft().frame) + OVERHEAD_BYTES

    def after(self, position: int, wanted: Mapping[str, str]) -> tuple[bytes, int]:
        """Return the next wanted events as bytes, and the position that they lead to.

        `position` is not before :attr:`oldest`. Events that are not wanted are passed by, so the position can move
        without any bytes.
        """
        if position >= self.newest:
            return b"", position
        asked = (position, wanted)
        if self._asked != asked:
            self._asked, self._made = asked, self._make(position, wanted)
        return self._made

    def _make(self, position: int, wanted: Mapping[str, str]) -> tuple[bytes, int]:
        frames: list[bytes] = []
        size = 0
        for message in itertools.islice(self._messages, position - self.oldest, None):
            if matches(message.attributes, wanted):
                if frames and size + len(message.frame) > TAKE_BYTES:
                    break
                frames.append(message.frame)
                size += len(message.frame)
            position = message.position
        return frames[0] if len(frames) == 1 else b"".join(frames), position


def matches(attributes: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Say whether each wanted attribute is there with exactly that value."""
    return all(attributes.get(name) == value for name, value in wanted.items())
