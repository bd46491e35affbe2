"""``idkmesh supervise``: the supervision of modules as a process of its own (AR-7.1), and a single look without one.

Its changes are events of the same store as the control tower's, and lines on standard error.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import time
from typing import TYPE_CHECKING, Final

from idkmesh import __version__, console
from idkmesh.clock import SystemClock
from idkmesh.commands.inputs import settings_of, store_of, supervision_of, whole
from idkmesh.commands.until_signal import probes_served
from idkmesh.console import CommandError
from idkmesh.control_tower.probes import ProbeState
from idkmesh.event_recording import CLOSE_SECONDS, event_of, recording
from idkmesh.health.readiness import Readiness
from idkmesh.health.self_watch import nothing_but_itself
from idkmesh.health.service import STOP_SECONDS, HealthService
from idkmesh.httpd.notify import Notifier
from idkmesh.service_runtime import LineLog, ServiceIdentity, ServiceLimits
from idkmesh.settings import SUPERVISE
from idkmesh.workloads.ages import system_stamp
from idkmesh.workloads.document import module_list_document
from idkmesh.workloads.once import look_once
from idkmesh.workloads.parts import SupervisionError, drivers_of
from idkmesh.workloads.service import COMPONENT, Supervised, WorkloadService
from idkmesh.workloads.snapshot import Role
from idkmesh.workloads.voice import Voice

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.commands.inputs import Flags
    from idkmesh.commands.service_start import Start
    from idkmesh.events.recorder import EventRecorder
    from idkmesh.httpd.signals import ShutdownSignals
    from idkmesh.workloads.record import Record
    from idkmesh.workloads.snapshot import Snapshot

SOURCE: Final = "/supervisor"
IDENTITY: Final = ServiceIdentity(service="idkmesh-supervise", service_version=__version__, read_only=False)

PASS_SECONDS: Final = 20.0
"""How long the end waits for what runs: the longest command has 15 s (AR-2.3)."""

BEAT_SECONDS: Final = 0.25

LEASE_STORE: Final = "lease_store"
TRACKER_STORE: Final = "tracker_store"
"""The names of warnings: a store that does not answer takes nobody's traffic away."""

_STARTING: Final = Readiness("starting", pending=(COMPONENT,))
_READY: Final = Readiness("ready")
_COLUMNS: Final = ("MODULE", "INSTANCE", "STATE", "PORT", "COMMAND", "SAYS")


class SupervisorHealth:
    """What the probes of a supervisor ask (:class:`~idkmesh.control_tower.probes.Health`).

    It is alive while it goes round, and ready when it has made a pass, whether it holds the lease or stands by: a
    standby does what it is there for.
    """

    def __init__(self, health: HealthService, workloads: WorkloadService) -> None:
        self._health = health
        self._workloads = workloads

    def overdue(self) -> tuple[str, ...]:
        """Name the components that have been silent for too long."""
        return self._health.overdue()

    def readiness(self) -> Readiness:
        """Say whether a pass has been made. A role is never left for the first one again, so startup stays."""
        return _STARTING if self._workloads.reading().snapshot.role is Role.STARTING else _READY

    def warnings(self) -> tuple[str, ...]:
        """Name the stores that cannot be used."""
        known = self._workloads.reading()
        faults = {LEASE_STORE: known.lease_fault, TRACKER_STORE: known.snapshot.store_fault}
        return tuple(name for name, fault in faults.items() if fault is not None)

    def refresh(self) -> None:
        """Ask for nothing: passes are made by themselves."""


def supervise(start: Start) -> int:
    """Supervise until a signal, end what runs, and return the exit code (AR-7.1).

    Raises :class:`CommandError` where the event store or a part of the supervisor cannot be had.
    """
    given = start.given
    supervised = supervision_of(given)
    store = store_of(given)
    if start.signals.requested:
        return 0
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log = LineLog()
    with contextlib.ExitStack() as stack:
        stack.callback(log.close, timeout=1.0)
        recorder = stack.enter_context(recording(store, given.retention, SOURCE, log.write))
        health = HealthService(nothing_but_itself(), clock=SystemClock(), log=log.write)
        stack.callback(health.stop, STOP_SECONDS)
        try:
            workloads = WorkloadService(
                supervised,
                recorder.path.parent,
                changed=lambda change: recorder.emit(event_of(change, SOURCE)),
                record=lambda change: recorder.commit(event_of(change, SOURCE), CLOSE_SECONDS),
                log=log.write,
                watch=functools.partial(health.watchdog.register, COMPONENT),
            )
        except SupervisionError as error:
            raise CommandError(str(error)) from None
        stack.callback(workloads.stop, PASS_SECONDS)
        stack.enter_context(probes_served(given["probe_listen"], *_probes(health, workloads, recorder)))
        notifier = Notifier.from_environ(os.environ, log=log.write)
        stack.callback(notifier.stopping, "ending what runs")  # the first that is done at the end
        _announce(supervised, recorder.path)
        health.start()
        workloads.start()
        start.on_reload(functools.partial(workloads.reload_from, supervised.file))
        _until_signal(start.signals, health, notifier)
    return 0


def look(flags: Flags, *, as_json: bool) -> int:
    """Make one pass without acting, print what it saw, and return the exit code (AR-7.1).

    Raises :class:`CommandError` for what is refused (exit code 2), and where a driver cannot be had.
    """
    supervised = supervision_of(whole(settings_of(SUPERVISE, flags)))
    voice = Voice(lambda _change: None, lambda line, _level: console.complain(f"idkmesh: {line}"))
    declaration = supervised.declaration
    try:
        drivers = drivers_of(declaration, voice.line, look_only=True)
    except SupervisionError as error:
        raise CommandError(str(error)) from None
    try:
        snapshot, code = look_once(declaration, drivers, uid=supervised.uid, changed=voice.say)
    finally:
        for driver in drivers.values():
            driver.close()
    if as_json:
        console.say(json.dumps(module_list_document(snapshot, system_stamp()), indent=2))
    else:
        for line in table(snapshot):
            console.say(console.fitted(line))
    return code


def table(snapshot: Snapshot) -> list[str]:
    """Return a line for each instance, the head first; a module without instances has a line too."""
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for module in snapshot.modules:
        records = snapshot.records_of(module.name)
        reason = snapshot.reason_of(module)
        if not records:
            rows.append((module.name, "-", "-", "-", "-", reason or "no instance is known"))
        rows += [_row(module.name, record, reason) for record in records]
    return console.aligned(rows)


def _row(module: str, record: Record, reason: str | None) -> tuple[str, ...]:
    checks = [None if seen is None else seen.probe for seen in (record.port, record.command)]
    words = ["-" if probe is None else probe.word.value for probe in checks]
    reasons = [reason or record.reason, *(probe.reason for probe in checks if probe is not None)]
    state = "-" if record.instance is None else record.instance.state.value
    return (module, record.key.name, state, *words, "; ".join(filter(None, reasons)))


def _probes(
    health: HealthService, workloads: WorkloadService, recorder: EventRecorder
) -> tuple[ProbeState, ServiceLimits, ServiceIdentity]:
    limits = ServiceLimits()
    state = ProbeState(
        IDENTITY,
        SupervisorHealth(health, workloads),
        draining=lambda: False,
        events=recorder.snapshot,
        retry_after=limits.retry_after,
    )
    return state, limits, IDENTITY


def _announce(supervised: Supervised, store: Path) -> None:
    count = len(supervised.declaration.modules)
    file = console.fitted(str(supervised.file))
    console.say(f"idkmesh supervise {__version__} supervises {count:,} module{'' if count == 1 else 's'} of {file}")
    console.say(f"events are kept in {console.fitted(str(store))}")


def _until_signal(signals: ShutdownSignals, health: HealthService, notifier: Notifier) -> None:
    """Wait for a signal, and tell systemd meanwhile that nobody is silent (HL-2.4)."""
    notifier.ready()
    while not signals.requested:
        notifier.beat(time.monotonic(), health.overdue())
        time.sleep(BEAT_SECONDS)
