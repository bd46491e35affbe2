"""Releases and their instances as keys of etcd declare them (RT-7.1). Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.strict_json import once
from idkmesh.topology.model import NOT_DECLARED, Endpoint, Snapshot, endpoint_of, snapshot_of, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from idkmesh.topology.model import Target

MOST_KEYS: Final = 500_000
"""Releases and instances below a prefix. More are not held in memory: somebody registers in a loop."""

_PARTS: Final = 3
"""Of a key that declares a release: agent, version, release. A fourth one that is not empty is an instance."""


class TooManyKeysError(ValueError):
    """There are more releases and instances than are held. Its text is one line, with what was counted."""


class KeyValue(NamedTuple):
    """A key and what stands in it; None where it was deleted. ``first`` where it was not there before, or is listed."""

    key: bytes
    value: bytes | None
    first: bool = True


class _Release:
    """What is known of one release. An instance whose record is no endpoint is None."""

    __slots__ = ("declared", "instances", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.declared = False
        self.instances: dict[bytes, Endpoint | None] = {}


class EtcdReleases:
    """All releases below a prefix. The keys of others below it, which name none and no instance, are not held.

    ``unreadable`` is how many records of instances are no endpoint, ``others`` how many keys are those of others.
    """

    def __init__(self, prefix: str) -> None:
        self._start = f"{prefix}/".encode()
        self._releases: dict[bytes, _Release] = {}
        self._keys = 0
        self.unreadable = 0
        self.others = 0

    def hear(self, changes: Iterable[KeyValue]) -> set[Target]:
        """Take what was written and deleted, in order. Returns the releases that it is of.

        Raises :class:`TooManyKeysError` beyond :data:`MOST_KEYS`.
        """
        touched: set[Target] = set()
        for change in changes:
            target = self._one(change.key, change.value)
            if target is not None:
                touched.add(target)
            elif change.value is None:
                self.others -= 1
            else:
                self.others += change.first
        if self._keys > MOST_KEYS:
            raise TooManyKeysError(
                f"there are more than {MOST_KEYS:,} releases and instances below the prefix, keys of others not counted"
            )
        return touched

    def snapshot(self, target: Target) -> Snapshot:
        """Return what is known of a target."""
        found = self._releases.get(str(target).encode())
        return NOT_DECLARED if found is None else _snapshot(declared=found.declared, records=found.instances.values())

    def _one(self, key: bytes, value: bytes | None) -> Target | None:
        parts = key[len(self._start) :].split(b"/") if key.startswith(self._start) else []
        path = b"/".join(parts[:_PARTS])
        if len(parts) > _PARTS and not is_instance(parts[_PARTS:]):
            return None
        release = self._releases.get(path) or _release(path)
        if release is None:
            return None
        before = len(release.instances) + release.declared
        if len(parts) == _PARTS:
            release.declared = value is not None
        else:
            self.unreadable -= parts[_PARTS] in release.instances and release.instances[parts[_PARTS]] is None
            _put(release, parts[_PARTS], value)
            self.unreadable += parts[_PARTS] in release.instances and release.instances[parts[_PARTS]] is None
        now = len(release.instances) + release.declared
        self._keys += now - before
        if now:
            self._releases[path] = release
        else:
            self._releases.pop(path, None)
        return release.target


def is_instance(rest: list[bytes]) -> bool:
    """Say whether the parts of a key below a release name one of its instances; others may keep keys there too."""
    return len(rest) == 1 and rest[0] != b""


def _release(path: bytes) -> _Release | None:
    """Return the release that a path names, of which nothing is known; None where it is somebody else's."""
    try:
        return _Release(target_of(path.decode("ascii")))
    except ValueError:
        return None


def snapshot_of_keys(path: str, *, declared: bool, below: Iterable[KeyValue]) -> Snapshot:
    """Return the snapshot of the release at a path, from the keys below it."""
    start = len(path.encode()) + 1
    records = [_endpoint(value or b"") for key, value, _ in below if is_instance(key[start:].split(b"/"))]
    return _snapshot(declared=declared, records=records)


def _snapshot(*, declared: bool, records: Iterable[Endpoint | None]) -> Snapshot:
    known = list(records)
    endpoints = [endpoint for endpoint in known if endpoint is not None]
    return snapshot_of(endpoints, declared=declared, unreadable=len(known) - len(endpoints))


def _put(release: _Release, instance: bytes, value: bytes | None) -> None:
    if value is None:
        release.instances.pop(instance, None)
    else:
        release.instances[instance] = _endpoint(value)


def _endpoint(value: bytes) -> Endpoint | None:
    """Return the endpoint of an instance's record, None where there is none in it."""
    try:
        record = json.loads(value.decode("utf-8"), object_pairs_hook=once)
        return endpoint_of(record["endpoint"]) if isinstance(record, dict) else None
    except (ValueError, KeyError, RecursionError):
        return None
