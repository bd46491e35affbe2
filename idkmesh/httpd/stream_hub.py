"""The open streams: which bytes each gets next, until when it lives, and how it ends. On the front's thread.

Laws
    * A stream is a connection in STREAMING with a :class:`Stream` beside it. It takes no slot, no thread, and of the
      events only its position; what the socket did not take is kept, at most one take (EV-5.10).
    * While something is unsent nothing else is begun: comments and the goodbye stand between events, never in one.
    * Nothing is polled. A stream is written when something was published, when history was read for it, when its
      socket has room again, and when its deadline says that it is to be looked at.
"""

from __future__ import annotations

import contextlib
import dataclasses
import selectors
import socket
from dataclasses import dataclass
from logging import ERROR
from typing import TYPE_CHECKING, Final

from idkmesh.httpd.answers import LOOK_SECONDS, request_line_of
from idkmesh.httpd.connection import FREE_BYTES, Connection, Event, State
from idkmesh.httpd.core import Limit
from idkmesh.httpd.outbox import WOULD_BLOCK, send_some
from idkmesh.httpd.refusals import TOO_MANY_STREAMS
from idkmesh.httpd.sse import CONTENT_TYPE, Message, comment_frame
from idkmesh.httpd.stream_window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.httpd.answers import Answers
    from idkmesh.httpd.application import Subscription
    from idkmesh.httpd.core import Core
    from idkmesh.httpd.keeper import Keeper
    from idkmesh.httpd.streams import Beginning, Channel

FAREWELL_SECONDS: Final = 0.2
"""How long a drain leaves a stream to carry what tells of the drain itself."""
CUT_SECONDS: Final = 0.45
"""When a drain cuts a stream whose client has not taken the goodbye: within 0.5 s (EV-5.8)."""
TAKES_AT_ONCE: Final = 4
"""The most that one stream is given before the others have their turn."""
DISCARD_BYTES: Final = 64 * 1024
SEND_BUFFER_BYTES: Final = 64 * 1024
"""What the kernel is asked to keep for one stream: by itself it grows to megabytes for a client that does not read."""
POSITION_FIELD: Final = "X-IDKMesh-Stream-Position"
OPENING: Final = comment_frame("the stream is open")
_NOTHING: Final = memoryview(b"")
_BOTH: Final = selectors.EVENT_READ | selectors.EVENT_WRITE


class Stream:
    """One open stream. Times are monotonic seconds."""

    __slots__ = (
        "beginning",
        "connection",
        "ending",
        "ends_at",
        "position",
        "replaying",
        "sent_at",
        "settled",
        "unsent",
        "wanted",
    )

    def __init__(
        self, connection: Connection, beginning: Beginning, position: int, wanted: Mapping[str, str], *, ends_at: float
    ) -> None:
        """Begin behind `position` of a history; end at `ends_at`."""
        self.connection = connection
        self.beginning = beginning
        self.position = position
        self.wanted = wanted
        self.ends_at = ends_at
        self.sent_at = 0.0
        self.unsent = _NOTHING
        self.replaying = False
        """Whether the helper reads history for it."""
        self.ending = False
        """Whether it ends as soon as nothing is unsent."""
        self.settled = True
        """Whether the client had taken everything when it was last looked at, and nothing was sent since."""

    @property
    def gone(self) -> bool:
        """Whether it has ended. Safe in any thread."""
        return self.connection.state is not State.STREAMING


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatistics:
    """The streams at one instant; totals count since the start."""

    open: int = 0
    opened_total: int = 0
    refused_total: int = 0
    dropped_total: int = 0


class StreamHub:
    """Writes all streams of one server, of one channel."""

    def __init__(self, core: Core, keeper: Keeper, answers: Answers, channel: Channel, limit: int) -> None:
        """Open at most `limit` streams of `channel`."""
        self._core = core
        self._keeper = keeper
        self._answers = answers
        self._channel = channel
        self._limit = limit
        self._timeout = core.limits.request_timeout
        self._look_seconds = min(self._timeout / 4, LOOK_SECONDS)
        self._heartbeat = core.limits.sse_heartbeat
        self._window = Window(channel.beginning.newest)
        self._beginning = channel.beginning
        self._fresh = False
        """Whether events have come that the streams were not given yet."""
        self._streams = keeper.held[State.STREAMING]
        self._farewell_at = float("inf")
        self._cut_at = float("inf")
        self._opened = 0
        self._refused = 0
        self._dropped = 0

    def statistics(self) -> StreamStatistics:
        """Return a snapshot. Safe in any thread."""
        return StreamStatistics(
            open=len(self._streams),
            opened_total=self._opened,
            refused_total=self._refused,
            dropped_total=self._dropped,
        )

    # --- opening ---------------------------------------------------------------------------------------------------

    def open(self, connection: Connection, subscription: Subscription, now: float) -> None:
        """Begin a stream, or say that there are too many."""
        self._take_published(now)
        if len(self._streams) >= self._limit:
            self._notice_who_left()
        if len(self._streams) >= self._limit:
            self._refused += 1
            self._core.hit(Limit.STREAMS, now)
            self._answers.refuse(connection, TOO_MANY_STREAMS, now)
            return
        position = self._window.newest if subscription.after is None else subscription.after
        head = self._head(connection, position)
        request = connection.request
        if request is not None and request.method == "HEAD":
            self._answers.send(connection, head, 200, now)
            return
        if request is not None:
            connection.request = request_line_of(request)
        connection.early = b""
        self._keeper.release(connection)
        connection.advance(Event.STREAMED)
        connection.status = 200
        with contextlib.suppress(OSError):
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        ends_at = now + self._core.limits.sse_max_stream
        stream = Stream(connection, self._beginning, position, subscription.wanted, ends_at=ends_at)
        connection.stream = stream
        stream.unsent = memoryview(head + OPENING)
        judged = subscription.beginning
        stream.ending = judged is None or judged.name != self._beginning.name
        self._opened += 1
        self._keeper.hold(connection, min(now + self._heartbeat, stream.ends_at))
        self._core.streams_peak.note(len(self._streams), now)
        self._write(stream, now)

    def _head(self, connection: Connection, position: int) -> bytes:
        core = self._core
        # The second is for proxies that would collect a response before they pass it on.
        fields = ((POSITION_FIELD, self._beginning.label(position)), ("X-Accel-Buffering", "no"))
        return core.renderer.stream_head(CONTENT_TYPE, fields, core.request_id(connection), core.http_date())

    # --- writing ---------------------------------------------------------------------------------------------------

    def pump(self, now: float) -> None:
        """Send on what was published and what was read from history since the last call."""
        channel = self._channel
        if channel.replayed:
            self._take_replayed(now)
        if channel.published:
            self._take_published(now)
        if self._fresh:
            self._fresh = False
            for connection in list(self._streams):
                stream = connection.stream
                if stream is not None and not stream.unsent and not stream.replaying:
                    self._write(stream, now)
        if now >= self._farewell_at:
            self._say_goodbye(now)

    def _take_published(self, now: float) -> None:
        published = self._channel.published
        while published:
            item = published.popleft()
            if not isinstance(item, Message):
                self._begin(item, now)
                continue
            if item.position != self._window.newest + 1:  # a fault of the source: streams read what it is from history
                self._core.log.write(f"event {item.position} was published after event {self._window.newest}", ERROR)
                self._begin(dataclasses.replace(self._beginning, newest=item.position - 1), now)
            self._window.append(item)
            self._fresh = True

    def _begin(self, beginning: Beginning, now: float) -> None:
        """Take up another history, to which whoever is open does not belong, or a later part of the same."""
        same = beginning.name == self._beginning.name
        self._window = Window(beginning.newest)
        self._beginning = beginning
        self._fresh = True
        for connection in list(self._streams):
            if not same:
                self._finish(connection, b"", now)
            elif connection.stream is not None:
                connection.stream.beginning = beginning

    def _take_replayed(self, now: float) -> None:
        replayed = self._channel.replayed
        while replayed:
            batch = replayed.popleft()
            stream = batch.stream
            if not isinstance(stream, Stream) or stream.gone:
                continue
            stream.replaying = False
            if stream.ending:
                continue
            if batch.position is None or stream.beginning.name != self._channel.beginning.name:
                self._finish(stream.connection, b"", now)
                continue
            stream.position = batch.position
            # A heartbeat may have begun meanwhile, and its end not have found room.
            stream.unsent = memoryview(bytes(stream.unsent) + batch.data) if stream.unsent else memoryview(batch.data)
            self._write(stream, now)

    def _write(self, stream: Stream, now: float) -> None:
        """Send what the client takes: the unsent rest, then what follows its position."""
        for _ in range(TAKES_AT_ONCE):
            if not stream.unsent and not self._refill(stream, now):
                return
            if not self._send(stream, now):
                return
        self._keeper.watch(stream.connection, _BOTH)  # there may be more: it goes on in the next turn

    def _refill(self, stream: Stream, now: float) -> bool:
        """Take what follows a stream's position; say whether there is something to send."""
        if stream.ending:
            self._answers.written(stream.connection, now)
        elif stream.replaying:
            return False
        elif stream.position < self._window.oldest:
            self._ask_history(stream, now)
        else:
            data, stream.position = self._window.after(stream.position, stream.wanted)
            if data:
                stream.unsent = memoryview(data)
                return True
            self._keeper.watch(stream.connection, selectors.EVENT_READ)
        return False

    def _ask_history(self, stream: Stream, now: float) -> None:
        self._keeper.watch(stream.connection, selectors.EVENT_READ)
        try:
            self._channel.replay(stream)
        except RuntimeError:
            self._core.log.once("no-replay", "cannot start the thread that reads events: streams that resume are ended")
            self._finish(stream.connection, b"", now)
        else:
            stream.replaying = True

    def _send(self, stream: Stream, now: float) -> bool:
        """Send the unsent bytes; say whether the client has taken them all and is still there."""
        connection = stream.connection
        unsent = stream.unsent
        try:
            sent = send_some(connection.sock, unsent, connection.flags)
        except OSError:
            self._keeper.drop(connection)
            return False
        if sent:
            connection.written += sent
            stream.sent_at = now
        if stream.settled:  # the wait for the client begins here
            stream.settled = False
            connection.progress_at = now
            self._keeper.deadlines.set(connection, self._look_at(stream, now))
        if sent == len(unsent):
            if connection.charged:
                self._core.budget.hold(connection, 0)
            stream.unsent = _NOTHING
            return True
        self._keep(stream, unsent[sent:])
        return False

    def _keep(self, stream: Stream, rest: memoryview) -> None:
        """Keep what the socket did not take, and wait for room; where the common budget is full, drop the stream."""
        connection = stream.connection
        if not self._core.budget.hold(connection, len(rest)):
            self._drop(connection)
            return
        # A view of a little keeps all that it is a view of.
        stream.unsent = rest if len(rest) > FREE_BYTES else memoryview(bytes(rest))
        self._keeper.watch(connection, _BOTH)

    # --- looking ---------------------------------------------------------------------------------------------------

    def ready(self, connection: Connection, now: float) -> None:
        """Take note that the client sent something or left, or that there is room again."""
        stream = connection.stream
        if stream is not None and self._still_there(connection) and (stream.unsent or connection.events == _BOTH):
            self._write(stream, now)

    def _notice_who_left(self) -> None:
        """Free the places of clients that have left: nobody is refused for one whose end is not looked at yet.

        That end may stand in the same turn behind the newcomer, or have come since the turn began.
        """
        for connection in list(self._streams):
            self._still_there(connection)

    def _still_there(self, connection: Connection) -> bool:
        """Discard what the client sends (EV-5.11); say whether it is still there (EV-5.10)."""
        while True:
            try:
                data = connection.sock.recv(DISCARD_BYTES, connection.flags)
            except WOULD_BLOCK:
                return True
            except OSError:
                data = b""
            connection.discarded += len(data)
            if not data or connection.discarded > DISCARD_BYTES:
                self._keeper.drop(connection)
                return False

    def overdue(self, connection: Connection, now: float) -> None:
        """Look whether the client takes anything, a heartbeat is due, or the stream has lived long enough."""
        stream = connection.stream
        if stream is None:
            return
        connection.look(now)
        outstanding = bool(stream.unsent) or connection.taken < connection.written
        if outstanding and now - connection.progress_at >= self._timeout:
            self._drop(connection)
            return
        stream.settled = not outstanding
        if now >= stream.ends_at:
            self._finish(connection, b"", now)
        elif not stream.unsent and now - stream.sent_at >= self._heartbeat:
            stream.unsent = memoryview(comment_frame(self._beginning.label(stream.position)))
            self._write(stream, now)
        if connection.state is State.STREAMING and not connection.deadline:
            self._keeper.deadlines.set(connection, self._look_at(stream, now))

    def _look_at(self, stream: Stream, now: float) -> float:
        """Return when to look at a stream again."""
        if stream.unsent or stream.ending:
            return now + self._look_seconds
        due = min(stream.sent_at + self._heartbeat, stream.ends_at)
        return due if stream.settled else min(due, now + self._look_seconds)

    # --- ending ----------------------------------------------------------------------------------------------------

    def _drop(self, connection: Connection) -> None:
        """End a stream whose client does not read, with a reset: what it was sent and did not take is not kept."""
        self._dropped += 1
        connection.cut = True
        self._keeper.drop(connection)

    def _finish(self, connection: Connection, last: bytes, now: float) -> None:
        """End a stream once what is unsent, and the frame `last`, have left."""
        stream = connection.stream
        if stream is None:
            return
        stream.ending = True
        if last:
            stream.unsent = memoryview(bytes(stream.unsent) + last)
        self._write(stream, now)

    def drain(self, now: float, latest: float) -> None:
        """Begin to end every stream, by `latest` if that is sooner; :meth:`pump` goes on with it."""
        self._farewell_at = min(self._farewell_at, now + FAREWELL_SECONDS, latest)
        self._cut_at = min(self._cut_at, now + CUT_SECONDS)

    def _say_goodbye(self, now: float) -> None:
        """Say it to each, and cut who has not taken it. A loop that comes late to say it leaves as long for it."""
        for connection in list(self._streams):
            stream = connection.stream
            if stream is not None and not stream.ending:
                self._cut_at = max(self._cut_at, now + CUT_SECONDS - FAREWELL_SECONDS)
                self._finish(connection, self._channel.goodbye, now)
            elif now >= self._cut_at:
                self._drop(connection)

    def wait(self, now: float, timeout: float) -> float:
        """Return how long the front may wait at most."""
        if self._channel.published or self._channel.replayed:
            return 0.0
        if not self._streams or self._farewell_at == float("inf"):
            return timeout
        return max(0.0, min(timeout, (self._farewell_at if now < self._farewell_at else self._cut_at) - now))

    def close(self) -> None:
        """Let the helper thread end."""
        self._channel.close()
