"""What somebody asks of an agent, from the bytes of a request's body (RT-9.4). Pure.

``input`` is taken as it stands, byte for byte: a number that was read and written again may be another one.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed leaves it out
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh.httpd.request import Refusal
from idkmesh.strict_json import no_constant
from idkmesh.topology.model import Target

if TYPE_CHECKING:
    from collections.abc import Callable

MEMBERS: Final = ("agentId", "agentCardVersion", "releaseId", "input")

_SPACE: Final = re.compile(r"[ \t\n\r]*")  # RFC 8259 §2


class Invocation(NamedTuple):
    """A target, and the JSON text that its agent is sent."""

    target: Target
    input: bytes


class _FaultError(ValueError):
    """The body is no invocation: the rule's name and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def parse_invocation(body: bytes) -> Invocation | Refusal:
    """Return what a body asks for, or 400 ``invalid_request``, which repeats nothing of it."""
    try:
        found = _members(body.decode("utf-8"))
        return Invocation(_target(found), found["input"][1].encode("utf-8"))
    except _FaultError as fault:
        return Refusal(400, "invalid_request", str(fault), reason=fault.reason)
    except UnicodeDecodeError:
        return Refusal(400, "invalid_request", "The body is no UTF-8.", reason="not_json")
    except ValueError:
        return Refusal(400, "invalid_request", "The body is no JSON.", reason="not_json")
    except RecursionError:
        return Refusal(400, "invalid_request", "The body is nested too deeply.", reason="too_deep")


def _target(found: dict[str, tuple[Any, str]]) -> Target:
    for name in MEMBERS:
        if name not in found:
            raise _FaultError("missing_member", f"The member {name} is missing.")
    names = [found[name][0] for name in MEMBERS[:3]]
    if not all(isinstance(name, str) for name in names):
        raise _FaultError("wrong_type", "agentId, agentCardVersion and releaseId must be texts.")
    try:
        return Target(*names)
    except ValueError as error:
        raise _FaultError("wrong_form", f"{error}.") from None


def _members(text: str) -> dict[str, tuple[Any, str]]:
    """Return each member's value and its text, of a body that is one object with known members, each once.

    Raises ``ValueError`` for anything that is no JSON. The decoder of the standard library judges all but the outermost
    object, whose values are to be known by their place.
    """
    found: dict[str, tuple[Any, str]] = {}
    at = _past(text, 0)
    if text[at : at + 1] != "{":
        _DECODER.decode(text)  # raises where it is no JSON at all
        raise _FaultError("not_an_object", "The body must be a JSON object.")
    at = _past(text, at + 1)
    while text[at : at + 1] != "}":
        if found:
            at = _past(text, _expect(text, at, ","))
        name, at = scanstring(text, _expect(text, at, '"'), True)  # noqa: FBT003  its signature: control bytes are refused
        start = _past(text, _expect(text, _past(text, at), ":"))
        value, at = _value(text, start)
        if name not in MEMBERS:
            raise _FaultError("unknown_member", f"Known members are {', '.join(MEMBERS)}.")
        if name in found:
            raise _FaultError("doubled_member", f"The member {name} stands twice.")
        found[name] = value, text[start:at]
        at = _past(text, at)
    if _past(text, at + 1) != len(text):
        raise ValueError("something follows")
    return found


def _value(text: str, start: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except StopIteration as error:  # how its scanner says that nothing begins here
        raise ValueError("no value") from error


def _past(text: str, at: int) -> int:
    """Return where the white space at a place ends."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _expect(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise ValueError(f"no {sign}")
    return at + 1


_UNREAD: Final[Callable[[str], None]] = lambda _text: None  # noqa: E731  numbers are passed on, not read
_DECODER: Final = json.JSONDecoder(parse_float=_UNREAD, parse_int=_UNREAD, parse_constant=no_constant)
