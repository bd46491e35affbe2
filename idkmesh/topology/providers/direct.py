"""Releases that stand in the router's own configuration (RT-5.8): nothing to watch, and nothing that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.topology.model import NOT_DECLARED, Cause
from idkmesh.topology.provider import CLOSED, ProviderFailureError, Usability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.topology.model import Snapshot, Target
    from idkmesh.topology.provider import Sink, Watch


class DirectProvider:
    """A :class:`~idkmesh.topology.provider.Provider` of what was declared when it was made.

    ``releases`` is what :func:`~idkmesh.topology.providers.releases.releases_of` returns.
    """

    name: Final = "direct"
    continuous: Final = False

    def __init__(self, releases: Mapping[Target, Snapshot]) -> None:
        self._releases = dict(releases)
        self._closed = False

    def snapshot(self, target: Target, seconds: float) -> Snapshot:  # noqa: ARG002  it is in memory
        """Return what was declared (see :class:`Provider`)."""
        if self._closed:
            raise ProviderFailureError(Cause.CLOSED)
        return self._releases.get(target, NOT_DECLARED)

    def observe(self, target: Target, sink: Sink) -> Watch:  # noqa: ARG002  there is nothing to watch
        """Refuse: nothing is observed."""
        raise ProviderFailureError(Cause.CLOSED if self._closed else Cause.FAULT)

    def usable(self) -> Usability:
        """Say that it is usable until it is closed."""
        return CLOSED if self._closed else Usability(usable=True)

    def counted(self) -> None:
        """Return nothing: no connection is kept."""

    def close(self) -> None:
        """Answer nothing any more."""
        self._closed = True
