"""Plays kinds of connections against a tower: one thread, one epoll, non-blocking sockets, many loopback sources."""

from __future__ import annotations

import contextlib
import heapq
import select
import socket
import time
from collections import Counter
from itertools import count, cycle
from typing import TYPE_CHECKING, Final

from idkmesh.rehearsal.link import reset
from scripts.bench.benchlib.openloop import IP_BIND_ADDRESS_NO_PORT, NOT_YET
from scripts.bench.benchlib.processes import HOST
from scripts.lib.soak.kinds import fault_of
from scripts.lib.soak.tower import STREAMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.lib.soak.kinds import Kind

SOURCES: Final = tuple(f"127.0.0.{number}" for number in range(2, 66))
"""Each has all ports for itself: a million connections leave more of them in TIME_WAIT than one address has."""
WIDTHS: Final = {"slow": 300, "streams": STREAMS}
"""Of streams, as many as the tower has places for: each is opened when another has been left."""
QUICK: Final = 48
"""Open at once, by group; of those that are neither slow nor streams together."""
PATIENCE: Final = 60.0
"""Seconds after which a connection has never ended."""
CAP: Final = 1 << 22
"""Bytes of one response that are kept."""
SHOWN_BYTES: Final = 300


class Play:
    """One connection under way."""

    __slots__ = ("began", "connection", "kind", "number", "piece", "received", "rest")

    def __init__(self, kind: Kind, number: int, source: str) -> None:
        self.kind = kind
        self.number = number
        self.piece = 0
        self.rest = b""
        self.received = bytearray()
        self.connection = socket.socket()
        self.connection.settimeout(0)
        self.connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        self.connection.bind((source, 0))
        self.began = time.monotonic()
        self.connection.connect_ex((HOST, kind.port))

    def due(self) -> float | None:
        """Return when the next piece is to be sent, None where there is none."""
        pieces = self.kind.pieces
        return self.began + pieces[self.piece][0] if self.piece < len(pieces) else None


class Course:
    """Plays some connections to their end. ``counts`` has how many of each group, ``wrong`` a line for each fault."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._poll = select.epoll()
        self._plays: dict[int, Play] = {}
        self._open: Counter[str] = Counter()
        self._timers: list[tuple[float, int, Play]] = []
        self._ticket = count()
        self._sources = cycle(SOURCES)

    def run(self, first: int, kinds: Sequence[Kind]) -> None:
        """Play these; the first has this number."""
        waiting: Iterator[tuple[int, Kind]] = iter(enumerate(kinds, first))
        following = next(waiting, None)
        while following or self._plays:
            while following and self._has_room(following[1]):
                self._begin(*following)
                following = next(waiting, None)
            self._turn()

    def close(self) -> None:
        """Reset whatever is still open."""
        for play in list(self._plays.values()):
            self._shut(play)
        self._poll.close()

    @staticmethod
    def _lane(kind: Kind) -> str:
        return kind.group if kind.group in WIDTHS else "quick"

    def _has_room(self, kind: Kind) -> bool:
        lane = self._lane(kind)
        return self._open[lane] < WIDTHS.get(lane, QUICK)

    def _begin(self, number: int, kind: Kind) -> None:
        play = Play(kind, number, next(self._sources))
        self._plays[play.connection.fileno()] = play
        self._open[self._lane(kind)] += 1
        self._poll.register(play.connection, select.EPOLLOUT | select.EPOLLIN)
        self._at(play.began + PATIENCE, play)

    def _at(self, instant: float, play: Play) -> None:
        heapq.heappush(self._timers, (instant, next(self._ticket), play))

    def _turn(self) -> None:
        now = time.monotonic()
        pause = min(0.25, max(0.0, self._timers[0][0] - now)) if self._timers else 0.25
        for descriptor, event in self._poll.poll(pause, 1024):
            play = self._plays.get(descriptor)
            if play is not None:
                self._advance(play, event)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            play = heapq.heappop(self._timers)[2]
            if play.connection.fileno() < 0:
                continue
            if now >= play.began + PATIENCE:
                self._end(play, "late")
            else:
                self._send(play)

    def _advance(self, play: Play, event: int) -> None:
        if event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR) and not self._read(play):
            return
        if event & select.EPOLLOUT:
            self._send(play)

    def _read(self, play: Play) -> bool:
        """Take what has come; say whether the connection goes on."""
        try:
            data = play.connection.recv(1 << 18)
        except NOT_YET:
            return True
        except OSError as error:
            self._end(play, "reset" if isinstance(error, ConnectionError) else type(error).__name__)
            return False
        if len(play.received) < CAP:
            play.received += data
        if not data:
            self._end(play, "eof")
            return False
        if play.kind.stream and play.kind.holds in play.received.partition(b"\r\n\r\n")[2]:
            self._end(play, "left")
            return False
        return True

    def _send(self, play: Play) -> None:
        """Send what is due, then do what follows the last piece."""
        try:
            while True:
                if not play.rest:
                    due = play.due()
                    if due is None:
                        break
                    if due > time.monotonic():
                        self._poll.modify(play.connection, select.EPOLLIN)
                        self._at(due, play)
                        return
                    play.rest = play.kind.pieces[play.piece][1]
                    play.piece += 1
                if play.rest:
                    play.rest = play.rest[play.connection.send(play.rest) :]
        except NOT_YET:
            self._poll.modify(play.connection, select.EPOLLIN | select.EPOLLOUT)
            return
        except ConnectionError:  # it was answered before its end: what came of it is read
            play.rest, play.piece = b"", len(play.kind.pieces)
        self._sent(play)

    def _sent(self, play: Play) -> None:
        if play.kind.leave:
            self._end(play, "left")
            return
        if play.kind.half:
            with contextlib.suppress(OSError):
                play.connection.shutdown(socket.SHUT_WR)
        self._poll.modify(play.connection, select.EPOLLIN)

    def _end(self, play: Play, end: str) -> None:
        took = time.monotonic() - play.began
        kind = play.kind
        received = bytes(play.received)
        self._shut(play)
        self.counts[kind.group] += 1
        if fault := fault_of(kind, received, end, took):
            sent = b"".join(data for _, data in kind.pieces)[:SHOWN_BYTES]
            self.wrong.append(
                f"connection {play.number} ({kind.group}, {kind.name}): {fault}; sent {sent!r}, "
                f"received {received[:SHOWN_BYTES]!r}"
            )

    def _shut(self, play: Play) -> None:
        del self._plays[play.connection.fileno()]
        self._open[self._lane(play.kind)] -= 1
        reset(play.connection)
