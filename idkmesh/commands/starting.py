"""How the commands that serve start: signals first, then what is given, and then the import of what serves.

What serves takes a while to import, and an early signal must not be lost (CT-9.4).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from typing import TYPE_CHECKING, Any

from idkmesh import settings
from idkmesh.commands.inputs import (
    chosen,
    matrix_of,
    path_of,
    session_token,
    settings_of,
    store_of,
    supervised_of,
    supervision_of,
    whole,
)
from idkmesh.console import CommandError
from idkmesh.settings_in_force import InForce, slips

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from idkmesh.commands.inputs import Flags
    from idkmesh.commands.reload_signal import ReloadSignal
    from idkmesh.control_tower_ui import ControlTowerServer
    from idkmesh.health.model import ProbeMatrix
    from idkmesh.health.service import HealthService
    from idkmesh.router.configuration import RouterConfiguration
    from idkmesh.workloads.service import Supervised


def control_tower(flags: Flags, *, open_page: bool) -> int:
    """Serve the control tower until a signal ends it, and return the exit code (CT-9)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())  # before anything slow: an early one must not be lost (CT-9.4)
        given = settings_of(settings.TOWER, flags)
        matrix_file = path_of(given["matrix"])
        reads_files = matrix_file is not None or given["modules"] is not None or given["router"] is not None
        reloads = stack.enter_context(_reload_signal()) if reads_files else None
        matrix = None if matrix_file is None else matrix_of(matrix_file)
        supervised = supervised_of(given)
        routed = None if given["router"] is None else _router_command().configuration_of(given["router"])
        from idkmesh.control_tower_ui import serve_control_tower

        token = session_token(given)
        if signals.requested:
            return 0
        server = _tower(given, token, matrix, supervised, routed)
        if reloads is not None:
            reloads.attach(functools.partial(_reload, server, matrix_file, supervised))
        return serve_control_tower(
            server,
            signals,
            port_file=given["port_file"],
            client_file=given["client_file"],
            open_page=open_page,
            probe_address=given["probe_listen"],
        )


def _tower(
    given: InForce,
    token: str,
    matrix: ProbeMatrix | None,
    supervised: Supervised | None,
    routed: RouterConfiguration | None,
) -> ControlTowerServer:
    """Make the server of a control tower. Raises :class:`CommandError` where something that it needs cannot be had."""
    from idkmesh.control_tower_ui import ControlTowerServer
    from idkmesh.events.errors import StoreError
    from idkmesh.serving import bound
    from idkmesh.workloads.parts import SupervisionError

    address = (given["host"], given["port"])
    options: dict[str, Any] = {"matrix": matrix, "supervised": supervised, "router": routed}
    options |= {"store": store_of(given), "retention": given.retention, "limits": given.limits}
    if routed is not None:
        from idkmesh.router.listener import need_free

        need_free(routed)
    try:
        return bound(functools.partial(ControlTowerServer, address, token, **options), address)
    except (StoreError, SupervisionError) as error:
        raise CommandError(str(error)) from None


def _reload(server: ControlTowerServer, matrix: Path | None, supervised: Supervised | None) -> None:
    """Read again what a control tower has read from files."""
    if matrix is not None:
        server.health.reload_from(matrix)
    if supervised is not None and server.workloads is not None:
        server.workloads.reload_from(supervised.file)
    if server.router is not None:
        server.router.reload()


def _router_command() -> Any:  # noqa: ANN401  a module
    """Import the router, or say which extra brings what it stands on (RT-9.9)."""
    try:
        return importlib.import_module("idkmesh.commands.router")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "httpcore":
            raise
        raise CommandError("a router needs the package httpcore: pip install 'idkmesh[router]'") from None


def route(flags: Flags, *, check: bool) -> int:
    """Route invocations until a signal ends it, or only judge the configuration; return the exit code (RT-9)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())
        given = whole(settings_of(settings.ROUTER, flags))
        router = _router_command()
        if check:
            return int(router.check(given["router"]))
        reloads = stack.enter_context(_reload_signal())
        configuration = router.configuration_of(given["router"])
        part = router.Settings(store_of(given), given.retention, given.limits, given["probe_listen"])
        return 0 if signals.requested else int(router.route(configuration, part, signals, reloads))


def supervise(flags: Flags) -> int:
    """Supervise modules until a signal ends it, and return the exit code (AR-7.1)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())
        reloads = stack.enter_context(_reload_signal())
        given = whole(settings_of(settings.SUPERVISE, flags))
        supervised = supervision_of(given)
        from idkmesh.commands.supervise import Settings
        from idkmesh.commands.supervise import supervise as run

        part = Settings(store_of(given), given.retention, given["probe_listen"])
        return 0 if signals.requested else run(supervised, part, signals, reloads)


def look_once(flags: Flags, *, as_json: bool) -> int:
    """Look once at the instances of modules without acting, and return the exit code (AR-7.1)."""
    supervised = supervision_of(whole(settings_of(settings.SUPERVISE, flags)))
    from idkmesh.commands.supervise import look

    return look(supervised, as_json=as_json)


def serve(target: str, flags: Flags) -> int:
    """Serve a folder, a WSGI callable or a handler class until a signal ends it, and return the exit code."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())
        given = settings_of(settings.SERVE, flags)
        matrix_file = path_of(given["matrix"])
        reloads = None if matrix_file is None else stack.enter_context(_reload_signal())
        from idkmesh.commands.serve import serve_target, tls_context

        ssl_context = tls_context(given["tls_cert"], given["tls_key"])
        health = None
        if given["probe_listen"] is not None:
            health = stack.enter_context(_health_of(matrix_file, reloads))
        return serve_target(
            target,
            (given["host"], given["port"]),
            given.limits,
            signals=signals,
            ssl_context=ssl_context,
            probe_address=given["probe_listen"],
            health=health,
        )


def readiness_adapter(flags: Flags, argv: Sequence[str], *, check: bool) -> int:
    """Answer for a node until a signal ends it, or look once; return the exit code (RA-9)."""
    from idkmesh.commands import readiness_adapter as adapter

    # Its log makes nobody wait, so it tells of slips itself (RA-9.1).
    warnings = tuple(f"idkmesh: {line}" for line in slips(os.environ, settings.ADAPTER))
    given = whole(chosen(settings.ADAPTER, flags))
    request = adapter.Request(
        node_id=given["node_id"],
        client_file=given["client_file"],
        listen=given["listen"],
        argv=tuple(argv),
        warnings=warnings,
    )
    return adapter.check(request) if check else adapter.serve(request)


def _reload_signal() -> ReloadSignal:
    from idkmesh.commands.reload_signal import ReloadSignal

    return ReloadSignal()


@contextlib.contextmanager
def _health_of(matrix_file: Path | None, reloads: ReloadSignal | None) -> Iterator[HealthService]:
    """Make the health of a program that is served. Its lines go to the log, and make nobody wait."""
    from idkmesh.clock import SystemClock
    from idkmesh.health.self_watch import nothing_but_itself
    from idkmesh.health.service import HealthService
    from idkmesh.service_runtime import LineLog

    matrix = nothing_but_itself() if matrix_file is None else matrix_of(matrix_file)
    log = LineLog()
    health = HealthService(matrix, clock=SystemClock(), log=log.write)
    if reloads is not None and matrix_file is not None:
        reloads.attach(functools.partial(health.reload_from, matrix_file))
    try:
        yield health
    finally:
        log.close(timeout=1.0)
