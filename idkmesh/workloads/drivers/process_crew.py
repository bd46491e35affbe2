"""Starts local processes, starts them again when they end, and ends them (AR-5.6, AR-8.5).

Laws of this module:

1. One thread starts, signals at a deadline and reaps. Others only say what is wanted, under one lock.
2. What was started is told to the guard (:mod:`~idkmesh.workloads.drivers.process_guard`) before anything else is done.
3. TERM goes to the group, KILL to the group 10 s later or when the leader has ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.child_process import SpawnError, environment, spawn
from idkmesh.workloads.boot_clock import boot_seconds
from idkmesh.workloads.checks import shown
from idkmesh.workloads.drivers import process_guard
from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.drivers.process_guard import GRACE_SECONDS, started_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.child_process import Child

FIRST_DELAY: Final = 1.0
LAST_DELAY: Final = 60.0
"""Seconds until a process that has ended is started again: the first time, and at most (AR-8.5)."""

STEADY_SECONDS: Final = 60.0
"""Who has run for so long begins with the first delay again."""

LOOK_SECONDS: Final = 0.2
LOOK_SOON_SECONDS: Final = 0.02
"""How often ends are looked for, and while one is waited for."""

SLACK_SECONDS: Final = 5.0
"""Beyond the grace, until a process that cannot be ended is given up."""

_STDERR: Final = 2


def next_delay(delay: float, ran: float) -> float:
    """Return the seconds until the next start of what ran for ``ran`` seconds and was started after ``delay``. Pure."""
    return FIRST_DELAY if ran >= STEADY_SECONDS or delay == 0 else min(LAST_DELAY, delay * 2)


@dataclass(frozen=True, slots=True)
class Program:
    """What an instance runs, where, and the variables that it gets beside ours."""

    argv: tuple[str, ...]
    cwd: str
    variables: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Replica:
    """One process, which the crew's thread owns."""

    program: Program
    child: Child | None = None
    pid: int = 0
    identity: str = "never started"
    started: float = 0.0
    due: float = 0.0
    delay: float = 0.0
    kill_at: float | None = None
    again: bool = False
    fault: str | None = None
    starts: int = 0


class Crew:
    """The processes of one driver. Any thread may call any method. ``log`` takes a line and a level, and waits not."""

    def __init__(self, log: Callable[[str, int], None]) -> None:
        self._log = log
        self._changed = threading.Condition()
        self._replicas: dict[str, _Replica] = {}
        self._wanted: dict[str, Program] = {}
        self._closing = False
        self._guard = _Guard(log)
        self._thread: threading.Thread | None = None

    def want(self, programs: Mapping[str, Program]) -> None:
        """Have these run, by name, and end all others."""
        with self._changed:
            if self._closing:
                raise DriverError("process: the driver is closed")
            self._wanted = dict(programs)
            for name, program in programs.items():
                self._replicas.setdefault(name, _Replica(program))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="process-driver", daemon=True)
                self._thread.start()
            first = [replica for replica in self._replicas.values() if not replica.starts and replica.fault is None]
            self._changed.notify_all()
            self._changed.wait_for(lambda: all(each.starts or each.fault for each in first), SLACK_SECONDS)

    def seen(self, name: str) -> tuple[str, bool]:
        """Return its identity, and whether it runs."""
        with self._changed:
            replica = self._replicas[name]
            return replica.identity, replica.child is not None and replica.kill_at is None

    def runs_on(self, name: str, identity: str) -> bool:
        """Say whether this very process runs, and is not being ended."""
        with self._changed:
            replica = self._replicas.get(name)
            if replica is None or replica.child is None or replica.identity != identity or replica.kill_at is not None:
                return False
            return not replica.child.wait(0)  # it may have ended a moment ago, and only the crew's thread reaps it

    def restart(self, name: str, identity: str) -> None:
        """End it and start it again, and return when it has been started. Raises :class:`DriverError`."""
        with self._changed:
            replica = self._replicas.get(name)
            known = replica is not None and name in self._wanted
            if replica is None or not known or replica.child is None or replica.identity != identity:
                raise DriverError(f"process: {name} is not the one that was seen: it has ended, or was started anew")
            starts, replica.fault, replica.again = replica.starts, None, True
            self._end(replica)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: replica.starts > starts or replica.fault is not None or self._is_closing(),
                GRACE_SECONDS + SLACK_SECONDS,
            )
            if replica.starts == starts:
                raise DriverError(f"process: {name} was not started again: {_why(replica)}; look at its argv and cwd")

    def close(self) -> None:
        """End all of them, and wait for that."""
        with self._changed:
            self._closing = True
            self._wanted = {}
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(GRACE_SECONDS + SLACK_SECONDS)
            if thread.is_alive():
                left = ", ".join(sorted(self._replicas))
                self._log(f"process: not all have ended in time: {left}; what still lives is left to the system", 40)

    def _is_closing(self) -> bool:
        return self._closing

    # --- the crew's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._changed:
            while True:
                for name in list(self._replicas):
                    self._step(name, self._replicas[name], time.monotonic())
                if self._closing and not self._replicas:
                    break
                soon = any(self._is_soon(name, replica) for name, replica in self._replicas.items())
                self._changed.wait(LOOK_SOON_SECONDS if soon else LOOK_SECONDS)
        self._guard.close()

    def _is_soon(self, name: str, replica: _Replica) -> bool:
        """Say whether something is to be done with it in a moment: its end, its start, or to forget it."""
        if replica.child is not None:
            return replica.kill_at is not None
        return name not in self._wanted or replica.due <= time.monotonic()

    def _step(self, name: str, replica: _Replica, now: float) -> None:
        program = self._wanted.get(name)
        if replica.child is None:
            if program is None:
                del self._replicas[name]
                self._changed.notify_all()
            elif now >= replica.due:
                replica.program = program
                self._start(name, replica, now)
            return
        if replica.child.wait(0):
            self._ended(name, replica, now)
        elif replica.kill_at is None and program != replica.program:  # no longer wanted, or wanted otherwise
            replica.again = program is not None
            self._end(replica)
        elif replica.kill_at is not None and now >= replica.kill_at:
            replica.child.signal_group(signal.SIGKILL)

    def _end(self, replica: _Replica) -> None:
        if replica.child is not None and replica.kill_at is None:
            replica.kill_at = time.monotonic() + GRACE_SECONDS
            replica.child.signal_group(signal.SIGTERM)

    def _ended(self, name: str, replica: _Replica, now: float) -> None:
        child, replica.child = replica.child, None
        if child is None:
            return
        child.signal_group(signal.SIGKILL)
        code = child.end()
        self._guard.remove(replica.pid)
        replica.delay = 0.0 if replica.again else next_delay(replica.delay, now - replica.started)
        replica.due = now + replica.delay
        if replica.kill_at is None:
            self._log(f"process: {name} has ended ({code}), it is started again in {replica.delay:.0f} s", 30)
        replica.kill_at, replica.again = None, False
        self._changed.notify_all()

    def _start(self, name: str, replica: _Replica, now: float) -> None:
        program = replica.program
        try:
            environ = environment(os.environ.copy()) | dict(program.variables)
            child = spawn(program.argv, environ, cwd=program.cwd, stdout=_STDERR, stderr=_STDERR)
        except SpawnError as error:
            replica.fault = shown(str(error))
            replica.delay = next_delay(replica.delay, 0)
            replica.due = now + replica.delay
            self._log(f"process: {name} cannot be started: {replica.fault}; a new try in {replica.delay:.0f} s", 40)
        else:
            start = started_at(child.pid)
            self._guard.add(child.pid, start)
            replica.child, replica.pid, replica.fault = child, child.pid, None
            replica.identity = f"{child.pid}-{start or round(boot_seconds() * 1000)}"
            replica.started, replica.starts = now, replica.starts + 1
        self._changed.notify_all()


def _why(replica: _Replica) -> str:
    return replica.fault or "it cannot be ended"


class _Guard:
    """The guard, as the crew's thread speaks to it. One that was killed is started again, and told of all that runs."""

    def __init__(self, log: Callable[[str, int], None]) -> None:
        self._log = log
        self._missing = False
        self._groups: dict[int, int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, pid: int, start: int) -> None:
        """Have this group ended when this process has ended."""
        self._groups[pid] = start
        self._tell(f"+{pid} {start}\n")

    def remove(self, pid: int) -> None:
        """Forget this group, which has ended."""
        self._groups.pop(pid, None)
        self._tell(f"-{pid}\n")

    def close(self) -> None:
        """End the guard. What it knows of by then it ends."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.poll() is not None or not self._written(line):
            self.close()
            guard = Path(process_guard.__file__)
            try:
                self._process = subprocess.Popen(  # noqa: S603  our own program
                    [sys.executable, "-I", "-S", str(guard)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                    bufsize=0,
                )
            except OSError as error:  # what runs is to be looked after all the same; tried again with the next one
                self._process = None
                self._tell_missing(error.strerror or type(error).__name__)
                return
            self._missing = False
            self._written("".join(f"+{pid} {start}\n" for pid, start in self._groups.items()))

    def _tell_missing(self, reason: str) -> None:
        if not self._missing:
            self._log(
                f"process: no guard can be started ({reason}): what runs outlives a supervisor that is killed", 40
            )
        self._missing = True

    def _written(self, text: str) -> bool:
        if self._process is None or self._process.stdin is None:
            return False
        try:
            self._process.stdin.write(text.encode())
        except OSError:
            return False
        return True
