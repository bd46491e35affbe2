"""TCP proxies on loopback that fail and slow down as they are told (HL-8.1, HL-8.3).

Laws of this module:

1. One thread, the loop, owns every socket. All others put a wish into its inbox and ring.
2. A proxy is what its dependency is: while that takes no connection, neither does the proxy. It looks four times a
   second; without that a probe that only connects would find everything well.
3. What a fault has held back is never delivered after the fault that held it: those connections are reset at its end.
4. Bytes in flight are bounded for each direction of a connection; a full buffer is not read into.
5. A refused port stays ours: a second socket is bound to it and does not listen.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from idkmesh.rehearsal.faults import How
from idkmesh.rehearsal.link import Link, reset
from idkmesh.rehearsal.lookout import FULL, Lookout, addresses
from idkmesh.rehearsal.reroute import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from idkmesh.rehearsal.reroute import Upstream

CONNECT_SECONDS: Final = 5.0
"""How long a connection to a dependency may take. A client that is more patient is reset by then."""

FILLERS: Final = 3
"""Connections that fill a queue of length 0, so that the kernel leaves the next ones without an answer."""

BACKLOG: Final = 128

FULL_SECONDS: Final = 0.1
"""How long nothing is accepted when the machine has no descriptor left: it would fail again at once."""


class Proxies:
    """One proxy for each dependency. Use it in a ``with`` block; leaving it ends the thread and closes everything."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        """Resolve every address, and bind. Raises :class:`OSError`, with the dependency's name, where that fails."""
        self._selector = selectors.DefaultSelector()
        self._inbox: queue.SimpleQueue[tuple[str, How | None, float] | None] = queue.SimpleQueue()
        self._bell, self._ring = socket.socketpair()
        self._bell.settimeout(0)
        self._selector.register(self._bell, selectors.EVENT_READ, lambda _: self._bell.recv(4096))
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="rehearsal-proxies", daemon=True)
        self._proxies: dict[str, Proxy] = {}
        try:
            for upstream in upstreams:
                self._proxies[upstream.name] = Proxy(self, upstream)
        except BaseException:
            self._close()
            raise

    @property
    def ports(self) -> Mapping[str, int]:
        """The port of each proxy, by the name of its dependency."""
        return {name: proxy.port for name, proxy in self._proxies.items()}

    @property
    def silent(self) -> frozenset[str]:
        """The dependencies whose proxy has not had one connection yet."""
        return frozenset(name for name, proxy in self._proxies.items() if not proxy.connections)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._inbox.put(None)
        self._ring.send(b".")
        self._thread.join()
        self._close()

    def set(self, name: str, how: How | None, delay: float = 0.0) -> None:
        """Have a dependency fail in some way, or, with None, be as it is. Waits for nothing."""
        self._inbox.put((name, how, delay))
        self._ring.send(b".")

    # --- the loop's -----------------------------------------------------------------------------------------------

    def watch(self, connection: socket.socket, events: int, call: Callable[[int], object]) -> None:
        """Call back when a socket can be read or written; with no events, no more."""
        known = connection in self._selector.get_map()
        if not events:
            if known:
                self._selector.unregister(connection)
        elif known:
            self._selector.modify(connection, events, call)
        else:
            self._selector.register(connection, events, call)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back later."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._count), call))

    def _run(self) -> None:
        while not self._ended:
            pause = self._timers[0][0] - time.monotonic() if self._timers else None
            for key, events in self._selector.select(None if pause is None else max(0.0, pause)):
                # One that was closed by one before it in this batch has no number any more.
                if key.fileobj.fileno() >= 0:  # type: ignore[union-attr]  # they are all sockets
                    key.data(events)
            while self._timers and self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2]()
            self._take_wishes()

    def _take_wishes(self) -> None:
        while not self._inbox.empty():
            wish = self._inbox.get()
            if wish is None:
                self._ended = True
                return
            name, how, delay = wish
            self._proxies[name].become(how, delay)

    def _close(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()
        self._selector.close()
        self._bell.close()
        self._ring.close()


class Proxy:
    """The proxy of one dependency. Everything but its making is the loop's."""

    def __init__(self, loop: Proxies, upstream: Upstream) -> None:
        self._loop = loop
        self._links: set[Link] = set()
        self._fillers: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self._reachable = True
        self.how: How | None = None
        self.delay = 0.0
        self.connections = 0
        self._lookout = Lookout(loop, addresses(upstream), self._seen)
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind((LOOPBACK, 0))
        self.port: int = self._holder.getsockname()[1]
        self._listen()
        self._lookout.look()

    def become(self, how: How | None, delay: float) -> None:
        """Take a fault on, or None."""
        held_back, self.how, self.delay = self.how is How.BLACKHOLE, how, delay
        if held_back or how in {How.REFUSE, How.CUT}:
            self._reset_all()
        if held_back:
            self._unlisten()
        if how is How.BLACKHOLE:
            self._swallow()
        for link in self._links:
            link.frozen = how is How.BLACKHOLE
            link.delay = delay
            link.update()
        self._adapt()

    def close(self) -> None:
        """Close everything."""
        self._lookout.close()
        self._reset_all()
        self._unlisten()
        self._holder.close()

    def forget(self, link: Link) -> None:
        """Let a link go that has ended."""
        self._links.discard(link)

    def _adapt(self) -> None:
        if self.how is How.BLACKHOLE:
            return
        wanted = self.how is How.CUT or (self._reachable and self.how is not How.REFUSE)
        if wanted and self._listener is None:
            self._listen()
        elif not wanted:
            self._unlisten()

    def _listen(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.settimeout(0)
        listener.bind((LOOPBACK, self.port))
        listener.listen(BACKLOG)
        self._listener = listener
        self._loop.watch(listener, selectors.EVENT_READ, self._accept)

    def _unlisten(self) -> None:
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()
        if self._listener is not None:
            self._loop.watch(self._listener, 0, self._accept)
            self._listener.close()
            self._listener = None

    def _swallow(self) -> None:
        """Leave connects without an answer: accept nothing, and let the kernel's queue be full."""
        if self._listener is None:
            self._listen()
        assert self._listener is not None  # noqa: S101  as the line above has left it
        self._loop.watch(self._listener, 0, self._accept)
        self._listener.listen(0)
        for _ in range(FILLERS):
            filler = socket.socket()
            filler.settimeout(0)
            filler.connect_ex((LOOPBACK, self.port))
            self._fillers.append(filler)

    def _accept(self, _events: int) -> None:
        while self._listener is not None:
            try:
                client, _ = self._listener.accept()
            except OSError as error:  # none left, or one that has gone again: the next turn tries
                if error.errno in FULL:
                    self._loop.watch(self._listener, 0, self._accept)
                    self._loop.after(FULL_SECONDS, self._accept_again)
                return
            self.connections += 1
            if self.how is How.CUT:
                reset(client)
                continue
            self._link(client)

    def _accept_again(self) -> None:
        if self._listener is not None and self.how is not How.BLACKHOLE:
            self._loop.watch(self._listener, selectors.EVENT_READ, self._accept)

    def _link(self, client: socket.socket) -> None:
        try:
            server = self._lookout.address.connecting()
        except OSError:  # the machine is full
            server = None
        if server is None:
            reset(client)
            return
        client.settimeout(0)
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(self._loop, client, server, self.forget)
        link.delay = self.delay
        self._links.add(link)
        self._loop.after(CONNECT_SECONDS, link.expire)
        link.update()

    def _reset_all(self) -> None:
        for link in list(self._links):
            link.end()

    def _seen(self, reachable: bool) -> None:  # noqa: FBT001  the lookout's only word
        changed, self._reachable = reachable is not self._reachable, reachable
        if changed and not reachable and self.how is None:
            self._reset_all()
        self._adapt()
