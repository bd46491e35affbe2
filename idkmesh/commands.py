"""What each command does: read its files and variables, make its server or document, and say what came of it."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh import console
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.events.retention import RETENTION_SETTINGS, Retention
from idkmesh.health.model import MATRIX_VARIABLE
from idkmesh.service_runtime import ACCESS_LOG_VARIABLE, SETTINGS, ServiceLimits, SettingError
from idkmesh.workloads.model import PROCESS_VARIABLES
from idkmesh.workloads.probe_user import VARIABLE as PROBE_UID_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from idkmesh.control_tower_ui import ControlTowerServer
    from idkmesh.health.model import ProbeMatrix
    from idkmesh.health.service import HealthService
    from idkmesh.reload_signal import ReloadSignal
    from idkmesh.router.configuration import RouterConfiguration
    from idkmesh.workloads.model import Declaration
    from idkmesh.workloads.service import Supervised

TOKEN_VARIABLE: Final = "IDKMESH_CONTROL_TOWER_TOKEN"  # noqa: S105  the name of the variable, no token
STORE_VARIABLE: Final = "IDKMESH_STORE"
PROBE_LISTEN_VARIABLE: Final = "IDKMESH_PROBE_LISTEN"
MODULES_VARIABLE: Final = "IDKMESH_MODULES"

_ADDRESS: Final = re.compile(r"(\[[0-9A-Za-z:.%]{2,}\]|[^:\[\]\s]+):([0-9]{1,5})")
_MAX_PORT: Final = 65_535


class HealthFlags(NamedTuple):
    """What the command line says of health, None where it says nothing."""

    matrix: str | None
    probe_listen: str | None


class HealthSettings(NamedTuple):
    """The file of the probe matrix, and the address of the probe listener; None where there is none."""

    matrix_file: Path | None
    probe_address: tuple[str, int] | None


def control_tower(  # noqa: PLR0913  what the command line gives, a keyword each
    address: tuple[str, int],
    limit_flags: Mapping[str, str | None],
    event_flags: Mapping[str, str | None],
    health_flags: HealthFlags,
    *,
    modules: str | None,
    router: str | None,
    port_file: str | None,
    token_file: str | None,
    client_file: str | None,
    open_page: bool,
) -> int:
    """Serve the control tower until a signal ends it, and return the exit code (CT-9)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())  # before anything slow: an early one must not be lost (CT-9.4)
        limits = limits_in_force(limit_flags)
        watch = health_settings(health_flags, os.environ)
        reads_files = watch.matrix_file is not None or modules_file(modules, os.environ) is not None
        reloads = stack.enter_context(_reload_signal()) if reads_files else None
        store, retention = event_settings(event_flags, os.environ)
        matrix = None if watch.matrix_file is None else matrix_of(watch.matrix_file)
        supervised = supervised_of(modules, os.environ)
        routed = _routed(router)
        from idkmesh.control_tower_ui import ControlTowerServer, serve_control_tower
        from idkmesh.events.errors import StoreError
        from idkmesh.serving import bound
        from idkmesh.workloads.parts import SupervisionError

        token = _token(token_file)
        if signals.requested:
            return 0
        options: dict[str, Any] = {"store": store, "retention": retention, "matrix": matrix, "limits": limits}
        make = functools.partial(ControlTowerServer, address, token, supervised=supervised, router=routed, **options)
        try:
            server = bound(make, address)
        except (StoreError, SupervisionError) as error:
            raise CommandError(str(error)) from None
        if reloads is not None:
            reloads.attach(functools.partial(_reload, server, watch.matrix_file, supervised))
        return serve_control_tower(
            server,
            signals,
            port_file=port_file,
            client_file=client_file,
            open_page=open_page,
            probe_address=watch.probe_address,
        )


def _reload(server: ControlTowerServer, matrix: Path | None, supervised: Supervised | None) -> None:
    """Read again what a control tower has read from files."""
    if matrix is not None:
        server.health.reload_from(matrix)
    if supervised is not None and server.workloads is not None:
        server.workloads.reload_from(supervised.file)


def _routed(flag: str | None) -> RouterConfiguration | None:
    if flag is None:
        return None
    configuration: RouterConfiguration = _router_command().configuration_of(_named(flag, "--router"))
    return configuration


def _router_command() -> Any:  # noqa: ANN401  a module
    """Import the router, or say which extra brings what it stands on (RT-9.9)."""
    try:
        return importlib.import_module("idkmesh.router_command")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "httpcore":
            raise
        raise CommandError("a router needs the package httpcore: pip install 'idkmesh[router]'") from None


def _named(value: str, flag: str) -> str:
    if not value:
        raise CommandError(f"{flag}: an empty value is refused", EXIT_USAGE)
    return value


def route(
    config: str,
    limit_flags: Mapping[str, str | None],
    event_flags: Mapping[str, str | None],
    probe_listen: str | None,
    *,
    check: bool,
) -> int:
    """Route invocations until a signal ends it, or only judge the configuration; return the exit code (RT-9)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())
        limits = limits_in_force(limit_flags)
        store, retention = event_settings(event_flags, os.environ)
        address = health_settings(HealthFlags(None, probe_listen), os.environ).probe_address
        router = _router_command()
        file = _named(config, "--config")
        if check:
            return int(router.check(file))
        configuration = router.configuration_of(file)
        settings = router.Settings(store, retention, limits, address)
        return 0 if signals.requested else int(router.route(configuration, settings, signals))


def supervise(modules: str | None, event_flags: Mapping[str, str | None], probe_listen: str | None) -> int:
    """Supervise modules until a signal ends it, and return the exit code (AR-7.1)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())
        reloads = stack.enter_context(_reload_signal())
        supervised = _named_modules(modules)
        store, retention = event_settings(event_flags, os.environ)
        address = health_settings(HealthFlags(None, probe_listen), os.environ).probe_address
        from idkmesh.supervise_command import Settings
        from idkmesh.supervise_command import supervise as run

        return 0 if signals.requested else run(supervised, Settings(store, retention, address), signals, reloads)


def look_once(modules: str | None, *, as_json: bool) -> int:
    """Look once at the instances of modules without acting, and return the exit code (AR-7.1)."""
    supervised = _named_modules(modules)
    from idkmesh.supervise_command import look

    return look(supervised, as_json=as_json)


def _named_modules(flag: str | None) -> Supervised:
    limits_in_force({})
    supervised = supervised_of(flag, os.environ)
    if supervised is None:
        raise CommandError(f"supervise needs --modules FILE, or {MODULES_VARIABLE}", EXIT_USAGE)
    return supervised


def serve(
    target: str,
    address: tuple[str, int],
    limit_flags: Mapping[str, str | None],
    health_flags: HealthFlags,
    *,
    tls_files: tuple[str | None, str | None],
) -> int:
    """Serve a folder, a WSGI callable or a handler class until a signal ends it, and return the exit code.

    ``tls_files`` are the certificate chain and its key.
    """
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())
        limits = limits_in_force(limit_flags)
        watch = health_settings(health_flags, os.environ)
        if watch.matrix_file is not None and watch.probe_address is None:
            raise CommandError(
                "serve --matrix needs --probe-listen ADDR:PORT: no path of the program is answered for it", EXIT_USAGE
            )
        reloads = None if watch.matrix_file is None else stack.enter_context(_reload_signal())
        from idkmesh.serving import serve_target, tls_context

        ssl_context = tls_context(*tls_files)
        health = None
        if watch.probe_address is not None:
            health = stack.enter_context(_health_of(watch.matrix_file, reloads))
        return serve_target(
            target,
            address,
            limits,
            signals=signals,
            ssl_context=ssl_context,
            probe_address=watch.probe_address,
            health=health,
        )


def _reload_signal() -> ReloadSignal:
    from idkmesh.reload_signal import ReloadSignal

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

    limits = limits_in_force({})
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
    from idkmesh.inspect_command import inspect_files as run

    return run(files, matrix, output)


def list_events(
    store: str | None, filters: Mapping[str, str | None], *, after: str | None, limit: int | None, as_json: bool
) -> int:
    """Print events of a store's file and return the exit code; without ``limit`` go on with what is committed."""
    from idkmesh.events_command import Query, follow_events, print_events

    wanted = {name: value for name, value in filters.items() if value is not None}
    query = Query(store=store_path(store, os.environ), wanted=wanted, after=after, as_json=as_json)
    return follow_events(query) if limit is None else print_events(query, limit)


def rehearse(flags: Mapping[str, Any]) -> int:
    """Rehearse a service under a local orchestrator and return the exit code (HL-8.7). ``flags`` are by name."""
    from idkmesh.rehearse_command import Request
    from idkmesh.rehearse_command import rehearse as run

    return run(Request(**flags))


def store_path(flag: str | None, environ: Mapping[str, str]) -> Path:
    """Return the place of the event store: the flag's, else the variable's, else the user's own (EV-2.13)."""
    named = flag if flag is not None else environ.get(STORE_VARIABLE, "")
    if named:
        return Path(named)
    if flag is not None:
        raise CommandError("--store: an empty name is refused, it must be that of a file", EXIT_USAGE)
    from idkmesh.events.default_place import default_store

    return default_store()


def event_settings(flags: Mapping[str, str | None], environ: Mapping[str, str]) -> tuple[Path, Retention]:
    """Return where a service keeps its events, and how many (EV-2.4, EV-2.13).

    ``flags`` has ``store`` and the names of the retention settings. Raises :class:`CommandError` (exit code 2).
    """
    try:
        retention = Retention.from_environ(environ, flags)
    except SettingError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    return store_path(flags.get("store"), environ), retention


def health_settings(flags: HealthFlags, environ: Mapping[str, str]) -> HealthSettings:
    """Return which matrix a service has, and where its probes are answered besides; flags win over variables.

    Raises :class:`CommandError` (exit code 2).
    """
    named = {}
    for flag, given, variable in (
        ("--matrix", flags.matrix, MATRIX_VARIABLE),
        ("--probe-listen", flags.probe_listen, PROBE_LISTEN_VARIABLE),
    ):
        if given == "":
            raise CommandError(f"{flag}: an empty value is refused", EXIT_USAGE)
        named[flag] = given if given is not None else environ.get(variable) or None
    matrix, listen = named["--matrix"], named["--probe-listen"]
    return HealthSettings(None if matrix is None else Path(matrix), None if listen is None else _address(listen))


def _address(text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > _MAX_PORT:
        wanted = "ADDR:PORT, as in 127.0.0.1:9000, [::1]:9000 or 0.0.0.0:9000"
        raise CommandError(f"--probe-listen: {text!r} is refused, it must be {wanted}", EXIT_USAGE)
    return found[1], int(found[2])


def matrix_of(file: Path) -> ProbeMatrix:
    """Read a matrix. Says all that is wrong with one that is refused, a line each (HL-3.2).

    Raises :class:`CommandError` (exit code 2).
    """
    from idkmesh.health.matrix_file import MatrixError, read_matrix

    try:
        return read_matrix(file)
    except MatrixError as error:
        raise console.refusal(error.lines()) from None


def modules_file(flag: str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the declaration of modules: the flag's, else the variable's, else None."""
    if flag == "":
        raise CommandError("--modules: an empty value is refused", EXIT_USAGE)
    named = flag if flag is not None else environ.get(MODULES_VARIABLE) or None
    return None if named is None else Path(named)


def supervised_of(flag: str | None, environ: Mapping[str, str]) -> Supervised | None:
    """Return what is to be supervised, None where no declaration is named. Raises :class:`CommandError` (code 2)."""
    file = modules_file(flag, environ)
    if file is None:
        return None
    from idkmesh.workloads.probe_user import probe_uid
    from idkmesh.workloads.service import Supervised

    try:
        uid = probe_uid(environ)
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    return Supervised(declaration_of(file), uid, file)


def declaration_of(file: Path) -> Declaration:
    """Read a declaration of modules. Says all that is wrong with one that is refused, a line each (AR-2.4).

    Raises :class:`CommandError` (exit code 2).
    """
    from idkmesh.workloads.declaration import DeclarationError, read_declaration

    try:
        return read_declaration(file)
    except DeclarationError as error:
        raise console.refusal(error.lines()) from None


def limits_in_force(flags: Mapping[str, str | None]) -> ServiceLimits:
    """Return the limits that flags and variables ask for. Raises :class:`CommandError` (exit code 2, HS-2.1)."""
    known = {setting.env for setting in (*SETTINGS, *RETENTION_SETTINGS)}
    known |= {TOKEN_VARIABLE, ACCESS_LOG_VARIABLE, STORE_VARIABLE, MATRIX_VARIABLE, PROBE_LISTEN_VARIABLE}
    known |= {MODULES_VARIABLE, PROBE_UID_VARIABLE}
    if all(name in os.environ for name in PROCESS_VARIABLES):  # one alone is a mistake
        known |= set(PROCESS_VARIABLES)
    for name in sorted(os.environ):
        # A rehearsal tells a service by these where its dependencies are (HL-8.1).
        if name.startswith("IDKMESH_") and name not in known and not name.startswith("IDKMESH_DEP_"):
            console.complain(f"idkmesh: warning: {name} is no setting and changes nothing")
    try:
        return ServiceLimits.from_environ(os.environ, flags)
    except SettingError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def _token(token_file: str | None) -> str:
    """Return the session token: of the file, else of the variable, else a new one (CT-2.5).

    Raises :class:`CommandError` for a file that cannot be read and for another grammar.
    """
    from idkmesh.control_tower.security import checked_token, new_token

    source, text = TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE, "")
    if token_file is not None:
        try:
            source, text = token_file, Path(token_file).read_bytes().decode("ascii", "replace")
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise CommandError(f"cannot read the token file {token_file}: {console.reason(error)}") from None
    elif not text:
        return new_token()
    try:
        return checked_token(text, source)
    except ValueError as error:
        raise CommandError(str(error)) from None
