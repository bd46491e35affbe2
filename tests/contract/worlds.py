"""What the contract suite runs over: for each driver one world, with a module that has one running instance."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from idkmesh.workloads.drivers.process import ProcessDriver
from idkmesh.workloads.model import InstanceState
from tests.lxd_fixture import driver_of, module_of
from tests.workloads.process_support import module, one, pid_of, waited, with_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.model import DesiredModule, Instance
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

    def eight(self) -> list[Instance]:
        """Return where eight commands may run at once: one instance eight times, or eight of them."""

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

    def eight(self) -> list[Instance]:
        return self.driver.instances([self.module]) * 8

    def stop(self) -> None:
        self._host.lxc("stop", "web-1", "--force")

    def start(self) -> None:
        self._host.lxc("start", "web-1")


@contextlib.contextmanager
def lxd_world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = LxdWorld(request.getfixturevalue("lxd_host"))
    with contextlib.closing(world.driver):
        yield world


class ProcessWorld:
    """A local process. One command runs in it at a time."""

    def __init__(self) -> None:
        self.uid = 65534 if os.geteuid() == 0 else os.geteuid()
        self.driver = ProcessDriver(log=lambda line, level: None)
        self.module = module(cwd="/")

    def processes(self) -> list[str]:
        found = []
        for pid in with_variable("IDKMESH_INSTANCE=worker-1"):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def eight(self) -> list[Instance]:
        return self.driver.instances([module(cwd="/", replicas=8)])

    def stop(self) -> None:
        instance = one(self.driver, self.module)
        os.kill(pid_of(instance), signal.SIGKILL)
        assert waited(lambda: one(self.driver, self.module) != instance)

    def start(self) -> None:
        """Wait until the driver has started it again."""
        assert waited(lambda: one(self.driver, self.module).state is InstanceState.RUNNING)


@contextlib.contextmanager
def process_world(_request: pytest.FixtureRequest) -> Iterator[World]:
    if sys.platform != "linux":
        pytest.skip("processes are looked for in /proc")
    world = ProcessWorld()
    with contextlib.closing(world.driver):
        yield world


WORLDS: dict[str, Callable[[pytest.FixtureRequest], contextlib.AbstractContextManager[World]]] = {
    "lxd": lxd_world,
    "process": process_world,
}
