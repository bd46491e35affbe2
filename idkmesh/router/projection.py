"""The projection as an answer, made once for all who ask while nothing changes (RT-11.6, RT-11.7).

Laws of this module:

1. Nothing here changes an observation or is a use: it reads, and keeps what it has made of that (RT-11.2).
2. Up to :data:`EXACT_OBSERVATIONS` what is answered is the newest. Beyond it making a document takes tens of
   milliseconds, for which no front is to be busy: a thread makes one every :data:`PAUSE_SECONDS` while somebody asks
   and something changes, and an answer that is not the newest says its age.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.httpd.outbox import MEMORY_BYTES
from idkmesh.httpd.responses import Response
from idkmesh.httpd.stored_body import StoredBody
from idkmesh.topology.projection import pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.clock import Clock
    from idkmesh.topology.selector import WatchSelector

EXACT_OBSERVATIONS: Final = 10_000

PAUSE_SECONDS: Final = 0.5

MOST_AGE: Final = 2.0
"""From which age on a document is not served once something has changed: who asks then has a new one made."""

FOLLOW_SECONDS: Final = 10.0
"""After the last reading, for how long documents are made for the next one."""

AGE_FIELD: Final = "X-IDKMesh-Age"
"""Seconds since a document was made after which something has changed; left out of one that is the newest."""

CLOSE_SECONDS: Final = 2.0


class _Made(NamedTuple):
    version: int
    at: float
    response: Response


class Projection:
    """What a selector shows, as a response. Called by the fronts of a router and of its tower, perhaps at once.

    ``line`` takes a line and a level of :mod:`logging`. Without :meth:`start`, and after :meth:`stop`, who asks makes
    each document that is due.
    """

    def __init__(self, selector: WatchSelector, clock: Clock, line: Callable[[str, int], None]) -> None:
        self._selector = selector
        self._clock = clock
        self._line = line
        self._making = threading.Lock()
        self._made: _Made | None = None
        self._asked_at = float("-inf")
        self._asked = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to make documents beside who asks."""
        self._thread = threading.Thread(target=self._run, name="topology-projection", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End that. A second call changes nothing."""
        self._ended.set()
        self._asked.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def __call__(self) -> Response:
        """Return the answer."""
        now = self._clock.monotonic()
        version, observations = self._selector.extent()
        made = self._made
        if observations > EXACT_OBSERVATIONS:
            self._asked_at = now
            self._asked.set()
            if made is not None and made.version != version and now - made.at < MOST_AGE:
                return _aged(made.response, now - made.at)
        return (made if made is not None and made.version == version else self._renewed()).response

    def keep(self) -> bool:
        """Make a document where one is due by now. Returns whether there will be one for who asks next.

        For the one thread of :meth:`start`, and for who keeps the times without one.
        """
        now = self._clock.monotonic()
        observations = self._selector.extent().observations
        if observations <= EXACT_OBSERVATIONS or now - self._asked_at >= FOLLOW_SECONDS:
            return False
        self._renewed()
        return True

    def _run(self) -> None:
        faulty = False
        while not self._ended.is_set():
            self._asked.wait()
            self._asked.clear()
            try:
                while self.keep() and not self._ended.wait(PAUSE_SECONDS):
                    faulty = False
            except Exception as error:  # noqa: BLE001  the thread must not end: who asks would make each one
                if not faulty:  # told where it begins, and not with each question
                    self._line(f"the projection of the topology has a fault: {type(error).__name__}", logging.ERROR)
                faulty = True

    def _renewed(self) -> _Made:
        """Return the newest document. Who comes while it is made waits as long as for one of his own."""
        with self._making:
            made = self._made
            if made is None or made.version != self._selector.extent().version:
                self._made = made = self._make()
        return made

    def _make(self) -> _Made:
        now = self._clock.monotonic()
        version, rows = self._selector.rows()
        name = self._selector.provider_name
        if sum(map(len, rows)) > MEMORY_BYTES:
            try:
                return _Made(version, now, Response(200, stored=StoredBody(pieces(name, rows))))
            except OSError:  # each answer is kept for its reader then, as any other: that it cannot be is told there
                pass
        return _Made(version, now, Response(200, body=b"".join(pieces(name, rows))))


def _aged(response: Response, age: float) -> Response:
    return Response(200, ((AGE_FIELD, f"{age:.3f}"),), response.body, stored=response.stored)
