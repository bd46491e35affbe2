"""``idkmesh router``: the router as a process of its own (RT-9), and the same beside a control tower (RT-12.1)."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from idkmesh import console
from idkmesh.clock import SystemClock
from idkmesh.commands.inputs import store_of
from idkmesh.commands.until_signal import probes_served, run
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.event_recording import CLOSE_SECONDS, event_of, recording
from idkmesh.health.self_watch import nothing_but_itself
from idkmesh.health.service import STOP_SECONDS, HealthService
from idkmesh.router.configuration import ConfigurationError, read_configuration
from idkmesh.router.listener import SOURCE, announce, listening, need_free, tell_events
from idkmesh.router.parts import PartError, lacking
from idkmesh.router.server import IDENTITY
from idkmesh.router.service import RouterService
from idkmesh.service_runtime import LineLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.changes import Change
    from idkmesh.commands.service_start import Start
    from idkmesh.router.configuration import RouterConfiguration


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


def route(start: Start) -> int:
    """Route until a signal, drain, and return the exit code (RT-9).

    Raises :class:`CommandError` where the configuration is refused (exit code 2), the event store or the provider
    cannot be had, or the address not be bound.
    """
    given = start.given
    configuration = configuration_of(given["router"])
    store = store_of(given)
    if start.signals.requested:
        return 0
    need_free(configuration)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log = LineLog()
    with contextlib.ExitStack() as stack:
        stack.callback(log.close, timeout=1.0)
        recorder = stack.enter_context(recording(store, given.retention, SOURCE, log.write))
        service = made(
            configuration,
            changed=lambda change: recorder.emit(event_of(change, SOURCE)),
            record=lambda change: recorder.commit(event_of(change, SOURCE), CLOSE_SECONDS),
            line=log.write,
        )
        stack.callback(service.stop)
        health = HealthService(nothing_but_itself(), clock=SystemClock(), log=log.write)
        stack.callback(health.stop, STOP_SECONDS)
        server = listening(service, health=health, events=recorder.snapshot, limits=given.limits)
        stack.callback(server.server_close)
        tell_events(server, recorder.emit)
        health.start()
        service.start()
        stack.enter_context(probes_served(given["probe_listen"], server.probes, server.limits, IDENTITY))
        announce(server, configuration)
        start.on_reload(service.reload)
        console.say(f"events are kept in {console.fitted(str(recorder.path))}")
        return run(server, start.signals, health.watchdog)


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
