"""Opens a file that somebody has named, for whoever then looks at what it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_FLAGS: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_file(path: Path | str) -> int:
    """Return a descriptor to read from, and do not wait: a FIFO would hold its reader until somebody writes.

    Raises ``OSError``, and ``ValueError`` for a name with a NUL.
    """
    return os.open(path, _FLAGS)
