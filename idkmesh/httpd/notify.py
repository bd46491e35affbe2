"""Telling systemd: ready, alive, stopping (HL-2.4, sd_notify(3)). Without ``NOTIFY_SOCKET`` nothing is sent.

Laws of this module:

1. What is sent when is decided by values alone (:class:`Keepalive`); the shell below only sends.
2. Sending never waits: whoever beats is the front's loop. What does not get through is sent again at the next beat.
3. A silence is the message: while a beat is overdue no ``WATCHDOG=1`` is sent, and systemd does what its unit says.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.service_runtime import log_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from idkmesh.httpd.server import BoundedHTTPServer

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
USEC_VARIABLE: Final = "WATCHDOG_USEC"
PID_VARIABLE: Final = "WATCHDOG_PID"

MAX_STATUS_CHARACTERS: Final = 200

RETRY_SECONDS: Final = 0.1
"""How soon a beat that did not get through is sent again: a loop may pass a thousand times in that time."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,18}")
_USEC: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Keepalive:
    """When to send ``WATCHDOG=1``: each ``period`` seconds, never where that is None. ``sent`` is monotonic seconds.

    ``silent`` are the components that were overdue when somebody last looked.
    """

    period: float | None = None
    sent: float | None = None
    silent: tuple[str, ...] = ()

    def due_at(self, now: float) -> float | None:
        """Return when the next one is due, in monotonic seconds; None where none is ever."""
        if self.period is None:
            return None
        return now if self.sent is None else self.sent + self.period

    def look(self, now: float, overdue: Sequence[str]) -> tuple[Keepalive, tuple[str, ...]]:
        """Take in who is overdue now. Return what holds if all is sent, and the assignments that are to be sent."""
        names = tuple(overdue)
        lines: list[str] = []
        if names != self.silent:
            lines.append(status_line("stalled: " + ", ".join(names) if names else "well again"))
        due = self.due_at(now)
        if names or due is None or now < due:
            return replace(self, silent=names), tuple(lines)
        return replace(self, silent=names, sent=now), ("WATCHDOG=1", *lines)


def status_line(text: str) -> str:
    """Return a ``STATUS=`` assignment: one line of a bounded length, whatever the text is."""
    shown = "".join(character if character.isprintable() else "?" for character in text[:MAX_STATUS_CHARACTERS])
    return f"STATUS={shown}"


class Watched(Protocol):
    """Who knows the components that promised to beat: a watchdog."""

    def overdue(self, now: float) -> Sequence[str]:
        """Name the components that have been silent for too long. ``now`` is in monotonic seconds. Does not wait."""


class Notifier:
    """Sends what a service has to tell its supervisor. One thread calls :meth:`beat`; the others are for any.

    ``address`` is a path, or an abstract name that begins with ``@``; None sends nothing. ``period`` is the time
    between two ``WATCHDOG=1``, in seconds; None sends none. ``log`` takes a line and a level, and must not wait.
    """

    def __init__(
        self, address: str | None, period: float | None = None, log: Callable[[str, int], None] = log_line
    ) -> None:
        self._address = address
        self._log = log
        self._keepalive = Keepalive(period if address is not None else None)
        self._failing = False
        self._again = 0.0

    @classmethod
    def from_environ(
        cls,
        environ: Mapping[str, str],
        *,
        pid: int | None = None,
        log: Callable[[str, int], None] = log_line,
    ) -> Notifier:
        """Return what systemd asks for in the variables. What cannot be understood is one line, and not done.

        ``pid`` is this process's by default: keep-alives that ``WATCHDOG_PID`` asks of another are not ours to send.
        """
        address = environ.get(SOCKET_VARIABLE, "")
        if not address:
            return cls(None, log=log)
        if address[0] not in "/@" or len(address) == 1 or "\0" in address:
            log(f"{SOCKET_VARIABLE} names no path and no abstract socket: systemd is told nothing", logging.WARNING)
            return cls(None, log=log)
        return cls(address, _period(environ, os.getpid() if pid is None else pid, log), log)

    @property
    def period(self) -> float | None:
        """How often :meth:`beat` is to be called at least, in seconds: half of what systemd waits; None: not at all."""
        return self._keepalive.period

    def ready(self, status: str = "ready") -> bool:
        """Say that the service listens. This and the others say whether it was sent; False too if nobody wants it."""
        return self._send(("READY=1", status_line(status)))

    def status(self, text: str) -> bool:
        """Say in a line what the service does; ``systemctl status`` shows it."""
        return self._send((status_line(text),))

    def beat(self, now: float, overdue: Sequence[str]) -> bool:
        """Send ``WATCHDOG=1`` if one is due and nobody is overdue. ``now`` is in monotonic seconds.

        Call it at each pass of a loop that takes less than :attr:`period`: it costs a comparison if nothing is due.
        """
        after, lines = self._keepalive.look(now, overdue)
        if not lines or (self._failing and now < self._again):
            return False
        sent = self._send(lines)
        if sent:
            self._keepalive = after
        else:
            self._again = now + RETRY_SECONDS
        return sent

    def stopping(self, status: str = "draining") -> bool:
        """Say that a drain has begun."""
        return self._send(("STOPPING=1", status_line(status)))

    def _send(self, lines: Sequence[str]) -> bool:
        if self._address is None:
            return False
        place = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(0)
                sender.sendto("\n".join(lines).encode(), place)
        except OSError as error:
            if not self._failing:
                self._log(f"systemd cannot be told: {error.strerror or error}", logging.WARNING)
            self._failing = True
            return False
        self._failing = False
        return True


def _period(environ: Mapping[str, str], pid: int, log: Callable[[str, int], None]) -> float | None:
    """Return half of ``WATCHDOG_USEC`` in seconds, None where no keep-alive is wanted of this process."""
    usec, wanted = environ.get(USEC_VARIABLE, ""), environ.get(PID_VARIABLE, "")
    if not usec or (wanted and wanted != str(pid)):
        return None
    if not _NUMBER.fullmatch(usec):
        log(f"{USEC_VARIABLE} is no number of microseconds: systemd gets no keep-alive", logging.WARNING)
        return None
    return int(usec) / _USEC / 2


def tell_supervisor(server: BoundedHTTPServer, watchdog: Watched | None) -> None:
    """Have a server that listens tell systemd so, that nobody is overdue, and when it drains (HL-2.4).

    Its loop beats, and goes round twice in each period at least. Without ``NOTIFY_SOCKET`` nothing is done.
    """
    if not os.environ.get(SOCKET_VARIABLE):
        return
    notifier = Notifier.from_environ(os.environ, log=server.log_line)

    def beat() -> None:
        now = time.monotonic()
        notifier.beat(now, () if watchdog is None else watchdog.overdue(now))

    def happened(what: str, _facts: object) -> None:
        if what == "drain.started":
            notifier.stopping()

    server.at_each_turn(beat, longest=float("inf") if notifier.period is None else notifier.period / 2)
    server.tell(happened)
    notifier.ready()
