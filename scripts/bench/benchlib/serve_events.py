"""A server of one event stream, from a real store: ``python -m benchlib.serve_events JSON``.

It waits until ``streams`` are open, commits ``rate`` events a second for ``seconds``, and prints JSON lines: when it is
ready, when ``burners`` requests hold a slot and the interpreter, and at the end the instant of each commit
(CLOCK_MONOTONIC, which all processes share), threads and memory. The cap on streams stays 1-64 as a setting; where more
are asked for the hub itself is told.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idkmesh.clock import SystemClock
from idkmesh.control_tower.event_feed import message_of
from idkmesh.events.envelope import Event
from idkmesh.events.recorder import EventRecorder
from idkmesh.events.retention import Retention
from idkmesh.httpd import BoundedHTTPServer, use_short_switch_interval
from idkmesh.httpd.application import Subscription
from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import Access, EventStream, Route, RouteApplication, RouteTable
from idkmesh.httpd.stream_window import TAKE_BYTES
from idkmesh.httpd.streams import BATCH, Beginning, Channel
from idkmesh.service_runtime import ServiceLimits

from .processes import HOST
from .procfs import Footprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from idkmesh.events.envelope import StoredEvent
    from idkmesh.httpd.application import Application
    from idkmesh.httpd.request import Request
    from idkmesh.httpd.sse import Message

BURN_PIECE = 20_000
SETTLE_SECONDS = 1.0


class Everybody:
    """A guard that lets everybody pass: what is measured is the stream."""

    def refuse_host(self, _request: Request) -> None:
        """Pass."""

    refuse_origin = refuse_token = refuse_host


class StreamServer(BoundedHTTPServer):
    """``/events`` streams what is committed, ``/burn`` computes until the end."""

    def __init__(self, folder: Path, spec: Mapping[str, Any]) -> None:
        self.commits: dict[int, float] = {}
        self.stop = threading.Event()
        self.burning = threading.Semaphore(0)
        self.recorder = EventRecorder(
            folder / "events.sqlite3",
            Retention(),
            clock=SystemClock(),
            published=self._committed,
            replaced=lambda _epoch, _position: None,
            log=lambda line, _level: print(line, file=sys.stderr),
            source="/bench",
        )
        self.feed = Channel(self, Beginning(0, str), b"")
        limits = ServiceLimits(max_connections=max(1000, 2 * spec["streams"]), max_sse_clients=min(64, spec["streams"]))
        super().__init__((HOST, 0), None, limits=limits)

    def _make_application(self) -> Application:
        common: dict[str, Any] = {"access": Access.PAGE, "summary": "", "answers": ()}
        stream = EventStream(
            path="/events",
            channel=self.feed,
            subscribe=lambda _request: Subscription(self.feed.beginning),
            operation="events",
            **common,
        )
        burn = Route(method="GET", path="/burn", endpoint=self._burn, operation="burn", **common)
        return RouteApplication(RouteTable((burn,), stream=stream), Everybody())

    def after(self, _beginning: Beginning, position: int, wanted: Mapping[str, str]) -> tuple[Sequence[Message], int]:
        """Read history, which only a stream that fell behind needs."""
        batch = self.recorder.read(position, BATCH, wanted, max_bytes=TAKE_BYTES)
        return [message_of(event) for event in batch.events], batch.position

    def _committed(self, events: Sequence[StoredEvent]) -> None:
        now = time.monotonic()
        self.commits.update({event.sequence: now for event in events})
        self.feed.publish([message_of(event) for event in events])

    def _burn(self, _request: Request, _body: bytes) -> Response:
        count = 0
        self.burning.release()
        while not self.stop.is_set():
            count += sum(range(BURN_PIECE))
        return Response(200, body=b"%d" % count)


def say(document: Mapping[str, object]) -> None:
    """Print one report."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def produce(server: StreamServer, rate: float, seconds: float) -> None:
    """Emit events at a fixed rate."""
    clock = SystemClock()
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        data = {"number": number, "text": "x" * 100}
        server.recorder.emit(Event(type="bench.tick", source="/bench", time=clock.utc(), data=data))
    server.recorder.flush(10)


def main() -> None:
    """Serve and produce."""
    spec: dict[str, Any] = json.loads(sys.argv[1])
    use_short_switch_interval()
    with tempfile.TemporaryDirectory() as folder:
        server = StreamServer(Path(folder), spec)
        server.recorder.start()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _wait(lambda: server._front is not None)  # noqa: SLF001 - the bench asks the hub for more than the setting allows
        hub = server._front.hub  # type: ignore[union-attr]  # noqa: SLF001 - as above
        assert hub is not None  # noqa: S101 - it has a stream
        hub._limit = spec["streams"]  # noqa: SLF001 - as above
        say({"port": server.server_port})
        for _ in range(spec["burners"]):
            server.burning.acquire(timeout=60)
        before = Footprint.read(_own_pid())
        say({"burning": True})
        _wait(lambda: hub.statistics().open == spec["streams"])
        produce(server, spec["rate"], 0.5)  # what a first event needs is there from here on
        opened = Footprint.read(_own_pid())
        server.commits.clear()
        produce(server, spec["rate"], spec["seconds"])
        time.sleep(SETTLE_SECONDS)
        server.stop.set()
        say(
            {
                "commits": sorted(server.commits.items()),
                "threads": [before.threads, opened.threads],
                "resident": [before.resident_bytes, opened.resident_bytes],
            }
        )
        sys.stdin.read()
        server.server_close()
        server.recorder.close(1)


def _own_pid() -> int:
    return int(Path("/proc/self").readlink().name)


def _wait(condition: Any) -> None:  # noqa: ANN401 - anything that is called
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the load did not come")
        time.sleep(0.01)


if __name__ == "__main__":
    main()
