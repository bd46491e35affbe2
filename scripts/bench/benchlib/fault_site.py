"""A real service under ``idkmesh rehearse`` with real dependencies, which are failed one after the other.

A thread asks ``/readyz`` and ``/livez`` fifty times a second from outside: every answer is kept with when it was asked
for and when it was there. The rehearsal's document tells of rotation and restarts, on the same clock.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from . import stores
from .fault_table import BACKOFF_SECONDS, GRACE_SECONDS, matrix_text
from .processes import HOST, environment, free_port, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .fault_table import Fault

ASK_SECONDS = 0.02
ANSWER_SECONDS = 5.0
"""Longer than a busy machine makes an answer late; a service that is paused is waited for until it is killed."""


@dataclass(frozen=True)
class Asked:
    """One answer of the service: when it was asked for and there, and what it said. ``status`` 0 is none."""

    sent: float
    heard: float
    path: str
    status: int
    failing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """A fault that is done, in seconds of the rehearsal."""

    fault: Fault
    begin: float
    end: float


class _Api(BaseHTTPRequestHandler):
    """Says 200, or, while it flaps, 503 and 200 in turn."""

    def do_GET(self) -> None:
        """Answer."""
        self.server.turn = not self.server.turn  # type: ignore[attr-defined]  # set by the site
        bad = self.server.flapping and self.server.turn  # type: ignore[attr-defined]  # as above
        self.send_response(503 if bad else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Site:
    """The dependencies, and what can be done to them. The pairs of :class:`~.fault_table.Fault` are its methods."""

    def __init__(
        self, folder: Path, scale: int, database: stores.Store, cache: stores.Store, api: ThreadingHTTPServer
    ) -> None:
        self._database, self._cache, self._api = database, cache, api
        self._program = folder / "pg_isready"
        self._program.symlink_to(database.asks[0])
        self.matrix = folder / "probe-matrix.yaml"
        places = {"database": database.port, "cache": cache.port, "api": api.server_port}
        text = matrix_text(scale).format(**places, ready=self._program, ping=cache.asks[0])
        self.matrix.write_text(text, encoding="utf-8")
        self.stop_database, self.start_database = database.stop, database.start
        self.stop_cache, self.start_cache = cache.stop, cache.start

    def pause_database(self) -> None:
        """Stop its processes where they are."""
        self._database.signal(signal.SIGSTOP)

    def resume_database(self) -> None:
        """Let them go on."""
        self._database.signal(signal.SIGCONT)

    def pause_cache(self) -> None:
        """Stop its process where it is."""
        self._cache.signal(signal.SIGSTOP)

    def resume_cache(self) -> None:
        """Let it go on."""
        self._cache.signal(signal.SIGCONT)

    def flap(self) -> None:
        """Have every second answer be 503."""
        self._api.flapping = True  # type: ignore[attr-defined]  # read by its handler

    def settle(self) -> None:
        """Have every answer be 200."""
        self._api.flapping = False  # type: ignore[attr-defined]  # as above

    def hide_program(self) -> None:
        """Take the probe's program away."""
        self._program.unlink()

    def show_program(self) -> None:
        """Put it back."""
        self._program.symlink_to(self._database.asks[0])


@contextlib.contextmanager
def site(folder: Path, scale: int = 1) -> Iterator[Site]:
    """Run the dependencies, with each time of the matrix ``scale`` fold. Raises :class:`.stores.MissingError`."""
    with stores.postgres(folder) as database, stores.redis() as cache, ThreadingHTTPServer((HOST, 0), _Api) as api:
        api.turn = api.flapping = False  # type: ignore[attr-defined]  # for its handler
        thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield Site(folder, scale, database, cache, api)
        finally:
            api.shutdown()
            thread.join()


SERVICES = ("serve", "control-tower")


def command(service: str, folder: Path, port: int) -> list[str]:
    """Return how a service is started; its matrix comes from the rehearsal."""
    if service == "control-tower":
        store = ("--store", str(folder / "events.sqlite3"))
        return python("-m", "idkmesh", "control-tower", "--port", str(port), *store)
    program = "wsgiref.simple_server:demo_app"
    return python("-m", "idkmesh", "serve", program, "--port", "0", "--probe-listen", f"{HOST}:{port}")


@dataclass(frozen=True)
class Kept:
    """What a run leaves: the faults as they were done and every answer, by one clock, and the rehearsal's document."""

    done: tuple[Planned, ...]
    answers: tuple[Asked, ...]
    document: dict[str, Any]


def rehearsed(place: Site, service: str, folder: Path, plan: tuple[Planned, ...], seconds: float) -> Kept:
    """Run a service through a plan, under a rehearsal, and return what was seen. All times are the rehearsal's."""
    port = free_port()
    flags = [word.format(f"{each.begin:.3f}s", f"{each.end:.3f}s") for each in plan for word in each.fault.flags]
    profile = ["--grace", f"{GRACE_SECONDS}s", "--backoff", f"{BACKOFF_SECONDS}s", "--for", f"{seconds:.3f}s"]
    target = ["--matrix", str(place.matrix), "--target", f"http://{HOST}:{port}", "--output", os.devnull, "--json"]
    argv = python("-m", "idkmesh", "rehearse", *target, *profile, *flags, "--", *command(service, folder, port))
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(argv, env=environment(), stdin=null, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None  # noqa: S101  it is a pipe
        first = process.stderr.readline()
        zero = time.monotonic()
        if "launched" not in first:
            raise RuntimeError(f"the rehearsal does not begin: {first}{process.stderr.read()}")
        over = threading.Event()
        asker = _Asker(port, zero, over)
        actor = _Actor(place, plan, zero, over)
        try:
            out, errors = process.communicate(timeout=seconds + 60)
        finally:
            over.set()
            asker.join()
            actor.join()
    if not out:
        raise RuntimeError(f"the rehearsal has no report: {errors[-300:]}")
    document = json.loads(out)
    return Kept(tuple(actor.done) + _told(plan, document), tuple(asker.answers), document)


def _told(plan: tuple[Planned, ...], document: dict[str, Any]) -> tuple[Planned, ...]:
    """Return the faults that the rehearsal has done itself, with the times that it tells."""
    found = []
    for each in plan:
        if each.fault.flags:
            times = {
                what: [
                    entry["at_seconds"]
                    for entry in document["timeline"]
                    if entry["what"] == what and planned - 0.001 <= entry["at_seconds"] < planned + 1
                ]
                for what, planned in (("fault_began", each.begin), ("fault_ended", each.end))
            }
            found.append(Planned(each.fault, times["fault_began"][0], times["fault_ended"][-1]))
    return tuple(found)


class _Asker(threading.Thread):
    def __init__(self, port: int, zero: float, over: threading.Event) -> None:
        super().__init__(name="fault-asker", daemon=True)
        self.answers: list[Asked] = []
        self._port, self._zero, self._over = port, zero, over
        self.start()

    def run(self) -> None:
        """Ask until it is over."""
        while not self._over.wait(ASK_SECONDS):
            self.answers += [self._ask("/readyz"), self._ask("/livez")]

    def _ask(self, path: str) -> Asked:
        sent, status, body = time.monotonic(), 0, b""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
        document = json.loads(body) if path == "/readyz" and body else {}
        names = (tuple(document.get(member, ())) for member in ("failing", "warnings"))
        return Asked(sent - self._zero, time.monotonic() - self._zero, path, status, *names)


class _Actor(threading.Thread):
    """Does to the stores what a rehearsal cannot."""

    def __init__(self, place: Site, plan: tuple[Planned, ...], zero: float, over: threading.Event) -> None:
        super().__init__(name="fault-actor", daemon=True)
        self.done: list[Planned] = []
        self._place, self._plan, self._zero, self._over = place, plan, zero, over
        self.start()

    def run(self) -> None:
        """Do one after the other; what was begun is ended, whatever happens."""
        for each in self._plan:
            if each.fault.act is not None and not self._over.wait(each.begin - self._now()):
                begin, end = (getattr(self._place, name) for name in each.fault.act)
                began = self._now()
                begin()
                self._over.wait(each.end - self._now())
                # A store that is started is well when that returns; what goes on at once, by the time of the call.
                before = self._now()
                end()
                ended = self._now() if each.fault.act[1].startswith("start") else before
                self.done.append(Planned(each.fault, began, ended))

    def _now(self) -> float:
        return time.monotonic() - self._zero
