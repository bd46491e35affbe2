"""A server of one stream without a token, events in memory as its history, and a client that reads raw bytes."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from idkmesh.httpd.application import Subscription
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import Access, EventStream, Route, RouteApplication, RouteTable
from idkmesh.httpd.sse import Message, event_frame
from idkmesh.httpd.stream_window import matches
from idkmesh.httpd.streams import BATCH, Beginning, Channel, HistoryLostError
from tests.functional.support import PATIENCE, Running, SiteServer, running

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from idkmesh.httpd.application import Application
    from idkmesh.httpd.request import Request

GOODBYE = event_frame("{}", event="shutting_down")


class Everybody:
    """A guard that lets everybody pass."""

    def refuse_host(self, request: Request) -> Refusal | None:
        return None

    refuse_origin = refuse_token = refuse_host


class MemoryHistory:
    """Events in a list, as a store would have them; `hold` makes a read wait."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.floor = 0
        self.reads = 0
        self.threads: set[str] = set()
        self.hold = threading.Event()
        self.hold.set()
        self.broken = False

    def after(self, beginning: Beginning, position: int, wanted: Mapping[str, str]) -> tuple[Sequence[Message], int]:
        self.reads += 1
        self.threads.add(threading.current_thread().name)
        messages, newest = list(self.messages), len(self.messages)
        assert self.hold.wait(PATIENCE)
        if self.broken:
            raise OSError("the disk is gone")
        if position < self.floor:
            raise HistoryLostError
        rest = (message for message in messages[position:] if matches(message.attributes, wanted))
        found = list(itertools.islice(rest, BATCH))
        return found, found[-1].position if len(found) == BATCH else newest


class StreamServer(SiteServer):
    """`/events` is the stream, `/slow` holds a slot until the gate opens; everything else is 404."""

    newest = 0
    """How many events there are before the server starts."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.history = MemoryHistory()
        self.history.messages = [self.made(position) for position in range(1, self.newest + 1)]
        self.feed = Channel(self.history, Beginning(self.newest, str), GOODBYE)
        self.entered = threading.Semaphore(0)
        self.meanwhile: Callable[[], None] | None = None
        """What happens while the front judges a request for the stream."""
        super().__init__(*arguments, **options)

    def _make_application(self) -> Application:
        stream = EventStream(
            path="/events",
            access=Access.PAGE,
            channel=self.feed,
            subscribe=self.subscribe,
            operation="stream",
            summary="Events.",
            answers=(),
        )
        slow = Route(
            method="GET",
            path="/slow",
            access=Access.PAGE,
            endpoint=self.slow,
            operation="slow",
            summary="Slow.",
            answers=(),
        )
        return RouteApplication(RouteTable((slow,), stream=stream), Everybody())

    def subscribe(self, request: Request) -> Subscription | Refusal:
        beginning = self.feed.beginning
        if self.meanwhile is not None:
            self.meanwhile()
        wanted = dict(re.findall(r"(\w+)=(\w+)", request.query))
        last = request.get("last-event-id")
        if last is not None and not last.isdigit():
            return Refusal(400, "invalid_last_event_id", "No.")
        return Subscription(beginning, None if last is None else int(last), wanted)

    def slow(self, request: Request, body: bytes) -> Response:
        self.entered.release()
        assert self.gate.wait(PATIENCE)
        return Response(200, body=b"{}")

    @staticmethod
    def made(position: int, size: int = 20, **attributes: str) -> Message:
        data = f"{position}:{time.monotonic()}:" + "x" * size
        return Message(position, event_frame(data, event_id=str(position)), {"kind": f"k{position % 2}", **attributes})

    def publish(self, count: int = 1, size: int = 20) -> None:
        """Commit and publish."""
        first = len(self.history.messages) + 1
        fresh = [self.made(position, size) for position in range(first, first + count)]
        self.history.messages += fresh
        self.feed.publish(fresh)


class Reader:
    """Opens a stream and reads it."""

    def __init__(
        self,
        address: Any,
        *fields: str,
        query: str = "",
        method: str = "GET",
        buffer: int = 0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.sock = socket.socket()
        self.sock.settimeout(PATIENCE)
        if buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.sock.connect(address)
        if context is not None:
            self.sock = context.wrap_socket(self.sock, suppress_ragged_eofs=False)
        head = "\r\n".join([f"{method} /events{query} HTTP/1.1", "Host: h", *fields, "", ""])
        self.sock.sendall(head.encode("latin-1"))
        self.data = b""

    def until(self, wanted: bytes) -> bytes:
        """Read until these bytes have come, and return all that has."""
        while wanted not in self.data:
            more = self.sock.recv(65536)
            assert more, f"the stream ended before {wanted!r}: {self.data[-300:]!r}"
            self.data += more
        return self.data

    def to_end(self) -> bytes:
        """Read until the stream ends."""
        with contextlib.suppress(ConnectionResetError):
            while more := self.sock.recv(65536):
                self.data += more
        return self.data

    @property
    def fields(self) -> dict[str, str]:
        lines = self.data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def ids(self) -> list[int]:
        return [int(number) for number in re.findall(rb"^id: (\d+)\n", self.data, re.MULTILINE)]

    def whole_ids(self) -> list[int]:
        """Return the ids of the events that have come whole, as a reader that lost the stream here knows them."""
        whole = self.data[: self.data.rindex(b"\n\n") + 1] if b"\n\n" in self.data else b""
        return [int(number) for number in re.findall(rb"^id: (\d+)\n", whole, re.MULTILINE)]

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextlib.contextmanager
def streaming(newest: int = 0, **options: Any) -> Iterator[Running]:
    """Run a stream server, with so many events in its history."""
    kind = type("StreamServer", (StreamServer,), {"newest": newest})
    with running(None, server_class=kind, **options) as run:
        yield run
