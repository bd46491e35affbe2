"""The events of one epoch in one SQLite file (EV-2).

Laws of this module:

1. What :meth:`EventStore.append` has returned is on the disk, under the store's name (EV-2.1).
2. Who writes takes the write lock with the first statement: a transaction that reads first and writes then cannot wait.
3. One connection writes, one thread at a time. Readers have connections of their own, a thread each, and no
   transaction outlives a call (EV-2.10, EV-2.12).
4. A forked child uses no connection, and closes none: both would harm its parent's (EV-2.12).
5. Who reads looks first whether the file still has the name, as who writes does: an old connection shows the old file.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Final, Self

from idkmesh.events.bells import bell_folder, ring_others
from idkmesh.events.connecting import BUSY_SECONDS, close_quietly, connect, roll_back
from idkmesh.events.envelope import FILTERS, StoredEvent
from idkmesh.events.errors import StoreBusyError, StoreError, StoreForkedError, StoreMovedError, told
from idkmesh.events.opening import LOG_LIMIT_BYTES, open_store, truncate_log
from idkmesh.events.place import absolute, beside, identity_of
from idkmesh.events.reading import first_young, latest_time, newest_time, read_batch, read_bounds, read_epoch
from idkmesh.events.schema import insert

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from idkmesh.events.connecting import Connection
    from idkmesh.events.envelope import Event
    from idkmesh.events.opening import Damage, Opened
    from idkmesh.events.place import Identity
    from idkmesh.events.retention import Retention
    from idkmesh.events.state import Batch, Bounds

SOURCE: Final = "/control-tower"
"""The source of what a store tells of itself (EV-1.6)."""

MAX_BATCH: Final = 200
"""Events that one read returns at most (EV-2.10)."""

READ_BYTES: Final = 1024 * 1024
"""Where a read ends by the size of its data, if by nothing else: 200 of the largest events would be 13 MB."""

PRUNE_ROWS: Final = 1000
"""Events that one transaction gives up at most: other writers wait no longer than for so many."""

PRUNE_BYTES: Final = 2 * 1024 * 1024
"""And the data that it gives up at most, but for one event: each page that becomes free stands in the log."""

READERS: Final = 4
"""Connections that read at most; who finds all lent waits. SQLite keeps the descriptor of a closed one for as long as
another has the file open: as many as ever read at once would stay."""
READER_CACHE_KIB: Final = 512
"""Pages that a reader keeps in memory: a batch and its way there. They are worth nothing after the next commit."""

_RETRY_GROWTH: Final = 1024 * 1024
"""How much a log that could not be truncated grows until it is tried again."""


class EventStore:
    """A store that this process has open. Any thread may call any method.

    ``path`` is absolute, ``epoch`` the store's, ``opened`` what is to be told of its opening. Every method raises
    :class:`~idkmesh.events.errors.StoreError`: ``StoreMovedError`` when another file has taken the name,
    ``StoreDamagedError`` when the file does not hold what was written to it.
    """

    def __init__(self, path: Path, opened: Opened, retention: Retention) -> None:
        self.path = path
        self.epoch = opened.epoch
        self.opened = opened
        self.retention = retention
        self.bell: str | None = None
        self.wal_bytes = 0
        self._pid = os.getpid()
        self._writing = threading.Lock()
        self._writer: Connection | None = opened.connection
        self._pooling = threading.Condition()
        self._idle: list[Connection] = []
        self._lent = 0
        self._closed = False
        self._truncate_at = LOG_LIMIT_BYTES
        self._log = self._log_identity()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        retention: Retention,
        now: datetime,
        source: str = SOURCE,
        damage: Damage | None = None,
    ) -> Self:
        """Open the store, or make it. ``now`` and ``source`` are for the event that tells of a damaged one (EV-2.7)."""
        path = absolute(path)
        return cls(path, open_store(path, now=now, source=source, damage=damage), retention)

    def append(self, events: Sequence[Event]) -> list[StoredEvent]:
        """Store the events together or not at all, and return them with their places once they are on the disk.

        Waits for other writers, at most 5 s (``StoreBusyError``). A call that fails takes no sequence (EV-2.2).
        """
        if not events:
            return []
        with self._transaction() as connection:
            last = insert(connection, self.epoch, events)
        ring_others(bell_folder(self.path), self.bell)
        first = last - len(events) + 1
        return [
            StoredEvent(
                self.epoch,
                first + index,
                event.type,
                event.source,
                event.subject,
                event.time_text,
                event.data_text,
                event.digest,
            )
            for index, event in enumerate(events)
        ]

    def read(
        self,
        after: int,
        limit: int,
        wanted: Mapping[str, str],
        *,
        descending: bool = False,
        max_bytes: int = READ_BYTES,
    ) -> Batch:
        """Return up to ``limit`` (1 to 200) events after a sequence, or, ``descending``, before it, newest first.

        ``wanted`` maps filters (:data:`~idkmesh.events.envelope.FILTERS`) to the value to match. Reading ends with the
        event whose data makes it ``max_bytes``. Every event's digest is compared.
        """
        if not 1 <= limit <= MAX_BATCH or not wanted.keys() <= set(FILTERS):
            raise ValueError(f"a read takes a limit from 1 to {MAX_BATCH} and filters among {', '.join(FILTERS)}")
        with self._reading() as connection:
            query = (after, limit, wanted)
            return read_batch(connection, self.path, query, descending=descending, max_bytes=max_bytes)

    def bounds(self) -> Bounds:
        """Return floor and newest sequence."""
        with self._reading() as connection:
            return read_bounds(connection, self.path)

    def latest_time(self) -> str:
        """Return the latest time of the newest 100,000 events, as it is written, "" where there is none."""
        with self._reading() as connection:
            return latest_time(connection, self.path)

    def examine(self) -> str:
        """Open the file anew, read its newest event's time, and return its epoch.

        A connection that is open goes on with what it has read of a file that was damaged under it; a new one does not.
        """
        self._refuse_child()
        with told(self.path):
            self._refuse_moved()
            with contextlib.closing(connect(self.path, "ro")) as connection:
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("BEGIN")
                epoch = read_epoch(connection, self.path)
                newest_time(connection, self.path)
                self._refuse_moved()
                return epoch

    def prune(self, now: datetime) -> bool:
        """Give up what retention no longer keeps, at most 1,000 events; say whether more is due (EV-2.4).

        Age counts back from ``now``, or from the newest event where that is earlier.
        """
        with self._transaction() as connection:
            bounds = read_bounds(connection, self.path)
            window = bounds.floor + PRUNE_ROWS
            oldest = self.retention.oldest_kept(min(now, newest_time(connection, self.path) or now))
            young = first_young(connection, window, bounds.newest, oldest)
            floor = self.retention.due_floor(*bounds, first_young=young)
            step = self._step(connection, bounds.floor, min(floor, window))
            if step > bounds.floor:
                connection.execute("UPDATE meta SET floor = ?", (step,))
                connection.execute("DELETE FROM event WHERE sequence <= ?", (step,))
        return floor > step or floor >= window

    @staticmethod
    def _step(connection: Connection, floor: int, wanted: int) -> int:
        """Return up to which sequence one transaction gives events up: of large ones fewer, or the log would swell."""
        size = 0
        rows = connection.execute(
            "SELECT sequence, length(data) FROM event WHERE sequence > ? AND sequence <= ? ORDER BY sequence",
            (floor, wanted),
        )
        for sequence, length in rows:
            size += length
            if size >= PRUNE_BYTES:
                return int(sequence)
        return wanted

    def tidy(self) -> None:
        """Truncate the write-ahead log if it is too long and nobody reads from it (EV-2.10)."""
        self._refuse_child()
        with self._writing, told(self.path):
            self._truncate(self._connection(), LOG_LIMIT_BYTES)

    def close(self) -> None:
        """Close every connection; one that is reading is closed by its reader. Again does nothing."""
        if os.getpid() != self._pid:
            return
        with self._pooling:
            self._closed = True  # before anything that may wait: no reader is lent from here on
            readers, self._idle = self._idle, []
            self._pooling.notify_all()
        for reader in readers:
            close_quietly(reader)
        with self._writing:
            writer, self._writer = self._writer, None
        if writer is not None:
            close_quietly(writer)

    def _connection(self) -> Connection:
        if self._writer is None:
            raise self._is_closed()
        return self._writer

    def _is_closed(self) -> StoreError:
        return StoreError(f"the event store {self.path} is closed; open it again")

    def _refuse_child(self) -> None:
        if os.getpid() != self._pid:
            raise StoreForkedError(
                f"the event store {self.path} belongs to process {self._pid}, which has forked this one; "
                "start a program of its own instead"
            )

    def _refuse_moved(self) -> None:
        if identity_of(self.path) != self.opened.identity:
            raise StoreMovedError(f"the event store {self.path} is no longer the file that was opened")
        if self._log is not None and self._log_identity() != self._log:
            raise StoreMovedError(f"the write-ahead log of the event store {self.path} was removed while it was in use")

    def _log_identity(self) -> Identity | None:
        return identity_of(beside(self.path, "-wal")) if self.opened.wal else None

    def rescue(self) -> None:
        """Bring what a removed log holds into the file: this connection still has it, and nobody else will (EV-2.1).

        Not where another process has made a log anew: its pages and these would mix.
        """
        self._refuse_child()
        with self._writing, told(self.path):
            removed = self._log is not None and self._log_identity() is None
            if removed and identity_of(self.path) == self.opened.identity:
                self._connection().execute("PRAGMA wal_checkpoint(FULL)").fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Hold the write lock of the store; commit at the end, or undo everything."""
        self._refuse_child()
        with self._writing, told(self.path):
            connection = self._connection()
            self._refuse_moved()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise
            self._refuse_moved()  # another process may have put the file aside meanwhile (law 1)
            self._truncate(connection, self._truncate_at)

    def _truncate(self, connection: Connection, limit: int) -> None:
        """Measure the log, and truncate it beyond ``limit``. What is committed is committed, whatever comes of it."""
        if not self.opened.wal:
            return
        self.wal_bytes = _size(beside(self.path, "-wal"))
        if self.wal_bytes > limit:
            truncate_log(connection)
            self.wal_bytes = _size(beside(self.path, "-wal"))
            self._truncate_at = max(LOG_LIMIT_BYTES, self.wal_bytes + _RETRY_GROWTH)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Lend a connection with a snapshot to the calling thread."""
        self._refuse_child()
        with told(self.path):
            self._refuse_moved()
            connection = self._borrow()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                roll_back(connection)
                self._take_back(connection)

    def _borrow(self) -> Connection:
        with self._pooling:
            free = self._pooling.wait_for(lambda: self._closed or self._idle or self._lent < READERS, BUSY_SECONDS)
            if self._closed:
                raise self._is_closed()
            if not free:
                raise StoreBusyError(
                    f"the event store {self.path} is being read by {READERS} others, none of which has ended in "
                    f"{BUSY_SECONDS:.0f} s; is its disk well?"
                )
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._new_reader()
        except BaseException:
            self._take_back(None)
            raise

    def _new_reader(self) -> Connection:
        connection = connect(self.path, "ro")
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
            self._refuse_moved()  # between the two looks it was opened, so it is the same file
        except BaseException:
            close_quietly(connection)
            raise
        return connection

    def _take_back(self, connection: Connection | None) -> None:
        """End a loan; None where no connection came of it."""
        with self._pooling:
            self._lent -= 1
            self._pooling.notify()
            if connection is None:
                return
            if not self._closed:
                self._idle.append(connection)
                return
        close_quietly(connection)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
