"""Agents that answer what a test says, byte by byte if need be, and note what they were sent."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from idkmesh.topology.model import endpoint_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from idkmesh.topology.model import Endpoint

    Script = Callable[[socket.socket], None]

PATIENCE = 20.0
"""Seconds after which a test gives up. No test passes because of it."""

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Agent:
    """What a test knows of one."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    """Set at the end of the test: until then a script may hold its connection."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> Endpoint:
        return endpoint_of(self.url)


def request_of(connection: socket.socket) -> bytes:
    """Read one request to its end."""
    data = b""
    while b"\r\n\r\n" not in data and (part := connection.recv(65_536)):
        data += part
    head, _, content = data.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    while len(content) < length and (part := connection.recv(65_536)):
        content += part
        data += part
    return data


@contextlib.contextmanager
def answering(reply: bytes | Script, *, context: ssl.SSLContext | None = None) -> Iterator[Agent]:
    """Run an agent that reads each request whole and then sends ``reply``, or does as a script says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        agent = Agent(listener.getsockname()[1])

        def serve(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                stack.enter_context(connection)
                connection.settimeout(PATIENCE)
                if context is not None:
                    connection = stack.enter_context(context.wrap_socket(connection, server_side=True))
                agent.requests.append(request_of(connection))
                if isinstance(reply, bytes):
                    connection.sendall(reply)
                else:
                    reply(connection)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield agent
        finally:
            agent.ended.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE)
