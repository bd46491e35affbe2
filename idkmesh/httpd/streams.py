"""What a program that streams events gives to the server: a channel of events, and a subscription for each stream.

Laws
    * :meth:`Channel.publish` is called after the commit, by one thread at a time, in the order of the positions.
    * A stream is a position. It moves through history, read in batches by one helper thread for all streams, until it
      meets the window of the latest events; from there on it moves as events are published. There is no moment in
      between in which an event could be missed or sent twice (EV-5.3).
"""

from __future__ import annotations

import collections
import queue
import threading
from dataclasses import dataclass, replace
from logging import ERROR, INFO
from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.httpd.stream_window import TAKE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from idkmesh.httpd.sse import Message
    from idkmesh.service_runtime import LineLog

BACKLOG: Final = 1024
"""Events that wait for a server to take them. It takes them at each turn of its loop."""
BATCH: Final = 200
"""Events that are read from history at a time: no transaction is held while anything is sent (EV-2.10)."""


class HistoryLostError(Exception):
    """History cannot go on from a position: what follows was given up meanwhile, or cannot be read."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a history begins to be published: behind position `newest`.

    `name` is which history it is, `label` writes its positions as texts. Another beginning of the same name is a later
    part of the same history: streams go on, and read what lies between.
    """

    newest: int
    label: Callable[[int], str]
    name: str = ""


class History(Protocol):
    """Where the events before the window are read from. Called by the helper thread; may wait."""

    def after(self, beginning: Beginning, position: int, wanted: Mapping[str, str]) -> tuple[Sequence[Message], int]:
        """Return some wanted events after `position`, and the position up to which was looked.

        At most :data:`BATCH` of them, and no more once they have :data:`TAKE_BYTES`: what is beyond is thrown away.

        :raises HistoryLostError: events after `position` are gone, or this is not the history of `beginning` any more.
        """


class Waiting(Protocol):
    """A stream that history is read for."""

    beginning: Beginning
    position: int
    wanted: Mapping[str, str]

    @property
    def gone(self) -> bool:
        """Whether it has ended meanwhile."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the helper has read for one stream: bytes and the position they lead to; None where history is lost."""

    stream: Waiting
    data: bytes
    position: int | None


class Channel:
    """The events of one source on their way to the streams of one server.

    :meth:`publish` and :meth:`replace` are for the source, in any thread; the rest belongs to the server's hub.
    """

    def __init__(self, history: History, beginning: Beginning, goodbye: bytes) -> None:
        """Begin behind a position: what is not published is `history`. A drain ends streams with `goodbye`, a frame."""
        self.goodbye = goodbye
        self.beginning = beginning
        """The latest one."""
        self.published: collections.deque[Message | Beginning] = collections.deque([beginning])
        """For the hub, in order."""
        self.replayed: collections.deque[Replayed] = collections.deque()
        """For the hub."""
        self._history = history
        self._asked: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._failing = False
        self._helper: threading.Thread | None = None
        self._wake: Callable[[], None] | None = None
        self._log: LineLog | None = None

    def publish(self, messages: Sequence[Message]) -> None:
        """Send committed events to the streams, in the order of their positions. Returns at once.

        Where :data:`BACKLOG` events wait, for no server or one that cannot follow, they are left to history.
        """
        if len(self.published) + len(messages) > BACKLOG:
            self.published.clear()
            self.replace(replace(self.beginning, newest=messages[-1].position))
            return
        self.published.extend(messages)
        self._notify()

    def replace(self, beginning: Beginning) -> None:
        """Go on elsewhere: of another name, every stream ends (EV-5.12); of the same, history bridges the gap."""
        self.beginning = beginning
        self.published.append(beginning)
        self._notify()

    def connect(self, wake: Callable[[], None], log: LineLog) -> None:
        """Hub: have `wake` called whenever there is something to take."""
        self._log = log
        self._wake = wake

    def replay(self, stream: Waiting) -> None:
        """Hub: have history read for a stream. :raises RuntimeError: the helper thread cannot be started."""
        if self._helper is None:
            helper = threading.Thread(target=self._read, name="idkmesh-replay", daemon=True)
            helper.start()
            self._helper = helper
        self._asked.put(stream)

    def close(self) -> None:
        """Hub: let the helper end."""
        self._wake = None
        if self._helper is not None:
            self._asked.put(None)
            self._helper.join(1.0)
            self._helper = None

    def _notify(self) -> None:
        wake = self._wake
        if wake is not None:
            wake()

    def _read(self) -> None:
        while (stream := self._asked.get()) is not None:
            if not stream.gone:  # a client that comes and goes must not have read what nobody waits for
                self.replayed.append(self._batch(stream))
                self._notify()

    def _batch(self, stream: Waiting) -> Replayed:
        try:
            messages, position = self._history.after(stream.beginning, stream.position, stream.wanted)
        except HistoryLostError:
            return Replayed(stream, b"", None)
        except Exception as error:  # noqa: BLE001  the source's own code, and streams wait for this thread
            self._tell(f"streams end, their history cannot be read: {error!r}", failing=True)
            return Replayed(stream, b"", None)
        self._tell("the history of streams can be read again", failing=False)
        frames: list[bytes] = []
        size = 0
        for message in messages:
            frames.append(message.frame)
            size += len(message.frame)
            if size >= TAKE_BYTES:
                position = message.position
                break
        return Replayed(stream, b"".join(frames), position)

    def _tell(self, line: str, *, failing: bool) -> None:
        """Log that reading begins to fail, or that it no longer does: not each stream that meets it."""
        if failing is not self._failing and self._log is not None:
            self._log.write(line, ERROR if failing else INFO)
        self._failing = failing
