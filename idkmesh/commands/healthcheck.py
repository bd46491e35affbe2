"""``idkmesh healthcheck``: ask a probe path once and tell by the exit code, for Docker's ``HEALTHCHECK`` (HL-6.2).

It is started again and again, so it imports little: no server, no matrix, and TLS where the URL asks for it.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh import console
from idkmesh.addresses import url_host
from idkmesh.commands.target_url import target_url
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_UNKNOWN: Final = 3
"""What came back says nothing of the service."""

PATHS: Final = {"ready": "/readyz", "live": "/livez", "startup": "/startupz"}

MAX_BODY_BYTES: Final = 64 * 1024
_SHOWN_NAMES: Final = 20
_YES: Final = frozenset(("ready", "started", "live"))
_NO: Final = frozenset(("not_ready", "starting", "not_live"))
_LIVENESS: Final = {(200, b"ok"): (0, "ok"), (503, b"stalled"): (EXIT_FAILED, "stalled")}


class Told(NamedTuple):
    """The exit code, and the line for people."""

    code: int
    line: str


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to ask for what. ``path`` is as it stands in the request, with the query."""

    tls: bool
    host: str
    port: int
    path: str

    @property
    def address(self) -> str:
        """Who is asked, for people: ``HOST:PORT``."""
        return f"{url_host(self.host)}:{self.port}"


def healthcheck(url: str, asked: str | None, timeout: float) -> int:
    """Ask ``url`` within ``timeout`` seconds in all, print a line, and return the exit code.

    ``asked`` is a key of :data:`PATHS`, ``ready`` where it is None; a URL that has a path has said it already.
    """
    target = parse_target(url, asked)
    told: list[Told] = []

    def run() -> None:
        told.append(ask(target, timeout))

    # A resolver cannot be interrupted, nor a server that sends a byte at a time be held to a total by its socket.
    thread = threading.Thread(target=run, name="healthcheck", daemon=True)
    thread.start()
    thread.join(timeout)
    code, line = told[0] if told else _timed_out(target, timeout)
    console.say(console.fitted(line))
    return code


def parse_target(url: str, asked: str | None) -> Target:
    """Return what a URL means: an origin gets the path of ``asked``. Raises :class:`CommandError` with exit code 2."""
    try:
        parts = target_url(url)
    except ValueError as error:
        raise CommandError(f"the URL is refused: {error}", EXIT_USAGE) from None
    path = parts.path
    if path in {"", "/"}:
        path = PATHS[asked or "ready"]
    elif asked is not None:
        raise CommandError(f"--{asked} is refused: the URL names a path already, leave one of them out", EXIT_USAGE)
    return Target(parts.tls, parts.host, parts.port, path + (f"?{parts.query}" if parts.query else ""))


def ask(target: Target, timeout: float) -> Told:
    """Ask once: no proxy, no redirect is followed. ``timeout`` bounds each wait, the caller bounds the whole."""
    make: Callable[..., http.client.HTTPConnection]
    make = http.client.HTTPSConnection if target.tls else http.client.HTTPConnection
    connection = make(target.host, target.port, timeout=timeout)
    try:
        connection.request(
            "GET", target.path, headers={"Connection": "close", "Accept": "application/json, text/plain"}
        )
        response = connection.getresponse()
        return judge(response.status, response.read(MAX_BODY_BYTES))
    except TimeoutError:
        return _timed_out(target, timeout)
    except ConnectionError as error:
        return Told(EXIT_FAILED, f"no answer from {target.address}: {console.reason(error)}")
    except socket.gaierror:
        return Told(EXIT_UNKNOWN, f"could not tell: {target.host} is no host that is known here")
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Told(EXIT_UNKNOWN, f"could not tell: {target.address}: {console.reason(error)}")
    finally:
        connection.close()


def _timed_out(target: Target, timeout: float) -> Told:
    return Told(EXIT_FAILED, f"no answer from {target.address} within {timeout:g} s")


def judge(status: int, body: bytes) -> Told:
    """Return what an answer means. One that no probe path gives means nothing, whatever its status. Pure."""
    if (status, body) in _LIVENESS:
        return Told(*_LIVENESS[status, body])
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        word = document.get("status")
        if status == http.HTTPStatus.OK and isinstance(word, str) and word in _YES:
            return Told(0, _line(word, document))
        if status == http.HTTPStatus.SERVICE_UNAVAILABLE and isinstance(word, str) and word in _NO:
            return Told(EXIT_FAILED, _line(word, document))
        error = document.get("error")
        if (
            status == http.HTTPStatus.SERVICE_UNAVAILABLE
            and isinstance(error, dict)
            and error.get("code") == "shutting_down"
        ):
            return Told(EXIT_FAILED, "shutting_down")
    return Told(EXIT_UNKNOWN, f"could not tell: status {status}, which is not the answer of a probe path")


def _line(word: str, document: dict[str, Any]) -> str:
    """Return the verdict with the names that the answer has."""
    return word + "".join(
        f"; {member}: {', '.join(names)}"
        for member in ("failing", "warnings")
        if (names := _names(document.get(member), document.get(f"{member}_total")))
    )


def _names(value: object, total: object) -> list[str]:
    """Return the first names, and how many there are besides. An answer may list fewer than it counts (HL-5.1)."""
    if not isinstance(value, list):
        return []
    names = [name for name in value if isinstance(name, str)]
    more = max(len(names), total if isinstance(total, int) else 0) - _SHOWN_NAMES
    return names if more <= 0 else [*names[:_SHOWN_NAMES], f"{more} more"]
