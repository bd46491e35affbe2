"""The adapter's three paths (RA-8): what is asked is judged by a pure function, and answered from what is held.

The serial profile handles a request in the loop, so that one thread does all of it. Nothing here waits for the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from idkmesh import __version__
from idkmesh.httpd import BoundedHTTPServer
from idkmesh.httpd.application import WithoutRoutes
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import not_found, wrong_method
from idkmesh.service_runtime import ServiceIdentity, ServiceLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.adapter.log import PromptLog
    from idkmesh.adapter.verdict import Verdict
    from idkmesh.httpd.application import Application, Responder
    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.request import Request

LIMITS: Final = ServiceLimits(
    serial=True,
    request_timeout=0.5,
    max_concurrent_requests=1,
    max_connections=4,
    max_header_fields=16,
    max_header_bytes=4096,
    max_body_bytes=0,
    max_buffered_bytes=1024 * 1024,
    listen_backlog=2,
    drain_timeout=0.5,
    max_sse_clients=1,
)
"""Of the serial profile (RA-8.5). One connection is served at a time; during the end of a drain the queue's is, too."""

MAX_HEAD_BYTES: Final = 4096
"""Of a request line and fields together: ``max_header_bytes`` counts the fields alone."""

PEER: Final = "127.0.0.1"
METHODS: Final = ("GET", "HEAD")

ANSWERS: Final[Mapping[str, Callable[[Verdict], tuple[bool, str]]]] = {
    "/startup": lambda told: (told.started, "started" if told.started else "starting"),
    "/live": lambda told: (told.live, "live" if told.live else "not_live"),
    "/ready": lambda told: (told.ready, "ready" if told.ready else "not_ready"),
}

FORWARDED_PREFIX: Final = "x-forwarded-"
FORWARDING: Final = frozenset(("forwarded", "x-real-ip", "via"))
"""Fields of whoever asks for somebody else, in lower case (RFC 7239, RFC 9110 §7.6.3, and what is in use)."""

NOT_THE_HOST: Final = Refusal(403, "forbidden_host", "Host must be the address that this adapter listens on.")
NOT_THE_PEER: Final = Refusal(403, "forbidden", f"This adapter answers {PEER} alone.")
FORWARDED: Final = Refusal(403, "forbidden", "This adapter answers nobody who asks for somebody else.")
TOO_LONG: Final = Refusal(431, "headers_too_large", f"The request's head has more than {MAX_HEAD_BYTES} bytes.")


def refusal_of(request: Request, authority: str, peer: str) -> Refusal | None:
    """Say why a request is none of those that the adapter answers, in the order of HS-3.13 (RA-8.2, RA-8.3)."""
    names = [name.lower() for name, _ in request.fields]
    rules = (
        (len(request.head) <= MAX_HEAD_BYTES, TOO_LONG),
        (peer == PEER, NOT_THE_PEER),
        (request.get("host") == authority, NOT_THE_HOST),
        (not any(name in FORWARDING or name.startswith(FORWARDED_PREFIX) for name in names), FORWARDED),
        (request.target in ANSWERS, not_found()),
        (request.method in METHODS, wrong_method(request.method, METHODS)),
    )
    return next((refusal for kept, refusal in rules if not kept), None)


def response_of(path: str, told: Verdict) -> Response:
    """Return what one of the paths answers (RA-8.1)."""
    yes, word = ANSWERS[path](told)
    return Response(200 if yes else 503, body=b'{"status":"%b"}' % word.encode("ascii"))


class _Paths(WithoutRoutes):
    """The application. What is refused is refused before anything else, in a drain too."""

    def __init__(self, server: AdapterServer, verdict: Callable[[], Verdict]) -> None:
        self._server = server
        self._verdict = verdict

    def preempt(self, request: Request) -> Refusal | None:  # type: ignore[override]  # those without routes refuse nothing
        """Refuse what the adapter does not answer."""
        return refusal_of(request, self._server.authority, self._server.peer)

    def judge(self, request: Request) -> Responder:  # noqa: ARG002  the front's question
        """Have it answered."""
        return self._answer

    def _answer(self, exchange: Exchange) -> None:
        exchange.respond(response_of(exchange.request.target, self._verdict()))


class AdapterServer(BoundedHTTPServer):
    """Serves the three paths on a loopback IPv4 address. Raises ``OSError`` where it cannot be bound.

    ``verdict`` is asked for each answer and must not wait; nor must ``log``.
    """

    def __init__(self, address: tuple[str, int], verdict: Callable[[], Verdict], log: PromptLog) -> None:
        self._verdict = verdict
        self._log = log
        self.peer = ""
        """Whose connection is served: of the one that there is. At the end of a drain there may be another one besides,
        and to nobody is said more than no then."""
        identity = ServiceIdentity(service="idkmesh-readiness-adapter", service_version=__version__, read_only=True)
        super().__init__(address, None, limits=LIMITS, identity=identity)

    @property
    def authority(self) -> str:
        """The address that it listens on, as it stands in ``Host``."""
        return f"{self.server_name}:{self.server_port}"

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002, ANN401  the standard signature
        """Take note of the peer: it is answered, if only that it may not ask."""
        self.peer = client_address[0]
        return True

    def _make_application(self) -> Application:
        self._core.log = self._log  # the server's own has a thread for it
        self._core.probe_statuses = dict.fromkeys(ANSWERS, 503)
        return _Paths(self, self._verdict)
