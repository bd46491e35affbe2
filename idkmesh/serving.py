"""What the commands that serve share: loading what is to be served, binding, the port file, the first lines."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import ipaddress
import json
import logging
import os
import secrets
import socket
import ssl
import sys
import traceback
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from idkmesh import __version__, console
from idkmesh.addresses import url_host
from idkmesh.console import EXIT_USAGE, CommandError
from idkmesh.httpd import BoundedHTTPServer, BoundedWSGIServer, use_short_switch_interval
from idkmesh.httpd.signals import serve_until_signal
from idkmesh.service_runtime import ServiceIdentity, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.control_tower.probe_listener import ProbeListener
    from idkmesh.control_tower.probes import ProbeState
    from idkmesh.health.service import HealthService
    from idkmesh.health.watchdog import Watchdog
    from idkmesh.httpd.signals import ShutdownSignals
    from idkmesh.service_runtime import ServiceLimits

STOP_SECONDS: Final = 1.0
"""How long the end of a service waits for probes that are out."""

Server = TypeVar("Server", bound=BoundedHTTPServer)

_ADVICE: Final = {
    errno.EADDRINUSE: "the port is in use; choose another with {flag}, or a free one with {free}",
    errno.EACCES: "no right to use this port; choose one above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EAFNOSUPPORT: "this machine has no IPv6; use an IPv4 address",
}


def bound(
    make: Callable[[], Server], address: tuple[str, int], *, flag: str = "--port", free: str = "--port 0"
) -> Server:
    """Return the server that ``make`` binds to ``address``. Raises :class:`CommandError`: what happened, what to do.

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


def tls_context(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the TLS context of a certificate chain and its key, None without a certificate.

    Raises :class:`CommandError` for files that cannot be read or do not belong together.
    """
    if certificate is None:
        if key is not None:
            raise CommandError("--tls-key needs --tls-cert", EXIT_USAGE)
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Without a password function OpenSSL asks on the terminal for the pass phrase of an encrypted key.
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = certificate if key is None else f"{certificate} and {key}"
        raise CommandError(f"cannot use {files} for TLS: {console.reason(error)}") from None
    return context


def serve_target(  # noqa: PLR0913  what the command line gives, a keyword each
    target: str,
    address: tuple[str, int],
    limits: ServiceLimits,
    *,
    signals: ShutdownSignals,
    ssl_context: ssl.SSLContext | None = None,
    probe_address: tuple[str, int] | None = None,
    health: HealthService | None = None,
) -> int:
    """Serve a folder, WSGI callable or handler class until a signal, drain, and return the exit code.

    ``health`` is told of by a probe listener on ``probe_address``: no path is answered for the program (HS-10.6).
    Raises :class:`CommandError` where there is no such target or an address cannot be bound.
    """
    kind, handler = load_target(target)
    if signals.requested:
        return 0
    with contextlib.ExitStack() as stack:
        if health is not None:
            stack.callback(health.stop, STOP_SECONDS)
            health.start()
        server = bound(lambda: bind(kind, address, handler, limits=limits, ssl_context=ssl_context), address)
        stack.callback(server.server_close)  # also where the rest cannot be had
        name, scheme = server.server_name, "http" if ssl_context is None else "https"
        if is_open(name):
            console.complain(
                f"idkmesh: warning: {name} can be reached from other machines, and nobody is asked who they are; "
                "put a reviewed proxy in front"
            )
        if health is not None:
            stack.enter_context(_probes_of(server, health, probe_address))
        served = console.fitted(target)
        console.say(f"idkmesh serve {__version__} serves {served} on {scheme}://{url_host(name)}:{server.server_port}/")
        return run(server, signals, None if health is None else health.watchdog)


def _probes_of(
    server: BoundedHTTPServer, health: HealthService, address: tuple[str, int] | None
) -> contextlib.AbstractContextManager[ProbeListener | None]:
    """Have a program's server watched, and serve its probes beside it."""
    from idkmesh.control_tower.probes import ProbeState

    health.watch_slots(server.limiter.holders)
    server.watch_loop(health.register_front)
    identity = ServiceIdentity(service="idkmesh-serve", service_version=__version__, read_only=False)
    limits = server.limits
    probes = ProbeState(
        identity, health, draining=lambda: server.limiter.draining, events=None, retry_after=limits.retry_after
    )
    return probes_served(address, probes, limits, identity)


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


class FolderHandler(SimpleHTTPRequestHandler):
    r"""The standard library's, without its faults (CT-9.6).

    - Of a FIFO or device it waits for a first byte, for ever. What is neither a folder nor a regular file is 404; it is
      looked at before it is opened, so that whoever may write in the folder can still change it between the two.
    - A path that starts with ``/\`` came back in a ``Location``, which browsers read as another host. It is 404: a URL
      has no backslash as it is (RFC 3986 §3.3). A file with one in its name is asked for with ``%5C``.
    - A name that no file can have, with a NUL or half a character, raises deep in its file look-up.
    - Its log line waits for whoever reads standard error.
    """

    def send_head(self) -> Any:  # noqa: ANN401  the standard library's: a file or None
        """Find the file and write the head of the answer."""
        path = self.path.partition("?")[0]
        file = self.translate_path(path)
        found = os.path.isdir(file) or os.path.isfile(file)  # noqa: PTH112, PTH113  no to what no file can be named
        if not found or "\\" in path or "%00" in path:
            self.send_error(404, "File not found")
            return None
        return super().send_head()

    def list_directory(self, path: str | os.PathLike[str]) -> Any:  # noqa: ANN401  as above
        """List a folder; its query is no part of it."""
        self.path = self.path.partition("?")[0]
        try:
            return super().list_directory(path)
        except UnicodeEncodeError:  # it shows the path as it was asked for, with what a ".." has taken out again
            self.send_error(404, "File not found")
            return None

    def end_headers(self) -> None:
        """End the head; a browser takes a file for what it is called."""
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401  the standard library's names
        """Log a line in the standard library's words, without waiting (HS-13.1)."""
        line = f"{self.address_string()} - - [{self.log_date_time_string()}] {format % args}"
        cast("BoundedHTTPServer", self.server).log_line(console.fitted(line))


def load_target(target: str) -> tuple[type[BoundedHTTPServer], Any]:
    """Return the server class and the handler class or WSGI callable that ``PATH`` or ``MODULE:ATTR`` means.

    Raises :class:`CommandError` where there is none: 2 where the text is of neither form, 1 where nothing comes of it.
    """
    if os.path.isdir(target):  # noqa: PTH112  Path's own raises for a name longer than any file's
        return BoundedHTTPServer, functools.partial(FolderHandler, directory=target)
    module, colon, attribute = target.partition(":")
    if not colon or os.path.exists(target):  # noqa: PTH110  as above
        raise CommandError(f"{target!r} is no folder, and not of the form MODULE:ATTR", EXIT_USAGE)
    value = _attribute(_import(module), module, attribute)
    if isinstance(value, type) and issubclass(value, BaseHTTPRequestHandler):
        return BoundedHTTPServer, value
    if callable(value):
        return BoundedWSGIServer, value
    raise CommandError(f"{target} is a {type(value).__name__}: neither a WSGI callable nor a handler class")


def _attribute(module: Any, name: str, attribute: str) -> Any:  # noqa: ANN401  of any kind, both
    """Return the attribute of a module, which may be a path ``a.b``. Raises :class:`CommandError` without one."""
    try:
        return functools.reduce(getattr, attribute.split("."), module)
    except AttributeError:
        raise CommandError(f"{name}:{attribute}: {name} has no {attribute}") from None
    except Exception as error:  # noqa: BLE001  the module's own code
        raise CommandError(f"cannot take {attribute} from {name}: {console.reason(error)}") from None


def _import(name: str) -> Any:  # noqa: ANN401  a module, of any content
    """Import a module, of this directory too. Whatever its code raises becomes one line that says where."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  the module's own code, a script's last line included
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        place = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
        raise CommandError(f"cannot import {name!r}: {console.reason(error)}{place}") from None
