"""A crowd of slow clients, held at one size: whoever is cut off comes back.

``python -m benchlib.crowd SPEC`` with a :class:`Plan` as JSON. It prints one JSON line when every client has had time
to connect, goes on until its standard input closes, and prints a second line. One thread, pinned by its
parent. A client acts once a second, all of them spread evenly over the second:

- ``heads`` sends a request line, then one byte of a header field a second, and never ends the head;
- ``bodies`` declares a body of 100,000 bytes and sends one byte of it a second;
- ``readers`` asks for a large response with a small receive buffer, and never reads.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass
from itertools import cycle

from . import messages
from .openloop import IP_BIND_ADDRESS_NO_PORT, NOT_YET, SOURCES
from .processes import HOST

TURNS = 1000
"""Groups into which the clients are spread; each acts once a second."""
ENDED = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
RECEIVE_BUFFER, SEGMENT = 2048, 1460
"""Of a client that never reads. With the loopback's own segments of 64 KiB the kernel would take 2.6 MB for it."""


@dataclass(frozen=True)
class Plan:
    """Who comes: ``clients`` of one ``kind``, at most ``connects`` new connections a second in all."""

    port: int
    kind: str
    clients: int
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    connects: int = 1000

    def opening(self) -> bytes:
        """Return what a client sends at once."""
        if self.kind == "heads":
            head = messages.request(self.port, self.path, [*self.headers, ("X-Slow", "a")])
            return head.removesuffix(b"\r\n\r\n")
        if self.kind == "bodies":
            return messages.request(self.port, self.path, [*self.headers, ("Content-Length", "100000")], "POST")
        return messages.request(self.port, self.path, self.headers)


class Client:
    """One slow client; ``started`` once its opening is on its way."""

    __slots__ = ("connection", "started")

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        self.started = False


class Crowd:
    """Keeps a plan's clients busy on the calling thread."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._opening = plan.opening()
        clients = [Client() for _ in range(plan.clients)]
        self._groups = [clients[turn::TURNS] for turn in range(TURNS)]
        self._away = deque(clients)
        self._clients: dict[int, Client] = {}  # by descriptor
        self._poll = select.epoll()
        self._sources = cycle(SOURCES)
        self._credit = 0.0
        self.events: Counter[str] = Counter()

    def turn(self, number: int) -> None:
        """Bring in who is away, as far as the rate allows, then let one group send."""
        self._credit += self._plan.connects / TURNS
        for _ in range(min(int(self._credit), len(self._away))):
            self._connect(self._away.popleft())
        self._credit %= 1
        for client in self._groups[number % TURNS]:
            if client.connection is None:
                continue
            if not client.started:
                self._start(client, client.connection)
            elif self._plan.kind != "readers":
                self._send(client, client.connection, b"a")

    def _connect(self, client: Client) -> None:
        self.events["connects"] += 1
        connection = socket.socket()
        connection.settimeout(0)
        if self._plan.kind == "readers":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
        connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        connection.bind((next(self._sources), 0))
        connection.connect_ex((HOST, self._plan.port))
        client.connection, client.started = connection, False
        self._clients[connection.fileno()] = client
        self._start(client, connection)

    def _start(self, client: Client, connection: socket.socket) -> None:
        """Send the opening if the connection is up by now, else leave it to the client's next turn."""
        if self._send(client, connection, self._opening):
            client.started = True
            self._poll.register(connection, ENDED if self._plan.kind == "readers" else ENDED | select.EPOLLIN)

    def _send(self, client: Client, connection: socket.socket, data: bytes) -> bool:
        try:
            connection.send(data)
        except NOT_YET:
            return False
        except OSError as error:
            self._leave(client, connection, type(error).__name__)
            return False
        return True

    def watch(self, until: float) -> None:
        """Notice who is answered or cut off, until the next turn."""
        while (pause := until - time.monotonic()) > 0:
            if select.select([self._poll.fileno()], [], [], pause)[0]:
                for descriptor, _ in self._poll.poll(0, 1024):
                    self._receive(self._clients[descriptor])

    def _receive(self, client: Client) -> None:
        connection = client.connection
        if connection is None:
            return
        try:
            response = messages.parse(connection.recv(1 << 16)) if self._plan.kind != "readers" else None
        except NOT_YET:
            return
        except OSError as error:
            self._leave(client, connection, type(error).__name__)
            return
        self._leave(client, connection, f"answered {response.status}" if response else "closed by the server")

    def _leave(self, client: Client, connection: socket.socket, event: str) -> None:
        self.events[event] += 1
        del self._clients[connection.fileno()]
        connection.close()
        client.connection = None
        self._away.append(client)

    def report(self) -> dict[str, object]:
        """Return how many clients hold a connection now, and what has happened so far."""
        held = sum(client.started for client in self._clients.values())
        return {"clients": self._plan.clients, "held": held, "events": dict(self.events)}


def run(crowd: Crowd, ramp_seconds: float) -> None:
    """Act until standard input closes; report once after the ramp and once at the end."""
    began = time.monotonic()
    ramping, number = True, 0
    while True:
        crowd.turn(number)
        number += 1
        crowd.watch(began + number / TURNS)
        if ramping and time.monotonic() - began >= ramp_seconds:
            ramping = False
            print(json.dumps(crowd.report()), flush=True)
        if number % 100 == 0 and select.select([sys.stdin], [], [], 0)[0] and not os.read(sys.stdin.fileno(), 1):
            break
    print(json.dumps(crowd.report()), flush=True)


def main() -> None:
    """Run the plan given as JSON in the first argument."""
    fields = json.loads(sys.argv[1])
    plan = Plan(**{**fields, "headers": tuple(map(tuple, fields.get("headers", ())))})
    gc.disable()  # a bounded run; a collection would be a pause for every client at once
    run(Crowd(plan), plan.clients / plan.connects + 0.5)


if __name__ == "__main__":
    main()
