"""The figures of the demo: the files that it writes and the bounds that it announces are both made of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS: Final = "127.0.0.1"
ROW_LENGTH: Final = 7
"""Ports in a row: two replicas, store, cache, router, adapter, and one for the page where its own is taken."""

AGENT: Final = ("shop-web", "1.0.0", "r1")
"""Agent id, card version and release id of the release that the router passes invocations on to."""

REPLICAS: Final = 2
DELAY_FILE: Final = "cache.delay"
HEARTBEAT_FILE: Final = "worker.heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where everything listens. ``first`` begins the row of :data:`ROW_LENGTH`."""

    page: int
    first: int

    @property
    def web(self) -> int:
        """The port of ``web-1``; the next one is that of ``web-2``."""
        return self.first

    @property
    def store(self) -> int:
        """The store's."""
        return self.first + REPLICAS

    @property
    def cache(self) -> int:
        """The cache's."""
        return self.first + REPLICAS + 1

    @property
    def router(self) -> int:
        """The router's."""
        return self.first + REPLICAS + 2

    @property
    def adapter(self) -> int:
        """The readiness adapter's."""
        return self.first + REPLICAS + 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What stands in the files. Times of the matrix are in milliseconds, all others in seconds."""

    interval_ms: int = 1000
    timeout_ms: int = 500
    cache_ms: int = 3000
    back_after: int = 2
    """Successes in a row until the store counts as back (``success_threshold``)."""
    heartbeat_ms: int = 5000
    pass_seconds: int = 3
    """Between two passes of the supervisor (``interval_s``)."""
    cooldown_seconds: int = 60
    check_seconds: int = 2
    """How long a readiness command may take (``timeoutSecs``)."""
    places: int = 8
    """``max_concurrent_requests`` of the tower."""
    connections: int = 64
    """``max_connections`` of the tower."""
    request_seconds: int = 10
    """``request_timeout`` of the tower: how long an incomplete request may stay."""
    delay_ms: int = 1500
    """What makes the cache slow: more than ``timeout_ms``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One demo: its folder, its ports, its figures, and the program that runs Python there."""

    folder: Path
    ports: Ports
    python: str
    """A name that is found on the tower's ``PATH``: a path may have signs that a declaration refuses (AR-2.3)."""
    figures: Figures = Figures()
    routed: bool = True
    """Whether there is a router."""

    @property
    def origin(self) -> str:
        """The tower's."""
        return f"http://{ADDRESS}:{self.ports.page}"

    @property
    def adapter_origin(self) -> str:
        """The adapter's."""
        return f"http://{ADDRESS}:{self.ports.adapter}"

    def web_origin(self, number: int) -> str:
        """Return that of a replica, counted from 1."""
        return f"http://{ADDRESS}:{self.ports.web + number - 1}"
