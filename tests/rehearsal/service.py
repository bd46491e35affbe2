"""A small real service for rehearsals: four probe paths, answered from a HealthRunner's stored verdicts.

Its matrix is the one that IDKMESH_MATRIX names. ``--flaw liveness`` makes it answer liveness by its dependencies, which
is the mistake that a rehearsal is to find. ``--start SECONDS`` makes it slow to start.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from idkmesh.clock import SystemClock
from idkmesh.health.matrix_file import read_matrix
from idkmesh.health.probes import probe_for
from idkmesh.health.runner import HealthRunner
from idkmesh.health.watchdog import Watchdog

if TYPE_CHECKING:
    from idkmesh.changes import Change


class Handler(BaseHTTPRequestHandler):
    runner: HealthRunner
    watchdog: Watchdog
    flaw: str
    draining = False

    def do_GET(self) -> None:
        readiness = self.runner.readiness()
        alive = not self.watchdog.overdue(time.monotonic())
        if self.flaw == "liveness":
            alive = alive and not readiness.failing
        body = {"status": readiness.status, "failing": readiness.failing, "warnings": readiness.warnings}
        good = {
            "/livez": alive,
            "/healthz": alive,
            "/startupz": readiness.status != "starting",
            "/readyz": readiness.status == "ready" and not self.draining,
        }.get(self.path)
        data = json.dumps(body).encode()
        self.send_response(404 if good is None else 200 if good else 503)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def told(change: Change) -> None:
    print(change.what, flush=True)  # noqa: T201  its output is what a rehearsal passes on


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--flaw", default="")
    parser.add_argument("--start", type=float, default=0.0)
    arguments = parser.parse_args()
    time.sleep(arguments.start)
    matrix = read_matrix(os.environ["IDKMESH_MATRIX"])
    clock = SystemClock()
    Handler.watchdog = Watchdog(matrix.watchdog.budget_seconds, clock)
    Handler.flaw = arguments.flaw
    beat = Handler.watchdog.register("probes")
    Handler.runner = HealthRunner(matrix, probe_for, clock=clock, beat=beat, changed=told)
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    server.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    Handler.runner.start()
    server.serve_forever()
    server.server_close()
    Handler.runner.stop(2)


if __name__ == "__main__":
    main()
