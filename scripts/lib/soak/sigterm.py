"""SIGTERM under load: what was admitted is answered whole, and the tower ends with 0 and leaves nothing.

Admitted is, as a client sees it: its head was sent before the signal, or it was told ``100 Continue``. Whoever comes
later may also be refused, or cut off before the first byte; half an answer is wrong for everybody.
"""

from __future__ import annotations

import contextlib
import json
import random
import select
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Final

from scripts.bench.benchlib.messages import parse, request
from scripts.bench.benchlib.processes import HOST
from scripts.bench.benchlib.procfs import fields
from scripts.lib.soak.state import Step
from scripts.lib.soak.tower import TARGET, started

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from scripts.lib.soak.state import State
    from scripts.lib.soak.tower import Tower

AT_ONCE: Final = 4
"""Towers that run side by side: most of a round is waiting for starts and ends."""
WAIT: Final = 30.0
GONE_SECONDS: Final = 10.0
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
BODY: Final = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
OK, UNAVAILABLE = 200, 503


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What a client saw: ``sent`` and ``ended`` are instants, ``admitted`` that it was told to go on."""

    what: str
    sent: float
    ended: float
    received: bytes
    admitted: bool = False
    stream: bool = False


def outcome(one: Exchange, signalled: float) -> tuple[str, str | None]:
    """Return how an exchange counts, and what is wrong with it, if anything is. Pure."""
    if one.stream and b"text/event-stream" in one.received:
        return _of_stream(one)
    found = parse(one.received)
    if found is None or not found.complete:
        if not one.received and not one.admitted and one.sent >= signalled:
            return "cut off unread, after the signal", None
        return "wrong", f"no whole answer to what was admitted: {one.received[:300]!r}"
    if found.status == OK:
        return "answered 200", None
    draining = found.status == UNAVAILABLE and b"shutting_down" in found.body
    # The drain waits longer than any body takes here (HS-9.2): who was told to go on is served.
    if draining and one.ended >= signalled and not one.admitted:
        return "answered 503 shutting_down", None
    return "wrong", f"status {found.status}: {one.received[:600]!r}"


def _of_stream(one: Exchange) -> tuple[str, str | None]:
    if b"event: shutting_down" in one.received and one.received.endswith(b"\n\n"):
        return "streams ended with a word", None
    return "wrong", f"a stream ended with {one.received[-300:]!r}"


class Client:
    """Asks in one way, over and over, until nobody listens or it is told to end."""

    def __init__(self, what: str, ask: Callable[[], Exchange], ended: threading.Event) -> None:
        self.exchanges: list[Exchange] = []
        self.what = what
        self._ask = ask
        self._ended = ended
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)
        self._thread.start()

    def join(self) -> bool:
        """Wait for the end of the last exchange; say whether it came."""
        self._thread.join(2 * WAIT)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.exchanges.append(self._ask())
            except ConnectionError:  # not connected: nobody listens any more
                return


def steps(state: State, folder: Path) -> Generator[Step, None, None]:
    """Let towers end, a few side by side."""
    first = state.done
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while first < state.goal:
            many = min(AT_ONCE, state.goal - first)
            lanes = [folder / f"tower-{lane}" for lane in range(many)]
            results = list(pool.map(round_of, range(first, first + many), lanes))
            sums: Counter[str] = Counter()
            for counted, _, _ in results:
                sums.update(counted)
            longest = max(seconds for _, _, seconds in results)
            wrong = [line for _, lines, _ in results for line in lines]
            first += many
            yield Step(count=many, sums=dict(sums), wrong=wrong, highs={"seconds from signal to end, longest": longest})


def round_of(number: int, folder: Path) -> tuple[Counter[str], list[str], float]:
    """Run one tower to its end under load; return what was counted, what was wrong, and how long the end took."""
    chance = random.Random(number)  # noqa: S311  moments, not secrets
    ended = threading.Event()
    wrong: list[str] = []
    with started(folder) as tower:
        clients = [Client(what, ask, ended) for what, ask in _askers(tower, chance)]
        time.sleep(chance.uniform(0.1, 0.5))
        family = tower.family()
        signalled = time.monotonic()
        tower.process.send_signal(signal.SIGTERM)
        try:
            code: int | None = tower.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            code = None
        took = time.monotonic() - signalled
        ended.set()
        wrong += [f"the client {one.what} has not ended" for one in clients if not one.join()]
        if code != 0:
            wrong.append("it has not ended" if code is None else f"exit code {code}")
        wrong += _left(tower, family)
    counted: Counter[str] = Counter()
    for client in clients:
        for exchange in client.exchanges:
            name, fault = outcome(exchange, signalled)
            counted[name] += 1
            counted["exchanges open at the signal"] += exchange.sent < signalled <= exchange.ended
            if fault:
                wrong.append(f"{exchange.what}, sent {exchange.sent - signalled:+.3f} s from the signal: {fault}")
    return counted, [f"round {number}: {line}" for line in wrong], took


def _left(tower: Tower, family: list[int]) -> list[str]:
    """Return what an ended tower has left: a traceback, its files, processes."""
    wrong = []
    log = tower.log()
    if "Traceback" in log:
        wrong.append(f"a traceback: {log[log.index('Traceback') :][:2000]!r}")
    wrong += [f"{name} is left" for name in ("port", "node.json") if (tower.folder / name).exists()]
    deadline = time.monotonic() + GONE_SECONDS
    while (alive := [pid for pid in family if fields(pid)[:1] not in ([], ["Z"])]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return wrong + [f"process {pid} is left" for pid in alive]


def _askers(tower: Tower, chance: random.Random) -> list[tuple[str, Callable[[], Exchange]]]:
    own = [("X-IDKMesh-UI-Token", tower.token)]
    length = [("Content-Type", "message/http"), ("Content-Length", str(len(BODY)))]
    head = request(tower.port, "/api/v1/inspect/http-request", [*own, *length, ("Expect", "100-continue")], "POST")
    call = json.dumps({**TARGET, "input": "soak"}).encode()
    bearer = [("Authorization", f"Bearer {tower.token}"), ("Content-Type", "application/json")]
    invoke = request(tower.router, "/agent/v1/invocations", [*bearer, ("Content-Length", str(len(call)))], "POST")
    status = request(tower.port, "/api/v1/status", own)
    events = request(tower.port, "/api/v1/events?limit=50", own)
    stream = request(tower.port, "/api/v1/events/stream", own)
    delays = cycle([chance.uniform(0.0, 0.4) for _ in range(50)])
    return [
        ("status", lambda: _plain("status", tower.port, status)),
        ("status", lambda: _plain("status", tower.port, status)),
        ("events", lambda: _plain("events", tower.port, events)),
        ("invocation", lambda: _plain("invocation", tower.router, invoke + call)),
        ("body", lambda: _continued(tower.port, head, next(delays))),
        ("body", lambda: _continued(tower.port, head, next(delays))),
        ("stream", lambda: _plain("stream", tower.port, stream, stream=True)),
    ]


def _plain(what: str, port: int, data: bytes, *, stream: bool = False) -> Exchange:
    with socket.create_connection((HOST, port), WAIT) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
        sent = time.monotonic()
        received = _to_end(client)
        return Exchange(what=what, sent=sent, ended=time.monotonic(), received=received, stream=stream)


def _continued(port: int, head: bytes, delay: float) -> Exchange:
    """Send a head, wait for ``100 Continue``, and send the body a little later."""
    with socket.create_connection((HOST, port), WAIT) as client:
        received = b""
        with contextlib.suppress(ConnectionError):
            client.sendall(head)
        sent = time.monotonic()
        with contextlib.suppress(ConnectionError, TimeoutError):
            received = client.recv(len(CONTINUE))
        admitted = received == CONTINUE
        if admitted:
            select.select([client], [], [], delay)
            with contextlib.suppress(ConnectionError):
                client.sendall(BODY)
            received = b""
        received += _to_end(client)
        return Exchange(what="body", sent=sent, ended=time.monotonic(), received=received, admitted=admitted)


def _to_end(client: socket.socket) -> bytes:
    """Read until the end, whichever it is."""
    chunks = []
    with contextlib.suppress(ConnectionError, TimeoutError):
        while data := client.recv(1 << 18):
            chunks.append(data)
    return b"".join(chunks)
