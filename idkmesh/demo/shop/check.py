"""The readiness commands of the shop, whose exit status says whether the instance beside it can serve (AR-3).

``check web FIRST_PORT`` asks ``/livez`` of this replica, ``check http PORT`` asks ``/health``, ``check file NAME``
wants a file that was touched a moment ago.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Final

ADDRESS: Final = "127.0.0.1"
SECONDS: Final = 1.5
FRESH_SECONDS: Final = 5.0


def says_yes(port: int, path: str) -> bool:
    """Say whether the path is answered with 200. By a socket: an HTTP client takes longer to import than to ask."""
    try:
        with socket.create_connection((ADDRESS, port), SECONDS) as client:
            client.settimeout(SECONDS)
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: {ADDRESS}:{port}\r\nConnection: close\r\n\r\n".encode())
            return client.recv(12).endswith(b" 200")
    except OSError:
        return False


def is_fresh(name: str) -> bool:
    """Say whether the file was touched a moment ago."""
    try:
        return abs(time.time() - Path(name).stat().st_mtime) <= FRESH_SECONDS
    except OSError:
        return False


def main() -> int:
    """Return the exit status: 0 is yes."""
    how, what = sys.argv[1:3]
    if how == "file":
        return 0 if is_fresh(what) else 1
    number = int(os.environ.get("IDKMESH_INSTANCE", "-1").rpartition("-")[2])
    yes = says_yes(int(what) + number - 1, "/livez") if how == "web" else says_yes(int(what), "/health")
    return 0 if yes else 1


if __name__ == "__main__":
    sys.exit(main())
