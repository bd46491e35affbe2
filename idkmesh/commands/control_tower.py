"""``idkmesh control-tower``: this node's status, probes and page, served to this machine (CT-9)."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Any

from idkmesh import __version__, console
from idkmesh.binding import bound
from idkmesh.commands.inputs import matrix_of, path_of, session_token, store_of, supervised_of
from idkmesh.commands.until_signal import probes_served, run
from idkmesh.commands.written_files import client_written, port_written
from idkmesh.console import CommandError
from idkmesh.control_tower_ui import IDENTITY, ControlTowerServer
from idkmesh.events.errors import StoreError
from idkmesh.workloads.parts import SupervisionError

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.commands.service_start import Start
    from idkmesh.health.model import ProbeMatrix
    from idkmesh.router.configuration import RouterConfiguration
    from idkmesh.settings_in_force import InForce
    from idkmesh.workloads.service import Supervised


def control_tower(start: Start, *, open_page: bool) -> int:
    """Serve the control tower until a signal ends it, and return the exit code (CT-9).

    Raises :class:`CommandError` where something that it needs cannot be had, or a file cannot be written.
    """
    given = start.given
    matrix_file = path_of(given["matrix"])
    matrix = None if matrix_file is None else matrix_of(matrix_file)
    supervised = supervised_of(given)
    routed = _routed(given)
    token = session_token(given)
    if start.signals.requested:
        return 0
    server = _tower(given, token, matrix, supervised, routed)
    start.on_reload(functools.partial(_reload, server, matrix_file, supervised))
    return _serve(server, start, open_page=open_page)


def _routed(given: InForce) -> RouterConfiguration | None:
    """Return how it routes besides (RT-12.1), None where it does not."""
    if given["router"] is None:
        return None
    from idkmesh.commands.router import configuration_of  # most towers have none, and need no package for it

    return configuration_of(given["router"])


def _tower(
    given: InForce,
    token: str,
    matrix: ProbeMatrix | None,
    supervised: Supervised | None,
    routed: RouterConfiguration | None,
) -> ControlTowerServer:
    """Make the server of a control tower. Raises :class:`CommandError` where something that it needs cannot be had."""
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


def _serve(server: ControlTowerServer, start: Start, *, open_page: bool) -> int:
    """Announce the server, serve until a signal, drain, and return the exit code."""
    given = start.given
    client_file = given["client_file"]
    with contextlib.ExitStack() as stack:
        stack.callback(server.server_close)  # also where the rest cannot be had
        listener = stack.enter_context(probes_served(given["probe_listen"], server.probes, server.limits, IDENTITY))
        if listener is not None:
            server.expect_listener("probes", listener)
        _serve_router(server)
        stack.enter_context(port_written(given["port_file"], server.server_port))
        stack.enter_context(client_written(client_file, server.origin.removeprefix("http://"), server.token))
        console.say(f"idkmesh control-tower {__version__} listens on {server.origin}")
        # Who keeps the token in a file has this output kept too, in a journal that others read (CT-2.6).
        guarded = None if client_file is None else f"{server.origin}/ with the token in {console.fitted(client_file)}"
        console.say(f"open {guarded or server.link}")
        console.say(f"events are kept in {console.fitted(str(server.events.path))}")
        if open_page:
            # In a thread of its own: a browser that runs in the terminal would keep the server from serving it.
            threading.Thread(target=_open_browser, args=(server.link,), daemon=True).start()
        return run(server, start.signals, server.health.watchdog)


def _serve_router(server: ControlTowerServer) -> None:
    """Have the router answer on its own address, if there is one. Raises :class:`~idkmesh.console.CommandError`."""
    if server.router is None:
        return
    from idkmesh.router.listener import announce, listening, tell_events

    beside = listening(server.router, health=server.health, events=server.events.snapshot, limits=server.limits)
    server.expect_listener("router", beside)
    tell_events(beside, server.events.emit)
    server.route_on(beside)
    announce(beside, server.router.configuration)


def _open_browser(link: str) -> None:
    import webbrowser

    if not webbrowser.open(link):
        console.complain("idkmesh: no browser could be started: open the link")
