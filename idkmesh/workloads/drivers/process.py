"""Local processes that are started and owned here, for development (AR-8.5).

An instance is one process that leads a session and a group of its own. Its standard input is empty; both outputs go to
the standard error of this process, where its own log goes: nothing is kept, and ``--json`` stays clean.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.workloads.drivers.driver import NOT_OURS, DriverError
from idkmesh.workloads.drivers.process_crew import Crew, Program
from idkmesh.workloads.drivers.process_run import CommandRunner
from idkmesh.workloads.model import PROCESS_VARIABLES, Instance, InstanceState, Run, RunEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from idkmesh.workloads.model import DesiredModule, Readiness

DRIVER: Final = "process"
ADDRESS: Final = "127.0.0.1"
_NOT_THERE: Final = "the process has ended, or was started anew meanwhile"


class ProcessDriver:
    """A :class:`~idkmesh.workloads.drivers.driver.Driver` of local processes. Any thread may call any method.

    The processes are those of the modules that :meth:`instances` was called with last. Each has ``IDKMESH_MODULE`` and
    ``IDKMESH_INSTANCE`` among its variables, and its readiness command too. ``log`` takes a line and a level of
    :mod:`logging`; it must not wait.
    """

    def __init__(self, *, log: Callable[[str, int], None]) -> None:
        self._log = log
        self._crew = Crew(log)
        self._lock = threading.Lock()
        self._runners: dict[str, CommandRunner] = {}
        self._programs: dict[str, Program] = {}
        self._closed = False
        self._told_user = False

    def instances(self, modules: Sequence[DesiredModule]) -> list[Instance]:
        """Start what is missing, end what is no longer declared, and return what there is (see :class:`Driver`)."""
        named = [(module, name) for module in modules if module.driver == DRIVER for name in names_of(module)]
        programs = {name: _program(module, name) for module, name in named}
        self._crew.want(programs)
        with self._lock:
            self._programs = programs
            gone = [self._runners.pop(name) for name in self._runners.keys() - programs.keys()]
        for runner in gone:
            runner.close()
        return [self._instance(module, name) for module, name in named]

    def run(self, instance: Instance, readiness: Readiness, uid: int) -> Run:
        """Run a readiness command in the instance's working directory (see :class:`Driver`).

        What does not pass counts only where the process runs on: one that has ended meanwhile says nothing (AR-3.3).
        """
        if not self._crew.runs_on(instance.name, instance.identity):
            return Run(RunEnd.COULD_NOT_RUN, _NOT_THERE)
        with self._lock:
            program = self._programs.get(instance.name)
            if program is None or self._closed:
                return Run(RunEnd.COULD_NOT_RUN, "there is no such process")
            runner = self._runners.setdefault(instance.name, CommandRunner())
        run = runner.run(readiness, self._user(uid), program.cwd, dict(program.variables))
        if run.code != 0 and not self._crew.runs_on(instance.name, instance.identity):
            return Run(RunEnd.COULD_NOT_RUN, _NOT_THERE, seconds=run.seconds)
        return run

    def restart(self, instance: Instance, may_act: Callable[[], bool]) -> None:
        """Send TERM to its group, KILL after 10 s, and start it again (see :class:`Driver`).

        KILL finishes what TERM has begun: the process is this supervisor's own, whoever holds the lease by then.
        """
        if not may_act():
            raise DriverError(f"process: {instance.name} is not restarted: {NOT_OURS}")
        self._crew.restart(instance.name, instance.identity)

    def close(self) -> None:
        """End all of them (see :class:`Driver`)."""
        with self._lock:
            self._closed = True
            runners = list(self._runners.values())
        for runner in runners:
            runner.close()
        self._crew.close()

    def _instance(self, module: DesiredModule, name: str) -> Instance:
        identity, runs = self._crew.seen(name)
        return Instance(
            module=module.name,
            name=name,
            state=InstanceState.RUNNING if runs else InstanceState.STOPPED,
            identity=identity,
            address=None if module.port is None else ADDRESS,
        )

    def _user(self, uid: int) -> int | None:
        """Return the user that a command runs as, None for our own: only root may choose."""
        own = os.geteuid()
        if own == 0:
            return uid
        if own != uid and not self._told_user:
            self._told_user = True
            self._log(
                f"process: readiness commands run as user {own}, not {uid}: only root may run them as somebody else",
                logging.WARNING,
            )
        return None


def names_of(module: DesiredModule) -> list[str]:
    """Return the names of a module's replicas: the module's, and a number from 1."""
    return [f"{module.name}-{number}" for number in range(1, module.replicas + 1)]


def _program(module: DesiredModule, name: str) -> Program:
    cwd = str(Path.cwd() if module.cwd is None else Path(module.cwd))
    return Program(module.argv, cwd, tuple(zip(PROCESS_VARIABLES, (module.name, name), strict=True)))
