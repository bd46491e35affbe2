"""TLS on a socket that never blocks."""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

HANDSHAKES_PER_TURN = 4
"""A handshake costs about a millisecond of CPU; more a turn would keep everybody else waiting."""


def wrap(context: ssl.SSLContext, sock: socket.socket) -> ssl.SSLSocket:
    """Put TLS on an accepted, non-blocking socket; the handshake is still to be done."""
    return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True)


def handshake(sock: ssl.SSLSocket) -> str | None:
    """Go on with the handshake: ``"done"``, ``"read"`` or ``"write"`` for what it waits for, None if it failed."""
    try:
        sock.do_handshake()
    except ssl.SSLWantReadError:
        return "read"
    except ssl.SSLWantWriteError:
        return "write"
    except (OSError, ValueError):  # ValueError: the peer has gone before the handshake began
        return None
    return "done"


def has_pending(sock: socket.socket) -> bool:
    """Say whether the TLS layer holds bytes that the selector cannot see."""
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0


def notify_close(sock: ssl.SSLSocket) -> None:
    """Send close_notify, without waiting for the peer's (RFC 8446 6.1)."""
    with contextlib.suppress(OSError, ValueError):
        sock.unwrap()
