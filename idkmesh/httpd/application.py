"""What the front asks of the program it serves, and what the program answers.

Two programs exist: a handler class or WSGI callable (``handler.py``: no path of its own, everything runs in a worker)
and a table of routes (``routes.py``). The front asks in the order of clause HS-3.13: first :meth:`Application.preempt`,
then its own cap and drain, then :meth:`Application.judge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.exchange import Exchange
    from idkmesh.httpd.request_rules import Refusal, Request
    from idkmesh.httpd.responses import Response

    Responder = Callable[[Exchange], None]


class Application(Protocol):
    """Decides, on the front, what happens to a request whose head is complete.

    Both methods run on the front: they read stored state, never wait, and never run a user's code.
    """

    def preempt(self, request: Request) -> Response | Refusal | None:
        """Answer what stands before the cap and the drain (probe paths, a foreign ``Host``), or pass with None."""

    def judge(self, request: Request) -> Responder | Refusal:
        """Say what a worker is to run for this request, or refuse it. Asked before the body is read."""
