"""The watches of a provider whose one thread calls every sink.

Laws of this module:

1. The lock guards the lists alone. No sink is called while it is held.
2. What a watch has heard belongs to the provider's thread, which alone says anything to it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from idkmesh.topology.model import Cause, Failed
from idkmesh.topology.provider import ProviderFailureError

if TYPE_CHECKING:
    from idkmesh.topology.model import ProviderEvent, Target
    from idkmesh.topology.provider import Sink


class SharedWatch:
    """One watch of many (see :class:`~idkmesh.topology.provider.Watch`)."""

    __slots__ = ("_sink", "_watches", "heard", "over", "target")

    def __init__(self, target: Target, sink: Sink, watches: Watches) -> None:
        self.target = target
        self.over = False
        self.heard: ProviderEvent | None = None
        self._sink = sink
        self._watches = watches

    def say(self, event: ProviderEvent) -> None:
        """Hand over what is new."""
        if self.over or event == self.heard:
            return
        self.heard = event
        if isinstance(event, Failed):
            self.close()
        self._sink(event)

    def close(self) -> None:
        """End it (see :class:`~idkmesh.topology.provider.Watch`)."""
        self.over = True
        self._watches.forget(self)


class Watches:
    """All watches of a provider, by target. ``taken`` False is a provider's that takes none (RT-5.9)."""

    def __init__(self, *, taken: bool = True) -> None:
        self.taken = taken
        self._lock = threading.Lock()
        self._by_target: dict[Target, list[SharedWatch]] = {}
        self._new: dict[SharedWatch, None] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether there are to be no more."""
        return self._closed

    def add(self, target: Target, sink: Sink) -> SharedWatch:
        """Add one. Raises :class:`ProviderFailureError` after :meth:`close`, and where none is taken."""
        watch = SharedWatch(target, sink, self)
        with self._lock:
            if self._closed:
                raise ProviderFailureError(Cause.CLOSED)
            if not self.taken:
                raise ProviderFailureError(Cause.FAULT)
            self._by_target.setdefault(target, []).append(watch)
            self._new[watch] = None
        return watch

    def forget(self, watch: SharedWatch) -> None:
        """Drop one. A second time changes nothing."""
        with self._lock:
            self._new.pop(watch, None)
            watches = self._by_target.get(watch.target, [])
            if watch in watches:
                watches.remove(watch)
                if not watches:
                    del self._by_target[watch.target]

    def take_new(self) -> list[SharedWatch]:
        """Return those that were added since this was asked last."""
        with self._lock:
            new, self._new = self._new, {}
        return list(new)

    def of(self, target: Target) -> list[SharedWatch]:
        """Return those of one target."""
        with self._lock:
            return list(self._by_target.get(target, ()))

    def targets(self) -> list[Target]:
        """Return what is watched."""
        with self._lock:
            return list(self._by_target)

    def all(self) -> list[SharedWatch]:
        """Return all of them."""
        with self._lock:
            return [watch for watches in self._by_target.values() for watch in watches]

    def fail(self, cause: Cause) -> None:
        """Have each of them fail."""
        for watch in self.all():
            watch.say(Failed(cause))

    def close(self) -> None:
        """End them without a word, and take no more."""
        with self._lock:
            self._closed = True
            watches = [watch for found in self._by_target.values() for watch in found]
            self._by_target.clear()
            self._new.clear()
        for watch in watches:
            watch.over = True
