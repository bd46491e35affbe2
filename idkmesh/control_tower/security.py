"""Who may ask the control tower: the loopback address it binds, the ``Host`` and origin it accepts, and the token.

Everything here is pure: of the request head, the bound address and the token. Being on loopback grants nothing by
itself, since a proxy on the same machine brings the whole network there; fields that proxies add (``Forwarded``,
``X-Forwarded-For``, ...) are never read. The clauses CT-x.y stand in
``docs/specifications/CONTROL_TOWER_LOCAL_API_V0_1.md``.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from typing import TYPE_CHECKING, Final

from idkmesh.httpd.request import Refusal

if TYPE_CHECKING:
    from idkmesh.httpd.request import Request

TOKEN_FIELD: Final = "x-idkmesh-ui-token"  # noqa: S105  the name of the field, no token
"""The field that carries the token, in lower case. A browser sends no such field to another origin unasked."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~]{32,4096}")  # the unreserved characters of RFC 3986 §2.3
_DEFAULT_PORT: Final = 80  # RFC 9110 §4.2.1: an authority without a port means this one

_OWN_SITES: Final = frozenset({"same-origin", "none"})

_FORBIDDEN_HOST: Final = Refusal(
    403, "forbidden_host", "This Host is not the loopback address and port of this service: use the printed one."
)
_FORBIDDEN_ORIGIN: Final = Refusal(403, "forbidden_origin", "A page of another origin may not ask this service.")
_UNAUTHORIZED: Final = Refusal(
    401,
    "unauthorized",
    "Send the session token: open the printed link, or use Authorization: Bearer.",
    headers=(("WWW-Authenticate", 'Bearer realm="idkmesh"'),),
)


def loopback_address(host: str) -> str:
    """Return the loopback address that ``--host`` means: ``localhost`` is 127.0.0.1, and ``[::1]`` is ::1 (CT-2.1).

    Raises ``ValueError``, in one line, for anything else. No name is looked up: what a name means can change.
    """
    if host.lower() in {"localhost", "localhost."}:
        return "127.0.0.1"
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        address = None
    # An address with a zone, or an IPv4 one written as IPv6, has no form that the Host guard knows.
    if str(address) != "::1" and not (isinstance(address, ipaddress.IPv4Address) and address.is_loopback):
        shown = repr(host) if host else "the empty host"
        raise ValueError(
            f"{shown} is no loopback address: the control tower binds 127.0.0.1, ::1 or localhost only; to reach it "
            "from elsewhere, put a reviewed proxy or an SSH tunnel in front"
        )
    return str(address)


def new_token() -> str:
    """Return a random token of 256 bits."""
    return secrets.token_urlsafe(32)


def checked_token(text: str, source: str) -> str:
    """Return the token in ``text``, without a line end after it. Raises ``ValueError`` that names ``source`` (CT-2.5).

    The token itself never stands in the message.
    """
    token = text.rstrip("\r\n")
    if not _TOKEN.fullmatch(token):
        raise ValueError(f"{source}: a token is 32 to 4096 characters of A-Z a-z 0-9 - . _ ~")
    return token


def allowed_authorities(address: str, port: int) -> frozenset[str]:
    """Return what a ``Host`` may say, in lower case, for a service bound to ``address`` and ``port`` (CT-2.2)."""
    names = {"localhost", "localhost.", "127.0.0.1", "[::1]", f"[{address}]" if ":" in address else address}
    with_port = {f"{name}:{port}" for name in names}
    return frozenset(with_port | names if port == _DEFAULT_PORT else with_port)


class SessionGuard:
    """The rules of one service, as its routes ask for them (:class:`idkmesh.httpd.routes.Guard`).

    Until :meth:`listen_at` has told it where the service is bound, it refuses every ``Host``.
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode("ascii")
        self._authorities: frozenset[str] = frozenset()
        self._origins: frozenset[str] = frozenset()

    def listen_at(self, address: str, port: int) -> None:
        """Accept what names the service at this IP address and port."""
        self._authorities = allowed_authorities(address, port)
        self._origins = frozenset(f"http://{authority}" for authority in self._authorities)

    def refuse_host(self, request: Request) -> Refusal | None:
        """Judge the authority that the request is for: the target's own, or that of ``Host`` (CT-2.2)."""
        return None if request.authority.lower() in self._authorities else _FORBIDDEN_HOST

    def refuse_origin(self, request: Request) -> Refusal | None:
        """Judge where a browser says that the request comes from (CT-2.3). A program that says nothing passes."""
        # Another port of this machine is "same-site": only the page itself, or a person with a link, may ask.
        for name, allowed in (("sec-fetch-site", _OWN_SITES), ("origin", self._origins)):
            if not allowed.issuperset(_values(request, name)):
                return _FORBIDDEN_ORIGIN
        return None

    def refuse_token(self, request: Request) -> Refusal | None:
        """Judge the session token, in constant time (CT-2.4)."""
        given = request.get(TOKEN_FIELD)
        if given is None:
            scheme, _, given = (request.get("authorization") or "").partition(" ")
            if scheme.lower() != "bearer":
                return _UNAUTHORIZED
        return None if hmac.compare_digest(given.strip(" ").encode("latin-1"), self._token) else _UNAUTHORIZED


def _values(request: Request, name: str) -> list[str]:
    """Return every value of a field, whose name is given in lower case: the one that is not judged may be the lie."""
    if request.get(name) is None:
        return []
    return [value for field, value in request.fields if field.lower() == name]
