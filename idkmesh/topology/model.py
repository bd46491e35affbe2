"""Targets, endpoints, what a provider says of them, and what is known of one (RT-1, RT-2), as values. Pure."""

from __future__ import annotations

import enum
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from idkmesh.addresses import url_host

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

MAX_ENDPOINTS: Final = 1_000
"""Ready endpoints of one target (RT-1.3). A release with more is one that somebody registers in a loop."""

MAX_ENDPOINT_CHARACTERS: Final = 256

MAX_TARGET_CHARACTERS: Final = 256
"""Of a target in one text: the subject of an event has no more (EV-1.5)."""

ID_PATTERN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._\-]{0,126}[A-Za-z0-9])?"
"""Of an agent id and a release id (RT-1.1). Neither ``/`` nor ``:``, so that both can join the three."""

VERSION_PATTERN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9.+_\-]{0,62}[A-Za-z0-9])?"
"""Of an agent card version: what a semantic version may have, and more."""

_ID: Final = re.compile(ID_PATTERN)
_VERSION: Final = re.compile(VERSION_PATTERN)
_NAME: Final = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_\-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_\-]{0,61}[a-z0-9_])?\.?")


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One exact release (RT-1.1). Raises ``ValueError``, which names the member and never shows its value."""

    agent_id: str
    agent_card_version: str
    release_id: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.agent_id):
            raise ValueError("agentId: must be 1 to 128 of A-Z a-z 0-9 . _ - and begin and end with a letter or digit")
        if not _VERSION.fullmatch(self.agent_card_version):
            raise ValueError(
                "agentCardVersion: must be 1 to 64 of A-Z a-z 0-9 . + _ - and begin and end with a letter or digit"
            )
        if not _ID.fullmatch(self.release_id):
            raise ValueError(
                "releaseId: must be 1 to 128 of A-Z a-z 0-9 . _ - and begin and end with a letter or digit"
            )
        if len(str(self)) > MAX_TARGET_CHARACTERS:
            raise ValueError(
                f"releaseId: AGENT/VERSION/RELEASE must have at most {MAX_TARGET_CHARACTERS} characters together"
            )

    def __str__(self) -> str:
        """Return it as one text."""
        return f"{self.agent_id}/{self.agent_card_version}/{self.release_id}"


def target_of(text: str) -> Target:
    """Return the target that ``AGENT/VERSION/RELEASE`` names. Raises ``ValueError``."""
    parts = text.split("/")
    if len(parts) != 3:  # noqa: PLR2004  as many as a target has
        raise ValueError("a release is written AGENT/VERSION/RELEASE")
    return Target(*parts)


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """Where an instance answers (RT-1.2): ``url`` is its scheme, host and port in the one form of :func:`endpoint_of`.

    Its text stays out of ``repr``: what is printed in a fault or a log must not tell it (RT-11.5).
    """

    url: str

    def __repr__(self) -> str:
        return "Endpoint(...)"


def endpoint_of(text: object) -> Endpoint:
    """Return the endpoint that a record names. Raises ``ValueError``, without the text, for anything else (RT-1.2)."""
    if not isinstance(text, str) or not text.isascii() or len(text) > MAX_ENDPOINT_CHARACTERS:
        raise ValueError("an endpoint must be http://HOST:PORT or https://HOST:PORT")
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise ValueError("an endpoint must be http://HOST:PORT or https://HOST:PORT") from None
    # What urlsplit takes off or passes over (control bytes, zeros of a port, a user) does not stand in this text.
    plain = text.lower().removesuffix("/") == f"{parts.scheme}://{url_host(host)}:{port}"
    if not plain or parts.scheme not in {"http", "https"} or not port or not _is_host(host):
        raise ValueError("an endpoint must be http://HOST:PORT or https://HOST:PORT")
    return Endpoint(f"{parts.scheme}://{url_host(host)}:{port}")


def _is_host(host: str) -> bool:
    """Say whether it is an address, or a name whose last label is no number (RFC 1123, section 2.1)."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        last = host.removesuffix(".").rpartition(".")[2]
        return "%" not in host and _NAME.fullmatch(host) is not None and not last.isdigit()
    return "%" not in host


class Cause(enum.Enum):
    """Why a watch has failed (RT-5.4): all that is ever told of it."""

    UNREACHABLE = "unreachable"
    SILENT = "silent"
    REFUSED = "refused"
    UNREADABLE = "unreadable"
    MALFORMED = "malformed"
    LOST = "lost"
    CLOSED = "closed"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a provider knows of a target (RT-1.3).

    ``endpoints`` are those of ready instances, sorted, each once; :func:`snapshot_of` makes them so. ``unreadable`` is
    how many records were no endpoint.
    """

    declared: bool
    endpoints: tuple[Endpoint, ...] = ()
    unreadable: int = 0


def snapshot_of(endpoints: Iterable[Endpoint], *, declared: bool = True, unreadable: int = 0) -> Snapshot:
    """Return a snapshot, with order and doubles gone. One that is not declared has no endpoints."""
    return Snapshot(declared, tuple(sorted(set(endpoints))) if declared else (), unreadable if declared else 0)


NOT_DECLARED: Final = Snapshot(declared=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a watch (RT-1.5)."""

    cause: Cause


ProviderEvent = Snapshot | Failed
"""What a watch says."""


class State(enum.Enum):
    """What is known of a target (RT-2.1)."""

    INITIALIZING = "initializing"
    MISSING = "missing"
    EMPTY = "empty"
    POPULATED = "populated"
    UNAVAILABLE = "unavailable"

    __hash__ = object.__hash__  # members are keys at each selection


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of one target in one session (RT-2).

    ``observed_at`` is the wall clock in UTC, a label. ``endpoints`` is empty in every state but ``populated``,
    ``cause`` is there in ``unavailable`` alone.
    """

    state: State
    revision: int
    observed_at: datetime
    endpoints: tuple[Endpoint, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """An endpoint that was chosen, and the revision that it is of; None where nothing is observed (RT-4.5)."""

    target: Target
    endpoint: Endpoint
    revision: int | None
