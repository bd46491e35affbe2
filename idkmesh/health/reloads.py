"""What has become of the file of a matrix: when the running one was read, and why a newer one was refused (HL-3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from idkmesh.events.envelope import time_text

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class RefusedMatrix:
    """A file that was read and not taken: when that was (a label), and why, in one line."""

    at: datetime
    what: str


@dataclass(frozen=True, slots=True)
class MatrixReading:
    """``read_at`` labels when the running matrix was taken; ``refused`` is a later file, None where there is none."""

    read_at: datetime
    refused: RefusedMatrix | None = None

    def document(self) -> dict[str, Any]:
        """Return it as the ``matrix`` of HL-5.3."""
        refused = self.refused
        return {
            "read_at": time_text(self.read_at),
            "refused": None if refused is None else {"at": time_text(refused.at), "what": refused.what},
        }
