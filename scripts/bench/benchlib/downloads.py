"""Downloads one file several times, one after the other, and prints how long each took.

``python -m benchlib.downloads SPEC`` with a :class:`Plan` as JSON prints one JSON object. Every download must have the
declared length; the digest of the first is reported, and that one is not timed.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import time
from dataclasses import dataclass

from . import messages
from .processes import HOST

BUFFER = 1 << 18


@dataclass(frozen=True)
class Plan:
    """What to fetch, and how many times after the first."""

    port: int
    path: str
    count: int


class CutError(RuntimeError):
    """A download ended before the declared length."""


def download(plan: Plan, digest: hashlib._Hash | None = None) -> int:
    """Fetch the file once and return its length in bytes."""
    buffer = memoryview(bytearray(BUFFER))
    with socket.create_connection((HOST, plan.port), 30) as connection:
        connection.sendall(messages.request(plan.port, plan.path))
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(BUFFER) or b"\r\n\r\n"
        response = messages.parse(head)
        if response is None or response.status != 200:
            raise CutError(f"no answer or a wrong one: {head[:80]!r}")
        if digest:
            digest.update(response.body)
        got = len(response.body)
        while size := connection.recv_into(buffer):
            got += size
            if digest:
                digest.update(buffer[:size])
    if got != int(response.headers["content-length"]):
        raise CutError(f"{got} of {response.headers['content-length']} bytes")
    return got


def main() -> None:
    """Run the plan given as JSON in the first argument."""
    plan = Plan(**json.loads(sys.argv[1]))
    digest = hashlib.sha256()
    size = download(plan, digest)
    seconds = []
    for _ in range(plan.count):
        began = time.monotonic()
        download(plan)
        seconds.append(time.monotonic() - began)
    print(json.dumps({"bytes": size, "sha256": digest.hexdigest(), "seconds": seconds}))


if __name__ == "__main__":
    main()
