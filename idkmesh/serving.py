"""What the commands that serve share: binding, the files of port and client, the probes beside, the loop."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import logging
import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from idkmesh import console
from idkmesh.addresses import url_host
from idkmesh.console import EXIT_USAGE, CommandError
from idkmesh.httpd import BoundedHTTPServer, use_short_switch_interval
from idkmesh.httpd.signals import serve_until_signal
from idkmesh.service_runtime import ServiceIdentity, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.control_tower.probe_listener import ProbeListener
    from idkmesh.control_tower.probes import ProbeState
    from idkmesh.health.watchdog import Watchdog
    from idkmesh.httpd.signals import ShutdownSignals
    from idkmesh.service_runtime import ServiceLimits

STOP_SECONDS: Final = 1.0
"""How long the end of a service waits for probes that are out."""

Made = TypeVar("Made")

_ADVICE: Final = {
    errno.EADDRINUSE: "the port is in use; choose another with {flag}, or a free one with {free}",
    errno.EACCES: "no right to use this port; choose one above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EAFNOSUPPORT: "this machine has no IPv6; use an IPv4 address",
}


def bound(make: Callable[[], Made], address: tuple[str, int], *, flag: str = "--port", free: str = "--port 0") -> Made:
    """Return what ``make`` makes of ``address``, a server. Raises :class:`CommandError`: what happened, what to do.

    ``flag`` says where the port is given, ``free`` how a free one is asked for.
    """
    try:
        return make()
    except SettingError as error:  # the machine's limit of open files leaves too few connections
        raise CommandError(str(error), EXIT_USAGE) from None
    except UnicodeError:  # a ValueError in the words of a codec
        raise CommandError(f"cannot listen on {address[0]!r}: it is no address and no host's name") from None
    except ValueError as error:  # the control tower's, for an address that is not loopback
        raise CommandError(str(error)) from None
    except OSError as error:
        known = _ADVICE.get(error.errno or 0)
        advice = console.reason(error) if known is None else known.format(flag=flag, free=free)
        raise CommandError(f"cannot listen on {url_host(address[0])}:{address[1]}: {advice}") from None


def ensure_free(host: str, port: int) -> None:
    """Raise ``OSError`` where an address cannot be bound. For whoever opens files first: a busy port begins nothing.

    Nobody is kept out meanwhile: two may be bound as the server binds, as long as neither listens (socket(7)).
    """
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind(address)


@contextlib.contextmanager
def port_written(file: str | None, port: int) -> Iterator[None]:
    """Keep the port in ``file`` for a while (CT-9.1). Its reader sees the whole line or no file."""
    with _written(file, "port file", f"{port}\n", 0o644):
        yield


@contextlib.contextmanager
def client_written(file: str | None, address: str, token: str) -> Iterator[None]:
    """Keep address and token in ``file`` for a while, for this user alone (RA-4.1, RA-4.3)."""
    from idkmesh.adapter.node_get import CLIENT_KIND, SCHEMA_VERSION

    client = {"kind": CLIENT_KIND, "schema_version": SCHEMA_VERSION, "address": address, "token": token}
    with _written(file, "client file", json.dumps(client) + "\n", 0o600):
        yield


@contextlib.contextmanager
def _written(file: str | None, what: str, text: str, mode: int) -> Iterator[None]:
    if file is None:
        yield
        return
    path = Path(file)
    try:
        if path.exists() and not path.is_file():  # behind a link too: /dev/stdout is one
            raise CommandError(f"cannot write the {what} {file}: what is there is no regular file", EXIT_USAGE)
        _write_whole(path, text, mode)
        written = path.lstat()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise CommandError(f"cannot write the {what} {file}: {console.reason(error)}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # somebody has removed it, or closed the folder: the end is no less an end
            # While this service drained, the next one may have written its own.
            if os.path.samestat(path.lstat(), written):
                path.unlink()


def _write_whole(path: Path, text: str, mode: int) -> None:
    """Write a file so that nobody sees half of it. Raises ``OSError`` and leaves nothing beside it.

    The folder may be shared: nobody can guess the temporary name, and a file or symbolic link that has it is refused
    (``x``, which is O_EXCL), never written through.
    """
    part = path.parent / f".idkmesh-{secrets.token_hex(8)}"
    try:
        with open(part, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(text)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            part.unlink()
        raise


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


def is_open(name: str) -> bool:
    """Say whether an address can be reached from other machines."""
    return not ipaddress.ip_address(name.partition("%")[0]).is_loopback


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


def bind(
    kind: type[BoundedHTTPServer],
    address: tuple[str, int],
    handler: Any,  # noqa: ANN401  a handler class, a partial of one, or a WSGI callable
    **options: Any,  # noqa: ANN401  BoundedHTTPServer's own
) -> BoundedHTTPServer:
    """Make the server on the first address that the host means, in its family; ``localhost`` is 127.0.0.1."""
    host, port = address
    if not host:
        raise CommandError("the empty host is no address: name one with --host")
    if host == "localhost":
        host = "127.0.0.1"
    elif host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    family, _, _, _, sockaddr = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    # socketserver takes the family from the class.
    in_family: type[BoundedHTTPServer] = type(kind.__name__, (kind,), {"address_family": family})
    return in_family(sockaddr, handler, **options)
