"""``idkmesh router``: the router as a process of its own (RT-9), and the same beside a control tower (RT-12.1)."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, NamedTuple

from idkmesh import console
from idkmesh.clock import SystemClock
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.event_recording import CLOSE_SECONDS, event_of, recording
from idkmesh.health.self_watch import nothing_but_itself
from idkmesh.health.service import HealthService
from idkmesh.router.configuration import ConfigurationError, read_configuration
from idkmesh.router.listener import SOURCE, announce, listening, need_free, tell_events
from idkmesh.router.parts import PartError, lacking
from idkmesh.router.server import IDENTITY
from idkmesh.router.service import RouterService
from idkmesh.service_runtime import LineLog
from idkmesh.serving import STOP_SECONDS, probes_served, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from idkmesh.changes import Change
    from idkmesh.commands.reload_signal import ReloadSignal
    from idkmesh.events.retention import Retention
    from idkmesh.httpd.signals import ShutdownSignals
    from idkmesh.router.configuration import RouterConfiguration
    from idkmesh.service_runtime import ServiceLimits


class Settings(NamedTuple):
    """Where a router keeps its events, its limits, and where its probes are answered besides, None for nowhere."""

    store: Path
    retention: Retention
    limits: ServiceLimits
    probe_address: tuple[str, int] | None


def configuration_of(file: str) -> RouterConfiguration:
    """Read a configuration. Says all that is wrong with one that is refused, a line each (RT-9.1).

    Raises :class:`CommandError` (exit code 2).
    """
    try:
        return read_configuration(file)
    except ConfigurationError as error:
        raise console.refusal(error.lines()) from None


def check(file: str) -> int:
    """Say what a configuration has, or all that is wrong with it; return 0, 2 where it is refused, 1 where it lacks."""
    try:
        known = read_configuration(file)
    except ConfigurationError as error:
        for line in error.lines():
            console.complain(line)
        return EXIT_USAGE
    if (lack := lacking(known)) is not None:
        console.complain(f"idkmesh: {lack}")
        return EXIT_FAILED
    host, port = known.listen
    count = len(known.credentials.ids)
    many = f"{count} credential{'' if count == 1 else 's'}"
    watched = "observed continuously" if known.observe else "asked for each invocation"
    console.say(
        console.fitted(f"{file}: ok, listens on {host}:{port}, {many}, provider {known.provider_name}, {watched}")
    )
    return 0


def route(
    configuration: RouterConfiguration, settings: Settings, signals: ShutdownSignals, reloads: ReloadSignal
) -> int:
    """Route until a signal, drain, and return the exit code.

    Raises :class:`CommandError` where the event store or the provider cannot be had, or the address not be bound.
    """
    need_free(configuration)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log = LineLog()
    with contextlib.ExitStack() as stack:
        stack.callback(log.close, timeout=1.0)
        recorder = stack.enter_context(recording(settings.store, settings.retention, SOURCE, log.write))
        service = made(
            configuration,
            changed=lambda change: recorder.emit(event_of(change, SOURCE)),
            record=lambda change: recorder.commit(event_of(change, SOURCE), CLOSE_SECONDS),
            line=log.write,
        )
        stack.callback(service.stop)
        health = HealthService(nothing_but_itself(), clock=SystemClock(), log=log.write)
        stack.callback(health.stop, STOP_SECONDS)
        server = listening(service, health=health, events=recorder.snapshot, limits=settings.limits)
        stack.callback(server.server_close)
        tell_events(server, recorder.emit)
        health.start()
        service.start()
        stack.enter_context(probes_served(settings.probe_address, server.probes, server.limits, IDENTITY))
        announce(server, configuration)
        reloads.attach(service.reload)
        console.say(f"events are kept in {console.fitted(str(recorder.path))}")
        return run(server, signals, health.watchdog)


def made(
    configuration: RouterConfiguration,
    *,
    changed: Callable[[Change], None],
    record: Callable[[Change], bool],
    line: Callable[[str, int], None],
) -> RouterService:
    """Return the router of a configuration. Raises :class:`CommandError` where its provider cannot be had."""
    try:
        return RouterService(configuration, clock=SystemClock(), changed=changed, record=record, line=line)
    except PartError as error:
        raise CommandError(str(error)) from None
