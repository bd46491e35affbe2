"""How many connections the system's limit of open files leaves room for (HS-2.4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from idkmesh.service_runtime import SettingError

if TYPE_CHECKING:
    from idkmesh.service_runtime import ServiceLimits

SPARE_DESCRIPTORS = 32
"""Descriptors left for what is no connection: listener, selector, wake-up pair, standard streams, open files."""


def descriptor_room(limits: ServiceLimits) -> float:
    """Return how many descriptors the system leaves to connections."""
    try:
        import resource  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return math.inf
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return math.inf
    return allowed - SPARE_DESCRIPTORS - limits.max_concurrent_requests


def within_descriptors(limits: ServiceLimits, room: float) -> ServiceLimits:
    """Lower `max_connections` to what the descriptor limit allows, which is one at least (HS-2.4)."""
    if room >= limits.max_connections:
        return limits
    room = max(int(room), 0)
    try:
        return limits.replace(max_connections=room)
    except SettingError as error:
        msg = f"the limit of open files leaves room for {room} connections; raise it (ulimit -n). {error}"
        raise SettingError(msg) from None
