"""A client whose network goes away without a word: run as root in a network namespace of its own.

Prints how many seconds it took until the server had given the place of its stream to the next one.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.functional.stream_support import StreamServer
from tests.functional.support import PATIENCE, running, until

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
READER = """
import socket, sys, time
client = socket.create_connection((sys.argv[1], int(sys.argv[2])))
client.sendall(b"GET /events HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n")
client.recv(65536)
print("open", flush=True)
time.sleep(60)
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def other_side() -> Iterator[list[str]]:
    """Make a second namespace with a cable to this one, and yield the words that run a program there."""
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            inside = ["nsenter", "--target", str(holder.pid), "--net"]
            ip("link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(holder.pid))
            ip("address", "add", f"{SERVER}/24", "dev", "here")
            ip("link", "set", "here", "up")
            for words in (["address", "add", f"{CLIENT}/24", "dev", "there"], ["link", "set", "there", "up"]):
                subprocess.run([*inside, "ip", *words], check=True)
            yield inside
        finally:
            holder.kill()


def main() -> None:
    limits: dict[str, Any] = {"sse_heartbeat": 0.5, "request_timeout": 1.0, "max_sse_clients": 1}
    with other_side() as inside, running(None, server_class=StreamServer, address=(SERVER, 0), **limits) as run:
        command = [*inside, sys.executable, "-c", READER, SERVER, str(run.server.server_port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            try:
                assert client.stdout is not None
                assert client.stdout.readline() == b"open\n"
                subprocess.run([*inside, "ip", "link", "set", "there", "down"], check=True)
                gone = time.monotonic()
                until(lambda: run.server.usage().sse_clients == 0, timeout=PATIENCE * 2)
                sys.stdout.write(f"{time.monotonic() - gone} {run.front.hub.statistics().dropped_total}\n")
            finally:
                client.kill()


if __name__ == "__main__":
    main()
