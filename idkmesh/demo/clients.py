"""The clients of the demo: one that buys, and two kinds that nobody wants (DM-1.6, DM-2.5). Each is one thread."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import select
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.demo.settings import ADDRESS, AGENT
from idkmesh.rehearsal.link import RESET

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from idkmesh.demo.settings import Site

SECONDS: Final = 2.0
"""How long a client waits for anything."""

HELD_SECONDS: Final = 0.5
"""How long a request of the flood takes to send its body, and how long the flood pauses after it."""

REFILL_SECONDS: Final = 0.2
BUY_SECONDS: Final = 2.0

PACE: Final = 8
PACE_SECONDS: Final = 0.02
"""A pause after so many connections: one beyond the kernel's accept queue is tried again after a whole second."""

SPARE_DESCRIPTORS: Final = 32
"""Left to those who look."""

PRODUCTS: Final = ("tea", "bread", "honey")


def room(wanted: int, limit: int, used: int) -> int:
    """Return how many of ``wanted`` connections fit below the limit of descriptors, beside what is used. Pure."""
    return max(0, min(wanted, limit - used - SPARE_DESCRIPTORS))


def _room(wanted: int) -> int:
    """Return the same by what holds now: the lowest descriptor that is free tells how many are used."""
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if limit == resource.RLIM_INFINITY else room(wanted, limit, lowest)


class Client:
    """A thread that does something over and over, from when it is entered until it is left."""

    def __init__(self, name: str, pause: float) -> None:
        self._pause = pause
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and wait for that, but no longer than for what is out."""
        self._ended.set()
        self._thread.join(2 * SECONDS)

    def turn(self) -> None:
        """Do it once."""
        raise NotImplementedError

    def leave(self) -> None:
        """Give back what is held."""

    def _run(self) -> None:
        while not self._ended.is_set():
            self.turn()
            self._ended.wait(self._pause)
        self.leave()


@dataclass(slots=True)
class Sales:
    """What became of the invocations."""

    answered: int = 0
    unavailable: int = 0
    failed: int = 0


class Buyer(Client):
    """Invokes the release of ``web`` through the router, again and again."""

    def __init__(self, site: Site, token: str) -> None:
        super().__init__("buyer", BUY_SECONDS)
        self._site = site
        self._token = token
        self._turns = 0
        self.sales = Sales()

    def turn(self) -> None:
        """Buy something."""
        self._turns += 1
        agent, card, release = AGENT
        wanted = {"agentId": agent, "agentCardVersion": card, "releaseId": release}
        body = json.dumps({**wanted, "input": PRODUCTS[self._turns % len(PRODUCTS)]})
        fields = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        client = http.client.HTTPConnection(ADDRESS, self._site.ports.router, timeout=SECONDS)
        with contextlib.closing(client):
            try:
                client.request("POST", "/agent/v1/invocations", body, fields)
                answer = client.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException):
                self.sales.failed += 1
                return
        if answer.status == http.client.OK:
            self.sales.answered += 1
        elif b"AGENT_UNAVAILABLE" in content:
            self.sales.unavailable += 1
        else:
            self.sales.failed += 1


class Flood(Client):
    """Sends twice as many requests at once as the tower has places, and half a second later their bodies."""

    def __init__(self, site: Site, token: str) -> None:
        super().__init__("flood", HELD_SECONDS)
        self._port = site.ports.page
        self._many = _room(2 * site.figures.places)
        self._body = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        self._head = (
            f"POST /api/v1/inspect/http-request HTTP/1.1\r\nHost: {ADDRESS}:{self._port}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: message/http\r\nContent-Length: {len(self._body)}\r\n\r\n"
        ).encode()

    def turn(self) -> None:
        """Send them all."""
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(self._many):
                with contextlib.suppress(OSError):  # refused, or no descriptor is left: then it is fewer
                    client = stack.enter_context(socket.create_connection((ADDRESS, self._port), SECONDS))
                    client.sendall(self._head)
                    clients.append(client)
            self._ended.wait(HELD_SECONDS)
            for client in clients:
                with contextlib.suppress(OSError):  # it was answered before: 503
                    client.sendall(self._body)
            for client in clients:
                with contextlib.suppress(OSError):
                    while client.recv(65_536):
                        pass


class Ingress(Client):
    """Holds as many connections to the tower as it takes, each with half a request."""

    def __init__(self, site: Site) -> None:
        super().__init__("ingress", REFILL_SECONDS)
        self._port = site.ports.page
        self._many = _room(site.figures.connections)
        self._held: list[socket.socket] = []

    def turn(self) -> None:
        """Open anew what had to give way, or was closed because its time was over."""
        readable: list[socket.socket] = []
        if self._held:
            poll = select.poll()  # select() knows no descriptor beyond 1023
            for client in self._held:
                poll.register(client, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll(0)}
            readable = [client for client in self._held if client.fileno() in ready]
        for client in readable:  # it says that it has waited long enough, or nothing: it is over
            self._held.remove(client)
            client.close()
        while len(self._held) < self._many and not self._ended.is_set():
            try:
                client = socket.create_connection((ADDRESS, self._port), SECONDS)
            except OSError:
                return
            # However it is closed: an orderly end would be half a request, which is answered 400.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._held.append(client)
            if len(self._held) % PACE == 0:
                self._ended.wait(PACE_SECONDS)
            with contextlib.suppress(OSError):
                client.sendall(b"GET / HTTP/1.1\r\nHost")

    def leave(self) -> None:
        """Close them."""
        for client in self._held:
            client.close()
