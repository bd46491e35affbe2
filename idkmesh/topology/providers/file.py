"""Releases in a file that is looked at all the time (RT-6).

Laws of this module:

1. One thread looks, reads and calls every sink, so each watch gets its snapshots one at a time and in order.
2. The lock guards the list of watches alone. No sink is called, and nothing is read, while it is held.

The name is polled: the standard library has no way to be told of changes, a watch of a folder misses a symbolic link
that changes further up, and network file systems tell nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.topology.model import NOT_DECLARED, Cause, Failed
from idkmesh.topology.provider import ProviderFailureError, Usability
from idkmesh.topology.providers.file_reading import content_of, identity_of
from idkmesh.topology.providers.file_state import LOOK_SECONDS, Fault, FileState, after_look, is_to_read
from idkmesh.topology.providers.releases import read_releases
from idkmesh.topology.telling import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.topology.model import ProviderEvent, Snapshot, Target
    from idkmesh.topology.provider import Sink, Watch

CLOSE_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 0.05
"""Between two tries of :meth:`FileProvider.snapshot` to read what somebody is writing."""

STUCK_SECONDS: Final = 5.0
"""Since the last look, when the file system does not answer."""


class FileProvider:
    """A :class:`~idkmesh.topology.provider.Provider` of a file. It looks from its making on.

    ``line`` takes a line and a level of :mod:`logging`. ``observe`` False makes it snapshot-only (RT-5.9).
    """

    name: Final = "file"

    def __init__(self, path: Path | str, *, line: Callable[[str, int], None], observe: bool = True) -> None:
        self._path = Path(path)
        self._line = undisturbed(line)
        self._continuous = observe
        self._lock = threading.Lock()
        self._watches: dict[_FileWatch, None] = {}
        self._new: dict[_FileWatch, None] = {}
        """Of these, those that have not heard anything."""
        self._said: Mapping[Target, Snapshot] | None = None
        self._ring = threading.Event()
        self._closed = False
        self._state = FileState()
        self._looked_at = time.monotonic()
        self._told: Fault | None = None
        self._look()
        self._thread = threading.Thread(target=self._run, name="topology-file", daemon=True)
        self._thread.start()

    @property
    def continuous(self) -> bool:
        """Whether watches are taken."""
        return self._continuous

    def snapshot(self, target: Target, seconds: float) -> Snapshot:
        """Read the file now (see :class:`Provider`). What is being written is tried again until the time is over."""
        until = time.monotonic() + seconds
        while not self._closed:
            content = content_of(self._path)
            cause = Cause.MALFORMED
            if isinstance(content, bytes):
                try:
                    return read_releases(content).get(target, NOT_DECLARED)
                except ValueError:
                    pass
            else:
                cause = content.cause
            if time.monotonic() + AGAIN_SECONDS >= until:
                raise ProviderFailureError(cause)
            time.sleep(AGAIN_SECONDS)
        raise ProviderFailureError(Cause.CLOSED)

    def observe(self, target: Target, sink: Sink) -> Watch:
        """Begin a watch (see :class:`Provider`)."""
        if not self._continuous:
            raise ProviderFailureError(Cause.FAULT)
        watch = _FileWatch(target, sink, self._forget)
        with self._lock:
            if self._closed:
                raise ProviderFailureError(Cause.CLOSED)
            self._watches[watch] = self._new[watch] = None
        self._ring.set()
        return watch

    def usable(self) -> Usability:
        """Say whether the file could be read and understood (see :class:`Provider`)."""
        state = self._state
        if self._closed:
            return Usability(usable=False, cause=Cause.CLOSED)
        if time.monotonic() - self._looked_at > STUCK_SECONDS:
            return Usability(usable=False, cause=Cause.SILENT)
        if state.known is None:
            fault = state.fault or state.suspect
            return Usability(usable=False, cause=None if fault is None else fault.cause)
        return Usability(usable=True)

    def close(self) -> None:
        """End the thread (see :class:`Provider`)."""
        with self._lock:
            self._closed = True
            watches, self._watches = list(self._watches), {}
        for watch in watches:
            watch.over = True
        self._ring.set()
        self._thread.join(CLOSE_SECONDS)

    def _forget(self, watch: _FileWatch) -> None:
        with self._lock:
            self._watches.pop(watch, None)
            self._new.pop(watch, None)

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._ring.wait(LOOK_SECONDS)
            self._ring.clear()
            if self._closed:
                return
            self._look()
            self._say()

    def _look(self) -> None:
        now = time.monotonic()
        identity = identity_of(self._path)
        content = content_of(self._path) if is_to_read(self._state, identity, now) else None
        try:
            self._state = after_look(self._state, identity, content, now)
        except Exception as error:  # noqa: BLE001  out of memory, say: the thread goes on, and what was known does not
            fault = Fault(Cause.FAULT, f"cannot be judged: {type(error).__name__}")
            self._state = after_look(self._state, identity, fault, now)
        self._looked_at = now
        self._tell(self._state.fault)

    def _say(self) -> None:
        """Hand each watch what it has not heard yet."""
        known, fault = self._state.known, self._state.fault
        if known is None and fault is None:  # nothing is decided yet: the first content may be half of one
            return
        with self._lock:
            watches = list(self._new if known is self._said else self._watches)
            self._new.clear()
        self._said = known
        for watch in watches:
            if fault is not None:
                self._hand(watch, Failed(fault.cause))
                watch.close()
            elif known is not None:
                self._hand(watch, known.get(watch.target, NOT_DECLARED))

    def _hand(self, watch: _FileWatch, event: ProviderEvent) -> None:
        try:
            watch.say(event)
        except Exception as error:  # noqa: BLE001  a fault of one sink must not keep others from hearing
            self._line(f"provider file: a sink has a fault: {type(error).__name__}", logging.ERROR)

    def _tell(self, fault: Fault | None) -> None:
        """Say in the log what is wrong with the file, once for each reason, and once that it is well again."""
        if fault == self._told:
            return
        if fault is not None:
            self._line(f"provider file: {self._path}: {fault.reason}; its releases are unavailable", logging.ERROR)
        else:
            self._line(f"provider file: {self._path}: it can be read again", logging.INFO)
        self._told = fault


class _FileWatch:
    """One watch: what it has heard last belongs to the provider's thread."""

    __slots__ = ("_forget", "_heard", "_sink", "over", "target")

    def __init__(self, target: Target, sink: Sink, forget: Callable[[_FileWatch], None]) -> None:
        self.target = target
        self.over = False
        self._sink = sink
        self._forget = forget
        self._heard: ProviderEvent | None = None

    def say(self, event: ProviderEvent) -> None:
        """Hand over what is new."""
        if not self.over and event != self._heard:
            self._heard = event
            self._sink(event)

    def close(self) -> None:
        """End it (see :class:`Watch`)."""
        self.over = True
        self._forget(self)
