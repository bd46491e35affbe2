"""What a provider does (RT-5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from idkmesh.topology.model import Cause, ProviderEvent

if TYPE_CHECKING:
    from idkmesh.topology.model import Snapshot, Target

Sink = Callable[[ProviderEvent], None]
"""Takes what a watch says (RT-5.2): whole snapshots, and at most one failure, which is the last.

It returns soon, never raises, and may close its own watch or another. It is called by one thread at a time for one
watch, never while a lock is held that :meth:`Provider.observe`, :meth:`Watch.close` or :meth:`Provider.usable` takes.
"""


class ProviderFailureError(Exception):
    """A provider could not say what was asked. Its text is the cause's one word: nothing of the provider's own."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.value)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Usability:
    """Whether a provider's boundary is usable, and why not (RT-5.6)."""

    usable: bool
    cause: Cause | None = None


CLOSED: Final = Usability(usable=False, cause=Cause.CLOSED)
"""What every provider says of itself after its :meth:`Provider.close`."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a provider has counted that follows its source over a connection (RT-10.6).

    ``reconnects`` are since its making. The others are of what is known now: records of instances that are
    ``unreadable``, and keys beside those of releases and instances, which are ``ignored``.
    """

    reconnects: int = 0
    unreadable: int = 0
    ignored: int = 0


class Watch(Protocol):
    """A watch that goes on until it is closed, or its sink has got a failure."""

    def close(self) -> None:
        """End it. Waits for nothing; a second call changes nothing. Any thread may, the one in the sink included.

        One call of the sink may be on its way still.
        """


class Provider(Protocol):
    """Where releases are registered. It works from its making on. Any thread may call any method."""

    @property
    def name(self) -> str:
        """What the configuration and the projection call it: ``etcd``, ``nacos``, ``file``, ``direct``."""

    @property
    def continuous(self) -> bool:
        """Whether :meth:`observe` is there (RT-5.9)."""

    def snapshot(self, target: Target, seconds: float) -> Snapshot:
        """Ask once, for at most ``seconds``. Raises :class:`ProviderFailureError`, and nothing else."""

    def observe(self, target: Target, sink: Sink) -> Watch:
        """Begin a watch, at once and without I/O: the sink gets what is there now, and then each change (RT-5.2).

        Raises :class:`ProviderFailureError` where none can begin: ``closed`` after :meth:`close`, ``fault`` where it is
        not :attr:`continuous`.
        """

    def usable(self) -> Usability:
        """Say whether the boundary is usable, from memory (RT-5.6); it is asked for by itself every 5 s at least."""

    def counted(self) -> Counted | None:
        """Return what was counted, from memory; None where no connection is kept."""

    def close(self) -> None:
        """End everything, within 5 s: no thread is left, no sink is called any more. A second call changes nothing.

        Never called from within a sink.
        """
