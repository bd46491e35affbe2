"""Hands that register releases in a real etcd as agents do: a key for the release, a lease for each instance."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, TypeVar

from idkmesh.etcd.gateway import Call, EtcdError, Members, b64, endpoint_of, member_of, number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from idkmesh.topology.model import Endpoint, Target

LONG = 3600.0
_Answer = TypeVar("_Answer")


class EtcdHands:
    """Writes below one prefix of an etcd."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url, self.prefix = url, prefix
        self._members = Members([endpoint_of(url, "url")])

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask until there is an answer: members may be choosing a leader."""
        return self._until_answered(lambda call: call.ask(path, body))

    def _until_answered(self, ask: Callable[[Call], _Answer]) -> _Answer:
        until = time.monotonic() + 60
        while True:
            try:
                return ask(Call(self._members, time.monotonic() + 20))
            except EtcdError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def key(self, target: Target, instance: str = "") -> str:
        return f"{self.prefix}/{target}" + (f"/{instance}" if instance else "")

    def lease(self, seconds: float = LONG) -> int:
        return self._until_answered(lambda call: call.grant(seconds))

    def revoke(self, lease: int) -> None:
        self.ask("lease/revoke", {"ID": lease})

    def put(self, key: str, value: str | bytes, lease: int = 0) -> int:
        """Write a key, and return the revision of etcd's at which it stands."""
        answer = self.ask("kv/put", {"key": b64(key), "value": b64(value), "lease": lease})
        return number_of(member_of(answer, "header", dict)["revision"])

    def put_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Write up to 128 keys at one revision."""
        puts = [{"request_put": {"key": b64(key), "value": b64(value)}} for key, value in pairs]
        self.ask("kv/txn", {"success": puts})

    def delete(self, key: str) -> None:
        self.ask("kv/deleterange", {"key": b64(key)})

    def register(self, target: Target, instance: str, endpoint: Endpoint, lease: int = 0) -> int:
        return self.put(self.key(target, instance), record(endpoint), lease)

    def declare(self, target: Target, *endpoints: Endpoint) -> None:
        """Have a release declared with exactly these instances, all at one revision."""
        lease = self.lease()
        puts = {self.key(target): "{}"}
        puts |= {self.key(target, f"i-{each.url.rpartition(':')[2]}"): record(each) for each in endpoints}
        old = self.ask("kv/range", {**below(self.key(target)), "keys_only": True}).get("kvs", [])
        keys = {b64(key) for key in puts}
        self.ask(
            "kv/txn",
            {
                "success": [
                    *({"request_delete_range": {"key": kv["key"]}} for kv in old if kv["key"] not in keys),
                    *(
                        {"request_put": {"key": b64(key), "value": b64(value), "lease": lease * (value != "{}")}}
                        for key, value in puts.items()
                    ),
                ]
            },
        )

    def remove(self, target: Target) -> None:
        """Have it declared no more, without an instance."""
        key = self.key(target)
        ranges = [{"key": b64(key)}, below(key)]
        self.ask("kv/txn", {"success": [{"request_delete_range": each} for each in ranges]})

    def compact(self) -> None:
        """Forget all revisions of etcd's but the newest."""
        revision = number_of(member_of(self.ask("kv/range", {"key": b64("x")}), "header", dict)["revision"])
        self.ask("kv/compaction", {"revision": revision, "physical": True})


def below(path: str) -> dict[str, Any]:
    return {"key": b64(f"{path}/"), "range_end": b64(f"{path}0")}


def record(endpoint: Endpoint) -> str:
    return json.dumps({"endpoint": endpoint.url})
