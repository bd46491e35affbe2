"""Brings the faults about, and undoes them, by what an operator has: files, signals and clients (DM-2.1)."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from idkmesh.demo import files
from idkmesh.demo.children import is_shop, process_of
from idkmesh.demo.clients import Flood, Ingress
from idkmesh.demo.questions import SPARED, WEDGED
from idkmesh.demo.settings import DELAY_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.child_process import Child
    from idkmesh.demo.settings import Site


class Actor:
    """What is done for each row of the table, by its name. Each method raises ``OSError`` where it cannot be done."""

    def __init__(self, site: Site, tower: Child, token: str) -> None:
        self._site = site
        self._tower = tower
        self._token = token
        self._client: Flood | Ingress | None = None
        self._stopped: int | None = None
        self._acts: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "slow the cache": (self._slow_cache, self._quick_cache),
            "stop the store": (self._stop_store, self._start_store),
            "flood the server": (self._flood, self._end_client),
            "fill the ingress": (self._fill, self._end_client),
            "pause a node": (self._pause, self._go_on),
            "wedge a replica": (self._wedge, self._unwedge),
        }

    def begin(self, name: str) -> None:
        """Do it."""
        self._acts[name][0]()

    def undo(self, name: str) -> None:
        """Undo it."""
        self._acts[name][1]()

    def write(self, name: str, text: str) -> None:
        """Put a file in the place of the one that is there, whole."""
        part = self._site.folder / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(self._site.folder / name)

    def _slow_cache(self) -> None:
        self.write(DELAY_FILE, f"{self._site.figures.delay_ms}\n")

    def _quick_cache(self) -> None:
        (self._site.folder / DELAY_FILE).unlink(missing_ok=True)

    def _stop_store(self) -> None:
        self.write(files.MODULES, files.modules(self._site, without="store"))
        self._tower.signal_group(signal.SIGHUP)

    def _start_store(self) -> None:
        self.write(files.MODULES, files.modules(self._site))
        self._tower.signal_group(signal.SIGHUP)

    def _flood(self) -> None:
        self._client = Flood(self._site, self._token).__enter__()

    def _fill(self) -> None:
        self._client = Ingress(self._site).__enter__()

    def _end_client(self) -> None:
        if self._client is not None:
            self._client.__exit__(None, None, None)
            self._client = None

    def _pause(self) -> None:
        self._tower.signal_group(signal.SIGSTOP)

    def _go_on(self) -> None:
        self._tower.signal_group(signal.SIGCONT)

    def _wedge(self) -> None:
        self._stopped = process_of(self._site.folder, WEDGED)
        if self._stopped is None:
            raise ProcessLookupError(f"{WEDGED} does not run")
        os.kill(self._stopped, signal.SIGSTOP)
        self._release(SPARED)

    def _unwedge(self) -> None:
        if self._stopped is not None and is_shop(self._stopped):  # ended early: else it is another process by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._stopped, signal.SIGCONT)
        self._stopped = None
        self._release(SPARED, WEDGED)

    def _release(self, *names: str) -> None:
        """Have the router know these replicas alone."""
        if self._site.routed:
            numbers = tuple(int(name.rpartition("-")[2]) for name in names)
            self.write(files.RELEASES, files.releases(self._site, numbers))
