"""A server of one projection, in two ways: ``python -m benchlib.serve_topology JSON``.

``/each`` makes the document for each reader, as any handler would; ``/once`` is what a router serves. It observes
``observations`` releases with the longest names, prints its port as a JSON line once all are observed, and changes
``changes`` of them a second from when its input has a line.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from idkmesh.clock import SystemClock
from idkmesh.httpd import BoundedHTTPServer, use_short_switch_interval
from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import Access, Probe, RouteApplication, RouteTable
from idkmesh.router.projection import Projection
from idkmesh.topology.model import Target, endpoint_of, snapshot_of
from idkmesh.topology.selector import WatchSelector

from .processes import HOST
from .serve_events import Everybody, say
from .topology import Hand

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.application import Application

NAME = "a" * 110


class TopologyServer(BoundedHTTPServer):
    """Both ways, and a probe."""

    def __init__(self, selector: WatchSelector) -> None:
        self.selector = selector
        self.projection = Projection(selector, SystemClock(), _complain)
        self.projection.start()
        super().__init__((HOST, 0), None)

    def _make_application(self) -> Application:
        ways: dict[str, Callable[[], Response]] = {
            "/each": lambda: Response(200, body=self.selector.document()),
            "/once": self.projection,
            "/livez": lambda: Response(200, body=b"{}"),
        }
        common: dict[str, Any] = {"access": Access.PAGE, "summary": "", "answers": ()}
        probes = [Probe(path=path, verdict=way, operation=path[1:], **common) for path, way in ways.items()]
        return RouteApplication(RouteTable((), probes), Everybody())


def main() -> None:
    """Serve, and change what is served."""
    spec: dict[str, Any] = json.loads(sys.argv[1])
    use_short_switch_interval()
    hand = Hand()
    selector = WatchSelector(
        hand,
        clock=SystemClock(),
        changed=lambda _change: None,
        line=_complain,
        max_observations=spec["observations"],
    )
    with selector:
        for number in range(spec["observations"]):
            selector.select(Target(NAME, "1.0.0", f"{number:0128}"))
        server = TopologyServer(selector)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        say({"port": server.server_port})
        sys.stdin.readline()
        if spec["changes"]:
            threading.Thread(target=_change, args=(hand, spec["changes"]), daemon=True).start()
        sys.stdin.read()
        say({})
        server.server_close()
        server.projection.stop()


def _complain(line: str, _level: int) -> None:
    print(line, file=sys.stderr)


def _change(hand: Hand, rate: float) -> None:
    began = time.monotonic()
    number = 0
    while True:
        number += 1
        snapshot = snapshot_of([endpoint_of(f"http://{HOST}:{number % 60_000 + 1}")])
        hand.sinks[number * 7919 % len(hand.sinks)](snapshot)
        time.sleep(max(0.0, began + number / rate - time.monotonic()))


if __name__ == "__main__":
    main()
