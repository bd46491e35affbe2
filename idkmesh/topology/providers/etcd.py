"""Releases and instances that are registered in etcd (RT-7), through its JSON gateway, with ``etcd3gw``.

A release is declared by a key, its instances are the keys below it, each under a lease of its own: what keeps an
instance's lease alive keeps it registered. One watch of the whole prefix serves all watches of releases: ten thousand
of them are one connection, one listing after a loss, and one lookup a change.
"""

from __future__ import annotations

import re
import selectors
import threading
import time
from typing import TYPE_CHECKING, Final

from idkmesh.etcd.gateway import Call, EtcdAnswerError, EtcdError, Members, b64, endpoint_of, member_of
from idkmesh.topology.model import MAX_ENDPOINTS, Cause
from idkmesh.topology.provider import CLOSED, ProviderFailureError, Usability
from idkmesh.topology.providers.boundary import Boundary
from idkmesh.topology.providers.crossings import nobody
from idkmesh.topology.providers.etcd_follower import (
    MAX_PAGE_BYTES,
    REQUEST_SECONDS,
    WORDS,
    Follower,
    cause_of,
    changes_of,
    next_key,
)
from idkmesh.topology.providers.etcd_releases import snapshot_of_keys
from idkmesh.topology.providers.etcd_wire import range_below
from idkmesh.topology.providers.forms import DEFAULT_PREFIX, ETCD_PREFIX, MAX_ETCD_PREFIX
from idkmesh.topology.providers.packages import need
from idkmesh.topology.providers.ring import Ring
from idkmesh.topology.providers.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from idkmesh.topology.model import Snapshot, Target
    from idkmesh.topology.provider import Counted, Sink, Watch
    from idkmesh.topology.providers.crossings import Changed
    from idkmesh.topology.providers.etcd_releases import KeyValue

FIELD: Final = "provider.etcd"

CLOSE_SECONDS: Final = 5.0
ASK_SECONDS: Final = 2.0
"""How often a boundary that nobody watches is asked (RT-5.6)."""

_PREFIX: Final = re.compile(ETCD_PREFIX)


class EtcdProvider:
    """A :class:`~idkmesh.topology.provider.Provider` in etcd, asked at ``endpoints``, URLs of its members.

    ``line`` takes a line and a level of :mod:`logging`, ``changed`` the crossings of RT-10.2; neither may wait.
    ``observe`` False makes it snapshot-only (RT-5.9). Raises
    ``ValueError`` for an endpoint or a prefix that is none, and
    :class:`~idkmesh.topology.providers.packages.MissingPackageError`.
    """

    name: Final = "etcd"

    def __init__(
        self,
        endpoints: Sequence[str],
        prefix: str = DEFAULT_PREFIX,
        *,
        line: Callable[[str, int], None],
        changed: Changed = nobody,
        observe: bool = True,
    ) -> None:
        if not endpoints:
            raise ValueError(f"{FIELD}.endpoints: none is named; write http://HOST:2379")
        if not _PREFIX.fullmatch(prefix) or len(prefix) > MAX_ETCD_PREFIX:
            raise ValueError(f"{FIELD}.prefix: must be /NAME or /NAME/NAME, up to 8 names of A-Z a-z 0-9 . _ -")
        found = dict.fromkeys(endpoint_of(url, f"{FIELD}.endpoints") for url in endpoints)
        self._members = Members(list(found), most=MAX_PAGE_BYTES)
        need(self.name)
        self._prefix = prefix
        self._watches = Watches(taken=observe)
        self._ring = Ring()
        self._follower = Follower(self._members, prefix, self._watches, self._ring, Boundary(WORDS, line, changed))
        work = self._follower.run if observe else self._ask_now_and_then
        self._thread = threading.Thread(target=work, name="topology-etcd", daemon=True)
        self._thread.start()

    @property
    def continuous(self) -> bool:
        """Whether watches are taken."""
        return self._watches.taken

    def snapshot(self, target: Target, seconds: float) -> Snapshot:
        """Ask etcd now (see :class:`~idkmesh.topology.provider.Provider`), at one revision of its."""
        if self._watches.closed:
            raise ProviderFailureError(Cause.CLOSED)
        try:
            return _asked(Call(self._members, time.monotonic() + seconds), f"{self._prefix}/{target}")
        except EtcdError as error:
            raise ProviderFailureError(cause_of(error)) from None
        except (ValueError, KeyError, TypeError):
            raise ProviderFailureError(Cause.UNREADABLE) from None

    def observe(self, target: Target, sink: Sink) -> Watch:
        """Begin a watch (see :class:`~idkmesh.topology.provider.Provider`)."""
        watch = self._watches.add(target, sink)
        self._ring.ring()
        return watch

    def usable(self) -> Usability:
        """Say whether etcd has answered last (see :class:`~idkmesh.topology.provider.Provider`)."""
        return CLOSED if self._watches.closed else self._follower.boundary.usability

    def counted(self) -> Counted | None:
        """Return what the connection has brought (see :class:`~idkmesh.topology.provider.Provider`)."""
        return self._follower.boundary.counted if self._watches.taken else None

    def close(self) -> None:
        """End the thread and its connection (see :class:`~idkmesh.topology.provider.Provider`)."""
        until = time.monotonic() + CLOSE_SECONDS
        self._watches.close()
        self._ring.ring()
        self._thread.join(CLOSE_SECONDS)
        self._members.wait(until)
        self._ring.close()

    def _ask_now_and_then(self) -> None:
        """Find out whether etcd answers, where nothing is watched."""
        key = {"key": b64(f"{self._prefix}/"), "keys_only": True}
        with selectors.DefaultSelector() as selector:
            selector.register(self._ring, selectors.EVENT_READ)
            while not self._watches.closed:
                try:
                    Call(self._members, time.monotonic() + REQUEST_SECONDS).ask("kv/range", key)
                    self._follower.boundary.well()
                except Exception as error:  # noqa: BLE001  the thread must not end: what it said last would stay
                    cause = cause_of(error) if isinstance(error, EtcdError) else Cause.FAULT
                    self._follower.boundary.lost(cause, time.monotonic())
                if selector.select(ASK_SECONDS):
                    self._ring.silence()


def _asked(call: Call, path: str) -> Snapshot:
    """Return what stands at a release's path and below it, at one revision of etcd's. Raises what may go wrong.

    It goes on until more endpoints are known than a release may have: keys of others, and records that are no endpoint,
    take no place of theirs.
    """
    start, end = range_below(path)
    ranges = [
        {"request_range": {"key": b64(path), "keys_only": True}},
        {"request_range": {"key": start, "range_end": end, "limit": MAX_ENDPOINTS + 1}},
    ]
    answer = call.ask("kv/txn", {"success": ranges})
    release, page = (each["response_range"] for each in member_of(answer, "responses", list))
    revision, declared = member_of(answer, "header", dict).get("revision"), bool(changes_of(release))
    below: list[KeyValue] = []
    while True:
        keys = changes_of(page)
        if page.get("more") and (not keys or (below and keys[-1].key <= below[-1].key)):
            raise EtcdAnswerError("etcd: a page that goes no further")
        below += keys
        snapshot = snapshot_of_keys(path, declared=declared, below=below)
        if not page.get("more") or len(snapshot.endpoints) > MAX_ENDPOINTS:
            return snapshot
        rest = {"key": next_key(keys[-1].key), "range_end": end, "limit": MAX_ENDPOINTS + 1, "revision": revision}
        page = call.ask("kv/range", rest)
