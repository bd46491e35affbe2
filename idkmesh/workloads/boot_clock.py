"""A clock that also runs while the machine sleeps, and the boot that it belongs to (AR-4.5, AR-6.2)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_seconds() -> float:
    """Return seconds since the machine started, its sleep included where the system can tell (Linux)."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def boot_id() -> str | None:
    """Return what tells this boot from every other, None where the system does not say."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip() or None
    except OSError:
        return None
