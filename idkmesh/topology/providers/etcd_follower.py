"""Follows all keys below a prefix of etcd, for all watches (RT-7.2, RT-7.3).

Laws of this module:

1. One thread lists, watches, and calls every sink.
2. What is known is of one listing and of what one stream has told since. Nothing of it outlives the stream: whatever
   the reason, the next one begins with a listing, so a compaction, another member and an older snapshot are one case.
3. Watches that know something may go on knowing it while the boundary trusts what a stream that has ended has said, if
   a new one has begun by then. Else all of them fail.
"""

from __future__ import annotations

import selectors
import time
from typing import TYPE_CHECKING, Final

from idkmesh.etcd.gateway import EtcdAnswerError, EtcdError, asked, b64, member_of, number_of
from idkmesh.topology.model import Cause
from idkmesh.topology.providers.boundary import AGAIN_SECONDS, Boundary, Words, pause
from idkmesh.topology.providers.etcd_releases import EtcdReleases, TooManyKeysError
from idkmesh.topology.providers.etcd_stream import open_stream
from idkmesh.topology.providers.etcd_wire import WireError, key_value, range_below

if TYPE_CHECKING:
    from collections.abc import Iterable

    from idkmesh.etcd.gateway import Endpoint, Members
    from idkmesh.topology.model import Target
    from idkmesh.topology.providers.etcd_releases import KeyValue
    from idkmesh.topology.providers.etcd_stream import WatchStream
    from idkmesh.topology.providers.ring import Ring
    from idkmesh.topology.providers.watches import Watches

REQUEST_SECONDS: Final = 1.0
"""For one request of a listing, for a connection, and for the first word of a watch."""

WORDS: Final = Words("etcd", "etcd", "records of instances", 'write them as {"endpoint": "http://HOST:PORT"}')

PAGE_KEYS: Final = 1_000

MAX_PAGE_BYTES: Final = 64 * 1024 * 1024
"""Of one answer: a page of records with further members, and of keys of others, that anybody may have written."""


class Follower:
    """The thread's work."""

    def __init__(self, members: Members, prefix: str, watches: Watches, ring: Ring, boundary: Boundary) -> None:
        self.boundary = boundary
        self._members = members
        self._prefix = prefix
        self._watches = watches
        self._ring = ring
        self._releases = EtcdReleases(prefix)
        self._hurried = False
        """Whether the newest request had less time than it is to have: what was left of the trust."""

    def run(self) -> None:
        """Follow until the watches are closed."""
        while not self._watches.closed:
            try:
                seconds = self._round()
            except Exception as error:  # noqa: BLE001  the thread must not end: nobody would be told of anything
                self.boundary.fault(type(error).__name__)
                seconds = self._lost(Cause.FAULT)
            self._rest(seconds)

    # --- one stream -----------------------------------------------------------------------------------------------

    def _round(self) -> float:
        """Have one stream for as long as it lasts, and return the seconds until the next one is to begin."""
        cause = Cause.UNREACHABLE
        for endpoint in self._members.order():
            try:
                stream = self._begun(endpoint)
            except (EtcdError, WireError, ValueError) as error:
                cause = self._found(error)
                if self._watches.closed or self._end_of_trust(cause, time.monotonic()):
                    break
                continue
            self._members.answered(endpoint)
            try:
                self._follow(stream)
            except (WireError, ValueError) as error:
                self.boundary.ended(time.monotonic())
                return self._lost(self._cause(error))
            finally:
                stream.close()
            return 0.0
        return self._lost(cause)

    def _begun(self, endpoint: Endpoint) -> WatchStream:
        """List, and return a stream that goes on from there. Raises what may go wrong."""
        releases = EtcdReleases(self._prefix)
        revision = self._list(endpoint, releases)
        stream = open_stream(self._members, endpoint, self._prefix, revision + 1, self._seconds())
        try:
            self._await_first_word(stream, releases)
        except BaseException:
            stream.close()
            raise
        self._releases = releases
        self.boundary.well()
        self._count()
        return stream

    def _list(self, endpoint: Endpoint, releases: EtcdReleases) -> int:
        """Read all keys as they are at one revision of etcd's, and return that."""
        start, end = range_below(self._prefix)
        revision, last = 0, b""
        while not self._watches.closed:
            body = {"key": start, "range_end": end, "limit": PAGE_KEYS, "revision": revision}
            page = asked(self._members, endpoint, "kv/range", body, self._seconds())
            revision = revision or number_of(member_of(page, "header", dict).get("revision"))
            keys = changes_of(page)
            releases.hear(keys)
            if not page.get("more"):
                return revision
            if not keys or keys[-1].key <= last:  # it would never come to an end
                raise EtcdAnswerError("etcd: a page that goes no further")
            last = keys[-1].key
            start = next_key(last)
        raise WireError(Cause.CLOSED)

    def _await_first_word(self, stream: WatchStream, releases: EtcdReleases) -> None:
        until = time.monotonic() + self._seconds()
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                selector.select(left)
                messages = stream.receive()
                for message in messages:
                    if message.over is not None:
                        raise WireError(message.over)
                    releases.hear(message.changes)
                if any(message.created for message in messages):
                    return
        raise WireError(Cause.SILENT)

    def _follow(self, stream: WatchStream) -> None:
        """Tell the watches what comes, until it ends: raises :class:`WireError`, or returns at the end of all."""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            selector.register(self._ring, selectors.EVENT_READ)
            self._watches.take_new()
            self._say(self._watches.targets())
            while not self._watches.closed:
                for message in stream.receive():
                    if message.over is not None:
                        raise WireError(message.over)
                    self._hear(message.changes)
                due = stream.keep(time.monotonic())
                selector.select(max(0.0, due - time.monotonic()))
                self._ring.silence()
                for watch in self._watches.take_new():
                    watch.say(self._releases.snapshot(watch.target))

    def _hear(self, changes: Iterable[KeyValue]) -> None:
        self._say(self._releases.hear(changes))
        self._count()

    def _count(self) -> None:
        self.boundary.unreadable(self._releases.unreadable)
        self.boundary.ignored(self._releases.others)

    def _say(self, targets: Iterable[Target]) -> None:
        for target in targets:
            for watch in self._watches.of(target):
                watch.say(self._releases.snapshot(target))

    # --- trust ----------------------------------------------------------------------------------------------------

    def _seconds(self) -> float:
        """Return how long a request may take now. Where trust has ended since the last one the watches fail first."""
        now = time.monotonic()
        self._end_of_trust(self.boundary.cause or Cause.SILENT, now)
        seconds = min(REQUEST_SECONDS, self.boundary.left(now) or REQUEST_SECONDS)
        self._hurried = seconds < REQUEST_SECONDS
        return seconds

    def _found(self, error: Exception) -> Cause:
        """Return why an attempt has failed. That nothing came in a hurry says nothing: then it is as it was before."""
        cause = self._cause(error)
        return (self.boundary.cause or cause) if self._hurried and cause is Cause.SILENT else cause

    def _cause(self, error: Exception) -> Cause:
        if isinstance(error, TooManyKeysError):
            self.boundary.beyond(str(error))
        return cause_of(error)

    def _end_of_trust(self, cause: Cause, now: float) -> bool:
        """Let the watches fail where what they know is trusted no longer, and say whether that was now."""
        if self.boundary.left(now) != 0.0:
            return False
        self._lost(cause)
        return True

    def _lost(self, cause: Cause) -> float:
        """Write down that etcd cannot be followed, and return how long to rest."""
        if self._watches.closed:
            return 0.0
        if self.boundary.lost(cause, time.monotonic()):
            return AGAIN_SECONDS
        self._watches.take_new()
        self._watches.fail(cause)
        return pause()

    def _rest(self, seconds: float) -> None:
        """Wait, unless it is the end."""
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._ring, selectors.EVENT_READ)
            while not self._watches.closed and (left := until - time.monotonic()) > 0:
                if selector.select(left):
                    self._ring.silence()


def changes_of(page: dict[str, object]) -> list[KeyValue]:
    """Return the keys of a page; etcd leaves out an empty list. Raises :class:`EtcdAnswerError`."""
    try:
        return [key_value(kv) for kv in member_of({"kvs": [], **page}, "kvs", list)]
    except (ValueError, KeyError, TypeError):
        raise EtcdAnswerError("etcd: a page that is none; is it etcd 3.4 or newer?") from None


def next_key(key: bytes) -> str:
    """Return the first key after one, as the gateway writes it."""
    return b64(key + b"\0")


def cause_of(error: Exception) -> Cause:
    """Return the one word that is told of an error (RT-5.4)."""
    if isinstance(error, WireError):
        return error.cause
    if isinstance(error, EtcdAnswerError):
        return Cause.UNREADABLE
    if isinstance(error, EtcdError):
        return Cause.REFUSED if error.refused else Cause.SILENT if error.silent else Cause.UNREACHABLE
    return Cause.MALFORMED
