"""Chooses an endpoint by asking the provider each time: where nothing is observed (RT-4.5, RT-5.9)."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import TYPE_CHECKING, Final

from idkmesh.topology.errors import AgentUnavailableError
from idkmesh.topology.model import Cause, Failed, Selection, State
from idkmesh.topology.provider import ProviderFailureError
from idkmesh.topology.telling import undisturbed
from idkmesh.topology.transitions import TRANSITIONS, heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.topology.model import ProviderEvent, Target
    from idkmesh.topology.provider import Provider, Usability

ASK_SECONDS: Final = 1.0
"""How long a provider may take for an answer (RT-4.5), as long as a first use waits for a watch."""


class SnapshotSelector:
    """Selects from a snapshot for each selection, of any provider. Any thread may call any method.

    It has no observations and nothing to show of them: no projection is made of it (RT-11.4). ``line`` takes a line
    and a level of :mod:`logging`.
    """

    def __init__(self, provider: Provider, *, line: Callable[[str, int], None]) -> None:
        self._provider = provider
        self._line = undisturbed(line)
        self._turns = itertools.count()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Do nothing: there is no time to keep."""

    def stop(self) -> None:
        """Do nothing: nothing is held."""

    def select(self, target: Target) -> Selection:
        """Return an endpoint of a snapshot that is taken now. Raises :class:`AgentUnavailableError`."""
        said = self._asked(target)
        state = TRANSITIONS[State.INITIALIZING][heard(said)[0]]
        if isinstance(said, Failed) or state is not State.POPULATED:
            raise AgentUnavailableError(target, state, None)
        with self._lock:
            turn = next(self._turns)
        return Selection(target, said.endpoints[turn % len(said.endpoints)], None)

    def usable(self) -> Usability:
        """Say whether the provider's boundary is usable (RT-5.6)."""
        return self._provider.usable()

    def _asked(self, target: Target) -> ProviderEvent:
        try:
            return self._provider.snapshot(target, ASK_SECONDS)
        except ProviderFailureError as error:
            return Failed(error.cause)
        except Exception as error:  # noqa: BLE001  a provider's fault is an answer too (RT-5.4)
            self._line(f"provider {self._provider.name}: it has a fault: {type(error).__name__}", logging.ERROR)
            return Failed(Cause.FAULT)
