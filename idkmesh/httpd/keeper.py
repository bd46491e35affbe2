"""The connections that the front holds: for what each waits, until when, and how one ends.

Laws
    * A connection is held in the set of its state while the front waits for its client, and in that of HANDLING while
      a worker has it. Each set is ordered: who has waited longest is first, or, for bodies, whose progress is oldest.
    * A descriptor that a program has closed under the server costs the connection whose it was, and nobody else.
    * A registered connection is closed at the end of the poll batch in which it died, so that no event of the batch
      meets a descriptor that has been given out again. Events are matched by connection object.
"""

from __future__ import annotations

import selectors
from typing import TYPE_CHECKING, Final

from idkmesh.httpd.connection import READING, Connection, Event, State
from idkmesh.httpd.deadlines import Deadlines
from idkmesh.httpd.eviction import RESERVE, Evictor
from idkmesh.httpd.exchange import close

if TYPE_CHECKING:
    from idkmesh.httpd.core import Core

SHED_AT_ONCE: Final = 16
_GONE: Final = (OSError, KeyError, ValueError)
"""What a selector raises for a descriptor that is not what it was."""


class Keeper:
    """Holds connections under deadlines, watches their sockets, and ends them. On the front's thread."""

    def __init__(self, core: Core) -> None:
        """Hold nothing yet; watch with a selector of its own."""
        self._core = core
        limits = core.limits
        self._full = limits.max_connections
        self._near_full = self._full - max(1, int(self._full * RESERVE))
        self._near_descriptors = core.descriptors * (1 - RESERVE)
        self._files = 0
        self.selector = selectors.DefaultSelector()
        self.held: dict[State, dict[Connection, None]] = {state: {} for state in State}
        self.deadlines = Deadlines()
        self._evictor = Evictor()
        self._doomed: list[Connection] = []
        self._lost: list[Connection] = []
        """Those whose descriptor turned out to be gone in this turn."""

    def hold(self, connection: Connection, deadline: float) -> None:
        """Wait for the client, in the connection's state, until `deadline`."""
        self.held[connection.state][connection] = None
        outbox = connection.outbox
        if outbox is not None and outbox.remaining > outbox.memory:
            connection.files = 1
            self._files += 1
        self.deadlines.set(connection, deadline)
        self.watch(connection, selectors.EVENT_READ if connection.state in READING else selectors.EVENT_WRITE)

    def watch(self, connection: Connection, events: int) -> None:
        """Wait for input, room, or whatever else `events` says."""
        if connection.events == events:
            return
        try:
            if connection.events:
                self.selector.modify(connection.sock, events, connection)
            else:
                self._register(connection, events)
        except _GONE as error:
            self._lose(connection, error)
        else:
            connection.events = events

    def _register(self, connection: Connection, events: int) -> None:
        sock = connection.sock
        try:
            self.selector.register(sock, events, connection)
        except KeyError as error:  # whose number this was before has been closed, and not by this server
            other = self.selector.get_key(sock).data
            if not isinstance(other, Connection):
                raise
            self.selector.unregister(sock)
            self._lose(other, error)
            other.sock.detach()  # it must not close the number, which is the newcomer's
            self.selector.register(sock, events, connection)

    def _lose(self, connection: Connection, error: Exception) -> None:
        self._core.log.once(
            "descriptor", f"the descriptor of a connection is gone: a handler has closed what is not its own? {error!r}"
        )
        connection.events = 0
        self._lost.append(connection)

    def release(self, connection: Connection) -> None:
        """Stop waiting for the client."""
        self.held[connection.state].pop(connection, None)
        self.deadlines.clear(connection)
        if connection.files:
            self._files -= connection.files
            connection.files = 0
        if connection.events:
            try:
                self.selector.unregister(connection.sock)
            except _GONE as error:
                self._lose(connection, error)
            connection.events = 0

    def drop(self, connection: Connection) -> None:
        """End a connection that the front owns."""
        registered = connection.events
        self.release(connection)
        core = self._core
        if connection.outbox is not None:
            connection.outbox.close()
            connection.cut = True
        core.log_access(connection)
        connection.advance(Event.CLOSE)
        connection.stream = None  # which knows the connection: nothing but the garbage collector would free the two
        core.budget.hold(connection, 0)
        core.connections -= 1
        if registered:
            self._doomed.append(connection)
        else:
            close(connection)

    def end_batch(self) -> None:
        """Close who has died since the last call, and drop whose descriptor is gone."""
        while self._lost:
            connection = self._lost.pop()
            if connection in self.held[connection.state] and connection.state is not State.HANDLING:
                self.drop(connection)
        for connection in self._doomed:
            close(connection)
        self._doomed.clear()

    def close(self) -> None:
        """Drop everyone who is not in a worker, and stop watching."""
        for state, held in self.held.items():
            if state is not State.HANDLING:
                for connection in list(held):
                    self.drop(connection)
        self.end_batch()
        self.selector.close()

    # --- too many --------------------------------------------------------------------------------------------------

    @property
    def near_full(self) -> bool:
        """Whether only the reserve for newcomers is left: of connections, or of descriptors (HS-8.2, HS-2.4)."""
        connections = self._core.connections
        return connections >= self._near_full or connections + self._files >= self._near_descriptors

    def make_room(self, now: float) -> bool:
        """Evict whoever must give way to one newcomer; say whether there is room (HS-8.1, HS-8.2)."""
        core = self._core
        if not self.near_full:
            return True
        full = core.connections >= self._full or core.connections + self._files >= core.descriptors
        victim = self._evictor.victim(self.held, now) if full else self._evictor.laggard(self.held, now)
        if victim is None:
            return not full
        core.evict(now)
        self.drop(victim)
        return True

    def shed(self, now: float) -> None:
        """End those who would give way to newcomers anyhow: each file being sent takes a second descriptor (HS-4.8).

        Where a reserve is used up, the least useful one gives way as at `max_connections` (HS-4.9).
        """
        for count in range(SHED_AT_ONCE):
            victim = self._evictor.laggard(self.held, now)
            if victim is None and self._core.reserve and not count:
                victim = self._evictor.victim(self.held, now)
            if victim is None:
                return
            self._core.evicted += 1  # not `evict`: another limit than max_connections is reached
            self.drop(victim)

    # --- for a drain --------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        """How many connections a drain waits for: bodies in progress, handlers, responses being written."""
        held = self.held
        return len(held[State.READING_BODY]) + len(held[State.HANDLING]) + len(held[State.WRITING])

    @property
    def settling(self) -> int:
        """How many connections have something to finish that no handler holds up."""
        held = self.held
        return sum(len(held[state]) for state in (State.READING_BODY, State.WRITING, State.STREAMING, State.LINGERING))

    @property
    def lingering(self) -> int:
        """How many connections only wait for their client to read the answer."""
        return len(self.held[State.LINGERING])

    def unfinished(self) -> list[Connection]:
        """Return the connections that a drain waits for: see :attr:`busy`."""
        held = self.held
        return [*held[State.HANDLING], *held[State.READING_BODY], *held[State.WRITING]]

    def holds_newer(self, since: float) -> bool:
        """Say whether a connection that was accepted after `since` is still open."""
        return any(connection.accepted_at >= since for held in self.held.values() for connection in held)

    def newcomers(self, since: float) -> bool:
        """Say whether a connection without a complete head was accepted after `since`: its request is on the way."""
        return any(connection.accepted_at >= since for connection in self.held[State.READING_HEAD])
