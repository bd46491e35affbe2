"""Hands the page to a browser, and keeps what came of it (DM-4.1)."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENED: Final = "the link was handed to a browser"
NOT_OPENED: Final = "no browser could be started: open the link yourself"


class Browser:
    """Opens one link, each time in a thread: a browser that runs in the terminal would hold everything else up."""

    def __init__(self, link: str) -> None:
        """Start nothing yet."""
        self._link = link
        self._told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def open(self) -> None:
        """Begin to open it, and return."""
        threading.Thread(target=self._open, name="browser", daemon=True).start()

    def told(self) -> Iterator[str]:
        """Return a line for each time since the last call that is decided, without waiting."""
        while not self._told.empty():
            yield self._told.get()

    def _open(self) -> None:
        import webbrowser  # noqa: PLC0415  few want it

        try:
            opened = webbrowser.open(self._link)
        except (OSError, webbrowser.Error):
            opened = False
        self._told.put(OPENED if opened else NOT_OPENED)
