"""A real LXD for the tests that need one, brought up once, and what they ask of it."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.drivers.lxd import LxdDriver
from idkmesh.workloads.model import OWNER_KEY, DesiredModule, Instance, InstanceState, LxdPlatform, ModuleKind
from scripts.lib.lxd_host import PREFIX, LxdHost, sweep, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Read before the suite takes the variables of the user away.
REQUIRED = os.environ.get("IDKMESH_LXD_REQUIRED") == "1"
WAIT = 60.0
OURS = {OWNER_KEY: "web"}


@pytest.fixture(scope="session")
def lxd_host() -> Iterator[LxdHost]:
    if reason := why_not():
        if REQUIRED:
            pytest.fail(f"the tests on a real LXD would all skip: {reason}")
        pytest.skip(reason)
    sweep()
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir="/tmp", ignore_cleanup_errors=True) as folder:
        host = LxdHost(Path(folder))
        try:
            host.up()
            host.make("web-1", OURS)
            host.make("web-2", OURS)
            yield host
        finally:
            host.down()


def module_of(*names: str, name: str = "web") -> DesiredModule:
    return DesiredModule(name=name, kind=ModuleKind.STATELESS, driver="lxd", instances=names)


def driver_of(host: LxdHost, **changes: str) -> LxdDriver:
    return LxdDriver(LxdPlatform(socket=str(host.socket), **changes))


def seen(driver: LxdDriver, name: str = "web-1", module: str = "web") -> Instance:
    (instance,) = driver.instances([module_of(name, name=module)])
    return instance


def running(driver: LxdDriver, name: str = "web-1") -> Instance:
    instance = seen(driver, name)
    assert instance.state is InstanceState.RUNNING
    return instance


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
