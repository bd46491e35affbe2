"""``idkmesh topology``: a router's projection for people and acceptance scripts (RT-12.3, RT-12.4).

It is started again and again, so it imports little; and it asks for the projection alone, so what it tells is what the
router has consumed.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from idkmesh import console
from idkmesh.addresses import url_host
from idkmesh.commands.target_url import target_url
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.router.token_file import TokenFileError, read_token
from idkmesh.topology.model import target_of
from idkmesh.topology.projection import PATH
from idkmesh.topology.waiting import Verdict, Waiting, after_look, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_UNKNOWN: Final = 3
"""It could not be told: no answer, or the session was renewed."""

LOOK_SECONDS: Final = 0.2
ANSWER_SECONDS: Final = 5.0
"""For one answer in all, the look-up of a name included."""

MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""65,536 observations with the longest names take less than half of it."""

_COLUMNS: Final = ("RELEASE", "STATE", "REVISION", "OBSERVED")
_OK: Final = http.HTTPStatus.OK
_FINAL: Final = {
    401: "the token is refused",
    403: "the token is of no credential there",
    404: "no projection is there: the router observes nothing continuously, or it is no router; "
    "of a tower the URL ends in /api/v1/topology",
}
"""Answers that another look would not change."""


class UntoldError(Exception):
    """The projection could not be had. ``final`` says that another look would bring nothing else."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


@dataclass(frozen=True, slots=True)
class Source:
    """Whom to ask, by a URL that was judged, with which token."""

    tls: bool
    host: str
    port: int
    path: str
    token: str

    @property
    def origin(self) -> str:
        """How a line calls it."""
        return f"{'https' if self.tls else 'http'}://{url_host(self.host)}:{self.port}"


def status(url: str, token_file: str, *, as_json: bool) -> int:
    """Print the projection, and return the exit code."""
    source = source_of(url, token_file)
    try:
        document = look(source, ANSWER_SECONDS)
    except UntoldError as error:
        console.complain(f"idkmesh: could not tell: {error}")
        return EXIT_UNKNOWN
    if as_json:
        console.say(json.dumps(document, indent=2))
        return 0
    rows = document["observations"]
    for line in table(rows) if rows else ("nothing was asked for yet: no release is observed",):
        console.say(console.fitted(line))
    return 0


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each observation, the head first."""
    told = [
        (f"{row['agentId']}/{row['agentCardVersion']}/{row['releaseId']}", row["state"], str(row["localRevision"]))
        for row in rows
    ]
    return console.aligned([_COLUMNS, *((*cells, row["observedAt"]) for cells, row in zip(told, rows, strict=True))])


def waiting_for(release: str, state: str, after: int | None) -> Waiting:
    """Return what is waited for. Raises :class:`CommandError` (exit code 2) for a text that names no release."""
    try:
        target_of(release if "/" in release else f"a/1/{release}")
    except ValueError:
        raise CommandError(
            "--release is refused: write AGENT/VERSION/RELEASE, or the release id alone", EXIT_USAGE
        ) from None
    return Waiting(release, state, after)


def wait(url: str, token_file: str, waiting: Waiting, timeout: float) -> int:
    """Look until what is waited for has come about, print what was seen, and return the exit code."""
    source = source_of(url, token_file)
    deadline = time.monotonic() + timeout
    while True:
        fault: UntoldError | None = None
        verdict = Verdict.WAIT
        try:
            left = max(LOOK_SECONDS, min(ANSWER_SECONDS, deadline - time.monotonic()))
            waiting, verdict = after_look(waiting, look(source, left)["observations"])
        except UntoldError as error:
            fault = error
        over = time.monotonic() + LOOK_SECONDS >= deadline
        if verdict is not Verdict.WAIT or over or (fault is not None and fault.final):
            return _told(waiting, verdict, fault, timeout)
        time.sleep(LOOK_SECONDS)


def _told(waiting: Waiting, verdict: Verdict, fault: UntoldError | None, timeout: float) -> int:
    """Say in a line how the waiting has ended, and return the exit code."""
    seen = waiting.seen
    shown = waiting.release if seen is None else f"{seen.release}: {seen.state} at revision {seen.revision}"
    if verdict is Verdict.YES:
        console.say(console.fitted(shown))
        return 0
    if verdict is Verdict.AMBIGUOUS:
        raise CommandError(
            f"{waiting.release}: several observations have this release id; write AGENT/VERSION/RELEASE", EXIT_USAGE
        )
    if fault is not None:
        console.complain(f"idkmesh: could not tell: {fault}")
        return EXIT_UNKNOWN
    if seen is None:
        shown += ": not observed, since nobody has asked for it"
    if verdict is Verdict.RENEWED:
        joined = "or" if seen is None else "and"
        console.complain(
            f"idkmesh: could not tell: {shown}, {joined} the session of the revision that counts is over; take it anew"
        )
        return EXIT_UNKNOWN
    console.complain(f"idkmesh: timed out after {timeout:g} s: {shown}")
    return EXIT_FAILED


# --- asking ----------------------------------------------------------------------------------------------------------


def source_of(url: str, token_file: str) -> Source:
    """Return what a URL and a file mean: an origin gets the path of the projection. Raises :class:`CommandError`."""
    try:
        asked = target_url(url)
    except ValueError as error:
        raise CommandError(f"the URL is refused: {error}", EXIT_USAGE) from None
    if asked.query:
        raise CommandError("the URL is refused: a projection takes no query, leave it out", EXIT_USAGE)
    try:
        token = read_token(token_file)
    except TokenFileError as error:
        raise CommandError(f"the token file {token_file} {error}", EXIT_USAGE) from None
    return Source(asked.tls, asked.host, asked.port, PATH if asked.path in {"", "/"} else asked.path, token)


def look(source: Source, seconds: float) -> dict[str, Any]:
    """Return the projection. Raises :class:`UntoldError` where it cannot be had within so many seconds."""
    told: list[dict[str, Any] | UntoldError] = []

    def run() -> None:
        try:
            told.append(_asked(source, seconds))
        except UntoldError as error:
            told.append(error)

    # A resolver cannot be interrupted, nor a server that sends a byte at a time be held to a total by its socket.
    thread = threading.Thread(target=run, name="topology-look", daemon=True)
    thread.start()
    thread.join(seconds)
    answer = told[0] if told else UntoldError(f"no answer within {seconds:g} s")
    if isinstance(answer, UntoldError):
        raise answer
    return answer


def _asked(source: Source, seconds: float) -> dict[str, Any]:
    make: Callable[..., http.client.HTTPConnection]
    make = http.client.HTTPSConnection if source.tls else http.client.HTTPConnection
    connection = make(source.host, source.port, timeout=seconds)
    fields = {"Authorization": f"Bearer {source.token}", "Accept": "application/json", "Connection": "close"}
    try:
        connection.request("GET", source.path, headers=fields)
        response = connection.getresponse()
        content = response.read(MAX_DOCUMENT_BYTES)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UntoldError(f"{source.origin}: {console.reason(error)}") from None
    finally:
        connection.close()
    return judged(response.status, content)


def judged(code: int, content: bytes) -> dict[str, Any]:
    """Return the projection that an answer is. Raises :class:`UntoldError` for any other. Pure."""
    if code != _OK:
        raise UntoldError(_FINAL.get(code, f"the answer has status {code}"), final=code in _FINAL)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or rows_of(document) is None:
        raise UntoldError("the answer is no projection of a router's topology", final=True)
    return document
