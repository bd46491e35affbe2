"""One command in an instance, from its start to its proven end (AR-3.2 to AR-3.4, AR-8.3).

Laws of this module:

1. The command starts when its four websockets are connected. The wait for its operation is under way before that: the
   operation is gone five seconds after its end.
2. All of a run is done by the thread that asks for it: one selector, five connections, nothing to join.
3. What the command writes is taken and dropped at once. After :data:`FREE_BYTES` it is taken at 32 MiB a second, so
   that a flood costs this process and the daemon little; past the limit as fast as it comes, to see its end.
4. At the limit the command is killed through ``control``: the daemon refuses to cancel it. ``control`` ends when the
   command does, and the operation when nothing holds the output any more. That is how the two are told apart.
5. Connections that are cut end the command: the daemon kills it when ``control`` is lost.
"""

from __future__ import annotations

import enum
import json
import selectors
import ssl
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from idkmesh.workloads.drivers.lxd_answers import (
    CONTROL,
    STREAMS,
    LxdError,
    LxdMissingError,
    Operation,
    metadata_of,
    operation_of,
)
from idkmesh.workloads.drivers.lxd_link import receive, seconds_from_now, send
from idkmesh.workloads.model import Run, RunEnd

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from websockets.client import ClientProtocol

    from idkmesh.health.probes.probe import Deadline
    from idkmesh.workloads.drivers.lxd_link import LxdLink
    from idkmesh.workloads.model import Readiness

START_SECONDS: Final = 5.0
"""For all that comes before the command's start."""

KILL_SECONDS: Final = 2.0
"""How long after the signal the command's end is waited for."""

HELD_SECONDS: Final = 1.0
"""How long after the command's end the operation's is waited for, past the limit: then something holds the output."""

MARGIN_SECONDS: Final = 10
"""What the daemon waits beyond the last instant that we do, in whole seconds."""

FREE_BYTES: Final = 1024 * 1024
PACE_SECONDS: Final = 0.002
"""A pause after each :data:`PIECE_BYTES` beyond what is free."""

PIECE_BYTES: Final = 64 * 1024
MAX_FRAME_BYTES: Final = 1024 * 1024
"""Of one frame of output; the daemon sends at most 128 KiB."""

SEND_SECONDS: Final = 1.0
"""For pongs or the signal: a few bytes, which an empty buffer takes at once."""

_MAX_ANSWER_BYTES: Final = 1024 * 1024
_SIGKILL: Final = 9


class Sent(enum.Enum):
    """What came of sending."""

    ALL = "all"
    PART = "part"
    """The other side did not take it in time."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Executed:
    """How a command's run ended. ``unended`` is the path of its operation where that goes on."""

    run: Run
    unended: str | None = None


def execute(link: LxdLink, path: str, readiness: Readiness, uid: int) -> Executed:
    """Run a command in the instance at ``path``, and return when it is over. Raises :class:`LxdError`: it did not run.

    Takes at most :data:`START_SECONDS`, the command's limit, :data:`KILL_SECONDS` and :data:`HELD_SECONDS`.
    """
    starting = seconds_from_now(START_SECONDS)
    body = {
        "command": list(readiness.command),
        "environment": {},
        "wait-for-websocket": True,
        "record-output": False,
        "interactive": False,
        "user": uid,
        "group": uid,
        "cwd": "/",
    }
    hidden = readiness.command
    operation = operation_of(link.ask("POST", f"{path}/exec", starting, body, hidden=hidden), hidden)
    with _Execution(link, operation, hidden) as execution:
        execution.start(starting, readiness.timeout_secs)
        return execution.result(seconds_from_now(readiness.timeout_secs))


class _Execution:
    """A command's five connections. No text of ``hidden``, which is the command, is told of the daemon's words."""

    def __init__(self, link: LxdLink, operation: Operation, hidden: Sequence[str]) -> None:
        self._hidden = hidden
        self._link = link
        self._operation = operation
        self._stack = ExitStack()
        self._selector = self._stack.enter_context(selectors.DefaultSelector())
        self._control: tuple[socket.socket, ClientProtocol] | None = None
        self._answer = bytearray()
        self._ended: Operation | None = None
        self._taken = 0
        self._paced = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, deadline: Deadline, limit: int) -> None:
        """Connect all of it; with the last connection the command starts."""
        if missing := {*STREAMS, CONTROL} - self._operation.secrets.keys():
            raise LxdError(f"an answer without the websockets {', '.join(sorted(missing))}")
        waited = int(START_SECONDS + limit + KILL_SECONDS + HELD_SECONDS) + MARGIN_SECONDS
        waiting = self._link.asked("GET", f"{self._operation.path}/wait", deadline, timeout=str(waited))
        self._stack.enter_context(waiting)
        self._watch(waiting, None)
        for name in (CONTROL, "1", "2", "0"):
            connection, protocol = self._websocket(name, deadline)
            if name == CONTROL:
                self._control = connection, protocol
            if name == "0":
                protocol.send_text(b"")  # that is how the end of the input is told
                _send_what_is_due(connection, protocol, deadline)
            self._watch(connection, protocol)

    def result(self, limit: Deadline) -> Executed:
        """Wait for the command's end, and kill it at the limit."""
        if self._pumped(limit):
            return Executed(self._exited())
        self._paced = False
        killed = self._control is not None
        if killed:
            self._kill()
            if self._pumped(seconds_from_now(KILL_SECONDS), until_control=True):
                return Executed(Run(RunEnd.TIMED_OUT, "killed at its limit"))
        if self._control is not None:
            run = Run(RunEnd.COULD_NOT_RUN, f"it was not seen to end within {KILL_SECONDS:.0f} s of its kill")
            return Executed(run, self._operation.path)
        if self._pumped(seconds_from_now(HELD_SECONDS)):
            # One that has ended by itself has done so in time, however late its operation says it.
            return Executed(Run(RunEnd.TIMED_OUT, "killed at its limit") if killed else self._exited())
        what = "was killed at its limit" if killed else "has ended"
        return Executed(Run(RunEnd.LEFT_BEHIND, f"it {what}; its output is still held"), self._operation.path)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _websocket(self, name: str, deadline: Deadline) -> tuple[socket.socket, ClientProtocol]:
        from websockets.client import ClientProtocol  # noqa: PLC0415  needed with LXD alone
        from websockets.uri import parse_uri  # noqa: PLC0415  the same

        target = self._link.target(f"{self._operation.path}/websocket", secret=self._operation.secrets[name])
        scheme = "ws" if self._link.place.socket is not None else "wss"
        protocol = ClientProtocol(parse_uri(f"{scheme}://{self._link.place.netloc}{target}"), max_size=MAX_FRAME_BYTES)
        connection = self._stack.enter_context(self._link.connect(deadline))
        protocol.send_request(protocol.connect())
        send(connection, b"".join(protocol.data_to_send()), deadline)
        while not protocol.events_received():
            piece = receive(connection, deadline)
            protocol.receive_data(piece) if piece else protocol.receive_eof()
            if not piece or protocol.handshake_exc is not None:
                raise LxdError(f"websocket {name} is refused")
        return connection, protocol

    def _watch(self, connection: socket.socket, protocol: ClientProtocol | None) -> None:
        connection.settimeout(0)
        self._selector.register(connection, selectors.EVENT_READ, (connection, protocol))

    def _pumped(self, deadline: Deadline, *, until_control: bool = False) -> bool:
        """Take what comes until the operation has ended, and say whether it has, by the deadline.

        What has come by then counts, however late this thread looks: it may have been paused.
        """
        while self._ended is None and not (until_control and self._control is None):
            left = deadline.left()
            ready = self._selector.select(0 if self._has_pending() else left)
            if self._has_pending():
                ready = [(key, selectors.EVENT_READ) for key in self._selector.get_map().values()]
            for key, _ in ready:
                connection, protocol = key.data
                self._take(connection, protocol, deadline)
            if self._paced and self._taken > FREE_BYTES:
                self._taken -= PIECE_BYTES
                time.sleep(PACE_SECONDS)
            if not left:
                break
        return self._ended is not None

    def _has_pending(self) -> bool:
        """Say whether TLS has decrypted what no selector sees."""
        return any(
            isinstance(key.data[0], ssl.SSLSocket) and key.data[0].pending()
            for key in self._selector.get_map().values()
        )

    def _take(self, connection: socket.socket, protocol: ClientProtocol | None, deadline: Deadline) -> None:
        """Take what has come on a connection, and answer it by the deadline.

        One that does not take the answer is heard no more. That is not its end: a command whose control is such a one
        was not seen to end.
        """
        if protocol is None:
            self._take_answer(connection)
            return
        piece = _come(connection)
        if piece is None:
            return
        self._taken += len(piece)
        protocol.receive_data(piece) if piece else protocol.receive_eof()
        protocol.events_received()
        sent = _send_what_is_due(connection, protocol, deadline) if piece else Sent.CLOSED
        if sent is not Sent.ALL:
            self._selector.unregister(connection)
            if sent is Sent.CLOSED and self._control is not None and connection is self._control[0]:
                self._control = None

    def _take_answer(self, connection: socket.socket) -> None:
        """Take all of the operation's answer that has come, and its end at once if that has come too."""
        while piece := _come(connection):
            self._answer += piece
            if len(self._answer) > _MAX_ANSWER_BYTES:
                raise LxdError("an answer over 1 MiB")
        if piece is None:
            return
        self._selector.unregister(connection)
        try:
            self._ended = operation_of(metadata_of(bytes(self._answer), self._hidden), self._hidden)
        except LxdMissingError:
            raise LxdError("its result is lost: the operation is gone") from None
        except LxdError as error:
            raise LxdError(f"its result is lost: {error}") from None

    def _kill(self) -> None:
        assert self._control is not None  # noqa: S101  for the type checker: the caller has looked
        connection, protocol = self._control
        protocol.send_text(json.dumps({"command": "signal", "signal": _SIGKILL}).encode())
        _send_what_is_due(connection, protocol, seconds_from_now(KILL_SECONDS))

    def _exited(self) -> Run:
        assert self._ended is not None  # noqa: S101  for the type checker: the caller has looked
        return run_of(self._ended)


def run_of(ended: Operation) -> Run:
    """Return what a command's operation says of its end. Raises :class:`LxdError` where it says nothing of that. Pure.

    A failed operation with exit status 0 contradicts itself, and nothing passes by it.
    """
    if ended.running:
        raise LxdError("the daemon waits no longer, and the command goes on")
    if ended.code is None:
        raise LxdError(ended.error or "an end without an exit status")
    if ended.code == 0 and not ended.succeeded:
        raise LxdError(ended.error or "the operation has failed, with exit status 0")
    return Run(RunEnd.EXITED, ended.error or f"exit status {ended.code}", ended.code)


def _come(connection: socket.socket) -> bytes | None:
    """Return what has come, nothing at the connection's end, None where there is nothing yet."""
    try:
        return connection.recv(PIECE_BYTES)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None
    except OSError:
        return b""


def _send_what_is_due(connection: socket.socket, protocol: ClientProtocol, deadline: Deadline) -> Sent:
    """Send what the protocol answers, pongs above all, within :data:`SEND_SECONDS` in all and by the deadline."""
    due = protocol.data_to_send()
    data = b"".join(due)
    try:
        if data:
            connection.settimeout(min(SEND_SECONDS, deadline.left()))
            connection.sendall(data)  # of sendall, the timeout is a total
            connection.settimeout(0)
    except (TimeoutError, BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return Sent.PART
    except OSError:
        return Sent.CLOSED
    return Sent.ALL if all(due) else Sent.CLOSED
