"""What an event is, as a producer gives it and as the store has it (EV-1). Pure.

Laws of this module:

1. The text of ``data`` is made once, when an event is made; that text is stored, digested and sent.
2. What is refused is refused here, before a store or a queue has seen it.
3. No clock is read and nothing is invented: an event without a time is no event.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

MAX_ATTRIBUTE_CHARACTERS: Final = 256
"""Bound of ``type``, ``source`` and ``subject`` (EV-1.5)."""

MAX_DATA_BYTES: Final = 65_536
"""Bound of ``data`` as JSON in UTF-8 (EV-1.5)."""

MAX_DATA_LEVELS: Final = 32
"""Objects and lists within each other in ``data``, itself included (EV-1.5)."""

FILTERS: Final = ("type", "source", "subject")
"""The attributes that a reader can ask for (EV-4.2)."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_POSITION: Final = re.compile(r"([0-9a-f]{16})\.([0-9]{1,18})")


class EventError(ValueError):
    """What a producer gave is no event: its fault, and a retry does not help. One line that names the attribute."""


class Position(NamedTuple):
    """A place in the order of one store's events: after ``sequence``, in ``epoch`` (EV-1.2)."""

    epoch: str
    sequence: int

    @property
    def text(self) -> str:
        """The position as an event's ``id`` is written: ``0123456789abcdef.000000000042``."""
        return f"{self.epoch}.{self.sequence:012d}"

    def __str__(self) -> str:
        return self.text


def parse_position(text: str) -> Position | None:
    """Return the position that ``text`` names, with or without its zeros, or None where it names none (EV-1.2)."""
    found = _POSITION.fullmatch(text)
    return Position(found[1], int(found[2])) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event as its producer gives it (EV-1.4).

    ``time`` is aware; ``data`` is a mapping of what JSON can say. ``time_text``, ``data_text``, its ``size`` in bytes
    and ``digest`` are made from them at once; the mapping is not kept, so that what a producer does to it afterwards
    changes no event, and one that waits takes no more room than its text. Raises :class:`EventError` for anything that
    EV-1.5 refuses.
    """

    type: str
    source: str
    time: datetime
    data: InitVar[Mapping[str, Any]]
    subject: str | None = None
    time_text: str = field(init=False, repr=False)
    data_text: str = field(init=False, repr=False)
    size: int = field(init=False, repr=False)
    digest: str = field(init=False, repr=False)

    def __post_init__(self, data: Mapping[str, Any]) -> None:
        for name in FILTERS:
            if name != "subject" or self.subject is not None:
                _check_attribute(name, getattr(self, name))
        object.__setattr__(self, "time_text", time_text(self.time))
        text = data_text(data)
        object.__setattr__(self, "data_text", text)
        object.__setattr__(self, "size", len(text.encode()))
        object.__setattr__(self, "digest", digest_of(text))


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as a store has it. ``time`` and ``data`` are the texts that stand in the document (EV-1.1)."""

    epoch: str
    sequence: int
    type: str
    source: str
    subject: str | None
    time: str
    data: str
    digest: str

    @property
    def position(self) -> Position:
        """Where it stands."""
        return Position(self.epoch, self.sequence)

    @property
    def id(self) -> str:
        """``EPOCH.SEQUENCE`` (EV-1.2)."""
        return self.position.text

    @property
    def attributes(self) -> dict[str, str]:
        """What filters compare: ``type``, ``source`` and, where it has one, ``subject``."""
        found = {"type": self.type, "source": self.source}
        return found if self.subject is None else {**found, "subject": self.subject}

    def document_text(self) -> str:
        """Return the CloudEvents document as compact JSON in one line. ``data`` stands in it byte for byte (EV-1.3)."""
        head = {
            "specversion": "1.0",
            "id": self.id,
            **self.attributes,
            "time": self.time,
            "datacontenttype": "application/json",
            "sequence": f"{self.sequence:012d}",
            "epoch": self.epoch,
            "datadigest": self.digest,
        }
        return f'{_compact(head)[:-1]},"data":{self.data}}}'


def digest_of(text: str) -> str:
    """Return the ``datadigest`` of the text of ``data`` (EV-1.3)."""
    # What came from a damaged file may hold half a surrogate pair; it has a digest too, which is then the wrong one.
    return "sha-256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def time_text(time: datetime) -> str:
    """Return an instant as RFC 3339 in UTC with milliseconds. Such texts sort as the instants do."""
    given: object = time
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise EventError("time: refused, it must be a datetime that knows its offset from UTC")
    try:
        return time.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    except OverflowError:
        raise EventError("time: refused, in UTC it lies outside the years 1 to 9999") from None


def data_text(data: Mapping[str, Any]) -> str:
    """Return ``data`` as compact JSON with sorted members, or raise :class:`EventError` (EV-1.3, EV-1.5)."""
    if not isinstance(data, Mapping):
        raise EventError(f"data: refused, it must be an object, not {type(data).__name__}")
    content = dict(data)
    _check_data(content)
    try:
        text = _compact(content, sort=True)
        if _SURROGATE.search(text):
            # Two halves that a program put side by side are one character to every reader of the JSON.
            text = _SURROGATE.sub(_escape, _compact(json.loads(_SURROGATE.sub(_escape, text)), sort=True))
    except ValueError:  # a whole number of more digits than Python writes out
        raise EventError("data: refused, it holds a number that is too long") from None
    size = len(text.encode())
    if size > MAX_DATA_BYTES:
        raise EventError(f"data: refused, its JSON of {size} bytes is longer than {MAX_DATA_BYTES}")
    return text


def _check_attribute(name: str, value: object) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_ATTRIBUTE_CHARACTERS or not value.isprintable():
        raise EventError(f"{name}: refused, it must be 1 to {MAX_ATTRIBUTE_CHARACTERS} printable characters")


def _check_data(content: dict[str, Any]) -> None:
    """Refuse what JSON does not have, what is too deep, and what no text of the allowed length can hold.

    Level by level and without recursion. Each value takes a byte at least, so that their number has a bound: a list
    that holds itself twice, or thirty lists of one another, would take for ever.
    """
    level: list[Any] = [content]
    seen = 0
    for _ in range(MAX_DATA_LEVELS):
        inner: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                if not all(isinstance(name, str) for name in container):
                    raise EventError("data: refused, every name in it must be a text")
                container = container.values()  # noqa: PLW2901  what is in it is what counts
            inner += container
            seen += len(container)
            if seen > MAX_DATA_BYTES:
                raise EventError(f"data: refused, its JSON is longer than {MAX_DATA_BYTES} bytes")
        level = [value for value in inner if _has_members(value)]
        if not level:
            return
    raise EventError(f"data: refused, it is deeper than {MAX_DATA_LEVELS} levels")


def _has_members(value: object) -> bool:
    """Say whether a value is an object or a list; raise for what JSON does not have."""
    if isinstance(value, dict | list | tuple):
        return True
    if isinstance(value, float) and not math.isfinite(value):
        raise EventError("data: refused, JSON has neither NaN nor infinities")
    if value is not None and not isinstance(value, str | int | float):
        raise EventError(f"data: refused, JSON has no {type(value).__name__}")
    return False


def _compact(value: object, *, sort: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=sort, separators=(",", ":"))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
