"""What goes over the connection of a watch of etcd's JSON gateway, as bytes. Pure.

The gateway turns etcd's stream of messages in both directions into one HTTP request and its answer, both in chunks
(RFC 9112, section 7.1), a JSON document to a line. Go's HTTP/1.1 server reads on in a request that it answers already
only where the connection closes after it. So with ``Connection: close`` a watch can be asked, on its own connection,
whether it still goes on: etcd's progress request.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh.etcd.gateway import b64, refuses
from idkmesh.topology.model import Cause
from idkmesh.topology.providers.etcd_releases import KeyValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Of one message. etcd puts up to a thousand changes into one, where somebody has watched from far back."""

_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class WatchMessage(NamedTuple):
    """What one message says. ``over`` is why the watch has ended."""

    created: bool = False
    changes: tuple[KeyValue, ...] = ()
    over: Cause | None = None


class WireError(Exception):
    """These bytes are no answer of etcd's. ``cause`` is what becomes of the watches."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.value)
        self.cause = cause


def head(host: str) -> bytes:
    """Return the head of the request. ``host`` is the value of its field.

    ``hasleader`` has etcd end the stream where its member has lost the others, and would go on without news.
    """
    lines = [
        "POST /v3/watch HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
        "Connection: close",
        "Grpc-Metadata-hasleader: true",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def create(prefix: str, revision: int) -> bytes:
    """Return the message that asks for all changes below a prefix from a revision of etcd's on."""
    key, end = range_below(prefix)
    return _chunk({"create_request": {"key": key, "range_end": end, "start_revision": revision}})


def range_below(path: str) -> tuple[str, str]:
    """Return the range of all keys below a path, as the gateway writes it: ``0`` is what follows ``/``."""
    return b64(f"{path}/"), b64(f"{path}0")


def _chunk(message: Mapping[str, Any]) -> bytes:
    content = json.dumps(message).encode() + b"\n"
    return b"%x\r\n%s\r\n" % (len(content), content)


PROGRESS: Final = _chunk({"progress_request": {}})
"""The message that asks whether the stream goes on."""


class WatchReader:
    """Makes messages of the bytes of an answer, in whatever pieces they come. A step takes a part or waits for it.

    A step is a function, no method of this one: an object that holds itself stays, with up to 64 MiB, until the
    collector looks, which counts objects and not bytes.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._line = bytearray()
        self._searched = 0
        self._step: Callable[[WatchReader, list[WatchMessage]], bool] = WatchReader._head
        self._left = 0

    def feed(self, data: bytes) -> list[WatchMessage]:
        """Return the messages that have become whole. Raises :class:`WireError`; then it is of no use any more."""
        self._bytes += data
        messages: list[WatchMessage] = []
        while self._step(self, messages):
            pass
        return messages

    def _head(self, _: list[WatchMessage]) -> bool:
        end = self._bytes.find(b"\r\n\r\n")
        if end < 0:
            self._limit(self._bytes, MAX_HEAD_BYTES)
            return False
        lines = bytes(self._bytes[:end]).lower().split(b"\r\n")
        del self._bytes[: end + 4]
        status = lines[0].split(b" ")[1:2]
        if not lines[0].startswith(b"http/1.1 ") or status != [b"200"]:
            raise WireError(Cause.REFUSED if status in ([b"401"], [b"403"]) else Cause.UNREACHABLE)
        if b"transfer-encoding: chunked" not in lines[1:]:
            raise WireError(Cause.UNREADABLE)
        self._step = WatchReader._size
        return True

    def _size(self, _: list[WatchMessage]) -> bool:
        end = self._bytes.find(b"\r\n")
        if end < 0:
            self._limit(self._bytes, MAX_HEAD_BYTES)
            return False
        size = bytes(self._bytes[:end]).partition(b";")[0].strip()
        if not size or not _HEX.issuperset(size) or len(size) > 8:  # noqa: PLR2004  four gigabytes
            raise WireError(Cause.UNREADABLE)
        del self._bytes[: end + 2]
        self._left = int(size, 16)
        if not self._left:
            raise WireError(Cause.LOST)  # the end of a stream that has none
        self._step = WatchReader._data
        return True

    def _data(self, messages: list[WatchMessage]) -> bool:
        if not self._bytes:
            return False
        part = self._bytes[: self._left]
        del self._bytes[: len(part)]
        self._left -= len(part)
        self._line += part
        self._lines(messages)
        if not self._left:
            self._step = WatchReader._data_end
        return True

    def _data_end(self, _: list[WatchMessage]) -> bool:
        if len(self._bytes) < 2:  # noqa: PLR2004  a line end
            return False
        if self._bytes[:2] != b"\r\n":
            raise WireError(Cause.UNREADABLE)
        del self._bytes[:2]
        self._step = WatchReader._size
        return True

    def _lines(self, messages: list[WatchMessage]) -> None:
        end = self._line.rfind(b"\n", self._searched)
        if end >= 0:
            lines = bytes(self._line[:end]).split(b"\n")
            del self._line[: end + 1]
            messages += [message_of(line) for line in lines if line.strip()]
        self._searched = len(self._line)
        self._limit(self._line, MAX_LINE_BYTES)

    @staticmethod
    def _limit(held: bytearray, most: int) -> None:
        if len(held) > most:
            raise WireError(Cause.UNREADABLE)


def message_of(line: bytes) -> WatchMessage:
    """Return what a line says. Raises :class:`WireError` for one that is no message of a watch."""
    try:
        said = json.loads(line)
        if "error" in said:
            return WatchMessage(over=_cause_of(json.dumps(said["error"])))
        result = said["result"]
        if result.get("canceled"):
            # Compacted, or a revision that another history has: what was missed cannot be had from here.
            return WatchMessage(over=_cause_of(str(result.get("cancel_reason", "")), Cause.LOST))
        changes = tuple(_change(each) for each in result.get("events", ()))
        return WatchMessage(created=result.get("created") is True, changes=changes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WireError(Cause.UNREADABLE) from None


def key_value(kv: Mapping[str, Any]) -> KeyValue:
    """Return a key as the gateway writes it; it leaves out an empty value. Raises ``ValueError`` and its kin."""
    return KeyValue(base64.b64decode(kv["key"], validate=True), base64.b64decode(kv.get("value", ""), validate=True))


def _change(event: Mapping[str, Any]) -> KeyValue:
    found = key_value(event["kv"])
    if event.get("type") == "DELETE":
        return KeyValue(found.key, None)
    return found._replace(first=str(event["kv"].get("version", 1)) == "1")  # etcd counts from the last deletion


def _cause_of(text: str, otherwise: Cause = Cause.UNREACHABLE) -> Cause:
    return Cause.REFUSED if refuses(text) else otherwise
