"""``idkmesh serve``: a folder, a WSGI callable or a handler class on the bounded server (CT-9.6)."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import ssl
import sys
import traceback
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from idkmesh import __version__, console
from idkmesh.addresses import url_host
from idkmesh.binding import bind, bound, is_open
from idkmesh.commands.inputs import matrix_of, path_of
from idkmesh.commands.until_signal import probes_served, run
from idkmesh.console import EXIT_USAGE, CommandError
from idkmesh.httpd import BoundedHTTPServer, BoundedWSGIServer
from idkmesh.httpd.signals import ServedByOthersError, left_to_others
from idkmesh.service_runtime import LineLog, ServiceIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.commands.service_start import Start
    from idkmesh.control_tower.probe_listener import ProbeListener
    from idkmesh.health.service import HealthService


def serve(start: Start, target: str) -> int:
    """Serve a folder, WSGI callable or handler class until a signal, drain, and return the exit code.

    Where there is a probe listener, it tells of its health: no path is answered for the program (HS-10.6).
    Raises :class:`CommandError` where there is no such target or an address cannot be bound.
    """
    given = start.given
    ssl_context = tls_context(given["tls_cert"], given["tls_key"])
    address, limits = (given["host"], given["port"]), given.limits
    with contextlib.ExitStack() as stack:
        health = None if given["probe_listen"] is None else stack.enter_context(_health_of(start))
        kind, handler = load_target(target)
        if start.signals.requested:
            return 0
        if health is not None:
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
            stack.enter_context(_probes_of(server, health, given["probe_listen"]))
        served = console.fitted(target)
        console.say(f"idkmesh serve {__version__} serves {served} on {scheme}://{url_host(name)}:{server.server_port}/")
        return run(server, start.signals, None if health is None else health.watchdog)


@contextlib.contextmanager
def _health_of(start: Start) -> Iterator[HealthService]:
    """Make the health of a program that is served, and stop it. Its lines go to the log, and make nobody wait."""
    from idkmesh.clock import SystemClock
    from idkmesh.health.self_watch import nothing_but_itself
    from idkmesh.health.service import STOP_SECONDS, HealthService

    matrix_file = path_of(start.given["matrix"])
    matrix = nothing_but_itself() if matrix_file is None else matrix_of(matrix_file)
    log = LineLog()
    health = HealthService(matrix, clock=SystemClock(), log=log.write)
    if matrix_file is not None:
        start.on_reload(functools.partial(health.reload_from, matrix_file))
    try:
        yield health
    finally:
        health.stop(STOP_SECONDS)
        log.close(timeout=1.0)


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


def tls_context(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the TLS context of a certificate chain and its key, None without a certificate.

    Raises :class:`CommandError` for files that cannot be read or do not belong together.
    """
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Without a password function OpenSSL asks on the terminal for the pass phrase of an encrypted key.
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = certificate if key is None else f"{certificate} and {key}"
        raise CommandError(f"cannot use {files} for TLS: {console.reason(error)}") from None
    return context


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
        with left_to_others():
            return importlib.import_module(name)
    except ServedByOthersError as error:
        caller = traceback.extract_tb(error.__traceback__)[-2]  # the last is where it was refused
        raise CommandError(
            f"cannot import {name!r}: it begins to serve by itself ({caller.filename}:{caller.lineno}); put that call "
            'under: if __name__ == "__main__":'
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  the module's own code, a script's last line included
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        place = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
        raise CommandError(f"cannot import {name!r}: {console.reason(error)}{place}") from None
