"""Releases in a file that is looked at all the time (RT-6).

Laws of this module:

1. One thread looks, reads and calls every sink, so each watch gets its snapshots one at a time and in order.
2. Whatever goes wrong in that thread, it goes on, and no watch keeps what nobody looks at any more.

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
from idkmesh.topology.provider import CLOSED, ProviderFailureError, Usability
from idkmesh.topology.providers.crossings import Crossings, nobody
from idkmesh.topology.providers.file_reading import content_of, identity_of
from idkmesh.topology.providers.file_state import LOOK_SECONDS, Fault, FileState, after_look, is_to_read
from idkmesh.topology.providers.releases import read_releases
from idkmesh.topology.providers.watches import Watches
from idkmesh.topology.telling import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.topology.model import ProviderEvent, Snapshot, Target
    from idkmesh.topology.provider import Sink, Watch
    from idkmesh.topology.providers.crossings import Changed
    from idkmesh.topology.providers.file_state import Identity
    from idkmesh.topology.providers.watches import SharedWatch

CLOSE_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 0.05
"""Between two tries of :meth:`FileProvider.snapshot` to read what somebody is writing."""

STUCK_SECONDS: Final = 5.0
"""Since the last look, when the file system does not answer."""


class FileProvider:
    """A :class:`~idkmesh.topology.provider.Provider` of a file. It looks from its making on.

    ``line`` takes a line and a level of :mod:`logging`, ``changed`` the crossings of RT-10.2; neither may wait.
    ``observe`` False makes it snapshot-only (RT-5.9).
    """

    name: Final = "file"

    def __init__(
        self,
        path: Path | str,
        *,
        line: Callable[[str, int], None],
        changed: Changed = nobody,
        observe: bool = True,
    ) -> None:
        self._path = Path(path)
        self._line = undisturbed(line)
        self._crossings = Crossings(self.name, changed, self._line)
        self._watches = Watches(taken=observe)
        self._said: Mapping[Target, Snapshot] | None = None
        """What all but the new watches have heard."""
        self._ring = threading.Event()
        self._state = FileState()
        self._looked_at = time.monotonic()
        self._told: Fault | None = None
        self._look()
        self._thread = threading.Thread(target=self._run, name="topology-file", daemon=True)
        self._thread.start()

    @property
    def continuous(self) -> bool:
        """Whether watches are taken."""
        return self._watches.taken

    def snapshot(self, target: Target, seconds: float) -> Snapshot:
        """Read the file now (see :class:`Provider`). What is being written is tried again until the time is over."""
        until = time.monotonic() + seconds
        while not self._watches.closed:
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
        watch = self._watches.add(target, sink)
        self._ring.set()
        return watch

    def usable(self) -> Usability:
        """Say whether the file could be read and understood (see :class:`Provider`)."""
        state = self._state
        if self._watches.closed:
            return CLOSED
        if time.monotonic() - self._looked_at > STUCK_SECONDS:
            return Usability(usable=False, cause=Cause.SILENT)
        if state.known is None:
            fault = state.fault or state.suspect
            return Usability(usable=False, cause=None if fault is None else fault.cause)
        return Usability(usable=True)

    def counted(self) -> None:
        """Return nothing: no connection is kept."""

    def close(self) -> None:
        """End the thread (see :class:`Provider`)."""
        self._watches.close()
        self._ring.set()
        self._thread.join(CLOSE_SECONDS)

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._ring.wait(LOOK_SECONDS)
            self._ring.clear()
            if self._watches.closed:
                return
            try:
                self._look()
                self._say()
            except Exception as error:  # noqa: BLE001  the thread must not end: nobody would be told of anything
                self._tell(Fault(Cause.FAULT, f"cannot be followed: {type(error).__name__}"))
                self._watches.fail(Cause.FAULT)

    def _look(self) -> None:
        now = time.monotonic()
        identity: Identity | None = None
        try:
            identity = identity_of(self._path)
            content = content_of(self._path) if is_to_read(self._state, identity, now) else None
            self._state = after_look(self._state, identity, content, now)
        except Exception as error:  # noqa: BLE001  out of memory, say: what was known is not known any more
            fault = Fault(Cause.FAULT, f"cannot be judged: {type(error).__name__}")
            self._state = after_look(self._state, identity, fault, now)
        self._cross()  # a look that took too long is over: that it was one is told, and then what it has seen
        self._looked_at = now
        self._cross()
        self._tell(self._state.fault)

    def _cross(self) -> None:
        """Tell a crossing. Of a first content that may be half of one nothing is decided yet."""
        if self._state.known is not None or self._state.fault is not None:
            self._crossings.see(self.usable())

    def _say(self) -> None:
        """Hand each watch what it has not heard yet."""
        known, fault = self._state.known, self._state.fault
        if known is None and fault is None:  # nothing is decided yet: the first content may be half of one
            return
        new = self._watches.take_new()
        watches = new if known is self._said else self._watches.all()
        self._said = known
        for watch in watches:
            if fault is not None:
                self._hand(watch, Failed(fault.cause))
            elif known is not None:
                self._hand(watch, known.get(watch.target, NOT_DECLARED))

    def _hand(self, watch: SharedWatch, event: ProviderEvent) -> None:
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
