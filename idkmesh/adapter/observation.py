"""What one look at a node says: its types, and the strict parser of the document (RA-2). Pure.

Laws:

1. Who prints the document may be another program, and broken: nothing of it is trusted, kept or repeated that has not
   its form, and what a message says of it are this module's own words.
2. Members that are not known are passed over: an addition is no new version.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

KIND: Final = "idkmesh-node-observation"
SCHEMA_VERSION: Final = "0.1"

MAX_DOCUMENT_BYTES: Final = 256 * 1024
MAX_LISTENERS: Final = 64
MAX_NUMBER: Final = 2**53 - 1
"""What every reader of JSON takes exactly (RFC 8259 §6)."""

IDENTIFIER: Final = r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,127}"
"""Of a node and of a boot: it goes through files, command lines and URLs as it is."""
LISTENER_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,62}"
ADDRESS: Final = r"[!-~]{1,128}"
REASON: Final = r"[ -~]{1,200}"

Health: TypeAlias = Literal["ok", "failing", "unknown"]
Pressure: TypeAlias = Literal["available", "exhausted", "unknown"]
_Word = TypeVar("_Word", bound=str)


class ObservationError(Exception):
    """A document is refused: one line, which names the member."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Which node, and which start of it."""

    id: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener that should exist. ``owner_pid`` is None where the system does not tell who owns it."""

    name: str
    address: str
    owner_pid: int | None
    live: bool


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much there may be of something, and how much of it there is."""

    limit: int
    used: int

    @property
    def free(self) -> int:
        """How much more there may be, never below 0."""
        return max(0, self.limit - self.used)


@dataclass(frozen=True, slots=True)
class Capacities:
    """Connections, requests that are being handled, and bytes that are buffered."""

    connections: Capacity
    exchanges: Capacity
    buffers: Capacity


@dataclass(frozen=True, slots=True)
class DurableClock:
    """How the wall clock stands to the latest time that the node has recorded; ``behind_ms`` is None where unknown."""

    readable: bool
    behind_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A node that could be looked at."""

    node: NodeIdentity
    health: Health
    listeners: tuple[Listener, ...]
    pressure: Pressure
    capacity: Capacities
    activation_ready: bool
    draining: bool
    clock: DurableClock


@dataclass(frozen=True, slots=True)
class Failure:
    """A look that told nothing: the command failed, or says itself that it did. ``reason`` is a line for people."""

    reason: str


def observation_document(observation: Observation) -> dict[str, Any]:
    """Return the document of an observation (RA-2.1)."""
    members = asdict(observation)
    head = {"kind": KIND, "schema_version": SCHEMA_VERSION, "node": members.pop("node"), "result": "ok"}
    return head | members | {"listeners": list(members["listeners"])}


def failure_document(reason: str) -> dict[str, Any]:
    """Return the document of a look that told nothing (RA-2.3)."""
    return {"kind": KIND, "schema_version": SCHEMA_VERSION, "result": "failed", "reason": reason}


def parse_observation(data: bytes) -> Observation | Failure:
    """Return what a document says. Raises :class:`ObservationError` for whatever has not its form (RA-2.4)."""
    document = _decoded(data)
    if document.get("kind") != KIND or document.get("schema_version") != SCHEMA_VERSION:
        raise ObservationError(f"the observation is refused: it is no {KIND} of version {SCHEMA_VERSION}")
    if _word(document, "result", ("ok", "failed")) == "failed":
        reason = document.get("reason", "no reason is given")
        if not isinstance(reason, str) or not re.fullmatch(REASON, reason):
            raise _refused("reason", "1 to 200 printable ASCII characters")
        return Failure(f"the node's command says that it failed: {reason}")
    clock = _object(document, "clock")
    return Observation(
        node=_identity(_object(document, "node")),
        health=_word(document, "health", get_args(Health)),
        listeners=_listeners(document),
        pressure=_word(document, "pressure", get_args(Pressure)),
        capacity=_capacities(_object(document, "capacity")),
        activation_ready=_flag(document, "activation_ready"),
        draining=_flag(document, "draining"),
        clock=DurableClock(_flag(clock, "readable", "clock."), _number_or_null(clock, "behind_ms", 0, "clock.")),
    )


def _decoded(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ObservationError(f"the observation is refused: it has more than {MAX_DOCUMENT_BYTES} bytes")
    try:
        text = data.decode("utf-8").strip(_SPACE)
        document, end = _DECODER.raw_decode(text)
        if end < len(text):
            raise _FormError("something follows the document" if isinstance(document, dict) else _NO_JSON)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        what = str(error) if isinstance(error, _FormError) else _NO_JSON
        raise ObservationError(f"the observation is refused: {what}") from None
    if not isinstance(document, dict):
        raise ObservationError("the observation is refused: it is no object")
    return document


class _FormError(ValueError):
    """JSON that two readers may read differently."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _FormError("a member stands in it twice")
    return members


def _no_number(_name: str) -> None:
    raise _FormError("it has a number that JSON has not")


_NO_JSON: Final = "it is no JSON in UTF-8"
_SPACE: Final = " \t\r\n"
"""What may stand around a document (RFC 8259 §2)."""
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_number)


def _identity(node: dict[str, Any]) -> NodeIdentity:
    form = "1 to 128 of A-Z a-z 0-9 . _ : ~ - that begin with a letter or digit"
    return NodeIdentity(_text(node, "id", IDENTIFIER, form, "node."), _text(node, "boot_id", IDENTIFIER, form, "node."))


def _listeners(document: dict[str, Any]) -> tuple[Listener, ...]:
    items = document.get("listeners")
    if not isinstance(items, list) or len(items) > MAX_LISTENERS:
        raise _refused("listeners", f"a list of at most {MAX_LISTENERS}")
    listeners = []
    for number, item in enumerate(items):
        place = f"listeners[{number}]"
        if not isinstance(item, dict):
            raise _refused(place, "an object")
        listeners.append(
            Listener(
                _text(item, "name", LISTENER_NAME, "1 to 63 of a-z 0-9 . _ -", f"{place}."),
                _text(item, "address", ADDRESS, "1 to 128 printable ASCII characters without spaces", f"{place}."),
                _number_or_null(item, "owner_pid", 1, f"{place}."),
                _flag(item, "live", f"{place}."),
            )
        )
    if len({listener.name for listener in listeners}) < len(listeners):
        raise ObservationError("the observation is refused: two listeners have the same name")
    return tuple(listeners)


def _capacities(capacity: dict[str, Any]) -> Capacities:
    parts = []
    for name in ("connections", "exchanges", "buffers"):
        part = _object(capacity, name, "capacity.")
        place = f"capacity.{name}."
        parts.append(Capacity(_number(part, "limit", 0, place), _number(part, "used", 0, place)))
    return Capacities(*parts)


def _object(members: dict[str, Any], name: str, place: str = "") -> dict[str, Any]:
    value = members.get(name)
    if not isinstance(value, dict):
        raise _refused(place + name, "an object")
    return value


def _text(members: dict[str, Any], name: str, pattern: str, form: str, place: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise _refused(place + name, form)
    return value


def _word(members: dict[str, Any], name: str, words: tuple[_Word, ...]) -> _Word:
    value = members.get(name)
    if not isinstance(value, str) or value not in words:
        raise _refused(name, f"one of {', '.join(words)}")
    return value


def _flag(members: dict[str, Any], name: str, place: str = "") -> bool:
    value = members.get(name)
    if not isinstance(value, bool):
        raise _refused(place + name, "true or false")
    return value


def _number(members: dict[str, Any], name: str, least: int, place: str, more: str = "") -> int:
    value = members.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_NUMBER:
        raise _refused(place + name, f"{more}a whole number from {least} to {MAX_NUMBER}")
    return value


def _number_or_null(members: dict[str, Any], name: str, least: int, place: str) -> int | None:
    if name in members and members[name] is None:
        return None
    return _number(members, name, least, place, "null or ")


def _refused(member: str, form: str) -> ObservationError:
    return ObservationError(f"the observation is refused: {member} must be {form}")
