"""Looks at tower and adapter all the time, as anybody could (DM-3.2). One thread for each: one may not answer."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from idkmesh.demo.asking import answered
from idkmesh.demo.seen import AdapterSeen, Seen, tower_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from idkmesh.demo.settings import Site

LOOK_SECONDS: Final = 0.5
ASK_SECONDS: Final = 1.0
API: Final = "/api/v1/"


class Watch:
    """The newest of what was seen. Any thread may read it."""

    def __init__(self, site: Site, token: str) -> None:
        self._site = site
        self._token = token
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._seen = Seen()

    @property
    def seen(self) -> Seen:
        """What is known now."""
        with self._lock:
            return self._seen

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Look for a while."""
        looks = (self._look_at_tower, self._look_at_adapter)
        with side_by_side([functools.partial(self._run, look) for look in looks], self._ended, ASK_SECONDS * 2):
            yield

    def document(self, name: str) -> Any:  # noqa: ANN401  JSON
        """Return a document of the tower's API, None where there is no such resource. Raises ``OSError``."""
        status, content = self._ask(self._site.ports.page, API + name, {"Authorization": f"Bearer {self._token}"})
        if status == http.client.NOT_FOUND:
            return None
        if status != http.client.OK:
            raise ConnectionError(f"status {status}")
        return json.loads(content)

    def _run(self, look: Callable[[], None]) -> None:
        while not self._ended.is_set():
            look()
            self._ended.wait(LOOK_SECONDS)

    def _look_at_tower(self) -> None:
        asked = time.monotonic()
        try:
            alive = self._ask(self._site.ports.page, "/livez")[0] == http.client.OK
        except OSError:
            self._note(alive=None, alive_at=asked)
            return
        self._note(alive=alive, alive_at=asked)
        asked = time.monotonic()
        names = ("status", "dependencies", "modules", "node", *(("topology",) if self._site.routed else ()))
        with contextlib.suppress(OSError, LookupError, TypeError, ValueError):  # refused: nothing new is known
            self._note(tower=tower_seen({name: self.document(name) for name in names}), tower_at=asked)

    def _look_at_adapter(self) -> None:
        asked = time.monotonic()
        try:
            live, ready = (
                self._ask(self._site.ports.adapter, path)[0] == http.client.OK for path in ("/live", "/ready")
            )
        except OSError:
            self._note(adapter=None, adapter_at=asked)
            return
        self._note(adapter=AdapterSeen(live=live, ready=ready), adapter_at=asked)

    def _note(self, **known: Any) -> None:  # noqa: ANN401  members of what is seen
        with self._lock:
            self._seen = replace(self._seen, **known)

    def _ask(self, port: int, path: str, fields: dict[str, str] | None = None) -> tuple[int, bytes]:
        return answered(port, "GET", path, fields=fields, seconds=ASK_SECONDS)


@contextlib.contextmanager
def side_by_side(runs: Iterable[Callable[[], None]], ended: threading.Event, seconds: float) -> Iterator[None]:
    """Run each in a thread of its own; in the end set ``ended``, and wait so many seconds for each."""
    threads = [threading.Thread(target=run, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(seconds)
