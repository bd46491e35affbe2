"""The cache before the store. ``python -m idkmesh.demo.shop.cache PORT STORE_PORT``.

A number of milliseconds in the file ``cache.delay`` makes each answer that much later: ``echo 1500 > cache.delay``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Final

from idkmesh.demo.asking import ask
from idkmesh.demo.settings import DELAY_FILE
from idkmesh.demo.shop.answering import serve

KEPT_SECONDS: Final = 5.0
MOST_SECONDS: Final = 10.0


def delay_seconds(text: str) -> float:
    """Return the delay that the file's text asks for, none for a text that is no number. Pure."""
    digits = text.strip()
    return min(MOST_SECONDS, int(digits) / 1000) if digits.isascii() and digits.isdigit() else 0.0


def _wait() -> None:
    try:
        time.sleep(delay_seconds(Path(DELAY_FILE).read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return


class Cache:
    """What is kept, and until when. Two threads that find it too old both ask, which does no harm."""

    def __init__(self, store: int) -> None:
        self._store = store
        self._kept: tuple[float, Any] | None = None

    def products(self, _: Any) -> Any:  # noqa: ANN401  JSON
        """Return the store's products of :data:`KEPT_SECONDS` ago at most, older ones where it does not answer."""
        _wait()
        kept, now = self._kept, time.monotonic()
        if kept is None or now - kept[0] > KEPT_SECONDS:
            try:
                kept = self._kept = (now, ask(self._store, "GET", "/products"))
            except OSError:
                if kept is None:
                    raise
        return kept[1]

    def health(self, _: Any) -> Any:  # noqa: ANN401  JSON
        """Say that it answers, as late as everything here."""
        _wait()
        return {"kept": self._kept is not None}


def main() -> None:
    """Serve until SIGTERM."""
    cache = Cache(int(sys.argv[2]))
    serve(int(sys.argv[1]), {"GET /products": cache.products, "GET /health": cache.health})


if __name__ == "__main__":
    main()
