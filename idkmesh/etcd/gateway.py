"""Asks the members of an etcd through its JSON gateway, with ``etcd3gw`` and a deadline over all of them (AR-6.1).

The library knows one member, its timeout is one between two bytes, and it asks the system for names without any: so
each request has a thread that can be left, and a connection of its own, which ends then. Whoever answers is not
believed: it may be another program, or somebody on the way. So an answer has a bound, a redirect is not followed, and
text is cleaned.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import math
import re
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from idkmesh.addresses import url_host
from idkmesh.etcd.tether import Tether

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import requests

_Brought = TypeVar("_Brought")

API_PATH: Final = "/v3/"
"""Of etcd 3.4 and newer. Named, it is not asked for before each request."""

MIN_LEASE_SECONDS: Final = 1

MAX_OUT: Final = 4
"""Requests to one member that may be out beyond their deadline, as it takes a look-up of a name that hangs. Then it is
not asked until one has come back."""

MAX_ANSWER_BYTES: Final = 1024 * 1024
"""Of one answer; those that are asked for have a few hundred, where nobody lists what others wrote."""

MAX_LINE_CHARACTERS: Final = 200
_NUMBERS: Final = range(-(2**63), 2**64)

REFUSALS: Final = ("permission denied", "user name", "auth", "password", "unauthenticated", "certificate")
"""Words of etcd's own when it takes no credential of ours: of no other text, a host may have such a name."""

_HOST: Final = re.compile(r"[A-Za-z0-9._\-]+|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._\-]+)?")


class EtcdError(Exception):
    """No answer of etcd's, in one line that says what to do.

    ``silent``: it takes connections and says nothing. ``refused``: it says that it wants a credential, or another one.
    """

    def __init__(self, line: str, *, silent: bool = False, refused: bool = False) -> None:
        super().__init__(line)
        self.silent = silent
        self.refused = refused

    def alone(self) -> EtcdError:
        """Return the same without where it was raised, which holds an answer, of up to 64 MiB, for a while."""
        return type(self)(str(self), silent=self.silent, refused=self.refused)


class EtcdAnswerError(EtcdError):
    """It answered, and nobody can read that."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a member of etcd answers."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return it as a URL."""
        return f"{self.protocol}://{url_host(self.host)}:{self.port}"


def endpoint_of(url: str, field: str) -> Endpoint:
    """Return the endpoint that a URL names. Raises ``ValueError``, in one line, for anything but scheme, host, port.

    ``field`` is the name of where it stands; the line begins with it.
    """
    try:
        parts = urlsplit(url)
        port = 2379 if parts.port is None else parts.port
    except ValueError:
        shown = "a URL with a user in it" if "@" in url else repr(url)
        raise ValueError(f"{field}: {shown} is no URL; write http://HOST:2379") from None
    plain = parts.path in {"", "/"} and not parts.query and not parts.fragment and parts.username is None
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not _HOST.fullmatch(host) or not port or not plain:
        shown = repr(url) if "@" not in url else "a URL with a user in it"
        raise ValueError(f"{field}: {shown} must be http://HOST:PORT or https://HOST:PORT")
    return Endpoint(parts.scheme, host, port)


class Members:
    """The members of one etcd, the one that answered last first. Any thread may use it.

    ``most`` is how many bytes of an answer are taken.
    """

    def __init__(self, endpoints: Sequence[Endpoint], *, most: int = MAX_ANSWER_BYTES) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._order = list(endpoints)
        self._out: dict[Endpoint, set[threading.Thread]] = {endpoint: set() for endpoint in endpoints}

    def order(self) -> list[Endpoint]:
        """Return those that may be asked, the best first."""
        with self._lock:
            return [endpoint for endpoint in self._order if len(self._out[endpoint]) < MAX_OUT]

    def answered(self, endpoint: Endpoint) -> None:
        """Ask this one first from now on."""
        with self._lock:
            self._order.remove(endpoint)
            self._order.insert(0, endpoint)

    def out(self, endpoint: Endpoint, thread: threading.Thread) -> None:
        """Count a request that begins."""
        with self._lock:
            self._out[endpoint].add(thread)

    def back(self, endpoint: Endpoint, thread: threading.Thread) -> None:
        """Count it no more."""
        with self._lock:
            self._out[endpoint].discard(thread)

    def wait(self, until: float) -> None:
        """Wait for the requests that were left, until this instant (monotonic seconds)."""
        with self._lock:
            threads = [thread for out in self._out.values() for thread in out]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


@dataclass(frozen=True, slots=True)
class Call:
    """Requests to an etcd until one deadline (monotonic seconds)."""

    members: Members
    until: float

    def grant(self, seconds: float) -> int:
        """Return a new lease of etcd's of at least that many seconds."""
        body = {"TTL": max(MIN_LEASE_SECONDS, math.ceil(seconds)), "ID": 0}
        return number_of(member_of(self.ask("lease/grant", body), "ID", str))

    def revoke(self, lease: int) -> None:
        """End a lease of etcd's, with what is under it. One that cannot be ended ends by itself."""
        try:
            self.ask("lease/revoke", {"ID": lease})
        except EtcdError:
            return

    def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the first member says that answers. Raises :class:`EtcdError` where none does in time.

        Where all that were asked answered what nobody can read, it is :class:`EtcdAnswerError`.
        """
        reasons: list[str] = []
        errors: list[EtcdError] = []
        order = self.members.order()
        for number, endpoint in enumerate(order):
            left = self.until - time.monotonic()
            if left <= 0:
                break
            try:
                answer = asked(self.members, endpoint, path, body, left / (len(order) - number))
            except EtcdError as error:
                reasons.append(f"{endpoint}: {error}")
                errors.append(error)
                continue
            self.members.answered(endpoint)
            return answer
        said = "; ".join(reasons) or "no time was left"
        answered = bool(errors) and all(isinstance(error, EtcdAnswerError) for error in errors)
        kind = EtcdAnswerError if answered else EtcdError
        raise kind(
            f"etcd did not answer ({said}); look at its members",
            silent=all(error.silent for error in errors),
            refused=any(error.refused for error in errors),
        )


def asked(members: Members, endpoint: Endpoint, path: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return what one member says. Raises :class:`EtcdError`."""

    def errand(tether: Tether) -> dict[str, Any]:
        return _posted(endpoint, path, body, seconds, most=members.most, tether=tether)

    return in_time(members, endpoint, errand, seconds)


def in_time(
    members: Members,
    endpoint: Endpoint,
    errand: Callable[[Tether], _Brought],
    seconds: float,
    left: Callable[[_Brought], None] = lambda _: None,
) -> _Brought:
    """Run an errand to one member in a thread that can be left. Raises :class:`EtcdError`, the errand's or its own.

    Needed as the library's timeout is one between bytes, and a look-up of a name has none. What the errand's tether
    holds ends where the time is over. ``left`` gets what is brought too late.
    """
    handover: _Handover[_Brought] = _Handover(left)
    tether = Tether()

    def run() -> None:
        try:
            handover.run(errand, tether)
        finally:
            members.back(endpoint, thread)

    thread = threading.Thread(target=run, name="etcd-request", daemon=True)
    members.out(endpoint, thread)
    try:
        thread.start()
    except RuntimeError:  # that is how Python says it
        members.back(endpoint, thread)
        raise EtcdError("this machine is out of threads") from None
    thread.join(seconds)
    brought = handover.take()
    if not brought:
        tether.cut()
        raise EtcdError("timeout", silent=True)
    if isinstance(brought[0], EtcdError):
        raise brought[0]
    return brought[0]


class _Handover(Generic[_Brought]):
    """One result for who waits for it. One that is brought once nobody waits goes to ``left``, unless it failed."""

    def __init__(self, left: Callable[[_Brought], None]) -> None:
        self._left = left
        self._lock = threading.Lock()
        self._waited_for = True
        self._brought: list[_Brought | EtcdError] = []

    def run(self, errand: Callable[[Tether], _Brought], tether: Tether) -> None:
        """Run the errand, and hand over what it brings or why it brings nothing."""
        try:
            self.bring(errand(tether))
        except EtcdError as error:
            self.bring(error.alone())
        except Exception as error:  # noqa: BLE001  what a parser makes of an answer is the answer's fault
            self.bring(EtcdError(f"no answer of etcd: {type(error).__name__}"))
        finally:
            tether.close()

    def bring(self, result: _Brought | EtcdError) -> None:
        """Hand over a result."""
        with self._lock:
            if self._waited_for:
                self._brought.append(result)
                return
        if not isinstance(result, EtcdError):
            self._left(result)

    def take(self) -> list[_Brought | EtcdError]:
        """Wait no more, and return what was brought, if anything."""
        with self._lock:
            self._waited_for = False
            return self._brought


def _posted(  # noqa: PLR0913  all of one request
    endpoint: Endpoint, path: str, body: Mapping[str, Any], seconds: float, *, most: int, tether: Tether
) -> dict[str, Any]:
    import requests  # noqa: PLC0415  etcd3gw brings it
    import urllib3  # noqa: PLC0415  requests brings it
    from etcd3gw.client import Etcd3Client  # noqa: PLC0415  an extra
    from etcd3gw.exceptions import Etcd3Exception  # noqa: PLC0415  the same

    from idkmesh.etcd.session import session_of  # noqa: PLC0415  it imports requests

    with session_of(tether) as session:
        client = Etcd3Client(
            endpoint.host, endpoint.port, endpoint.protocol, timeout=seconds, api_path=API_PATH, session=session
        )
        try:
            hooks = {"response": functools.partial(_bounded, most)}
            asking = {"allow_redirects": False, "stream": True, "hooks": hooks}
            answer = client.post(client.get_url(path), json=dict(body), **asking)
        except Etcd3Exception as error:
            raise _told(error) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
            raise EtcdError(f"no answer of etcd: {type(error).__name__}") from None
    if not isinstance(answer, dict):
        raise EtcdAnswerError("no answer of etcd")
    return answer


def _bounded(most: int, response: requests.Response, **_: object) -> None:
    """Take a whole answer from its connection before anybody looks at it, or raise :class:`EtcdError`."""
    with closing(response.raw) as raw:
        if response.is_redirect:
            raise EtcdError("it sends elsewhere, which is not followed")
        body = raw.read(most + 1, decode_content=False)  # packed, it could be of any size
    if len(body) > most:
        raise EtcdAnswerError(f"an answer over {most // 1024**2} MiB")
    response.raw = io.BytesIO(body)
    response.encoding = "utf-8"  # none of its own choice, and none that is guessed


def one_line(text: str, most: int = MAX_LINE_CHARACTERS) -> str:
    """Return a text of somebody else's fit to be shown: one printable line of at most so many characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:most]


def refuses(words: str) -> bool:
    """Say whether words of etcd's own say that it wants a credential, or another one."""
    return any(word in words.lower() for word in REFUSALS)


def _told(error: Exception) -> EtcdError:
    """Return what went wrong in a few words. etcd's own are JSON, the library's name the object at its address."""
    text = str(getattr(error, "detail_text", "") or "")
    try:
        said = json.loads(text)["error"]
    except (KeyError, TypeError, ValueError, RecursionError):
        line = "refused" if "refused" in text else "timeout" if "time" in text.lower() else type(error).__name__
        return EtcdError(line, silent=line == "timeout")
    return (
        EtcdError(one_line(said), refused=refuses(said)) if isinstance(said, str) else EtcdError(type(error).__name__)
    )


def number_of(value: object) -> int:
    """Return a number of 64 bits, which the gateway writes as text."""
    text = str(value) if type(value) is int else value
    number = int(text) if isinstance(text, str) and re.fullmatch(r"-?[0-9]{1,20}", text) else None
    if number is None or number not in _NUMBERS:
        raise EtcdAnswerError("etcd: an answer without a number; is it etcd 3.4 or newer?")
    return number


def member_of(answer: Mapping[str, Any], name: str, kind: type[Any]) -> Any:  # noqa: ANN401  of that kind
    """Return a member of an answer, which has to be there and of this kind."""
    value = answer.get(name)
    if not isinstance(value, kind):
        raise EtcdAnswerError(f"etcd: an answer without {name}; is it etcd 3.4 or newer?")
    return value


def b64(content: str | bytes) -> str:
    """Return a key or a value as the gateway writes it."""
    return base64.b64encode(content if isinstance(content, bytes) else content.encode()).decode("ascii")
