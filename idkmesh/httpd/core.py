"""What the front and the workers of one server share, and the figures that both feed."""

from __future__ import annotations

import collections
import datetime as dt
import email.utils
import enum
import os
import threading
import time
from dataclasses import dataclass
from logging import ERROR, WARNING
from typing import TYPE_CHECKING, Any, Final, Protocol

from idkmesh.httpd.budget import ByteBudget
from idkmesh.httpd.connection import State
from idkmesh.httpd.crossing import Crossing
from idkmesh.httpd.exchange import failure_line
from idkmesh.httpd.peaks import MINUTE, Levels, Peak, UsagePeaks
from idkmesh.httpd.responses import ResponseRenderer
from idkmesh.httpd.workers import WorkerPool
from idkmesh.service_runtime import (
    Denial,
    LineLog,
    RequestLimiter,
    ServiceUsage,
    access_log_enabled,
    access_log_line,
    safe_request_id,
)

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Mapping

    from idkmesh.httpd.connection import Connection
    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.front import Front
    from idkmesh.httpd.request_rules import Refusal, Request
    from idkmesh.service_runtime import ServiceIdentity, ServiceLimits


NO_REFUSALS: Final = frozenset({408, 500, 503})
"""Statuses that say nothing against the request: a deadline, a fault of the handler, the cap or a drain."""


class Limit(enum.Enum):
    """What a client can meet, with the line for the log when it begins and the word for what happened to them."""

    REQUESTS = ("max_concurrent_requests", "requests beyond it are answered 503", "refused")
    CONNECTIONS = ("max_connections", "connections give way to newcomers", "closed")
    BYTES = ("max_buffered_bytes", "requests that need more are answered 503", "refused")
    STREAMS = ("max_sse_clients", "event streams beyond it are answered 503", "refused")

    def __init__(self, setting: str, effect: str, fate: str) -> None:
        """Take the parts of a row."""
        self.setting = setting
        self.effect = effect
        self.fate = fate


@dataclass(frozen=True, slots=True)
class Load:
    """What is used at this moment.

    ``exhausted`` is so while requests, connections or bytes meet their limit (HS-13.2), and for as long after the
    machine was out of descriptors.
    """

    connections: int
    in_flight: int
    buffered_bytes: int
    exhausted: bool


class Pulse(Protocol):
    """A promise to beat at least once in each ``budget`` seconds; a watchdog gives it (HL-2.1)."""

    budget: float

    def beat(self) -> None:
        """Say that there is progress."""

    def close(self) -> None:
        """Say that there will be no more of it, and that this is well."""


class Core:
    """The parts of one server. The plain counters belong to the front; the limiter and the budget are thread-safe."""

    def __init__(self, server: Any, limits: ServiceLimits, identity: ServiceIdentity) -> None:
        """Make the parts; `server` is what handlers know as ``self.server``."""
        self.server = server
        self.limits = limits
        self.cap = 1 if limits.serial else limits.max_concurrent_requests
        self.limiter = RequestLimiter(self.cap)
        self.budget = ByteBudget(limits.max_buffered_bytes)
        self.renderer = ResponseRenderer(identity, retry_after=limits.retry_after)
        self.log = LineLog()
        self.workers = WorkerPool(limits.max_concurrent_requests, identity.service, self._worker_failed)
        self.tls: ssl.SSLContext | None = None
        self.front: Front | None = None
        self.descriptors = float("inf")
        """How many descriptors connections and the files that they are sent may take."""
        self.reserve = 0
        """How many descriptors are held for newcomers for when none is free (HS-4.9)."""
        self.connections = 0
        self.in_flight_peak = Peak()
        self.connections_peak = Peak()
        self.streams_peak = Peak()
        self.refused = 0
        self.refusals: collections.Counter[str] = collections.Counter()
        """How often each code was answered."""
        self._counting = threading.Lock()
        self.timed_out = 0
        self.evicted = 0
        self.abandoned = 0
        self.full_until = float("-inf")
        """Until when the machine counts as full: a crossing's quiet time after it last was."""
        self.accepted = 0
        self.attentive = False
        """Whether somebody waits for the end of exchanges, so that a worker is to wake the front for each."""
        self.linger_until = float("inf")
        self.crossings = {limit: Crossing() for limit in Limit}
        self.crossed = 0
        """How many of the crossings are active."""
        self.observer: Callable[[str, Mapping[str, object]], None] | None = None
        """What is told of crossings and drains as they happen, by name and facts. On the front, so it never waits."""
        self.register: Callable[[], Pulse] | None = None
        """Registers the front's loop with a watchdog, where there is one. Called each time that the loop begins."""
        self.pulse: Pulse | None = None
        """What the front's loop beats with, while it runs and is registered."""
        self.verify: Callable[[socket.socket, Any], bool] | None = None
        """The program's own `verify_request`, where it has one."""
        self.probe_statuses: dict[str, int] = {}
        """Paths that stand in the access log only when their status changes, with the status each gave last."""
        self.access_log = access_log_enabled(os.environ)
        self._date_second = 0
        self._date = ""

    def http_date(self) -> str:
        """Return the current date in the form of RFC 9110 5.6.7, made once a second."""
        second = int(time.time())
        if second != self._date_second:
            # The text first: a thread that sees the new second must see its text.
            self._date = email.utils.formatdate(second, usegmt=True)
            self._date_second = second
        return self._date

    def verified(self, sock: socket.socket, address: Any) -> bool:
        """Ask the program whether it takes this connection; what it raises is told and counts as no."""
        try:
            if self.verify is None:
                return True
            taken = self.verify(sock, address)
            if taken:
                sock.settimeout(0)  # the program may have set another
        except Exception:  # noqa: BLE001 (the program's own code)
            self.server.handle_error(sock, address)
            return False
        return taken

    def give_back(self, connection: Connection) -> None:
        """Worker: return a connection to the front."""
        if self.front is not None:
            self.front.give_back(connection)

    def handler_failed(self, exchange: Exchange) -> None:
        """Tell of a handler's exception by way of the server's `handle_error`, which a program may have overridden."""
        try:
            self.server.handle_error(exchange.connection.sock, exchange.client_address)
        except BaseException:  # noqa: BLE001 (the program's own code)
            self.log.write(f"handle_error failed: {failure_line()}", ERROR)

    def declined(self) -> None:
        """Count and tell of a request for which no thread could be started (HS-5.7)."""
        self.limiter.count_denied(Denial.OVERLOADED)
        self.log.once("no-thread", "cannot start a worker: the machine is out of threads; requests are answered 503")

    def _worker_failed(self) -> None:
        self.log.write(f"a worker failed outside a handler: {failure_line()}", ERROR)

    def deny(self, denial: Denial, now: float) -> None:
        """Count a request that the front answers 503 without having asked the limiter to admit it."""
        self.limiter.count_denied(denial)
        if denial is Denial.OVERLOADED:
            self.hit(Limit.REQUESTS, now)

    def evict(self, now: float) -> None:
        """Count a connection that gives way."""
        self.evicted += 1
        self.hit(Limit.CONNECTIONS, now)

    def hit(self, limit: Limit, now: float) -> None:
        """Log that `limit` is crossed, if that begins now (HS-13.2)."""
        if limit is Limit.REQUESTS:  # whoever is refused has seen every place taken
            self.in_flight_peak.note(self.cap, now)
        if self.crossings[limit].hit(now):
            self.crossed += 1
            value = getattr(self.limits, limit.setting)
            self.log.write(f"{limit.setting} ({value}) is reached: {limit.effect}", WARNING)
            self.observe("overload.began", limit=limit.setting, value=value)

    def end_crossings(self, now: float) -> None:
        """Log which crossings are over, and how many they met."""
        for limit, crossing in self.crossings.items():
            passed = crossing.end(now)
            if passed is not None:
                self.crossed -= 1
                self.log.write(
                    f"{limit.setting} is no longer reached: {passed.hits} {limit.fate} within {passed.seconds:.1f} s"
                )
                value, seconds = getattr(self.limits, limit.setting), round(passed.seconds, 3)
                self.observe("overload.ended", limit=limit.setting, value=value, hits=passed.hits, seconds=seconds)

    def observe(self, what: str, **facts: object) -> None:
        """Tell the observer, if there is one."""
        if self.observer is not None:
            self.observer(what, facts)

    def count_refusal(self, refusal: Refusal) -> None:
        """Count an answer that says no by its code, and by whose fault it is. Any thread may call it."""
        with self._counting:
            self.refusals[refusal.code] += 1
            if refusal.status not in NO_REFUSALS:
                self.refused += 1

    def refusals_by_code(self) -> dict[str, int]:
        """Return how often each code was answered."""
        with self._counting:
            return dict(self.refusals)

    def request_id(self, connection: Connection) -> str:
        """Return the id of a request: a safe caller's own, or a new one; the same whenever it is asked."""
        if not connection.request_id:
            request = connection.request
            connection.request_id = safe_request_id(request.get("x-request-id") if request is not None else None)
        return connection.request_id

    def log_access(self, connection: Connection, ended: float | None = None) -> None:
        """Write the access-log line of an answered request, once, if the operator asked for the log.

        `ended` is the monotonic time at which its last byte left, None for now.
        """
        status, connection.status = connection.status, 0
        if not self.access_log or not status:
            return
        request = connection.request
        if request is not None and not self._worth_a_line(request, status):
            return
        address = connection.address
        self.log.write(
            access_log_line(
                time=dt.datetime.now(tz=dt.UTC),
                request_id=self.request_id(connection),
                method=request.method if request is not None else "",
                target=request.target if request is not None else "",
                status=status,
                response_bytes=connection.written,
                aborted=connection.cut or connection.outbox is not None,
                duration=(ended or time.monotonic()) - connection.accepted_at,
                peer=address[0] if isinstance(address, tuple) else "",
            )
        )

    def _worth_a_line(self, request: Request, status: int) -> bool:
        """Say whether an answer belongs into the access log: thousands of equal probes a day hide what matters."""
        if request.path not in self.probe_statuses or request.method not in {"GET", "HEAD"}:
            return True
        last, self.probe_statuses[request.path] = self.probe_statuses[request.path], status
        return status != last

    def cannot_spool(self, error: OSError) -> None:
        """Tell once that what a client has not taken cannot be kept in a file (HS-7.5)."""
        self.log.once("spool", f"a response was cut: no more can be spooled: {error}")

    def load(self, now: float) -> Load:
        """Return what is used at `now`, without waiting."""
        exhausted = now < self.full_until
        if self.crossed:
            exhausted |= any(row.active for limit, row in self.crossings.items() if limit is not Limit.STREAMS)
        return Load(self.connections, self.limiter.in_flight, self.budget.used, exhausted)

    @property
    def streams(self) -> int:
        """How many event streams are open."""
        return len(self.front.keeper.held[State.STREAMING]) if self.front is not None else 0

    def note_levels(self, now: float) -> None:
        """Front: take in what is used, so that a level that stays is known in each second that it lasts."""
        self.in_flight_peak.note(self.limiter.in_flight, now)
        self.connections_peak.note(self.connections, now)
        self.streams_peak.note(self.streams, now)

    def peaks(self, now: float) -> UsagePeaks:
        """Return the highest levels of late, what is used at `now` included. Any thread may call it."""
        rows = {
            "in_flight": (self.in_flight_peak, self.limiter.in_flight),
            "connections": (self.connections_peak, self.connections),
            "sse_clients": (self.streams_peak, self.streams),
        }

        def levels(seconds: int) -> Levels:
            return Levels(**{name: max(peak.most(now, seconds), level) for name, (peak, level) in rows.items()})

        return UsagePeaks(last_second=levels(1), last_minute=levels(MINUTE))

    def usage(self) -> ServiceUsage:
        """Return what is used right now and was counted since the start."""
        figures = self.limiter.statistics()
        return ServiceUsage(
            in_flight=figures.in_flight,
            connections=self.connections,
            sse_clients=self.streams,
            draining=figures.draining,
            admitted_total=figures.admitted_total,
            overloaded_total=figures.overloaded_total,
            draining_total=figures.draining_total,
            refused_total=self.refused,
            timed_out_total=self.timed_out,
            evicted_total=self.evicted,
        )
