"""What the contract suite of topology providers runs over: for each provider a world, with releases in a test's hands.

A world that is added here is tried by all of the suite. Times are what the provider states (RT-5.5), with what a busy
machine adds.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from idkmesh.topology.providers.direct import DirectProvider
from idkmesh.topology.providers.etcd import EtcdProvider
from idkmesh.topology.providers.file import FileProvider
from idkmesh.topology.providers.nacos import NacosProvider
from idkmesh.topology.providers.nacos_service import service_name
from idkmesh.topology.providers.releases import releases_of
from tests.topology.etcd_hands import EtcdHands
from tests.topology.nacos_hands import WHY_NOT as WHY_NO_NACOS
from tests.topology.nacos_hands import Nacos, host
from tests.workloads.etcd_support import WHY_NOT, Etcd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from idkmesh.topology.model import Endpoint, Target
    from idkmesh.topology.provider import Provider


class World(Protocol):
    """A provider, and hands that do to its source what it cannot."""

    tells_missing: bool
    """Whether a release that is not declared is another thing than one without instances (RT-8.3)."""

    @property
    def provider(self) -> Provider:
        """What is tried."""

    def more(self) -> Provider:
        """Return another provider of the same source, which the test closes."""

    def declare(self, target: Target, *endpoints: Endpoint) -> None:
        """Have it declared with exactly these instances."""

    def remove(self, target: Target) -> None:
        """Have it declared no more, with no instance."""

    def break_off(self) -> None:
        """Take the source away, where that can be done."""

    def mend(self) -> None:
        """Give it back, with what was declared last."""


def rows(releases: Mapping[Target, tuple[Endpoint, ...]]) -> list[dict[str, Any]]:
    """Return releases as a document writes them."""
    return [
        {
            "agentId": target.agent_id,
            "agentCardVersion": target.agent_card_version,
            "releaseId": target.release_id,
            "endpoints": [endpoint.url for endpoint in endpoints],
        }
        for target, endpoints in releases.items()
    ]


def text(releases: Mapping[Target, tuple[Endpoint, ...]]) -> str:
    """Return a whole document."""
    return json.dumps({"schema_version": "0.1", "kind": "idkmesh-releases", "releases": rows(releases)})


def put(path: Path, content: str | bytes) -> None:
    """Rename a new file over what is there, as it is to be done."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.replace(beside, path)  # noqa: PTH105  the call that is meant


class FileWorld:
    """A file that is renamed over."""

    tells_missing = True

    def __init__(self, path: Path, *, observe: bool) -> None:
        self._path = path
        self._observe = observe
        self._releases: dict[Target, tuple[Endpoint, ...]] = {}
        self._write()
        self.provider = self.more()

    def more(self) -> FileProvider:
        return FileProvider(self._path, line=lambda *_: None, observe=self._observe)

    def declare(self, target: Target, *endpoints: Endpoint) -> None:
        self._releases[target] = endpoints
        self._write()

    def remove(self, target: Target) -> None:
        self._releases.pop(target, None)
        self._write()

    def break_off(self) -> None:
        self._path.unlink()

    def mend(self) -> None:
        self._write()

    def _write(self) -> None:
        put(self._path, text(self._releases))


class DirectWorld:
    """A configuration: who changes it makes the provider anew."""

    tells_missing = True

    def __init__(self) -> None:
        self._releases: dict[Target, tuple[Endpoint, ...]] = {}
        self.provider = self.more()

    def more(self) -> DirectProvider:
        return DirectProvider(releases_of(rows(self._releases)))

    def declare(self, target: Target, *endpoints: Endpoint) -> None:
        self._releases[target] = endpoints
        self.provider = self.more()

    def remove(self, target: Target) -> None:
        self._releases.pop(target, None)
        self.provider = self.more()

    def break_off(self) -> None: ...

    def mend(self) -> None: ...


class EtcdWorld:
    """A real etcd of one member, with data of its own."""

    tells_missing = True

    def __init__(self, folder: Path, *, observe: bool) -> None:
        self.etcd = Etcd(folder)
        self._observe = observe
        self._hands = EtcdHands(self.etcd.url, "/idkmesh/agents")
        self._later: dict[Target, tuple[Endpoint, ...]] | None = None
        self.provider = self.more()

    def more(self) -> EtcdProvider:
        return EtcdProvider([self.etcd.url], line=lambda *_: None, observe=self._observe)

    def declare(self, target: Target, *endpoints: Endpoint) -> None:
        if self._later is not None:
            self._later[target] = endpoints
            return
        self._hands.declare(target, *endpoints)

    def remove(self, target: Target) -> None:
        self._hands.remove(target)

    def break_off(self) -> None:
        self.etcd.kill()
        self._later = {}

    def mend(self) -> None:
        self.etcd.start()
        later, self._later = self._later or {}, None
        for target, endpoints in later.items():
            self.declare(target, *endpoints)


@contextlib.contextmanager
def etcd_world(folder: Path, *, observe: bool = True) -> Iterator[World]:
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    world = EtcdWorld(folder, observe=observe)
    yield world
    world.provider.close()
    world.etcd.kill()


class NacosWorld:
    """A small server that speaks Nacos's wire protocol."""

    tells_missing = False

    def __init__(self, *, observe: bool) -> None:
        self.server = a_nacos()
        self._observe = observe
        self.server.do("anew")
        self.provider = self.more()

    def more(self) -> NacosProvider:
        return NacosProvider([self.server.address], line=lambda *_: None, observe=self._observe)

    def declare(self, target: Target, *endpoints: Endpoint) -> None:
        hosts = [host("127.0.0.1", int(endpoint.url.rpartition(":")[2])) for endpoint in endpoints]
        self.server.put(service_name(target), *hosts)

    def remove(self, target: Target) -> None:
        self.declare(target)

    def break_off(self) -> None:
        self.server.do("stop")

    def mend(self) -> None:
        self.server.do("start")


@contextlib.contextmanager
def nacos_world(_: Path, *, observe: bool = True) -> Iterator[World]:
    if WHY_NO_NACOS:
        pytest.skip(WHY_NO_NACOS)
    world = NacosWorld(observe=observe)
    yield world
    world.provider.close()


@functools.cache
def a_nacos() -> Nacos:
    """Return the server that all worlds share, one after the other: it takes a second to begin."""
    return Nacos()


@contextlib.contextmanager
def file_world(folder: Path) -> Iterator[World]:
    world = FileWorld(folder / "releases.json", observe=True)
    yield world
    world.provider.close()


@contextlib.contextmanager
def file_snapshots(folder: Path) -> Iterator[World]:
    world = FileWorld(folder / "releases.json", observe=False)
    yield world
    world.provider.close()


@contextlib.contextmanager
def direct_world(_: Path) -> Iterator[World]:
    yield DirectWorld()


Make = Callable[[Path], contextlib.AbstractContextManager[World]]

WATCHED: dict[str, Make] = {"file": file_world, "etcd": etcd_world, "nacos": nacos_world}
"""Worlds of providers that observe."""

ASKED: dict[str, Make] = {
    "file, snapshots": file_snapshots,
    "etcd, snapshots": functools.partial(etcd_world, observe=False),
    "nacos, snapshots": functools.partial(nacos_world, observe=False),
}
"""Worlds of providers that are asked each time, whose source can go away."""

FIXED: dict[str, Make] = {"direct": direct_world}
"""Worlds whose source is a part of the provider."""
