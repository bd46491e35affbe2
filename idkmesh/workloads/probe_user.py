"""As which user readiness commands run (AR-3.2). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.workloads.model import DEFAULT_PROBE_UID

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "IDKMESH_PROBE_UID"
HIGHEST_UID: Final = 2**32 - 2
"""The number after it means "no user" to the system."""


def probe_uid(environ: Mapping[str, str]) -> int:
    """Return the user's number that the variable names. Raises ``ValueError``, one line, for what is none."""
    text = environ.get(VARIABLE, "")
    if not text:
        return DEFAULT_PROBE_UID
    uid = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(HIGHEST_UID)) else -1
    if not 0 <= uid <= HIGHEST_UID:
        raise ValueError(f"{VARIABLE}: {text!r} is refused, it must be a user's number from 0 to {HIGHEST_UID}")
    return uid
