"""What holds for every driver, on local processes."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.drivers.process import ProcessDriver
from idkmesh.workloads.model import DEFAULT_PROBE_UID, InstanceState, Readiness, RunEnd
from tests.workloads.process_support import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.workloads.drivers.driver import Driver

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")


@pytest.fixture(params=[lambda: ProcessDriver(log=lambda line, level: None)], ids=["process"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    make: Callable[[], Driver] = request.param
    made = make()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("argv", "seconds", "end", "code"),
    [
        (("true",), 5, RunEnd.EXITED, 0),
        (("false",), 5, RunEnd.EXITED, 1),
        (("sleep", "3600"), 1, RunEnd.TIMED_OUT, None),
        (("no-such-program",), 5, RunEnd.COULD_NOT_RUN, None),
        (("sh", "-c", "sleep 3600 & exit 0"), 5, RunEnd.LEFT_BEHIND, None),
    ],
)
def test_runs(driver: Driver, argv: tuple[str, ...], seconds: int, end: RunEnd, code: int | None) -> None:
    """AR-8.1, AR-3.3, AR-3.4: a run ends in one of four ways, within its limit."""
    instance = driver.instances([module()])[0]
    result = driver.run(instance, Readiness(argv, seconds), DEFAULT_PROBE_UID)
    assert (result.end, result.code) == (end, code)
    assert "\n" not in result.reason
    assert result.seconds < seconds + 2.5


def test_runs_at_once(driver: Driver) -> None:
    """AR-3.2, AR-8.1: any thread may run commands, in eight instances at a time."""
    instances = driver.instances([module(replicas=8)])
    ends: list[RunEnd] = []
    began = time.monotonic()
    threads = [
        threading.Thread(
            target=lambda each: ends.append(driver.run(each, Readiness(("sleep", "2"), 15), DEFAULT_PROBE_UID).end),
            args=(instance,),
        )
        for instance in instances
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ends == [RunEnd.EXITED] * 8
    assert time.monotonic() - began < 12


def test_a_restart_is_another_life(driver: Driver) -> None:
    """AR-4.4, AR-8.1: after a restart it runs with another identity; the one seen before cannot be meant."""
    declared = module()
    first = driver.instances([declared])[0]
    driver.restart(first)
    second = driver.instances([declared])[0]
    assert second.state is InstanceState.RUNNING
    assert second.identity != first.identity
    with pytest.raises(DriverError) as caught:
        driver.restart(first)
    assert "\n" not in str(caught.value)


def test_what_is_not_there(driver: Driver) -> None:
    """AR-3.3, AR-8.1: a command in an instance that is not there could not run, and a restart of it is an error."""
    instance = driver.instances([module()])[0]
    driver.instances([])
    assert driver.run(instance, Readiness(("true",)), DEFAULT_PROBE_UID).end is RunEnd.COULD_NOT_RUN
    with pytest.raises(DriverError):
        driver.restart(instance)
