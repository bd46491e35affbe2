"""Looks a file up and reads it, or says why not (RT-6.4)."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from idkmesh.open_file import open_file
from idkmesh.topology.model import Cause
from idkmesh.topology.providers.file_state import Fault, Identity

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 8 * 1024 * 1024
"""Ten thousand releases of three endpoints take half of it."""


def identity_of(path: Path) -> Identity | None:
    """Return what stands under the name, symbolic links followed; None where nothing does that can be told of."""
    try:
        return _identity(os.stat(path))  # noqa: PTH116  the same call as of the descriptor below
    except (OSError, ValueError):
        return None


def content_of(path: Path) -> bytes | Fault:
    """Return the content of a file that nobody writes to meanwhile."""
    try:
        descriptor = open_file(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name has a NUL"
        return Fault(Cause.UNREADABLE, f"cannot be opened: {reason}")
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return Fault(Cause.UNREADABLE, "is no regular file")
        content = _read(descriptor) if before.st_size <= MAX_BYTES else None
        if content is None or len(content) > MAX_BYTES:
            return Fault(Cause.UNREADABLE, f"is larger than {MAX_BYTES} bytes")
        if _identity(os.fstat(descriptor)) != _identity(before):
            return Fault(Cause.UNREADABLE, "is being written")
        return content
    except OSError as error:
        return Fault(Cause.UNREADABLE, f"cannot be read: {error.strerror}")
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    """Return up to a byte more than a file may have."""
    parts: list[bytes] = []
    left = MAX_BYTES + 1
    while left > 0 and (part := os.read(descriptor, min(left, 1024 * 1024))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _identity(found: os.stat_result) -> Identity:
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns, found.st_mtime_ns)
