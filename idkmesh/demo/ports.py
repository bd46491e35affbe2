"""Where everything listens: free ports, chosen so that they stay free (DM-1.5)."""

from __future__ import annotations

import contextlib
import functools
import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.binding import bound
from idkmesh.console import CommandError
from idkmesh.demo.settings import ADDRESS, ROW_LENGTH, Ports
from idkmesh.settings import TOWER, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PAGE_PORT: Final = int(row_of(TOWER, "port").default_words)
"""A tower's own: who asks a node and names no port asks the demo's."""

LOWEST: Final = 20_000
USUAL_CLIENTS: Final = 32_768
"""Where the ports begin that Linux gives to clients, unless it says otherwise."""


def chosen(page: int | None) -> Ports:
    """Return ports that are free now. ``page`` is what was asked for: 0 for any, None for the usual one or any.

    Raises :class:`CommandError` where that page's port cannot be had, or no row is free.
    """
    if page:
        bound(functools.partial(_bind, page), (ADDRESS, page))
    rows = range(LOWEST, _clients_begin() - 2 * ROW_LENGTH, 2 * ROW_LENGTH)
    first = first_free(random.sample(rows, len(rows)), is_free)
    if first is None:
        raise CommandError(f"no {ROW_LENGTH} ports in a row are free between {rows.start} and {rows.stop}")
    if page is None and is_free(PAGE_PORT):
        page = PAGE_PORT
    return Ports(page=page or first + ROW_LENGTH - 1, first=first)


def first_free(firsts: Iterable[int], free: Callable[[int], bool]) -> int | None:
    """Return the first of these at which a whole row is free, None where there is none."""
    return next((first for first in firsts if all(free(first + step) for step in range(ROW_LENGTH))), None)


def is_free(port: int) -> bool:
    """Say whether a server can listen there."""
    try:
        _bind(port)
    except OSError:
        return False
    return True


def _bind(port: int) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does
        listener.bind((ADDRESS, port))
        listener.listen(1)


def _clients_begin() -> int:
    """Return the lowest port that this system gives to clients: what is above may be taken while a process restarts."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
        if low - LOWEST > 10 * ROW_LENGTH:
            return low
    return USUAL_CLIENTS
