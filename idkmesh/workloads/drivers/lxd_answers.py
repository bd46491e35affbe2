"""What LXD and Incus answer, as values (AR-8.2, AR-8.3). Pure: bytes in, values out, and nothing is believed.

The interface is the one that both document: ``/1.0/instances``, ``/1.0/instances/NAME/exec``, ``/1.0/operations``.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from idkmesh.workloads.model import InstanceState
from idkmesh.workloads.module_rules import is_instance_name

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping, Sequence

STREAMS: Final = ("0", "1", "2")
CONTROL: Final = "control"
MAX_REASON_CHARACTERS: Final = 200
_MAX_TEXT_CHARACTERS: Final = 16_384
"""That are looked at: far more than are shown, for what is blanked is shorter then."""

BLANK: Final = "…"
MIN_ANYWHERE: Final = 4
"""Characters of a hidden text that is blanked within a word too."""

MAX_LOCATION_CHARACTERS: Final = 63
_MAX_NAME_CHARACTERS: Final = 256
_MARK: Final = re.compile(r"[0-9A-Za-z:.+-]{1,64}")
"""An identifier or an instant."""

_STATES: Final = {
    103: InstanceState.RUNNING,
    113: InstanceState.RUNNING,  # Ready: running, and it says so itself
    111: InstanceState.RUNNING,  # Thawed
    102: InstanceState.STOPPED,
    105: InstanceState.STOPPED,  # Pending
    106: InstanceState.STOPPED,  # Starting
    107: InstanceState.STOPPED,  # Stopping
    108: InstanceState.STOPPED,  # Aborting
    109: InstanceState.FROZEN,  # Freezing
    110: InstanceState.FROZEN,
}
"""Status codes of instances. Every other one, Error (112) too, says that nothing is known of it."""

_STILL_RUNNING: Final = range(100, 200)
_BAD_ANSWER: Final = "an answer that is none of LXD's or Incus's"


class LxdError(Exception):
    """The daemon did not do what was asked. As text it is a reason in short words, fit to be shown."""


class LxdMissingError(LxdError):
    """What was asked for is not there (404)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A background operation. ``code`` is the exit status that a command's operation ends with."""

    path: str
    running: bool
    succeeded: bool
    error: str
    code: int | None
    secrets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Described:
    """An instance as the daemon describes it. ``config`` has what its profiles say too."""

    name: str
    state: InstanceState
    identity: str
    config: Mapping[str, str]
    location: str | None
    address: str | None


def metadata_of(raw: bytes, hidden: Sequence[str] = ()) -> object:
    """Return what a response says, its operation's description if it began one, or raise :class:`LxdError`.

    Nothing else is raised, whatever has come. Only a status of 2xx is a good answer: no redirect is followed.
    ``hidden`` is not told (see :func:`shown`).
    """
    try:
        status, body = _parsed(raw)
    except Exception:  # noqa: BLE001  what a parser makes of an answer, an overflow too, is the answer's fault
        raise LxdError(_BAD_ANSWER if raw else "closed without an answer") from None
    if not isinstance(body, dict):
        raise LxdError(_BAD_ANSWER)
    if status // 100 != 2 or body.get("type") == "error":  # noqa: PLR2004  2xx
        kind = LxdMissingError if status == http.client.NOT_FOUND else LxdError
        raise kind(shown(body.get("error"), hidden) or f"status {status}")
    return body.get("metadata")


def operation_of(metadata: object, hidden: Sequence[str] = ()) -> Operation:
    """Return an operation's description as a value.

    An inner code of 103 after a wait is an operation that goes on, whatever the response's own status says (AR-8.3).
    ``hidden`` is not told (see :func:`shown`).
    """
    found = _mapping(metadata)
    identifier, status = found.get("id"), found.get("status_code")
    if not isinstance(identifier, str) or not _is_name(identifier) or type(status) is not int:
        raise LxdError(_BAD_ANSWER)
    inner = _mapping(found.get("metadata"))
    code = inner.get("return")
    secrets = {key: value for key, value in _texts(inner.get("fds")).items() if _is_name(value)}
    return Operation(
        path=f"/1.0/operations/{identifier}",
        running=status in _STILL_RUNNING,
        succeeded=status == http.client.OK,
        error=shown(found.get("err"), hidden),
        code=code if type(code) is int and 0 <= code <= 255 else None,  # noqa: PLR2004  what a process can return
        secrets=secrets,
    )


def instances_of(metadata: object) -> dict[str, Described]:
    """Return the instances of a listing by name, without those of :func:`left_out_of`."""
    if not isinstance(metadata, list) or not all(isinstance(entry, dict) for entry in metadata):
        raise LxdError(_BAD_ANSWER)
    found = [instance_of(entry) for entry in metadata if is_instance_name(entry.get("name"))]
    return {instance.name: instance for instance in found}


def left_out_of(metadata: object) -> int:
    """Return how many instances of a listing have a name that none may have (AR-2.5)."""
    listing = metadata if isinstance(metadata, list) else []
    return sum(not is_instance_name(_mapping(entry).get("name")) for entry in listing)


def instance_of(metadata: object) -> Described:
    """Return one instance. Its address is there where the listing has its state (recursion 2).

    One whose identity cannot be read has none, and is not known to run: its life cannot be told from another one.
    """
    found = _mapping(metadata)
    name, status = found.get("name"), found.get("status_code")
    if not isinstance(name, str) or not is_instance_name(name):
        raise LxdError(_BAD_ANSWER)
    own = _texts(found.get("config"))
    life = [_mark(own.get("volatile.uuid")) or _mark(found.get("created_at")), _mark(found.get("last_used_at"))]
    # The daemon keeps the identifier over starts and gives a new one to an instance that is made anew; the instant of
    # the last start is new at each start, one from inside included, and stays when only the daemon starts again.
    identity = "@".join(life) if all(life) else ""
    state = _STATES.get(status) if type(status) is int and identity else None
    location = shown(found.get("location"))[:MAX_LOCATION_CHARACTERS]
    hardware = {value for key, value in own.items() if key.startswith("volatile.") and key.endswith(".hwaddr")}
    return Described(
        name=name,
        state=state or InstanceState.UNREACHABLE,
        identity=identity,
        config={**own, **_texts(found.get("expanded_config"))},
        location=location if location not in {"", "none"} else None,
        address=_address(_mapping(found.get("state")).get("network"), hardware),
    )


def is_mapped(config: Mapping[str, str], number: int) -> bool:
    """Say whether a user and a group of this number exist in an instance.

    One without a map is privileged, or a virtual machine: every number is its own.
    """
    try:
        entries = _user_map(config.get("volatile.idmap.current") or "[]")
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LxdError("a map of users that cannot be read") from None
    inside = {kind for entry in entries for kind, first, count in entry if first <= number < first + count}
    return not entries or inside == {"Isuid", "Isgid"}


def _user_map(text: str) -> list[list[tuple[str, int, int]]]:
    """Return what each entry maps: users, groups or both, the first number inside, and how many."""
    entries = json.loads(text)
    if not isinstance(entries, list):
        raise TypeError
    return [
        [
            (kind, operator.index(entry["Nsid"]), operator.index(entry["Maprange"]))
            for kind in ("Isuid", "Isgid")
            if entry[kind] is True
        ]
        for entry in entries
    ]


def shown(text: object, hidden: Sequence[str] = ()) -> str:
    """Return a text of the daemon's fit for a line: printable, and not long.

    Each text of ``hidden`` is blanked out of it, as it is or quoted as in JSON and Go: the daemon repeats what it was
    asked to run, in which a password may stand. A short one is blanked where it is a word by itself: it would take
    every text apart.
    """
    if not isinstance(text, str):
        return ""
    text = text[:_MAX_TEXT_CHARACTERS]
    forms = {
        form for word in hidden for form in (word, json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False)[1:-1])
    }
    for form in sorted(forms - {""}, key=len, reverse=True):
        pattern = re.escape(form)
        text = re.sub(pattern if len(form) >= MIN_ANYWHERE else rf"(?<!\w){pattern}(?!\w)", BLANK, text)
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:MAX_REASON_CHARACTERS]


def _parsed(raw: bytes) -> tuple[int, object]:
    """Return a response's status and its JSON. Raises whatever the parsers do."""
    response = http.client.HTTPResponse(cast("socket.socket", _Received(raw)))
    response.begin()
    for length in response.headers.get_all("Content-Length", []):
        if not re.fullmatch(r"[0-9]{1,19}", length):  # the parser takes more, and reads on to the end then
            raise ValueError(length)
    return response.status, json.loads(response.read())


class _Received:
    """A whole response as ``HTTPResponse`` takes it: for a socket, of which it wants ``makefile`` and nothing else."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._raw)


def _address(network: object, hardware: set[str]) -> str | None:
    """Return the address where an instance is asked: of its own devices first, by name, IPv4 first.

    A bridge that a program made inside has an address too, which nobody outside can reach.
    """
    ranked = [
        ((_texts(nic).get("hwaddr") not in hardware, family != "inet", name), address)
        for name, nic, family, address in _global_addresses(network)
    ]
    return min(ranked)[1] if ranked else None


def _global_addresses(network: object) -> Iterator[tuple[str, Mapping[str, object], str, str]]:
    for name, entry in _mapping(network).items():
        nic = _mapping(entry)
        listed = nic.get("addresses")
        for each in listed if nic.get("type") != "loopback" and isinstance(listed, list) else []:
            found = _texts(each)
            if found.get("scope") == "global" and (family := _family(found.get("address", ""))) is not None:
                yield str(name), nic, family, found["address"]


def _family(address: str) -> str | None:
    if "%" in address:  # a zone of the instance's own, in which anything may stand
        return None
    try:
        return "inet" if ipaddress.ip_address(address).version == 4 else "inet6"  # noqa: PLR2004  IPv4
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    """Say whether a text of the daemon's may stand in a path: it is to lead nowhere else."""
    return (
        bool(text)
        and len(text) <= _MAX_NAME_CHARACTERS
        and all(c.isascii() and (c.isalnum() or c in "-_") for c in text)
    )


def _mark(value: object) -> str:
    return value if isinstance(value, str) and _MARK.fullmatch(value) else ""


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> dict[str, str]:
    return {str(key): text for key, text in _mapping(value).items() if isinstance(text, str)}
