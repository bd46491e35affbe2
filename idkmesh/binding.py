"""How a server gets its address, and what is said in a line where it does not."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import TYPE_CHECKING, Any, Final, TypeVar

from idkmesh import console
from idkmesh.addresses import url_host
from idkmesh.console import EXIT_USAGE, CommandError
from idkmesh.service_runtime import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd import BoundedHTTPServer

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


def is_open(name: str) -> bool:
    """Say whether an address can be reached from other machines."""
    return not ipaddress.ip_address(name.partition("%")[0]).is_loopback
