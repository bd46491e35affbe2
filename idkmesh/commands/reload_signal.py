"""SIGHUP for a command that serves: what was read from a file is read again (HL-3.5)."""

from __future__ import annotations

import select
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from idkmesh.httpd.wakeup import WakeUp

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

_NUMBER: Final = getattr(signal, "SIGHUP", None)


class ReloadSignal:
    """Catches SIGHUP from the moment it is entered, before there is anything to reload: an early one is not lost.

    For the main thread, and nothing where the system has no such signal. The handler sets one attribute and writes one
    byte; a thread of its own does the reading, so that a slow disk holds nobody up.
    """

    def __init__(self) -> None:
        """Catch nothing yet."""
        self._requested = self._ended = False
        self._wake_up: WakeUp | None = None
        self._previous: Any = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Install the handler."""
        if _NUMBER is not None:
            self._wake_up = WakeUp()
            self._previous = signal.signal(_NUMBER, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the former handler back, and end the thread; a file that cannot be read to its end is left to it."""
        if _NUMBER is not None and self._wake_up is not None:
            signal.signal(_NUMBER, self._previous)
            self._ended = True
            self._wake_up.wake()
            if self._thread is not None:
                self._thread.join(1.0)
            if self._thread is None or not self._thread.is_alive():
                self._wake_up.close()

    def attach(self, reload: Callable[[], object]) -> None:
        """Call ``reload`` on each signal, in a thread; at once, if one has come already. Signals in a row are one."""
        if self._wake_up is not None:
            self._thread = threading.Thread(target=self._wait, args=(self._wake_up, reload), name="reload", daemon=True)
            self._thread.start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the standard signature
        self._requested = True
        if self._wake_up is not None:
            self._wake_up.wake()

    def _wait(self, wake_up: WakeUp, reload: Callable[[], object]) -> None:
        poll = select.poll()  # select() knows no descriptor beyond 1,023; where there is a SIGHUP there is this
        poll.register(wake_up.receiver, select.POLLIN)
        while True:
            poll.poll()
            wake_up.clear()
            if self._ended:
                return
            if self._requested:
                self._requested = False  # before the reading: a signal that comes during it asks for another
                reload()
