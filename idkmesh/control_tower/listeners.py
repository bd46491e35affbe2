"""Which listeners are there, and whose they are, as the kernel tells (RA-5.4).

The kernel's table of sockets, proc_pid_net(5), has a row for each: where it listens, and its inode. A descriptor of
this process that has the same inode is the proof that it is this process's. Linux puts those that listen first.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.adapter.observation import Listener

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLES: Final = {socket.AF_INET: Path("/proc/self/net/tcp"), socket.AF_INET6: Path("/proc/self/net/tcp6")}

_LISTENING: Final = "0A"
"""TCP_LISTEN of the kernel's tcp_states.h."""
_INODE: Final = 9
"""The field of a row, from 0."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A listener that should exist: what it is for, where, and the socket that this process made for it."""

    name: str
    address: str
    sock: socket.socket


def inventory(expected: Iterable[Expected]) -> tuple[Listener, ...]:
    """Return what is known of each now. Reads the kernel's table."""
    return tuple(_looked_at(each) for each in expected)


def unknown(expected: Iterable[Expected]) -> tuple[Listener, ...]:
    """Return the same where nothing is known."""
    return tuple(Listener(each.name, each.address, None, live=False) for each in expected)


def _looked_at(expected: Expected) -> Listener:
    sock = expected.sock
    try:
        inode = os.fstat(sock.fileno()).st_ino
        host, port = sock.getsockname()[:2]
        with TABLES[sock.family].open(encoding="ascii") as table:
            live = listens(table, row_address(sock.family, host, port), inode)
    except (OSError, KeyError, ValueError):  # it is closed, or the system has no such table
        live = False
    return Listener(expected.name, expected.address, os.getpid() if live else None, live)


def row_address(family: int, host: str, port: int, byteorder: str = sys.byteorder) -> str:
    """Return an address as the table writes it: the words of the address as numbers of this machine, and the port.

    Raises ``OSError`` for a host that is no address. Pure.
    """
    packed = socket.inet_pton(family, host.partition("%")[0])
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join((word[::-1] if byteorder == "little" else word).hex() for word in words).upper() + f":{port:04X}"


def listens(rows: Iterable[str], address: str, inode: int) -> bool:
    """Say whether a row has a listener at this address with this inode. Reads no further. Pure."""
    for row in rows:
        fields = row.split()
        if len(fields) > _INODE and fields[3] == _LISTENING and fields[1] == address and fields[_INODE] == str(inode):
            return True
    return False
