"""The contract of drivers (AR-8.1), over each of them on the real thing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.model import Instance, InstanceState, Readiness, Run, RunEnd
from tests.workloads.support import always

if TYPE_CHECKING:
    from tests.contract.worlds import World

WAIT = 60.0


def the_instance(world: World) -> Instance:
    """Return the module's one instance, as soon as it runs."""
    deadline = time.monotonic() + WAIT
    while True:
        (instance,) = world.driver.instances([world.module])
        if instance.state is InstanceState.RUNNING:
            return instance
        assert time.monotonic() < deadline, f"the instance does not run: {instance}"
        time.sleep(0.05)


def run(world: World, *command: str, limit: int = 5) -> Run:
    return world.driver.run(the_instance(world), Readiness(command, limit), world.uid)


def shell(world: World, script: str, limit: int = 5) -> Run:
    """Run a shell's line: what a declaration may not have (AR-2.3), a test may."""
    return run(world, "sh", "-c", script, limit=limit)


def test_a_listing_says_the_same_twice(world: World) -> None:
    """AR-8.1, AR-4.4: instances of a module, ours, with an identity that stays while nothing happens."""
    first, second = the_instance(world), the_instance(world)
    assert first == second
    assert (first.module, first.owned, bool(first.identity)) == (world.module.name, True, True)


@pytest.mark.parametrize("status", [0, 1, 3, 126, 127, 128, 137, 255])
def test_an_exit_status_is_told(world: World, status: int) -> None:
    """AR-3.3: a command that has exited says its status and nothing else."""
    ended = shell(world, f"exit {status}")
    assert (ended.end, ended.code) == (RunEnd.EXITED, status)


@pytest.mark.parametrize("program", ["/nowhere/at-all", "no-such-program", "/etc/passwd", "/"])
def test_a_program_that_cannot_be_run(world: World, program: str) -> None:
    """AR-3.3: a missing program, or one that is none, could not run, or exits with 126 or 127, which means that."""
    ended = run(world, program)
    assert ended.end is RunEnd.COULD_NOT_RUN or ended.code in {126, 127}


def test_a_command_that_ends_by_a_signal(world: World) -> None:
    """AR-3.3: a signal is an exit status above 128."""
    ended = shell(world, "kill -9 $$")
    assert (ended.end, ended.code) == (RunEnd.EXITED, 137)


def test_a_command_at_its_limit_is_dead(world: World) -> None:
    """AR-3.4: when a run that was too long is over, no process of it is there, one that ignores signals neither."""
    ended = shell(world, "trap '' TERM INT HUP; exec sleep 5432", limit=1)
    assert ended.end is RunEnd.TIMED_OUT
    assert ended.seconds >= 1
    assert [line for line in world.processes() if "5432" in line] == []


def test_the_input_is_empty(world: World) -> None:
    """AR-3.2: a program that reads its input finds the end of it."""
    assert run(world, "cat").code == 0


def test_where_and_as_whom(world: World) -> None:
    """AR-3.2: the user and the group are the numbers asked for, the folder is the root, and there is no terminal."""
    uid = world.uid
    assert shell(world, f'test "$(id -u)/$(id -g)/$(pwd)" = "{uid}/{uid}//"').code == 0
    assert shell(world, "test -t 0 || test -t 1 || test -t 2").code == 1


def test_output_holds_nothing_up(world: World) -> None:
    """AR-3.2: 20 MB on both outputs end as they would without anybody who reads."""
    assert shell(world, "dd if=/dev/zero bs=1000000 count=20; dd if=/dev/zero bs=1000000 count=20 >&2", 15).code == 0


def test_what_holds_the_output_is_found(world: World) -> None:
    """AR-3.4: a command that leaves something behind holding its output neither passes nor fails."""
    ended = shell(world, "sleep 3 & exit 0", limit=1)
    assert (ended.end, ended.code) == (RunEnd.LEFT_BEHIND, None)
    deadline = time.monotonic() + WAIT
    while run(world, "true").code != 0:
        assert time.monotonic() < deadline, "a command is not run again when nothing is left"
        time.sleep(0.1)


def test_eight_at_once(world: World) -> None:
    """AR-3.2, AR-8.1: any thread may call: eight runs go on beside each other, and each has its own answer."""
    commands = [Readiness(("sh", "-c", f"sleep 1; exit {status}")) for status in range(8)]
    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(world.driver.run, world.eight(), commands, [world.uid] * 8))
    assert [each.code for each in ended] == list(range(8))


def test_a_stopped_instance_says_nothing(world: World) -> None:
    """AR-3.3: nothing can be run in an instance that was stopped since it was seen."""
    instance = the_instance(world)
    world.stop()
    try:
        assert world.driver.run(instance, Readiness(("true",)), world.uid).end is RunEnd.COULD_NOT_RUN
    finally:
        world.start()
    assert run(world, "true").code == 0


def test_a_restart_makes_another_life(world: World) -> None:
    """AR-4.4, AR-5.6: a restarted instance runs with another identity, and what was seen before is not asked."""
    before = the_instance(world)
    world.driver.restart(before, always)
    after = the_instance(world)
    assert after.identity != before.identity
    assert world.driver.run(before, Readiness(("true",)), world.uid).end is RunEnd.COULD_NOT_RUN
    with pytest.raises(DriverError) as told:
        world.driver.restart(before, always)
    assert "\n" not in str(told.value)
    assert run(world, "true").code == 0


def test_ended_while_a_command_runs(world: World) -> None:
    """AR-3.3, AR-8.4: a command that does not pass while its instance is restarted says nothing of it."""
    instance = the_instance(world)
    command = Readiness(("sh", "-c", "sleep 2; exit 1"), 15)
    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(world.driver.run, instance, command, world.uid)
        deadline = time.monotonic() + WAIT
        while not any("exit 1" in line for line in world.processes()):
            assert time.monotonic() < deadline, "the command does not run"
            time.sleep(0.02)
        world.driver.restart(instance, always)
        ended = ran.result(WAIT)
    assert (ended.end, ended.code) == (RunEnd.COULD_NOT_RUN, None)


def test_closing_twice(world: World) -> None:
    """AR-8.1: a second close changes nothing."""
    world.driver.close()
    world.driver.close()
    assert world.driver is not None
