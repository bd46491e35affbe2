"""SIGTERM and SIGINT for a command that serves: the first drains, the second ends at once (HS-9.6)."""

from __future__ import annotations

import contextlib
import os
import signal
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

    from idkmesh.httpd.notify import Watched
    from idkmesh.httpd.server import BoundedHTTPServer

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_LEFT_TO_OTHERS: Final = ContextVar("_LEFT_TO_OTHERS", default=False)


class ServedByOthersError(RuntimeError):
    """A program has begun to serve while somebody imported it in order to serve it."""


@contextlib.contextmanager
def left_to_others() -> Iterator[None]:
    """Have :func:`serve_until_signal` raise :class:`ServedByOthersError`, in this thread, until the block is left.

    For whoever imports a program in order to serve it: an import that serves would never come back.
    """
    former = _LEFT_TO_OTHERS.set(True)
    try:
        yield
    finally:
        _LEFT_TO_OTHERS.reset(former)


class ShutdownSignals:
    """Catches the signals from the moment it is entered, before there is a server: an early one is not lost.

    For the main thread. The handler sets one attribute and writes one byte, nothing else.
    """

    def __init__(self, *, second_ends: bool = True) -> None:
        """Catch nothing yet.

        :param second_ends: False for a program whose end is bounded anyway, and is to be orderly: it has children.
        """
        self._second_ends = second_ends
        self._requested = 0
        self._server: BoundedHTTPServer | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers."""
        for number in _SIGNALS:
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the former handlers back; where a second signal is to hurry nothing, none does on the way out either."""
        ignored = self.requested and not self._second_ends and kind is None
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_IGN if ignored else handler)

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self._requested != 0

    def attach(self, server: BoundedHTTPServer) -> None:
        """Drain `server` on a signal; at once, if one has come already."""
        self._server = server
        if self._requested:
            server.request_drain(self._requested)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (the standard signature)
        if self._requested:
            if self._second_ends:
                os._exit(128 + number)
            return
        self._requested = number
        if self._server is not None:
            self._server.request_drain(number)


def serve_until_signal(
    server: BoundedHTTPServer, signals: ShutdownSignals | None = None, *, watchdog: Watched | None = None
) -> int:
    """Serve until SIGTERM or SIGINT, drain, close; return the exit code, which is 0 (HS-9.2). For the main thread.

    Under systemd (`NOTIFY_SOCKET`) it says that it is ready, alive and stopping (HL-2.4).

    :param signals: what has caught the signals so far; None catches them from now on.
    :param watchdog: an `idkmesh.Watchdog`; while one of its components is overdue, systemd gets no sign of life.
    :raises ServedByOthersError: in an import by somebody who serves the program himself (:func:`left_to_others`); the
        server is closed.
    """
    if _LEFT_TO_OTHERS.get():
        server.server_close()
        raise ServedByOthersError("the program is imported in order to be served")
    if signals is None:
        with ShutdownSignals() as own:
            return serve_until_signal(server, own, watchdog=watchdog)
    try:
        if os.environ.get("NOTIFY_SOCKET"):
            from idkmesh.httpd.notify import tell_supervisor  # noqa: PLC0415  nobody else waits for the import

            tell_supervisor(server, watchdog)
        signals.attach(server)
        server.serve_forever()
    finally:
        server.server_close()
    return 0
