"""What the contract suite runs over: for each driver one world, with a module that has one running instance."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from tests.lxd_fixture import driver_of, module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.model import DesiredModule
    from scripts.lib.lxd_host import LxdHost


class World(Protocol):
    """A driver, and hands that do to its instance what the driver cannot."""

    module: DesiredModule
    uid: int

    @property
    def driver(self) -> Driver:
        """What is tried."""

    def processes(self) -> list[str]:
        """Return the command lines of what runs in the instance, or was started beside it."""

    def stop(self) -> None:
        """Stop the instance from outside."""

    def start(self) -> None:
        """Have it running again."""


class LxdWorld:
    """An instance of a real LXD."""

    uid = 65534

    def __init__(self, host: LxdHost) -> None:
        self._host = host
        self.driver = driver_of(host)
        self.module = module_of("web-1")

    def processes(self) -> list[str]:
        return self._host.processes("web-1")

    def stop(self) -> None:
        self._host.lxc("stop", "web-1", "--force")

    def start(self) -> None:
        self._host.lxc("start", "web-1")


@contextlib.contextmanager
def lxd_world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = LxdWorld(request.getfixturevalue("lxd_host"))
    with contextlib.closing(world.driver):
        yield world


WORLDS: dict[str, Callable[[pytest.FixtureRequest], contextlib.AbstractContextManager[World]]] = {"lxd": lxd_world}
