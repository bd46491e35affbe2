"""How this node is, for who asks from outside (RA-5): identity, listeners, room, readiness and the durable clock.

Laws of this module:

1. What the front asks (:meth:`NodeWatch.observation`) reads stored state and plain figures. It waits for nothing and
   does not raise: nothing stands between it and the loop.
2. What takes a system call or a read of the store is the watching thread's, once a second. What it has seen has an age,
   and is unknown beyond it.
3. The mark only rises while the process lives. A store that is not the recorded one has none.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.adapter.observation import (
    Capacities,
    Capacity,
    DurableClock,
    NodeIdentity,
    Observation,
    observation_document,
)
from idkmesh.control_tower.listeners import Expected, inventory, unknown
from idkmesh.control_tower.node_record import new_id
from idkmesh.events.errors import StoreError
from idkmesh.httpd.responses import JSON, Response, json_body
from idkmesh.httpd.routes import Access, Answer, Probe

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from datetime import datetime

    from idkmesh.adapter.observation import Listener
    from idkmesh.clock import Clock
    from idkmesh.control_tower.node_record import NodeRecord
    from idkmesh.httpd.core import Load
    from idkmesh.service_runtime import ServiceLimits

PATH: Final = "/api/v1/node"
LOOK_SECONDS: Final = 1.0
OLD_SECONDS: Final = 5.0
"""Beyond this what the watching thread has seen is unknown: it is stuck, or the machine is."""


class MarkSource(Protocol):
    """Where the latest recorded time comes from."""

    def examine(self) -> str:
        """Open the store anew, read its newest event, and return its epoch. Raises :class:`StoreError`."""

    def latest(self) -> datetime | None:
        """Return the latest time of an event, None where there was none. Does not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a node's own parts say of this moment; nothing in it waits.

    ``load`` takes the monotonic time. ``well`` says whether every component makes progress, ``activation_ready``
    whether readiness holds, but for a drain.
    """

    limits: ServiceLimits
    load: Callable[[float], Load]
    well: Callable[[], bool]
    activation_ready: Callable[[], bool]
    draining: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the watching thread saw, and when (monotonic seconds): the listeners, and whether the mark is readable."""

    listeners_at: float = float("-inf")
    listeners: tuple[Listener, ...] = ()
    read_at: float = float("-inf")


class NodeWatch:
    """Watches one node. ``log`` takes a line and a level of :mod:`logging`, and must not wait."""

    def __init__(
        self, record: NodeRecord, marks: MarkSource, parts: Parts, *, clock: Clock, log: Callable[[str, int], None]
    ) -> None:
        self.identity = NodeIdentity(record.node_id, new_id())
        self._record = record
        self._marks = marks
        self._parts = parts
        self._clock = clock
        self._log = log
        self._expected: tuple[Expected, ...] = ()
        self._seen = _Seen()
        self._trouble: str | None = None
        self._late = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="node-watch", daemon=True)

    def expect(self, name: str, address: str, sock: socket.socket) -> None:
        """Take a listener into the inventory. Before :meth:`start`."""
        self._expected = (*self._expected, Expected(name, address, sock))

    def start(self) -> None:
        """Look once, and go on looking."""
        self.look()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End, within ``timeout`` seconds if nothing holds the thread up."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    # --- for the front ---------------------------------------------------------------------------------------------

    def observation(self) -> Observation:
        """Return the observation of this moment."""
        now, seen, parts = self._clock.monotonic(), self._seen, self._parts
        load, limits = parts.load(now), parts.limits
        clock = self._durable_clock(readable=now - seen.read_at <= OLD_SECONDS)
        return Observation(
            node=self.identity,
            health="ok" if clock.readable and parts.well() else "failing",
            listeners=seen.listeners if now - seen.listeners_at <= OLD_SECONDS else unknown(self._expected),
            pressure="exhausted" if load.exhausted else "available",
            capacity=Capacities(
                connections=Capacity(limits.max_connections, load.connections),
                exchanges=Capacity(limits.max_concurrent_requests, load.in_flight),
                buffers=Capacity(limits.max_buffered_bytes, load.buffered_bytes),
            ),
            activation_ready=parts.activation_ready(),
            draining=parts.draining(),
            clock=clock,
        )

    def answer(self) -> Response:
        """Answer :data:`PATH`."""
        return Response(200, (), json_body(observation_document(self.observation())))

    def _durable_clock(self, *, readable: bool) -> DurableClock:
        if not readable:
            return DurableClock(readable=False, behind_ms=None)
        latest = self._marks.latest()
        behind = timedelta() if latest is None else latest - self._clock.utc()
        return DurableClock(readable=True, behind_ms=max(0, -(-behind // timedelta(milliseconds=1))))

    # --- the watching thread's -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """See which listeners are there, and whether the mark can be read. One thread's."""
        listeners = inventory(self._expected)
        self._seen = _Seen(self._clock.monotonic(), listeners, self._seen.read_at)
        trouble = self._examined()
        read_at = self._clock.monotonic() if trouble is None else float("-inf")
        self._seen = _Seen(self._seen.listeners_at, listeners, read_at)
        self._tell(trouble)
        self._tell_of_clock(self._durable_clock(readable=trouble is None).behind_ms or 0)

    def _examined(self) -> str | None:
        """Return why the mark cannot be read, None where it can."""
        try:
            epoch = self._marks.examine()
        except StoreError as error:
            return f"the latest time that this node has recorded cannot be read: {error}"
        except Exception as error:  # noqa: BLE001  a fault of ours: the mark is unknown, and the next look follows
            return f"the latest time that this node has recorded cannot be read: {type(error).__name__}: {error}"
        if epoch != self._record.epoch:
            return (
                "the event store is not the one that this node has recorded in: put that one back, or remove "
                f"{self._record.path} and restart to begin as a new node"
            )
        return None

    def _tell(self, trouble: str | None) -> None:
        """Tell when the mark becomes unreadable, or so for another reason, and when it is readable again."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble is None:
            self._log("the latest time that this node has recorded can be read again", logging.INFO)
        else:
            self._log(f"{trouble}; until then {PATH} says that it is not healthy", logging.ERROR)

    def _tell_of_clock(self, behind_ms: int) -> None:
        if (behind_ms > 0) is self._late:
            return
        self._late = behind_ms > 0
        if self._late:
            self._log(
                f"the wall clock is {behind_ms} ms behind the latest recorded event, so one of the two is wrong; set "
                f"the clock right: until it has caught up {PATH} says that this node is not ready",
                logging.WARNING,
            )
        else:
            self._log("the wall clock is no longer behind the latest recorded event", logging.INFO)


def node_row(answer: Callable[[], Response]) -> Probe:
    """Return the row of :data:`PATH`: answered by the front, outside the cap and in a drain (RA-5.1)."""
    return Probe(
        path=PATH,
        verdict=answer,
        access=Access.API,
        operation="getNode",
        summary="How this node is: identity, listeners, room, readiness, durable clock.",
        answers=(Answer(status=200, meaning="How it is.", content_types=(JSON,), schema="node-observation.json"),),
    )
