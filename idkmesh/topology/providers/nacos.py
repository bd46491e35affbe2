"""Releases and instances that are registered in Nacos (RT-8), by gRPC, with the official SDK (``idkmesh[nacos]``)."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Final

from idkmesh.topology.model import Cause
from idkmesh.topology.provider import CLOSED, ProviderFailureError, Usability
from idkmesh.topology.providers.boundary import Boundary
from idkmesh.topology.providers.crossings import nobody
from idkmesh.topology.providers.forms import DEFAULT_GROUP, DEFAULT_NAMESPACE, NACOS_PORT, NACOS_WORD
from idkmesh.topology.providers.nacos_service import NacosSettings
from idkmesh.topology.providers.packages import MissingPackageError, need
from idkmesh.topology.providers.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from idkmesh.topology.model import Snapshot, Target
    from idkmesh.topology.provider import Counted, Sink, Watch
    from idkmesh.topology.providers.crossings import Changed

FIELD: Final = "provider.nacos"
CLOSE_SECONDS: Final = 5.0

GRPC_LOG: Final = "GRPC_VERBOSITY"
"""The variable that gRPC's core reads once. What it writes to standard error names addresses, and repeats what a server
says when it sends a connection away (RT-8.8)."""

_SERVER: Final = re.compile(rf"(?:([A-Za-z0-9._\-]{{1,253}})|\[([0-9A-Fa-f:.]{{2,45}})\]):({NACOS_PORT})")
_NAME: Final = re.compile(NACOS_WORD)


class NacosProvider:
    """A :class:`~idkmesh.topology.provider.Provider` in Nacos, asked at ``servers``, ``HOST:PORT`` of their HTTP.

    ``clusters`` empty takes the instances of all. ``line`` takes a line and a level of :mod:`logging`, ``changed`` the
    crossings of RT-10.2; neither may wait. ``observe`` False makes it snapshot-only (RT-5.9). Raises ``ValueError`` for
    what is no server, namespace, group or cluster, and
    :class:`~idkmesh.topology.providers.packages.MissingPackageError`. The SDK is imported here, which takes a second.
    """

    name: Final = "nacos"

    def __init__(  # noqa: PLR0913  all but the first by name: as they stand in the configuration
        self,
        servers: Sequence[str],
        *,
        line: Callable[[str, int], None],
        changed: Changed = nobody,
        namespace: str = DEFAULT_NAMESPACE,
        group: str = DEFAULT_GROUP,
        clusters: Sequence[str] = (),
        username: str | None = None,
        password: str | None = None,
        observe: bool = True,
    ) -> None:
        if not servers:
            raise ValueError(f"{FIELD}.servers: none is named; write HOST:8848")
        if (username is None) is not (password is None):
            raise ValueError(f"{FIELD}: a username and a password are given together")
        for field, names in (("namespace", [namespace]), ("group", [group]), ("clusters", clusters)):
            if not all(_NAME.fullmatch(name) for name in names):
                raise ValueError(f"{FIELD}.{field}: must be 1 to 128 of A-Z a-z 0-9 . _ : -")
        where = tuple(dict.fromkeys(server_of(text) for text in servers))
        settings = NacosSettings(where, namespace, group, frozenset(clusters), username, password)
        need(self.name)
        os.environ.setdefault(GRPC_LOG, "NONE")
        try:
            from idkmesh.topology.providers.nacos_follower import WORDS, NacosFollower  # noqa: PLC0415  an extra, and heavy
        except ImportError:
            raise MissingPackageError(
                "the provider nacos cannot load the package nacos-sdk-python; install 'idkmesh[nacos]' anew"
            ) from None
        self._watches = Watches(taken=observe)
        self._follower = NacosFollower(settings, self._watches, Boundary(WORDS, line, changed))
        self._thread = threading.Thread(target=self._follower.run, name="topology-nacos", daemon=True)
        self._thread.start()

    @property
    def continuous(self) -> bool:
        """Whether watches are taken."""
        return self._watches.taken

    def snapshot(self, target: Target, seconds: float) -> Snapshot:
        """Ask a server now (see :class:`~idkmesh.topology.provider.Provider`)."""
        if self._watches.closed:
            raise ProviderFailureError(Cause.CLOSED)
        return self._follower.ask(target, seconds)

    def observe(self, target: Target, sink: Sink) -> Watch:
        """Begin a watch (see :class:`~idkmesh.topology.provider.Provider`)."""
        watch = self._watches.add(target, sink)
        self._follower.wake()
        return watch

    def usable(self) -> Usability:
        """Say whether a server has answered last (see :class:`~idkmesh.topology.provider.Provider`)."""
        return CLOSED if self._watches.closed else self._follower.boundary.usability

    def counted(self) -> Counted | None:
        """Return what the connection has brought (see :class:`~idkmesh.topology.provider.Provider`)."""
        return self._follower.boundary.counted if self._watches.taken else None

    def close(self) -> None:
        """End the thread and its connection (see :class:`~idkmesh.topology.provider.Provider`)."""
        self._watches.close()
        self._follower.wake()
        self._thread.join(CLOSE_SECONDS)


def server_of(text: str) -> tuple[str, int]:
    """Return the host and the port of ``HOST:PORT``. Raises ``ValueError`` for anything else."""
    found = _SERVER.fullmatch(text)
    if found is None:
        raise ValueError(f"{FIELD}.servers: must be HOST:PORT, with a port from 1 to 64535")
    return found[1] or found[2], int(found[3])
