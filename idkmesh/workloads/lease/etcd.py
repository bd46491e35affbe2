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
import functools
import json
import secrets
import time
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from idkmesh.etcd.gateway import Call, EtcdError, Members, b64, endpoint_of, member_of, number_of, one_line
from idkmesh.workloads.lease.lease_times import CALL_SECONDS
from idkmesh.workloads.lease.store import Grant, LeaseStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PREFIX: Final = "/idkmesh/"
FIELD: Final = "supervisor.lease.etcd.endpoints"

END_SECONDS: Final = 2.0
"""How long etcd takes at most to end a lease: it counts whole seconds, and looks twice in one."""

MAX_HOLDER_CHARACTERS: Final = 255
"""Of a holder's name as it is told: a host's name and a number have fewer."""

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def _of_the_store(method: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """Return the method with etcd's errors as the store's."""

    @functools.wraps(method)
    def told(*args: _Given.args, **named: _Given.kwargs) -> _Returned:
        try:
            return method(*args, **named)
        except EtcdError as error:
            raise LeaseStoreError(str(error)) from None

    return told


class EtcdLeaseStore:
    """A :class:`~idkmesh.workloads.lease.store.LeaseStore` in etcd, asked at ``endpoints``, URLs of its members.

    ``name`` tells apart supervisors that do not belong together. ``call_seconds`` is the deadline of a call. Raises
    ``ValueError`` for an endpoint that is none, and :class:`LeaseStoreError` where ``etcd3gw`` is not installed. Any
    thread may call any method.

    A claim lasts for the cooldown that it was made with, and up to :attr:`claim_slack` longer.
    """

    def __init__(self, endpoints: Sequence[str], name: str = "default", *, call_seconds: float = CALL_SECONDS) -> None:
        if not endpoints:
            raise ValueError(f"{FIELD}: none is named; write http://HOST:2379")
        try:
            import etcd3gw  # noqa: F401, PLC0415  an extra: who keeps the lease in a file does not need it
        except ImportError:
            raise LeaseStoreError(
                "a lease in etcd needs the package etcd3gw, which is missing; run pip install 'idkmesh[etcd]', in a "
                "checkout pip install '.[etcd]'"
            ) from None
        found = [endpoint_of(url, FIELD) for url in endpoints]
        self._members = Members(found)
        self._place = f"etcd at {', '.join(map(str, found))}"
        self._name = name
        self._key = f"{PREFIX}lease/{name}"
        self._call_seconds = call_seconds

    @property
    def name(self) -> str:
        """Its name (see :class:`LeaseStore`)."""
        return self._name

    @property
    def place(self) -> str:
        """The members that were named."""
        return self._place

    @property
    def claim_slack(self) -> float:
        """A call, which a claim's lease is granted before it is written at most, and what etcd takes to end it."""
        return self._call_seconds + END_SECONDS

    @_of_the_store
    def acquire(self, holder: str, ttl: float) -> Grant | None:
        """Take the lease if nobody holds it (see :class:`LeaseStore`)."""
        call = self._call()
        if _first(call.ask("kv/range", {"key": b64(self._key)})) is not None:  # so that no lease is granted in vain
            return None
        lease = call.grant(ttl)
        word = json.dumps({"holder": holder, "word": secrets.token_hex(8)})
        answer = call.ask("kv/txn", _create((), self._key, word, lease))
        found = _found(answer, word)
        if found is None:
            call.revoke(lease)
            return None
        return Grant(holder, f"{found}.{lease}")

    @_of_the_store
    def renew(self, grant: Grant, ttl: float) -> bool:  # noqa: ARG002  etcd renews for what was granted
        """Hold it longer (see :class:`LeaseStore`); for the ttl that it was acquired with.

        A member that was cut off, or stopped, may still take itself for the leader and keep the lease alive by itself.
        So the key is read afterwards, which only the true leader answers.
        """
        revision, lease = _parts(grant)
        call = self._call()
        kept = call.ask("lease/keepalive", {"ID": lease})
        if number_of(member_of(kept, "result", dict).get("TTL", 0)) <= 0:
            return False
        key = _first(call.ask("kv/range", {"key": b64(self._key)}))
        return key is not None and number_of(key.get("create_revision")) == revision

    @_of_the_store
    def release(self, grant: Grant) -> None:
        """Give it back (see :class:`LeaseStore`)."""
        revision, lease = _parts(grant)
        call = self._call()
        delete = {"request_delete_range": {"key": b64(self._key)}}
        call.ask("kv/txn", {"compare": [_created(self._key, revision)], "success": [delete], "failure": []})
        call.revoke(lease)

    @_of_the_store
    def holder(self) -> str | None:
        """Return who holds it."""
        key = _first(self._call().ask("kv/range", {"key": b64(self._key)}))
        if key is None:
            return None
        try:
            holder = json.loads(base64.b64decode(key["value"]))["holder"]
            name = one_line(holder, MAX_HOLDER_CHARACTERS) if isinstance(holder, str) else ""
        except (KeyError, TypeError, ValueError, RecursionError):
            name = ""
        if not name:
            raise LeaseStoreError(f"etcd: the key {self._key} was not written by idkmesh; remove it")
        return name

    @_of_the_store
    def claim(self, grant: Grant, instance: str, cooldown: float) -> bool:
        """Claim the restart of an instance (see :class:`LeaseStore`)."""
        revision, _ = _parts(grant)
        call = self._call()
        # Granted before the claim is written, at most one call earlier.
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

    def _call(self) -> Call:
        return Call(self._members, time.monotonic() + self._call_seconds)


def _created(key: str, revision: int) -> dict[str, Any]:
    """Return the condition that the key was created at this revision; 0: it is not there."""
    return {"key": b64(key), "target": "CREATE", "result": "EQUAL", "create_revision": revision}


def _create(conditions: Sequence[Mapping[str, Any]], key: str, value: str, lease: int) -> dict[str, Any]:
    """Return the transaction that writes a key that is not there, under these further conditions, and reads it."""
    read = {"request_range": {"key": b64(key)}}
    put = {"request_put": {"key": b64(key), "value": b64(value), "lease": lease}}
    return {"compare": [*conditions, _created(key, 0)], "success": [put, read], "failure": [read]}


def _found(answer: Mapping[str, Any], word: str) -> int | None:
    """Return the create revision of the key that a :func:`_create` left, None where it is not ours.

    Where the transaction did not succeed the key may be ours all the same: by the same one, whose answer was lost.
    """
    for each in member_of(answer, "responses", list):
        key = _first(each.get("response_range", {})) if isinstance(each, dict) else None
        if key is not None and key.get("value") == b64(word):
            return number_of(key.get("create_revision"))
    return None


def _first(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the first key of a range's answer; etcd leaves out an empty list."""
    keys = answer.get("kvs") if isinstance(answer, dict) else None
    key = keys[0] if isinstance(keys, list) and keys else None
    return key if isinstance(key, dict) else None


def _parts(grant: Grant) -> tuple[int, int]:
    """Return the create revision and etcd's lease of a grant of this store."""
    revision, _, lease = grant.token.partition(".")
    return int(revision), int(lease)
