"""Who may ask a router: its credentials, of which only digests are kept, and the refusals (RT-9.2, RT-9.4). Pure."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from idkmesh.httpd.request import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.httpd.request import Request

UNAUTHORIZED: Final = Refusal(
    401,
    "unauthorized",
    "Send the token of a credential, once, as Authorization: Bearer TOKEN.",
    headers=(("WWW-Authenticate", 'Bearer realm="idkmesh-router"'),),
)
FORBIDDEN: Final = Refusal(403, "forbidden", "This token is of no credential of this router.")

_FIELD: Final = "authorization"


def digest_of(token: str) -> bytes:
    """Return what is kept of a token. All have one length, so that no comparison tells of a token's."""
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


class Credentials:
    """The credentials of one router, and the rules that its routes ask (:class:`idkmesh.httpd.routes.Guard`).

    ``digests`` are of the tokens, by id; :meth:`take` puts others in their place. Every path but the probes wants a
    bearer, which no browser sends by itself: so any ``Host`` and any origin may ask, and a proxy before the router may
    keep its own name.
    """

    def __init__(self, digests: Mapping[str, bytes]) -> None:
        self._digests = dict(digests)

    def __repr__(self) -> str:
        return f"Credentials({', '.join(self._digests)})"

    def take(self, other: Credentials) -> None:
        """Have the credentials of another one from here on, in one step: no request is judged by some of both."""
        self._digests = other._digests

    def with_another_token(self, other: Credentials) -> int:
        """Return how many have the id of one of ``other``, and another token."""
        kept = self._digests.keys() & other._digests.keys()
        return sum(self._digests[name] != other._digests[name] for name in kept)

    @property
    def ids(self) -> tuple[str, ...]:
        """The names, in the order of the file."""
        return tuple(self._digests)

    def of(self, request: Request) -> str | Refusal:
        """Return the id of the credential that a request has, or why it may not ask. In constant time."""
        given = [value for name, value in request.fields if name.lower() == _FIELD]
        scheme, _, token = (given[0] if len(given) == 1 else "").partition(" ")
        token = token.strip(" ")
        if scheme.lower() != "bearer" or not token:
            return UNAUTHORIZED
        digest = digest_of(token)
        # Every one is compared, whichever it is: how long it takes tells of none.
        matching = [name for name, each in self._digests.items() if hmac.compare_digest(digest, each)]
        return matching[0] if matching else FORBIDDEN

    # --- as a guard, on the front ---------------------------------------------------------------------------------

    def refuse_host(self, request: Request) -> None:
        """Pass."""

    def refuse_origin(self, request: Request) -> None:
        """Pass."""

    def refuse_token(self, request: Request) -> Refusal | None:
        """Refuse a request without a known credential."""
        found = self.of(request)
        return found if isinstance(found, Refusal) else None
