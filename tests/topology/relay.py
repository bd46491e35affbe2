"""A relay of TCP between a provider and its source, which a test cuts or lets fall silent."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator


class Relay:
    """Passes on what comes. Its own thread does all of it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._to = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.accepted = 0
        self.passes = True
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._deaf: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._over = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="relay")
        self._thread.start()

    def hush(self) -> None:
        """Pass on nothing more of the connections that are there, and keep them open."""
        with self._lock:
            self._deaf = set(self._pairs)

    def cut(self) -> None:
        """End the connections that are there."""
        with self._lock:
            for each in list(self._pairs):
                self._end(each)

    def open_now(self) -> int:
        """Return how many connections are there."""
        with self._lock:
            return len(self._pairs) // 2

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join(30)
        self.cut()
        self._listener.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(0.05):
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._pass_on(key.fileobj)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        if not self.passes:
            near.close()
            return
        try:
            far = socket.create_connection(self._to, timeout=5)
        except OSError:
            near.close()
            return
        self.accepted += 1
        for one, other in ((near, far), (far, near)):
            one.settimeout(5)
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, one: socket.socket) -> None:
        if one not in self._pairs:
            return
        try:
            data = one.recv(65536)
            if data and one not in self._deaf:
                self._pairs[one].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._end(one)

    def _end(self, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        if other is None:
            return
        self._pairs.pop(other, None)
        for each in (one, other):
            self._selector.unregister(each)
            each.close()


@contextlib.contextmanager
def relay(url: str) -> Iterator[Relay]:
    with Relay(url) as made:
        yield made
