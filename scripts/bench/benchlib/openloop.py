"""Open-loop load: requests start at a fixed rate, whatever becomes of the earlier ones.

``python -m benchlib.openloop SPEC`` with a :class:`Load` as JSON prints one JSON object. One thread, non-blocking
sockets, each request on a connection of its own. A latency runs from the first call of ``connect`` to the last byte of
a complete response. How late the generator itself was is reported beside it (``lag``): a large lag says that the load's
core was the limit. ``goodput`` counts only what was answered while requests were still being offered.
"""

from __future__ import annotations

import gc
import json
import math
import resource
import select
import socket
import sys
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from itertools import cycle

from . import messages
from .processes import HOST
from .stats import latency

SOURCES = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
IP_BIND_ADDRESS_NO_PORT = 24
"""Linux: take the port at connect, so that each (source, destination) pair has all ports for itself."""
NOT_YET = (BlockingIOError, InterruptedError)
OK, REFUSED = 200, 503


@dataclass(frozen=True)
class Load:
    """What to send: ``rate`` requests a second for ``seconds``; each may take ``timeout`` seconds.

    At most ``max_open`` are open at once; a request that would be one more is not sent, and counted. Responses with 503
    must carry the fields named in ``refusal_fields``.
    """

    port: int
    path: str
    rate: float
    seconds: float
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float = 2.0
    max_open: int = 15_000
    refusal_fields: tuple[str, ...] = ()


class Exchange:
    """One request under way."""

    __slots__ = ("began", "connection", "received", "sent")

    def __init__(self, connection: socket.socket, began: float) -> None:
        """Remember the socket and when its connect began."""
        self.connection = connection
        self.began = began
        self.sent = False
        self.received = b""


class Generator:
    """Runs one :class:`Load` on the calling thread."""

    def __init__(self, load: Load) -> None:
        """Prepare the request's bytes and the poll object."""
        self._load = load
        self._request = messages.request(load.port, load.path, load.headers)
        self._address = (HOST, load.port)
        self._sources = cycle(SOURCES)
        self._poll = select.epoll()
        self._offer_ends = math.inf
        self._open: OrderedDict[int, Exchange] = OrderedDict()  # by descriptor, oldest first
        self.outcomes: Counter[str] = Counter()
        self.answered: list[float] = []
        self.in_time = 0
        self.refused: list[float] = []
        self.lags: list[float] = []

    def run(self) -> None:
        """Send everything, then wait for what is still open."""
        load, began = self._load, time.monotonic()
        self._offer_ends = began + load.seconds
        total = int(load.rate * load.seconds)
        launched = 0
        while launched < total or self._open:
            now = time.monotonic()
            while launched < total and (due := began + launched / load.rate) <= now:
                launched += 1
                self._launch(due)
            self._expire(now)
            self._wait(began + launched / load.rate if launched < total else now + 0.05)
        self._poll.close()

    def _wait(self, until: float) -> None:
        """Handle events until the next request is due. ``select`` on the poll object is exact where epoll rounds up."""
        pause = max(0.0, min(until - time.monotonic(), 0.05))
        if select.select([self._poll.fileno()], [], [], pause)[0]:
            for descriptor, event in self._poll.poll(0, 1024):
                self._advance(descriptor, event)

    def _launch(self, due: float) -> None:
        if len(self._open) >= self._load.max_open:
            self.outcomes["not sent"] += 1
            return
        connection = socket.socket()
        connection.settimeout(0)
        connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        connection.bind((next(self._sources), 0))
        began = time.monotonic()
        self.lags.append(began - due)
        connection.connect_ex(self._address)
        exchange = Exchange(connection, began)
        descriptor = connection.fileno()
        self._open[descriptor] = exchange
        # On the loopback the handshake is usually over when connect returns.
        try:
            exchange.sent = connection.send(self._request) == len(self._request)
        except NOT_YET:
            pass
        except OSError as error:
            self._end(descriptor, type(error).__name__)
            return
        self._poll.register(descriptor, select.EPOLLIN if exchange.sent else select.EPOLLOUT)

    def _advance(self, descriptor: int, event: int) -> None:
        exchange = self._open.get(descriptor)
        if exchange is None:
            return
        try:
            if not exchange.sent:
                exchange.sent = exchange.connection.send(self._request) == len(self._request)
                self._poll.modify(descriptor, select.EPOLLIN)
            elif event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                self._receive(descriptor, exchange)
        except NOT_YET:
            pass
        except OSError as error:
            self._end(descriptor, type(error).__name__)

    def _receive(self, descriptor: int, exchange: Exchange) -> None:
        data = exchange.connection.recv(1 << 16)
        exchange.received += data
        response = messages.parse(exchange.received)
        if response is not None and response.complete:
            self._judge(response, exchange.began, time.monotonic())
            self._end(descriptor, str(response.status))
        elif not data:
            self._end(descriptor, "incomplete" if exchange.received else "closed without a response")

    def _judge(self, response: messages.Response, began: float, now: float) -> None:
        if response.status == OK:
            self.answered.append(now - began)
            self.in_time += now <= self._offer_ends
        elif response.status == REFUSED:
            self.refused.append(now - began)
            if any(name.lower() not in response.headers for name in self._load.refusal_fields):
                self.outcomes["refusals without their fields"] += 1

    def _expire(self, now: float) -> None:
        while self._open:
            descriptor, oldest = next(iter(self._open.items()))
            if now - oldest.began < self._load.timeout:
                return
            self._end(descriptor, "timed out")

    def _end(self, descriptor: int, outcome: str) -> None:
        self.outcomes[outcome] += 1
        self._open.pop(descriptor).connection.close()

    def report(self) -> dict[str, object]:
        """Return what became of every request."""
        return {
            "offered": int(self._load.rate * self._load.seconds),
            "seconds": self._load.seconds,
            "outcomes": dict(self.outcomes),
            "goodput": self.in_time / self._load.seconds,
            "answered": latency(self.answered),
            "refused": latency(self.refused),
            "lag": latency(self.lags),
        }


def main() -> None:
    """Run the load given as JSON in the first argument."""
    fields = json.loads(sys.argv[1])
    fields["headers"] = tuple(map(tuple, fields.get("headers", ())))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    load = Load(**{**fields, "max_open": min(fields.get("max_open", Load.max_open), hard - 50)})
    generator = Generator(load)
    gc.disable()  # a bounded run; a collection would show up as somebody's latency
    generator.run()
    print(json.dumps(generator.report()))


if __name__ == "__main__":
    main()
