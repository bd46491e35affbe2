"""Server-sent events as bytes: the encoder. Pure; the grammar is that of the WHATWG HTML standard, section 9.2.5.

Laws
    * A line ends at CR, LF or CRLF and at nothing else: `str.splitlines` also splits at VT, FF, NEL, U+2028, ... and
      would change the text that arrives (EV-5.2).
    * No value can add a field: what has no place for a line end is refused, data gets a field for each line.
    * A comment has no empty line after it: readers exist that take one for the end of an event without data.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENT_TYPE: Final = "text/event-stream; charset=utf-8"

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_NOT_IN_A_FIELD: Final = re.compile(r"[\r\n\0]")
# UTF-8 has no form for half of a surrogate pair, and one of them is no reason to end a stream.
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


class Message:
    """One event on its way to the streams: its position, its bytes, and what filters look at."""

    __slots__ = ("attributes", "frame", "position")

    def __init__(self, position: int, frame: bytes, attributes: Mapping[str, str]) -> None:
        """Take `frame` as :func:`event_frame` makes it. Positions of one channel follow each other without a gap."""
        self.position = position
        self.frame = frame
        self.attributes = attributes


def event_frame(data: str, *, event: str = "", event_id: str = "") -> bytes:
    """Return one event: ``id:`` and ``event:`` where given, a ``data:`` field for each line, and the empty line.

    :raises ValueError: `event` or `event_id` has a CR, LF or NUL: a reader would see other fields, or no id.
    """
    fields = [f"{name}: {_field(name, value)}\n" for name, value in (("id", event_id), ("event", event)) if value]
    fields += [f"data: {line}\n" for line in _LINE_END.split(data)]
    return _encoded("".join(fields) + "\n")


def comment_frame(text: str) -> bytes:
    """Return a comment line. :raises ValueError: `text` is more than one line."""
    return _encoded(f": {_field('comment', text)}\n")


def _field(name: str, value: str) -> str:
    if _NOT_IN_A_FIELD.search(value):
        raise ValueError(f"the {name} of an event is one line without NUL, this is not: {value[:64]!r}")
    return value


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).encode()
