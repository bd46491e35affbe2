"""How each command starts: read its files and variables, then import what makes its server or document, and run it."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from idkmesh import console, settings
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.service_runtime import ServiceLimits, SettingError
from idkmesh.settings_in_force import InForce, in_force, slips, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from idkmesh.commands.reload_signal import ReloadSignal
    from idkmesh.control_tower_ui import ControlTowerServer
    from idkmesh.health.model import ProbeMatrix
    from idkmesh.health.service import HealthService
    from idkmesh.router.configuration import RouterConfiguration
    from idkmesh.workloads.model import Declaration
    from idkmesh.workloads.service import Supervised

Flags: TypeAlias = "Mapping[str, Any]"
"""What the command line says of a command's settings, by their names; None where it says nothing."""


def settings_of(command: str, flags: Flags) -> InForce:
    """Return what flags and variables ask for, and warn of variables that change nothing (HS-2.1, CT-9.11).

    Raises :class:`CommandError` (exit code 2).
    """
    warn_of_slips(command)
    return chosen(command, flags)


def chosen(command: str, flags: Flags) -> InForce:
    """Return what flags and variables ask for. Raises :class:`CommandError` (exit code 2)."""
    try:
        return in_force(command, flags, os.environ)
    except SettingError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def warn_of_slips(command: str | None = None) -> None:
    """Warn of each variable of our name that changes nothing, in a line (HS-2.1)."""
    for line in slips(os.environ, command):
        console.complain(f"idkmesh: {line}")


def _whole(given: InForce) -> InForce:
    """Return the same where nothing is missing that the command cannot do without, else raise (exit code 2)."""
    told = given.missing()
    if told is not None:
        raise CommandError(told, EXIT_USAGE)
    return given


def control_tower(flags: Flags, *, open_page: bool) -> int:
    """Serve the control tower until a signal ends it, and return the exit code (CT-9)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())  # before anything slow: an early one must not be lost (CT-9.4)
        given = settings_of(settings.TOWER, flags)
        matrix_file = path_of(given["matrix"])
        reads_files = matrix_file is not None or given["modules"] is not None
        reloads = stack.enter_context(_reload_signal()) if reads_files else None
        matrix = None if matrix_file is None else matrix_of(matrix_file)
        supervised = supervised_of(given)
        routed = None if given["router"] is None else _router_command().configuration_of(given["router"])
        from idkmesh.control_tower_ui import serve_control_tower

        token = _token(given)
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
        given = _whole(settings_of(settings.ROUTER, flags))
        router = _router_command()
        if check:
            return int(router.check(given["router"]))
        configuration = router.configuration_of(given["router"])
        part = router.Settings(store_of(given), given.retention, given.limits, given["probe_listen"])
        return 0 if signals.requested else int(router.route(configuration, part, signals))


def supervise(flags: Flags) -> int:
    """Supervise modules until a signal ends it, and return the exit code (AR-7.1)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())
        reloads = stack.enter_context(_reload_signal())
        given = _whole(settings_of(settings.SUPERVISE, flags))
        supervised = _supervised(given)
        from idkmesh.commands.supervise import Settings
        from idkmesh.commands.supervise import supervise as run

        part = Settings(store_of(given), given.retention, given["probe_listen"])
        return 0 if signals.requested else run(supervised, part, signals, reloads)


def look_once(flags: Flags, *, as_json: bool) -> int:
    """Look once at the instances of modules without acting, and return the exit code (AR-7.1)."""
    supervised = _supervised(_whole(settings_of(settings.SUPERVISE, flags)))
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
        from idkmesh.serving import serve_target, tls_context

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
    given = _whole(chosen(settings.ADAPTER, flags))
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


def inspect_request_file(file: str) -> int:
    """Print the inspection document of a file's bytes; return 0 if they are accepted, 1 if not (CT-6.3)."""
    from idkmesh.httpd.inspection import inspect_request
    from idkmesh.httpd.request import HeadLimits

    warn_of_slips()
    try:
        limits = ServiceLimits.from_environ(os.environ, {})
    except SettingError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if file == "-" and sys.stdin is None:
        raise CommandError("cannot read standard input: it is closed", EXIT_USAGE)
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CommandError(f"cannot read {file}: {console.reason(error)}", EXIT_USAGE) from None
    head_limits = HeadLimits(limits.max_header_fields, limits.max_header_bytes)
    document = inspect_request(data, head_limits, limits.max_body_bytes)
    console.say(json.dumps(document, indent=2))
    return 0 if document["verdict"] == "accepted" else EXIT_FAILED


def inspect_files(files: Sequence[str], matrix: str | None, output: str) -> int:
    """Print what the rules find in declarations of probes, and return the exit code."""
    from idkmesh.commands.inspect import inspect_files as run

    return run(files, matrix, output)


def list_events(
    store: str | None, filters: Mapping[str, str | None], *, after: str | None, limit: int | None, as_json: bool
) -> int:
    """Print events of a store's file and return the exit code; without ``limit`` go on with what is committed."""
    from idkmesh.commands.events import Query, follow_events, print_events

    wanted = {name: value for name, value in filters.items() if value is not None}
    query = Query(store=store_path(store), wanted=wanted, after=after, as_json=as_json)
    return follow_events(query) if limit is None else print_events(query, limit)


def rehearse(flags: Mapping[str, Any]) -> int:
    """Rehearse a service under a local orchestrator and return the exit code (HL-8.7). ``flags`` are by name."""
    from idkmesh.commands.rehearse import Request
    from idkmesh.commands.rehearse import rehearse as run

    return run(Request(**flags))


def store_path(flag: str | None) -> Path:
    """Return the place of the event store: the flag's, else the variable's, else the user's own (EV-2.13)."""
    try:
        return store_named(value_of(settings.TOWER, "store", os.environ, flag))
    except SettingError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def store_of(given: InForce) -> Path:
    """Return the place of a service's event store."""
    return store_named(given["store"])


def store_named(name: str | None) -> Path:
    """Return the place of the event store that a name means, the user's own where there is none (EV-2.13)."""
    if name:
        return Path(name)
    from idkmesh.events.default_place import default_store

    return default_store()


def path_of(name: str | None) -> Path | None:
    """Return a file's name as a path, None where there is none."""
    return None if name is None else Path(name)


def matrix_of(file: Path) -> ProbeMatrix:
    """Read a matrix. Says all that is wrong with one that is refused, a line each (HL-3.2).

    Raises :class:`CommandError` (exit code 2).
    """
    from idkmesh.health.matrix_file import MatrixError, read_matrix

    try:
        return read_matrix(file)
    except MatrixError as error:
        raise console.refusal(error.lines()) from None


def supervised_of(given: InForce) -> Supervised | None:
    """Return what is to be supervised, None where no declaration is named. Raises :class:`CommandError` (code 2)."""
    return None if given["modules"] is None else _supervised(given)


def _supervised(given: InForce) -> Supervised:
    from idkmesh.workloads.service import Supervised

    file = Path(given["modules"])
    return Supervised(declaration_of(file), given["probe_uid"], file)


def declaration_of(file: Path) -> Declaration:
    """Read a declaration of modules. Says all that is wrong with one that is refused, a line each (AR-2.4).

    Raises :class:`CommandError` (exit code 2).
    """
    from idkmesh.workloads.declaration import DeclarationError, read_declaration

    try:
        return read_declaration(file)
    except DeclarationError as error:
        raise console.refusal(error.lines()) from None


def _token(given: InForce) -> str:
    """Return the session token: of the file, else of the variable, else a new one (CT-2.5).

    Raises :class:`CommandError` for a file that cannot be read and for another grammar.
    """
    from idkmesh.control_tower.security import checked_token, new_token

    file, text, source = given["token_file"], given["token"], given.values["token"].origin.name
    if file is not None:
        try:
            text = Path(file).read_bytes().decode("ascii", "replace")
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise CommandError(f"cannot read the token file {file}: {console.reason(error)}") from None
    if text is None:
        return new_token()
    try:
        return checked_token(text, source or "token")
    except ValueError as error:
        raise CommandError(str(error)) from None
