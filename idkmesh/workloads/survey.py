"""One look at every instance: who is there, and what its checks say (AR-3). It remembers nothing, and does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from idkmesh.workloads.calls import Call, Ended
from idkmesh.workloads.checks import nothing, probe_of_run, shown
from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.model import OWNER_KEY, InstanceState, Probe
from idkmesh.workloads.port_check import CONNECT_SECONDS, check_port, reported_probe
from idkmesh.workloads.record import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from idkmesh.workloads.calls import Answer, Calls
    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.model import DesiredModule, Instance

LIST_SECONDS: Final = 12.0
"""How long a driver may take to list its instances before the pass goes on without it. A driver's own deadline is 10 s,
and what it says then is better than that it has not come back."""

GRACE_SECONDS: Final = 20.0
"""How long a driver may take beyond a command's time limit, to start it and to see it dead. Then it is given up."""

NO_ANSWER: Final = "its driver has not come back"

_SKIPPED: Final = {
    InstanceState.STOPPED: "the instance is stopped",
    InstanceState.FROZEN: "the instance is frozen",
    InstanceState.GONE: "the instance is not there",
    InstanceState.UNREACHABLE: "its platform does not answer for it",
}


@dataclass(frozen=True, slots=True)
class Patience:
    """How long calls of drivers are waited for, in seconds."""

    listing: float = LIST_SECONDS
    grace: float = GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class Observation:
    """One instance in one pass. ``reason`` says why no check was made, None where they were."""

    key: Key
    instance: Instance
    port: Probe | None = None
    command: Probe | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What was seen in one pass. ``silent`` are drivers that told nothing of their instances, and why.

    It is not ``complete`` where it was ended before its end.
    """

    observations: tuple[Observation, ...]
    silent: Mapping[str, str]
    complete: bool = True


class Surveyor:
    """Looks at the instances of ``drivers``, by name, with ``calls``; commands run as the user ``uid``."""

    def __init__(
        self, drivers: Mapping[str, Driver], calls: Calls, *, uid: int, patience: Patience | None = None
    ) -> None:
        self._drivers = drivers
        self._calls = calls
        self._uid = uid
        self._patience = patience or Patience()

    def survey(
        self,
        modules: Sequence[DesiredModule],
        *,
        opened: Callable[[Key, str], bool],
        go: Callable[[], bool],
        beat: Callable[[], None],
    ) -> Survey:
        """Look once at each instance of the modules.

        ``opened`` says whether the port of an instance has been open before, in the life of that identity. ``go`` is
        asked before each call, and ``beat`` is called several times a second.
        """
        instances, silent = self._list(modules, go, beat)
        declared = {module.name: module for module in modules}
        calls: list[Call[Probe]] = []
        for key, instance in instances.items():
            if skipped(instance) is None:
                calls += self._checks(key, declared[key.module], instance, opened)
        answers = self._calls.make(calls, go=go, beat=beat)
        complete = go() and all(answer.ended is not Ended.NOT_BEGUN for answer in answers.values())
        seen = (self._observed(key, declared[key.module], instance, answers) for key, instance in instances.items())
        return Survey(tuple(seen), silent, complete)

    def _list(
        self, modules: Sequence[DesiredModule], go: Callable[[], bool], beat: Callable[[], None]
    ) -> tuple[dict[Key, Instance], dict[str, str]]:
        wanted: dict[str, list[DesiredModule]] = {}
        for module in modules:
            wanted.setdefault(module.driver, []).append(module)
        silent = {name: "there is no such platform" for name in wanted if name not in self._drivers}
        calls = [
            Call("instances", name, _listing(self._drivers[name], theirs), self._patience.listing)
            for name, theirs in wanted.items()
            if name in self._drivers
        ]
        found: dict[Key, Instance] = {}
        for (name, _), answer in self._calls.make(calls, go=go, beat=beat).items():
            if answer.value is None:
                silent[name] = _why(answer)
                continue
            theirs = {module.name for module in wanted[name]}
            for instance in answer.value:
                if instance.module in theirs:
                    found.setdefault(Key(instance.module, instance.name), instance)
        return found, silent

    def _checks(
        self, key: Key, module: DesiredModule, instance: Instance, opened: Callable[[Key, str], bool]
    ) -> Iterator[Call[Probe]]:
        driver, uid, readiness = self._drivers[module.driver], self._uid, module.readiness
        if module.port is not None and instance.port_health is None:
            address, port, was_open = instance.address, module.port, opened(key, instance.identity)
            limit = CONNECT_SECONDS + self._patience.grace
            yield Call(("port", key), module.driver, lambda: check_port(address, port, opened=was_open), limit)
        if readiness is not None:
            limit = readiness.timeout_secs + self._patience.grace
            yield Call(
                ("command", key), module.driver, lambda: probe_of_run(driver.run(instance, readiness, uid)), limit
            )

    def _observed(
        self,
        key: Key,
        module: DesiredModule,
        instance: Instance,
        answers: Mapping[tuple[str, object], Answer[Probe]],
    ) -> Observation:
        reason = skipped(instance)
        if reason is not None:
            return Observation(key, instance, reason=reason)
        port = command = None
        if module.port is not None:
            port = reported_probe(instance) or _probe(answers[module.driver, ("port", key)])
        if module.readiness is not None:
            command = _probe(answers[module.driver, ("command", key)])
        return Observation(key, instance, port, command)


def skipped(instance: Instance) -> str | None:
    """Return why an instance is not checked (AR-3.1), None where it is."""
    if (reason := _SKIPPED.get(instance.state)) is not None:
        return reason
    if instance.owned:
        return None
    mend = f"lxc config set {instance.name} {OWNER_KEY} {instance.module}"
    return f"the instance is not ours: its configuration names no such module; if it is, run {mend}"


def _listing(driver: Driver, modules: list[DesiredModule]) -> Callable[[], list[Instance]]:
    return lambda: driver.instances(modules)


def _probe(answer: Answer[Probe]) -> Probe:
    return answer.value if answer.value is not None else nothing(_why(answer))


def _why(answer: Answer[Any]) -> str:
    """Return why a call has no value. Only the driver's own errors are told in their words."""
    if answer.ended in {Ended.GIVEN_UP, Ended.REFUSED}:
        return NO_ANSWER
    if answer.ended is Ended.NOT_BEGUN:
        return "the pass has ended before"
    if isinstance(answer.error, DriverError):
        return shown(str(answer.error))
    return f"its driver has a fault: {type(answer.error).__name__}"
