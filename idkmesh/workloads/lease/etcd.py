"""A lease in etcd, for supervisors of several hosts (AR-6.1), through its JSON gateway with ``etcd3gw``.

Laws of this module:

1. The lease is a key under a lease of etcd's. Who has created it, by a transaction, holds it; its create revision is
   the token. It is renewed by keeping etcd's lease alive.
2. A claim is one transaction: the key still has our create revision, and the instance has no claim. It is a key under a
   lease of its own, so etcd's clock ends it, which only ever extends leases: a new leader counts them from their start.
3. A transaction whose answer was lost is sent again, to another member perhaps. It writes a word that nobody else has;
   who finds this word has written it.
4. A call has a deadline over all of its requests and all members. Each request has a connection of its own: nothing is
   shared between threads, and none is half dead after a member's restart.
"""

from __future__ import annotations

import base64
import json
import math
import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from idkmesh.workloads.lease.lease_times import CALL_SECONDS
from idkmesh.workloads.lease.store import Grant, LeaseStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

API_PATH: Final = "/v3/"
"""Of etcd 3.4 and newer. Named, it is not asked for before each request."""

PREFIX: Final = "/idkmesh/"

MIN_LEASE_SECONDS: Final = 1

MAX_OUT: Final = 4
"""Requests to one member that may be out beyond their deadline. Then it is not asked until one has come back."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a member of etcd answers."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return it as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.protocol}://{host}:{self.port}"


def endpoint_of(url: str) -> Endpoint:
    """Return the endpoint that a URL names. Raises ``ValueError``, in one line, for anything but scheme, host, port."""
    try:
        parts = urlsplit(url)
        port = parts.port or 2379
    except ValueError:
        raise ValueError(f"supervisor.lease.etcd.endpoints: {url!r} is no URL; write http://HOST:2379") from None
    plain = parts.path in {"", "/"} and not parts.query and not parts.fragment and parts.username is None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        shown = url if parts.username is None else "a URL with a user in it"
        raise ValueError(f"supervisor.lease.etcd.endpoints: {shown!r} must be http://HOST:PORT or https://HOST:PORT")
    return Endpoint(parts.scheme, parts.hostname, port)


class EtcdLeaseStore:
    """A :class:`~idkmesh.workloads.lease.store.LeaseStore` in etcd, asked at ``endpoints``, URLs of its members.

    ``name`` tells apart supervisors that do not belong together. ``call_seconds`` is the deadline of a call. Raises
    ``ValueError`` for an endpoint that is none, and :class:`LeaseStoreError` where ``etcd3gw`` is not installed. Any
    thread may call any method.

    A claim lasts for the cooldown that it was made with, and up to a call and a second longer.
    """

    def __init__(self, endpoints: Sequence[str], name: str = "default", *, call_seconds: float = CALL_SECONDS) -> None:
        if not endpoints:
            raise ValueError("supervisor.lease.etcd.endpoints: none is named; write http://HOST:2379")
        try:
            import etcd3gw  # noqa: F401, PLC0415  an extra: who keeps the lease in a file does not need it
        except ImportError:
            raise LeaseStoreError("a lease in etcd needs the package etcd3gw; install idkmesh[etcd]") from None
        self._members = _Members([endpoint_of(url) for url in endpoints])
        self._name = name
        self._key = f"{PREFIX}lease/{name}"
        self._call_seconds = call_seconds

    def acquire(self, holder: str, ttl: float) -> Grant | None:
        """Take the lease if nobody holds it (see :class:`LeaseStore`)."""
        call = self._call()
        if _first(call.ask("kv/range", {"key": _b64(self._key)})) is not None:  # so that no lease is granted in vain
            return None
        lease = call.grant(ttl)
        word = json.dumps({"holder": holder, "word": secrets.token_hex(8)})
        answer = call.ask("kv/txn", _create((), self._key, word, lease))
        found = _found(answer, word)
        if found is None:
            call.revoke(lease)
            return None
        return Grant(holder, f"{found}.{lease}")

    def renew(self, grant: Grant, ttl: float) -> bool:  # noqa: ARG002  etcd renews for what was granted
        """Hold it longer (see :class:`LeaseStore`); for the ttl that it was acquired with.

        A member that was cut off, or stopped, may still take itself for the leader and keep the lease alive by itself.
        So the key is read afterwards, which only the true leader answers.
        """
        revision, lease = _parts(grant)
        call = self._call()
        kept = call.ask("lease/keepalive", {"ID": lease})
        if _number(_member(kept, "result", dict).get("TTL", 0)) <= 0:
            return False
        key = _first(call.ask("kv/range", {"key": _b64(self._key)}))
        return key is not None and _number(key.get("create_revision")) == revision

    def release(self, grant: Grant) -> None:
        """Give it back (see :class:`LeaseStore`)."""
        revision, lease = _parts(grant)
        call = self._call()
        delete = {"request_delete_range": {"key": _b64(self._key)}}
        call.ask("kv/txn", {"compare": [_created(self._key, revision)], "success": [delete], "failure": []})
        call.revoke(lease)

    def holder(self) -> str | None:
        """Return who holds it."""
        key = _first(self._call().ask("kv/range", {"key": _b64(self._key)}))
        if key is None:
            return None
        try:
            return str(json.loads(base64.b64decode(key["value"]))["holder"])
        except (KeyError, TypeError, ValueError):
            raise LeaseStoreError(f"etcd: the key {self._key} was not written by idkmesh; remove it") from None

    def claim(self, grant: Grant, instance: str, cooldown: float) -> bool:
        """Claim the restart of an instance (see :class:`LeaseStore`)."""
        revision, _ = _parts(grant)
        call = self._call()
        # Granted before the claim is written, at most one call earlier; and etcd counts whole seconds.
        lease = call.grant(cooldown + self._call_seconds)
        word = json.dumps({"holder": grant.holder, "word": secrets.token_hex(8)})
        key = f"{PREFIX}claim/{self._name}/{instance}"
        answer = call.ask("kv/txn", _create((_created(self._key, revision),), key, word, lease))
        if _found(answer, word) is None:
            call.revoke(lease)
            return False
        return True

    def close(self) -> None:
        """Do nothing: no call leaves anything open."""

    def _call(self) -> _Call:
        return _Call(self._members, time.monotonic() + self._call_seconds)


class _Members:
    """The members of one etcd, the one that answered last first. Any thread may use it."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._lock = threading.Lock()
        self._order = list(endpoints)
        self._out = dict.fromkeys(endpoints, 0)

    def order(self) -> list[Endpoint]:
        """Return those that may be asked, the best first."""
        with self._lock:
            return [endpoint for endpoint in self._order if self._out[endpoint] < MAX_OUT]

    def answered(self, endpoint: Endpoint) -> None:
        """Ask this one first from now on."""
        with self._lock:
            self._order.remove(endpoint)
            self._order.insert(0, endpoint)

    def count(self, endpoint: Endpoint, change: int) -> None:
        """Count the requests that are out."""
        with self._lock:
            self._out[endpoint] += change


@dataclass(frozen=True, slots=True)
class _Call:
    """The requests of one call of the store, until one deadline (monotonic seconds)."""

    members: _Members
    until: float

    def grant(self, seconds: float) -> int:
        """Return a new lease of etcd's of at least that many seconds."""
        body = {"TTL": max(MIN_LEASE_SECONDS, math.ceil(seconds)), "ID": 0}
        return _number(_member(self.ask("lease/grant", body), "ID", str))

    def revoke(self, lease: int) -> None:
        """End a lease of etcd's, with what is under it. One that cannot be ended ends by itself."""
        try:
            self.ask("lease/revoke", {"ID": lease})
        except LeaseStoreError:
            return

    def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the first member says that answers. Raises :class:`LeaseStoreError` where none does in time."""
        reasons = []
        order = self.members.order()
        for number, endpoint in enumerate(order):
            left = self.until - time.monotonic()
            if left <= 0:
                break
            try:
                answer = _asked(self.members, endpoint, path, body, left / (len(order) - number))
            except LeaseStoreError as error:
                reasons.append(f"{endpoint}: {error}")
                continue
            self.members.answered(endpoint)
            return answer
        said = "; ".join(reasons) or "no time was left"
        raise LeaseStoreError(f"etcd did not answer ({said}); look at its members")


def _asked(members: _Members, endpoint: Endpoint, path: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Ask one member, in a thread that can be left: the library's timeout is one between bytes, and none of names."""
    came: list[dict[str, Any] | LeaseStoreError] = []
    members.count(endpoint, 1)

    def request() -> None:
        try:
            came.append(_posted(endpoint, path, body, seconds))
        except LeaseStoreError as error:
            came.append(error)
        finally:
            members.count(endpoint, -1)

    thread = threading.Thread(target=request, name="lease-etcd", daemon=True)
    _started(thread, lambda: members.count(endpoint, -1))
    thread.join(seconds)
    if not came:
        raise LeaseStoreError("timeout")
    if isinstance(came[0], LeaseStoreError):
        raise came[0]
    return came[0]


def _started(thread: threading.Thread, otherwise: Callable[[], None]) -> None:
    try:
        thread.start()
    except RuntimeError:  # that is how Python says it
        otherwise()
        raise LeaseStoreError("this machine is out of threads") from None


def _posted(endpoint: Endpoint, path: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    import requests  # noqa: PLC0415  etcd3gw brings it
    from etcd3gw.client import Etcd3Client  # noqa: PLC0415  an extra
    from etcd3gw.exceptions import Etcd3Exception  # noqa: PLC0415

    with requests.Session() as session:
        session.trust_env = False  # no proxy and no password file of the user's stands between
        client = Etcd3Client(
            endpoint.host, endpoint.port, endpoint.protocol, timeout=seconds, api_path=API_PATH, session=session
        )
        try:
            answer = client.post(client.get_url(path), json=dict(body))
        except Etcd3Exception as error:
            raise LeaseStoreError(_line_of(error)) from None
        except (requests.RequestException, ValueError) as error:
            raise LeaseStoreError(f"no answer of etcd: {type(error).__name__}") from None
    if not isinstance(answer, dict):
        raise LeaseStoreError("no answer of etcd")
    return answer


def _line_of(error: Exception) -> str:
    """Return what went wrong in a few words. etcd's own are JSON, the library's name the object at its address."""
    text = str(getattr(error, "detail_text", "") or "")
    try:
        said = json.loads(text)["error"]
    except (KeyError, TypeError, ValueError):
        said = "refused" if "refused" in text else "timeout" if "time" in text.lower() else type(error).__name__
    return " ".join(str(said).split())[:200]


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _created(key: str, revision: int) -> dict[str, Any]:
    """Return the condition that the key was created at this revision; 0: it is not there."""
    return {"key": _b64(key), "target": "CREATE", "result": "EQUAL", "create_revision": revision}


def _create(conditions: Sequence[Mapping[str, Any]], key: str, value: str, lease: int) -> dict[str, Any]:
    """Return the transaction that writes a key that is not there, under these further conditions, and reads it."""
    read = {"request_range": {"key": _b64(key)}}
    put = {"request_put": {"key": _b64(key), "value": _b64(value), "lease": lease}}
    return {"compare": [*conditions, _created(key, 0)], "success": [put, read], "failure": [read]}


def _found(answer: Mapping[str, Any], word: str) -> int | None:
    """Return the create revision of the key that a :func:`_create` left, None where it is not ours.

    Where the transaction did not succeed the key may be ours all the same: by the same one, whose answer was lost.
    """
    for each in _member(answer, "responses", list):
        key = _first(each.get("response_range", {})) if isinstance(each, dict) else None
        if key is not None and key.get("value") == _b64(word):
            return _number(key.get("create_revision"))
    return None


def _first(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the first key of a range's answer; etcd leaves out an empty list."""
    keys = answer.get("kvs")
    key = keys[0] if isinstance(keys, list) and keys else None
    return key if isinstance(key, dict) else None


def _number(value: object) -> int:
    """Return a number of 64 bits, which the gateway writes as text."""
    try:
        return int(str(value))
    except ValueError:
        raise LeaseStoreError("etcd: an answer without a number; is it etcd 3.4 or newer?") from None


def _member(answer: Mapping[str, Any], name: str, kind: type[Any]) -> Any:  # noqa: ANN401  of that kind
    value = answer.get(name)
    if not isinstance(value, kind):
        raise LeaseStoreError(f"etcd: an answer without {name}; is it etcd 3.4 or newer?")
    return value


def _parts(grant: Grant) -> tuple[int, int]:
    """Return the create revision and etcd's lease of a grant of this store."""
    revision, _, lease = grant.token.partition(".")
    return int(revision), int(lease)
