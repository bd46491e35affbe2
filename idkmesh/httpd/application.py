"""What the front asks of the program it serves, and what the program answers.

Two kinds exist: a handler class or WSGI callable (``handler.py``, ``wsgi.py``: no path of its own, everything runs in a
worker) and a table of routes (``routes.py``). The front asks in the order of clause HS-3.13: first
:meth:`Application.preempt`, then its own cap and drain, then :meth:`Application.judge`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.request_rules import Refusal, Request
    from idkmesh.httpd.responses import Response
    from idkmesh.httpd.streams import Beginning, Channel

    Responder = Callable[[Exchange], None]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stream that is to be opened: after which position (None: from now on), and which events it carries.

    `beginning` is the channel's, by which the position was judged; a stream of another history, or of none, ends at
    once.
    """

    beginning: Beginning | None
    after: int | None = None
    wanted: Mapping[str, str] = field(default_factory=dict)


class Application(Protocol):
    """Decides, on the front, what happens to a request whose head is complete.

    The methods run on the front: they read stored state, never wait, and never run a user's code.
    """

    channel: Channel | None
    """The events that its streams carry; None where it has no streams."""

    def preempt(self, request: Request) -> Response | Refusal | None:
        """Answer what stands before the cap and the drain (probe paths, a foreign ``Host``), or pass with None."""

    def judge(self, request: Request) -> Responder | Subscription | Refusal:
        """Say what a worker is to run for this request, which stream to open, or refuse it.

        Asked before the body is read.
        """

    def streams(self, request: Request) -> bool:
        """Say whether this request is for a stream of events, which takes no slot (EV-5.6)."""


class WithoutRoutes:
    """What programs without a table of routes have in common: each request is theirs, and none is a stream."""

    channel: Channel | None = None

    def preempt(self, request: Request) -> None:
        """Pass: no path is answered for the program (HS-10.6)."""

    def streams(self, request: Request) -> bool:  # noqa: ARG002  the front's question
        """Say no: its handlers write what they stream."""
        return False
