"""Writes the events of a service without making anybody wait, and gives away what is committed (EV-2.7-2.10, EV-3).

Laws of this module:

1. :meth:`EventRecorder.emit` takes a lock that is never held while anything is written, and does nothing else.
2. One thread writes. It waits at its bell, which producers and other processes ring, and for nothing else but the next
   try of a store that fails, and the housekeeping.
3. An event leaves the queue when it is committed, or when its own write has failed for another reason than a lock of
   another process. While the store is known to fail events wait in the queue; only what finds it full is lost.
4. What is lost is told by the next event that is stored, before any that waited.
5. Each cure has an end: a store is tried again every 5 s, and put aside no more often.
6. Trouble belongs to the store that showed it: what was seen of an old one never touches the new one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from idkmesh.events.bells import make_bell_folder, new_bell
from idkmesh.events.envelope import Event
from idkmesh.events.errors import StoreBusyError, StoreDamagedError, StoreError, StoreMovedError, told
from idkmesh.events.feed import Feed
from idkmesh.events.inbox import Inbox
from idkmesh.events.opening import Damage
from idkmesh.events.state import Batch, RecorderState
from idkmesh.events.store import READ_BYTES, SOURCE, EventStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from idkmesh.clock import Clock
    from idkmesh.events.bells import Bell
    from idkmesh.events.envelope import StoredEvent
    from idkmesh.events.retention import Retention

_Answer = TypeVar("_Answer")

BATCH: Final = 256
"""Events that are committed together at most (EV-3.2)."""

RETRY_SECONDS: Final = 5.0
"""How often a store that takes no events is tried (EV-2.8)."""

HOUSEKEEPING_SECONDS: Final = 60.0
"""How often retention is applied, and a log truncated that a reader has kept."""

LONG_LOG_BYTES: Final = 16 * 1024 * 1024
"""A write-ahead log beyond this is told (EV-2.10)."""


class EventRecorder:
    """An :class:`~idkmesh.events.sink.EventSink` that keeps events in a store.

    Opening the store is the constructor's: it raises :class:`StoreError`. From :meth:`start` on one thread writes.
    ``log`` takes a line and a level of :mod:`logging`; it must not wait. ``source`` is the source of the events that
    the recorder tells of itself.

    ``published`` and ``replaced`` are called by the writing thread. ``published`` gets the events of each commit, also
    of other processes, each once and without a gap, beginning after the newest that :meth:`snapshot` knows when the
    recorder is new. ``replaced`` says that this order ends: :attr:`epoch` is another now, or retention has given up
    events before they could be published. It gets the epoch, and the sequence after which the next order begins.
    """

    def __init__(  # noqa: PLR0913  what it keeps, where, and the four that it speaks to
        self,
        path: Path,
        retention: Retention,
        *,
        clock: Clock,
        published: Callable[[list[StoredEvent]], None],
        replaced: Callable[[str, int], None],
        log: Callable[[str, int], None],
        source: str = SOURCE,
    ) -> None:
        self._retention = retention
        self._clock = clock
        self._log_line = log
        self._source = source
        self._pid = os.getpid()
        self._inbox = Inbox()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing_at: float | None = None
        self._failing: str | None = None
        self._warning: str | None = None
        self._trouble: tuple[EventStore, StoreError] | None = None
        self._refused = 0
        self._told = (0, 0)
        self._retry_at = self._replaced_at = -RETRY_SECONDS
        self._tidy_at = clock.monotonic()
        self._long_log = False
        self._left_told = threading.Lock()
        self._store = self._opened(path)
        try:
            self._bell = self._new_bell(self._store)
            # After the bell has its name: what others commit from here on rings it.
            self._bounds = (self._store.epoch, *self._store.bounds())
        except BaseException:
            self._store.close()
            raise
        self._feed = self._new_feed(published, replaced)

    def _new_feed(self, published: Callable[[list[StoredEvent]], None], replaced: Callable[[str, int], None]) -> Feed:
        return Feed(
            self._bounds[2],
            published=lambda events: self._guarded(lambda: published(events)),
            replaced=lambda position: self._guarded(lambda: replaced(self._store.epoch, position)),
        )

    # --- for any thread -------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The store's file, absolute."""
        return self._store.path

    @property
    def epoch(self) -> str:
        """The epoch of the store that is in use."""
        return self._store.epoch

    def start(self) -> None:
        """Begin to write, once: what was emitted before is written first. After :meth:`close` nothing happens.

        Raises ``RuntimeError`` the second time: two threads would store what waits twice.
        """
        with self._starting:
            if self._thread is not None:
                raise RuntimeError("an event recorder is started once")
            if self._closing_at is not None:
                return
            thread = threading.Thread(target=self._run, name="event-recorder", daemon=True)
            thread.start()
            self._thread = thread  # alive from here on, or it has died

    def emit(self, event: Event) -> None:
        """Take an event (EV-3.1). In a forked child it goes nowhere: the thread that writes is the parent's."""
        if os.getpid() == self._pid and self._inbox.put(event):
            self._bell.ring()

    def flush(self, timeout: float) -> bool:
        """Wait until what was emitted before is stored or refused; say whether that came about in time (seconds).

        For a producer that has to know, before it ends for example; `emit` itself never waits.
        """
        return os.getpid() == self._pid and self._inbox.wait_settled(timeout)

    def commit(self, event: Event, timeout: float) -> bool:
        """Take an event, and say whether it is committed within ``timeout`` seconds.

        For who must not go on without it. While the store fails it is not taken. A no may be an event that is committed
        later, or one that was not lost but for others that were: never the other way round.
        """
        if os.getpid() != self._pid or self._fault() is not None:
            return False
        lost = self._totals()
        self.emit(event)
        return self._inbox.wait_settled(timeout) and self._totals() == lost

    def read(
        self,
        after: int,
        limit: int,
        wanted: Mapping[str, str],
        *,
        descending: bool = False,
        max_bytes: int = READ_BYTES,
    ) -> Batch:
        """Read as :meth:`EventStore.read` does. Damage that shows here leads to a new store (EV-2.7)."""
        return self._asked(lambda store: store.read(after, limit, wanted, descending=descending, max_bytes=max_bytes))

    def latest_time(self) -> str:
        """Return what :meth:`EventStore.latest_time` does."""
        return self._asked(lambda store: store.latest_time())

    def examine(self) -> str:
        """Do what :meth:`EventStore.examine` does. Damage that shows here leads to a new store, as in :meth:`read`."""
        return self._asked(lambda store: store.examine())

    def _asked(self, question: Callable[[EventStore], _Answer]) -> _Answer:
        store = self._store
        try:
            return question(store)
        except StoreError as error:
            if store is not self._store:  # it was replaced, and closed, meanwhile
                return question(self._store)
            if isinstance(error, StoreDamagedError | StoreMovedError):
                self._trouble = store, error
                self._bell.ring()
            raise

    def snapshot(self) -> RecorderState:
        """Return how it stands. Waits for nothing."""
        epoch, floor, newest = self._bounds
        return RecorderState(
            epoch=epoch,
            floor=floor,
            newest=newest,
            failing=self._fault(),
            warning=self._warning,
            refused_total=self._refused,
            dropped_total=self._inbox.dropped,
            queued=len(self._inbox),
            wal_bytes=self._store.wal_bytes,
        )

    def close(self, timeout: float) -> None:
        """Write the queue out, for at most ``timeout`` seconds, tell what is left in the log, and close (EV-3.3)."""
        if os.getpid() != self._pid:
            return
        with self._starting:
            if self._closing_at is not None:
                return
            self._inbox.close()
            self._closing_at = self._clock.monotonic() + timeout
        if self._thread is None or not self._thread.is_alive():  # never started, or died of a fault
            self._run()
            return
        self._bell.ring()
        # A little more than the thread grants itself: what it is doing now it may finish.
        self._thread.join(timeout + 0.25)
        if self._thread.is_alive():
            self._log_left(may_be=True)

    # --- the writing thread's -------------------------------------------------------------------------------------

    def _run(self) -> None:
        rung = True
        while True:
            self._turn(others=rung)
            if self._closing_at is not None and self._finished():
                break
            rung = self._bell.wait(self._pause())
        self._log_left()
        self._bell.close()
        self._store.close()

    def _finished(self) -> bool:
        """Say whether a recorder that closes has nothing more to do, or no time."""
        return not len(self._inbox) or self._failing is not None or self._late()

    def _late(self) -> bool:
        return self._closing_at is not None and self._clock.monotonic() >= self._closing_at

    def _log_left(self, *, may_be: bool = False) -> None:
        """Tell once what is lost with the end of the service; ``may_be`` while the thread is still at it."""
        refused, dropped = self._untold(self._totals())
        left = len(self._inbox)
        if not (left or refused or dropped) or not self._left_told.acquire(blocking=False):
            return
        written = "may not have been written" if may_be else "were not written"
        self._log(
            f"the service has ended: {left} events in the queue {written} to {self.path}, and it does not tell of "
            f"{refused} that were refused and {dropped} that were dropped",
            logging.ERROR,
        )

    def _fault(self) -> str | None:
        """Return why no events are taken, None while they are."""
        thread = self._thread
        if thread is not None and not thread.is_alive() and self._closing_at is None:
            return "the thread that writes events has died; restart the service"
        return self._failing

    def _pause(self) -> float:
        """Return how long the thread may wait at its bell, in seconds."""
        now = self._clock.monotonic()
        if self._failing is not None:
            return max(0.0, self._retry_at - now)
        if len(self._inbox) or self._trouble is not None:
            return 0.0
        return max(0.0, self._tidy_at - now)

    def _turn(self, *, others: bool) -> None:
        """Do once what is due. Whatever goes wrong, the thread lives on."""
        now = self._clock.monotonic()
        if self._failing is not None and now < self._retry_at and self._closing_at is None:
            return
        try:
            self._replace_if_due(now)
            self._write()
            if others or self._failing is not None:
                self._catch_up()
            if now >= self._tidy_at:
                self._tidy(now)
            self._recovered()
        except (StoreDamagedError, StoreMovedError) as error:
            self._trouble = self._store, error
        except StoreBusyError as error:
            self._fail(str(error), now, "events wait")
        except StoreError as error:
            self._fail(str(error), now)
        except Exception as error:  # noqa: BLE001  a fault of ours: events are counted and told of, as for any other
            self._fail(f"the event recorder has a fault: {type(error).__name__}: {error}", now)

    def _write(self) -> None:
        """Commit what waits, at most :data:`BATCH` events, after the word on what was lost."""
        waiting = self._inbox.first(BATCH)
        totals = self._totals()
        lost = self._lost(totals)
        events = [*lost, *waiting]
        if not events:
            return
        try:
            stored = self._store.append(events)
        except (StoreDamagedError, StoreMovedError, StoreBusyError):
            raise  # the next store gets them, or this one once it is free
        except Exception:
            if self._failing is None:  # else they have not been tried: what waits goes on waiting (law 3)
                self._refused += len(waiting)
                self._inbox.settle(waiting)
            raise
        self._told = totals
        self._inbox.settle(waiting)
        self._know(stored[-1].sequence)
        self._feed.appended(stored, self._store)
        self._know(self._feed.position)
        self._watch_log()

    def _totals(self) -> tuple[int, int]:
        """Return how many were refused and dropped until now. Producers go on: read once, and go by that."""
        return self._refused, self._inbox.dropped

    def _untold(self, totals: tuple[int, int]) -> tuple[int, int]:
        return totals[0] - self._told[0], totals[1] - self._told[1]

    def _lost(self, totals: tuple[int, int]) -> list[Event]:
        """Return the event that tells how many were lost since the last one, if any were."""
        refused, dropped = self._untold(totals)
        if not refused and not dropped:
            return []
        reason = self._failing or "the queue of events was full"
        data = {"refused": refused, "dropped": dropped, "reason": _text(reason)}
        return [Event(type="idkmesh.events.refused", source=self._source, time=self._clock.utc(), data=data)]

    def _catch_up(self) -> None:
        floor, newest = self._feed.catch_up(self._store)
        self._bounds = (self._store.epoch, floor, newest)

    def _know(self, newest: int) -> None:
        epoch, floor, known = self._bounds
        self._bounds = (epoch, floor, max(known, newest))

    def _tidy(self, now: float) -> None:
        more = self._store.prune(self._clock.utc())
        self._store.tidy()
        self._keep_bell(self._store)
        self._catch_up()  # a bell that was lost has not rung
        self._watch_log()
        # What is left of a long past goes a thousand a turn, so that events do not wait for all of it.
        self._tidy_at = now if more else now + HOUSEKEEPING_SECONDS

    def _watch_log(self) -> None:
        """Tell once that a foreign reader keeps the log from being truncated, and once that it no longer does."""
        size = self._store.wal_bytes
        if size > LONG_LOG_BYTES and not self._long_log:
            self._long_log = True
            self._log(
                f"the write-ahead log {self.path}-wal has {size} bytes: another program reads the store in one long "
                "transaction; end it, the log shrinks then",
                logging.WARNING,
            )
        elif self._long_log and size <= LONG_LOG_BYTES:
            self._long_log = False
            self._log(f"the write-ahead log {self.path}-wal has {size} bytes again", logging.INFO)

    def _keep_bell(self, store: EventStore) -> None:
        """See that others find the bell, and make a new one where its name was removed, with its folder perhaps."""
        if not self._bell.stands():
            lost, self._bell = self._bell, self._new_bell(store)
            lost.close()
        store.bell = self._bell.name

    def _new_bell(self, store: EventStore) -> Bell:
        with told(store.path):
            bell = new_bell(make_bell_folder(store.path))
        store.bell = bell.name
        if bell.name is None:
            self._log(
                f"the folder of the event store {store.path} takes no FIFOs: what other processes commit is noticed "
                f"with the next own event, and every {HOUSEKEEPING_SECONDS:.0f} s",
                logging.WARNING,
            )
        return bell

    def _fail(self, reason: str, now: float, what: str = "events are refused") -> None:
        if self._failing is None:
            self._log(f"{reason}; {what}, a new try follows every {RETRY_SECONDS:.0f} s", logging.ERROR)
        self._failing = reason
        self._retry_at = now + RETRY_SECONDS

    def _recovered(self) -> None:
        if self._failing is not None:
            self._failing = None
            self._log(f"the event store {self.path} takes events again", logging.INFO)

    # --- another store --------------------------------------------------------------------------------------------

    def _replace_if_due(self, now: float) -> None:
        """Take the store that has the name now, after putting aside a damaged one (EV-2.7)."""
        if self._trouble is None:
            return
        old, trouble = self._trouble
        if old is not self._store:  # law 6
            self._trouble = None
            return
        if now < self._replaced_at + RETRY_SECONDS:  # law 5
            raise StoreError(str(trouble))
        self._replaced_at = now  # before the new one is opened, which may show the same
        damage = Damage(old.opened.identity, str(trouble)) if isinstance(trouble, StoreDamagedError) else None
        if damage is None:
            with contextlib.suppress(StoreError):  # another one has the name now, or nothing can be saved
                old.rescue()
        store = self._opened(old.path, damage)
        try:
            self._keep_bell(store)
            bounds = store.bounds()
        except StoreError:
            store.close()
            raise
        self._store, self._trouble = store, None
        self._bounds = (store.epoch, *bounds)
        old.close()  # after the renaming: see the laws of `opening`
        if damage is None or store.opened.quarantined is None:
            self._log(f"{trouble}; it was opened again, its epoch is {store.epoch}", logging.WARNING)
        if store.epoch != old.epoch:
            self._feed.restart(bounds.floor)
        self._catch_up()  # of the same epoch: from where it was, unless the store has gone back

    def _opened(self, path: Path, damage: Damage | None = None) -> EventStore:
        now = self._clock.utc()
        store = EventStore.open(path, retention=self._retention, now=now, source=self._source, damage=damage)
        for level, line in store.opened.notes:
            self._log(line, level)
        self._warning = store.opened.quarantined or self._warning
        return store

    def _guarded(self, call: Callable[[], None]) -> None:
        """Keep a fault of whoever takes events apart from the store, which has them already.

        After the deadline of :meth:`close` nobody is called: whoever took events may have ended.
        """
        if self._late():
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001  whatever it is, it is not the store's
            self._log(f"a taker of events has a fault: {type(error).__name__}: {error}", logging.ERROR)

    def _log(self, line: str, level: int) -> None:
        """Write a line to the log. One that cannot be written ends no thread."""
        with contextlib.suppress(Exception):
            self._log_line(line, level)


def _text(text: str) -> str:
    """Return a text that may hold a file's name, as one that an event can have."""
    return text.encode("utf-8", "backslashreplace").decode()
