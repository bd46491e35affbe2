"""Readers of event streams: ``python -m benchlib.listeners JSON``, one process, one selector, no HTTP library.

Prints a JSON line when ``streams`` are open; at the end of its input a second one: of each event the instants of its
arrivals, and how many were missing or doubled in any stream. ``burners`` requests are made first and left open.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
import time
from collections import defaultdict
from typing import Any

from .messages import request
from .processes import HOST

ID = re.compile(rb"id: [^\n]*?(\d+)\n")
DATA_END = b"\n\n"


class Listener:
    """One stream as its reader sees it."""

    def __init__(self, port: int, path: str) -> None:
        self.sock = socket.create_connection((HOST, port))
        self.sock.sendall(request(port, path))
        self.rest = b""
        self.sequences: list[int] = []

    def read(self, arrivals: dict[int, list[float]]) -> bool:
        """Take what has come; False where the stream has ended."""
        data = self.sock.recv(1 << 18)
        now = time.monotonic()
        if not data:
            return False
        whole, end, self.rest = (self.rest + data).rpartition(DATA_END)
        if not end:
            return True
        for found in ID.findall(whole):
            sequence = int(found)
            self.sequences.append(sequence)
            arrivals[sequence].append(now)
        return True


def main() -> None:
    """Open, read, report."""
    spec: dict[str, Any] = json.loads(sys.argv[1])
    burning = [socket.create_connection((HOST, spec["port"])) for _ in range(spec["burners"])]
    for sock in burning:
        sock.sendall(request(spec["port"], "/burn"))
    sys.stdout.write(json.dumps({"burners": len(burning)}) + "\n")
    sys.stdout.flush()
    selector = selectors.DefaultSelector()
    arrivals: dict[int, list[float]] = defaultdict(list)
    listeners = []
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    sys.stdin.readline()  # the server has all burners at work
    for _ in range(spec["streams"]):
        listener = Listener(spec["port"], "/events")
        listener.sock.settimeout(0)
        selector.register(listener.sock, selectors.EVENT_READ, listener)
        listeners.append(listener)
    ended = 0
    going = True
    while going:
        for key, _ in selector.select():
            if key.data is None:
                going = False
            elif not key.data.read(arrivals):
                ended += 1
                selector.unregister(key.fileobj)
    gaps = [
        sum(second != first + 1 for first, second in zip(one.sequences, one.sequences[1:], strict=False))
        for one in listeners
    ]
    sys.stdout.write(json.dumps({"arrivals": sorted(arrivals.items()), "gaps": sum(gaps), "ended": ended}) + "\n")


if __name__ == "__main__":
    main()
