"""How a server serves until a signal, and the probes that are answered beside it meanwhile."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, cast

from idkmesh import console
from idkmesh.addresses import url_host
from idkmesh.binding import bind, bound, is_open
from idkmesh.console import CommandError
from idkmesh.httpd import use_short_switch_interval
from idkmesh.httpd.signals import serve_until_signal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.control_tower.probe_listener import ProbeListener
    from idkmesh.control_tower.probes import ProbeState
    from idkmesh.health.watchdog import Watchdog
    from idkmesh.httpd import BoundedHTTPServer
    from idkmesh.httpd.signals import ShutdownSignals
    from idkmesh.service_runtime import ServiceIdentity, ServiceLimits


def run(server: BoundedHTTPServer, signals: ShutdownSignals, watchdog: Watchdog | None) -> int:
    """Serve until a signal, drain, and return the exit code. The log goes to standard error, line by line.

    A supervisor is to know of the ``watchdog``'s overdue components.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    use_short_switch_interval()
    return served(server, signals, watchdog)


def served(server: BoundedHTTPServer, signals: ShutdownSignals, watchdog: Watchdog | None = None) -> int:
    """Serve until a signal; what the system does not give to a loop is one line, by :class:`CommandError`."""
    try:
        return serve_until_signal(server, signals, watchdog=watchdog)
    except OSError as error:
        raise CommandError(f"cannot serve any more: {console.reason(error)}") from error


@contextlib.contextmanager
def probes_served(
    address: tuple[str, int] | None, state: ProbeState, limits: ServiceLimits, identity: ServiceIdentity
) -> Iterator[ProbeListener | None]:
    """Serve the four probe paths on ``address`` for a while (HL-5.6); nothing where that is None.

    Raises :class:`CommandError` where it cannot be bound.
    """
    if address is None:
        yield None
        return
    from idkmesh.control_tower.probe_listener import ProbeListener
    from idkmesh.control_tower.probes import probe_rows

    options = {"identity": identity, "retry_after": limits.retry_after}
    listener = bound(
        lambda: cast("ProbeListener", bind(ProbeListener, address, probe_rows(state), **options)),
        address,
        flag="--probe-listen",
        free="port 0",
    )
    name = listener.server_name
    if is_open(name):
        console.complain(
            f"idkmesh: warning: probes on {name} can be read from other machines: they name what is not well"
        )
    with listener.serving():
        console.say(f"idkmesh probes are answered on http://{url_host(name)}:{listener.server_port}/")
        yield listener
