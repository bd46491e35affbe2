"""One connection through a proxy: two directions, each with a bounded buffer whose bytes may be due later (HL-8.3)."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HELD_BYTES: Final = 256 * 1024
"""Bytes of one direction that are held. Beyond it the sender waits, as it would for any slow peer."""

PIECE_BYTES: Final = 64 * 1024

RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing resets."""


def reset(connection: socket.socket) -> None:
    """Close a connection so that the other side sees a reset."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


class Loop(Protocol):
    """What a link needs of the loop that owns it."""

    def watch(self, connection: socket.socket, events: int, call: Callable[[int], object]) -> None:
        """Call back when a socket can be read or written; with no events, no more."""

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back later."""


class Direction:
    """Bytes on their way from one side to the other."""

    def __init__(self) -> None:
        self.pieces: deque[tuple[float, bytes]] = deque()
        self.held = 0
        self.source_ended = False
        self.told_end = False

    def due(self, now: float) -> bool:
        """Say whether something is to be sent now, the end included."""
        if self.pieces:
            return self.pieces[0][0] <= now
        return self.source_ended and not self.told_end


class Link:
    """A client's connection and the one that was made to the dependency for it."""

    def __init__(self, loop: Loop, client: socket.socket, server: socket.socket, ended: Callable[[Link], None]) -> None:
        self._loop = loop
        self._client, self._server = client, server
        self._ended = ended
        self._open = True
        self._connected = False
        self._up, self._down = Direction(), Direction()
        self.delay = 0.0
        self.frozen = False

    def update(self) -> None:
        """Watch for what can be done now."""
        if not self._open:
            return
        if self.frozen:
            self._loop.watch(self._client, 0, self._on_client)
            self._loop.watch(self._server, 0, self._on_server)
            return
        now = time.monotonic()
        self._loop.watch(self._client, self._events(self._up, self._down, now), self._on_client)
        server = self._events(self._down, self._up, now) if self._connected else selectors.EVENT_WRITE
        self._loop.watch(self._server, server, self._on_server)

    def expire(self) -> None:
        """End it if it has not been connected in time."""
        if self._open and not self._connected and not self.frozen:
            self.end()

    def end(self, close: Callable[[socket.socket], None] = reset) -> None:
        """Be done with both sides."""
        if not self._open:
            return
        self._open = False
        for side in (self._client, self._server):
            self._loop.watch(side, 0, self._on_client)
            close(side)
        self._ended(self)

    def _events(self, source_of: Direction, sink_of: Direction, now: float) -> int:
        """Return what a side is watched for: it is the source of one direction and the sink of the other."""
        reads = self._connected and not source_of.source_ended and source_of.held < MAX_HELD_BYTES
        return (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if sink_of.due(now) else 0)

    def _on_client(self, events: int) -> None:
        self._turn(events, self._client, self._up, self._down)

    def _on_server(self, events: int) -> None:
        if not self._connected:
            if self._server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.end()
                return
            self._connected = True
        self._turn(events, self._server, self._down, self._up)

    def _turn(self, events: int, side: socket.socket, source_of: Direction, sink_of: Direction) -> None:
        try:
            if events & selectors.EVENT_READ:
                self._read(side, source_of)
            if events & selectors.EVENT_WRITE:
                self._write(side, sink_of)
        except BlockingIOError:
            pass
        except OSError:
            self.end()
            return
        if all(direction.told_end for direction in (self._up, self._down)):
            self.end(socket.socket.close)
            return
        self.update()

    def _read(self, side: socket.socket, direction: Direction) -> None:
        data = side.recv(PIECE_BYTES)
        if not data:
            direction.source_ended = True
            return
        # What the client asks goes on at once: one delay for an answer is what is asked for, not two.
        delay = self.delay if direction is self._down else 0.0
        direction.pieces.append((time.monotonic() + delay, data))
        direction.held += len(data)
        if delay:
            self._loop.after(delay, self.update)

    def _write(self, side: socket.socket, direction: Direction) -> None:
        while direction.pieces and direction.pieces[0][0] <= time.monotonic():
            due, data = direction.pieces.popleft()
            sent = 0
            try:
                sent = side.send(data)
            finally:
                direction.held -= sent
                if sent < len(data):
                    direction.pieces.appendleft((due, data[sent:]))
        if direction.source_ended and not direction.pieces and not direction.told_end:
            direction.told_end = True
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_WR)
