"""The worker: does one order after the other. ``python -m idkmesh.demo.shop.worker STORE_PORT``.

It has no port. At the top of each pass it touches ``worker.heartbeat``, whether the store answers or not: it goes on.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from idkmesh.demo.asking import ask
from idkmesh.demo.settings import HEARTBEAT_FILE
from idkmesh.demo.shop.answering import note_pid

PAUSE_SECONDS: Final = 0.5


def main() -> None:
    """Work until SIGTERM, which ends it: an order that was taken is done."""
    store, beat = int(sys.argv[1]), Path(HEARTBEAT_FILE)
    note_pid()
    while True:
        beat.touch()
        try:
            done = ask(store, "POST", "/take")["order"]
        except OSError:
            done = None
        if done is None:
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
