"""Instances of LXD and Incus: listed, asked and restarted over their REST (AR-8.2 to AR-8.4).

Laws of this module:

1. What is looked at is looked at again: right before a command and right before a restart the instance is ours, runs,
   and is the one that was seen.
2. A result that is not a pass counts only where the instance runs on: a command that ends because its instance was
   stopped, frozen or started anew says nothing.
3. Where something holds the output of a command, none is started in that life of the instance until it has let go.
"""

from __future__ import annotations

import importlib.util
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from idkmesh.workloads.drivers.driver import NOT_OURS, DriverError
from idkmesh.workloads.drivers.lxd_answers import (
    Described,
    LxdError,
    LxdMissingError,
    Operation,
    instance_of,
    instances_of,
    is_mapped,
    left_out_of,
    operation_of,
)
from idkmesh.workloads.drivers.lxd_balancers import backend_health
from idkmesh.workloads.drivers.lxd_exec import execute
from idkmesh.workloads.drivers.lxd_link import LxdLink, seconds_from_now
from idkmesh.workloads.model import OWNER_KEY, Instance, InstanceState, Run, RunEnd
from idkmesh.workloads.voice import Voice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from idkmesh.health.probes.probe import Deadline
    from idkmesh.workloads.model import DesiredModule, LxdPlatform, Readiness

LIST_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 2.0
CLEAN_STOP_SECONDS: Final = 10
"""How long an instance has to stop by itself (AR-5.6)."""

CHANGE_SECONDS: Final = 30
"""For a forced restart, and for what a clean one takes beyond its stop."""

RESTART_SECONDS: Final = 55.0
"""For all of a restart: a supervisor waits for 60 s, and what it has given up would act behind its back."""

SECOND_LOOK_SECONDS: Final = 0.25
"""Between a command's death by a signal and the look at its instance: one that stops kills what runs in it first, and
says so a moment later."""

_SOCKETS: Final = "snap: /var/snap/lxd/common/lxd/unix.socket, Incus: /var/lib/incus/unix.socket"
_SIGNALLED: Final = 128
_STARTED_ANEW: Final = "the instance was started anew meanwhile"

_STATE_WORDS: Final = {
    InstanceState.STOPPED: "the instance is stopped",
    InstanceState.FROZEN: "the instance is frozen",
    InstanceState.UNREACHABLE: "the instance's state is not known",
}


class LxdDriver:
    """A :class:`~idkmesh.workloads.drivers.driver.Driver` of one project of LXD or Incus.

    Raises :class:`DriverError` where the platform cannot be spoken to at all: a file that cannot be read, or the
    package ``websockets`` missing. ``log`` takes a line and a level of :mod:`logging`; it must not wait.
    """

    def __init__(self, platform: LxdPlatform, log: Callable[[str, int], None] = lambda _line, _level: None) -> None:
        if importlib.util.find_spec("websockets") is None:
            raise DriverError(
                "lxd: the package websockets is missing; run pip install 'idkmesh[lxd]', in a checkout "
                "pip install '.[lxd]'"
            )
        self._link = LxdLink(platform)
        self._where = f"lxd at {self._link.place.shown}, project {platform.project}"
        self._voice = Voice(lambda _change: None, log)
        self._unended: dict[str, tuple[str, str]] = {}
        self._remembering = threading.Lock()

    def instances(self, modules: Sequence[DesiredModule]) -> list[Instance]:
        """Return the instances of these modules (see :class:`~idkmesh.workloads.drivers.driver.Driver`)."""
        until = seconds_from_now(LIST_SECONDS)
        try:
            listing = self._link.ask("GET", "/1.0/instances", until, recursion="2")
            described = instances_of(listing)
        except LxdError as error:
            raise self._error(*not_listed(str(error), self._link.place.socket)) from None
        self._tell_names(left_out_of(listing))
        health = self._backend_health(until) if any(module.port for module in modules) else {}
        return [instance for module in modules for instance in chosen(module, described, health)]

    def run(self, instance: Instance, readiness: Readiness, uid: int) -> Run:
        """Run a command (see :class:`~idkmesh.workloads.drivers.driver.Driver`)."""
        began = time.monotonic()
        try:
            run = self._run(instance, readiness, uid)
        except LxdError as error:
            run = Run(RunEnd.COULD_NOT_RUN, str(error))
        except Exception as error:  # noqa: BLE001  a fault of the driver's own says nothing of the instance
            run = Run(RunEnd.COULD_NOT_RUN, f"a fault of the driver: {type(error).__name__}")
        return replace(run, seconds=time.monotonic() - began)

    def restart(self, instance: Instance, may_act: Callable[[], bool]) -> None:
        """Restart an instance (see :class:`~idkmesh.workloads.drivers.driver.Driver`).

        A clean stop that does not come about is forced. Where an instance has stopped late, between the two, it is
        started, whoever holds the lease by then: it would stay down otherwise. One that was started anew meanwhile is
        left alone.
        """
        name, until = instance.name, seconds_from_now(RESTART_SECONDS)
        try:
            self._looked_at(instance)
            if not self._ended(name, CLEAN_STOP_SECONDS, until, may_act):
                return
            if not self._is_stopped(instance) and not self._ended(name, 0, until, may_act):
                return
            reason = self._changed(name, "start", CHANGE_SECONDS, until)
        except LxdError as error:
            raise self._error(f"{name}: restart: {error}", "look at the instance") from None
        if reason:
            raise self._error(f"{name}: restart: {reason}", "look at the instance, it may be down")

    def close(self) -> None:
        """Give back what is held, which is nothing: each connection ends with its request."""

    # --- parts ----------------------------------------------------------------------------------------------------

    def _tell_names(self, left_out: int) -> None:
        if not left_out:
            self._voice.well("names", f"{self._where}: no instance is left out any more")
            return
        what = "1 instance is" if left_out == 1 else f"{left_out} instances are"
        fault = f"{self._where}: {what} left out, with a name that no instance may have"
        self._voice.ill("names", fault, "rename what is to be seen, to at most 63 letters, digits and hyphens")

    def _backend_health(self, until: Deadline) -> dict[tuple[str, int], bool]:
        """Return what load balancers report, nothing where that cannot be read: the port is tried then (AR-3.5).

        By the deadline of the listing: one that hangs must not have the listing given up with it.
        """
        fault = None
        health: dict[tuple[str, int], bool] = {}
        try:
            health, left_out = backend_health(lambda path: self._link.ask("GET", path, until))
            if left_out:
                fault = f"{left_out} load balancers are not asked"
        except LxdError as error:
            fault = f"what load balancers report cannot be read: {error}"
        if fault is None:
            self._voice.well("balancers", f"{self._where}: what load balancers report is read again")
        else:
            self._voice.ill("balancers", f"{self._where}: {fault}", "the ports of their backends are tried instead")
        return health

    def _run(self, instance: Instance, readiness: Readiness, uid: int) -> Run:
        if (held := self._still_held(instance)) is not None:
            return Run(RunEnd.LEFT_BEHIND, held)
        if not is_mapped(self._looked_at(instance).config, uid):
            raise LxdError(f"user {uid} is outside the instance's map of users")
        executed = execute(self._link, _path(instance.name), readiness, uid)
        if executed.unended is not None:
            with self._remembering:
                self._unended[instance.name] = (instance.identity, executed.unended)
        run = executed.run
        if run.code != 0:
            if run.code is not None and run.code > _SIGNALLED:
                time.sleep(SECOND_LOOK_SECONDS)
            self._looked_at(instance)
        return run

    def _still_held(self, instance: Instance) -> str | None:
        """Say what an earlier command of this life of the instance has left, None where nothing is known of any."""
        with self._remembering:
            identity, path = self._unended.get(instance.name, ("", ""))
        if identity == instance.identity and self._operation(path) is not None:
            return "what an earlier run has left behind still holds its output"
        with self._remembering:
            if self._unended.get(instance.name) == (identity, path):
                del self._unended[instance.name]
        return None

    def _operation(self, path: str) -> Operation | None:
        """Return an operation that goes on, None where it has ended or is gone."""
        try:
            operation = operation_of(self._link.ask("GET", path, seconds_from_now(LOOK_SECONDS)))
        except LxdMissingError:
            return None
        return operation if operation.running else None

    def _looked_at(self, instance: Instance) -> Described:
        """Return the instance as it is now, or raise why nothing can be done with it."""
        found = instance_of(self._link.ask("GET", _path(instance.name), seconds_from_now(LOOK_SECONDS)))
        if found.state is not InstanceState.RUNNING:
            raise LxdError(_STATE_WORDS[found.state])
        if found.identity != instance.identity:
            raise LxdError(_STARTED_ANEW)
        if found.config.get(OWNER_KEY) != instance.module:
            raise LxdError(f"the instance is not ours: its configuration has no {OWNER_KEY}={instance.module}")
        return found

    def _is_stopped(self, instance: Instance) -> bool:
        """Say whether it has stopped, or raise that it was started anew: by us a moment late, or by somebody."""
        found = instance_of(self._link.ask("GET", _path(instance.name), seconds_from_now(LOOK_SECONDS)))
        if found.state is InstanceState.STOPPED:
            return True
        if found.identity != instance.identity:
            raise LxdError(_STARTED_ANEW)
        return False

    def _ended(self, name: str, seconds: int, until: Deadline, may_act: Callable[[], bool]) -> str:
        """Restart it, and return why that failed, nothing if it came about (see :meth:`_changed`)."""
        if not may_act():
            raise LxdError(NOT_OURS)
        return self._changed(name, "restart", seconds, until)

    def _changed(self, name: str, action: str, seconds: int, until: Deadline) -> str:
        """Change an instance's state, and return why that failed, nothing if it came about.

        ``seconds`` are for a clean stop, 0 forces it. Raises :class:`LxdError` where what came of it is not known.
        """
        body = {"action": action, "timeout": seconds or -1, "force": not seconds}
        until = min(until, seconds_from_now(seconds + CHANGE_SECONDS), key=lambda each: each.at)
        operation = operation_of(self._link.ask("PUT", f"{_path(name)}/state", until, body))
        waited = str(max(1, int(until.left())))
        try:
            ended = operation_of(self._link.ask("GET", f"{operation.path}/wait", until, timeout=waited))
        except LxdError as error:
            raise LxdError(f"what came of it is not known: {error}") from None
        if ended.running:
            raise LxdError("it goes on, and is waited for no longer")
        return "" if ended.succeeded else ended.error or "it failed without a reason"

    def _error(self, what: str, mend: str) -> DriverError:
        return DriverError(f"{self._where}: {what}; {mend}")


def not_listed(why: str, socket: str | None) -> tuple[str, str]:
    """Return what has happened where nothing was listed, and what to do. ``socket`` is None for a daemon with a URL."""
    if socket is not None and why == "missing":
        return f"no socket at {socket} ({_SOCKETS})", "write the right one as platforms.lxd.socket"
    if socket is not None and why == "permission denied":
        return f"the instances cannot be listed: {why}", "join the group that owns the socket, or run as its user"
    return f"the instances cannot be listed: {why}", "see that it runs and trusts us"


def chosen(
    module: DesiredModule, described: Mapping[str, Described], health: Mapping[tuple[str, int], bool]
) -> list[Instance]:
    """Return a module's instances in the order of their names in the file, or of the alphabet if selected (AR-2.2).

    ``health`` is what load balancers report, by address and port.
    """
    names = module.instances or sorted(
        name
        for name, found in described.items()
        if module.selector and all(found.config.get(key) == value for key, value in module.selector.items())
    )
    return [_instance(module, name, described.get(name), health) for name in names]


def _instance(
    module: DesiredModule, name: str, found: Described | None, health: Mapping[tuple[str, int], bool]
) -> Instance:
    if found is None:
        return Instance(module=module.name, name=name, state=InstanceState.GONE, identity="", owned=False)
    return Instance(
        module=module.name,
        name=name,
        state=found.state,
        identity=found.identity,
        owned=found.config.get(OWNER_KEY) == module.name,
        address=found.address,
        location=found.location,
        port_health=health.get((found.address or "", module.port or 0)),
    )


def _path(name: str) -> str:
    return f"/1.0/instances/{quote(name, safe='')}"
