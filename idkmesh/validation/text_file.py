"""Reads a file that somebody wrote as text, up to a bound, or says why not (HL-3.2, AR-2.1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from idkmesh.validation.findings import BEGINNING, Rule
from idkmesh.validation.yaml_nodes import place

if TYPE_CHECKING:
    from idkmesh.validation.findings import Findings


def read_text(path: Path | str, bound: int, too_large: str, findings: Findings, *, again: bool = False) -> str | None:
    """Return what a file says, or None where it cannot be read, is over ``bound`` bytes or is not UTF-8.

    Then ``findings`` says which. ``too_large`` is what to do about a file that is larger. A device without end is read
    up to the bound. ``again`` says that it was read before, and a FIFO is refused: to open one waits for a writer, and
    where none comes no later request to read the file would be heard.
    """
    try:
        if again and Path(path).is_fifo():
            findings.add(BEGINNING, Rule.UNREADABLE, "is a FIFO, which is read once", "put a file in its place")
            return None
        with Path(path).open("rb") as file:
            data = file.read(bound + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        findings.add(BEGINNING, Rule.UNREADABLE, f"cannot be read: {reason}", "name a file that this user may read")
        return None
    if len(data) > bound:
        findings.add(BEGINNING, Rule.UNREADABLE, f"is larger than {bound:,} bytes", too_large)
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        mark = place(before, len(before))
        findings.add(mark, Rule.UNREADABLE, f"byte 0x{data[error.start]:02X} is no UTF-8", "save the file as UTF-8")
        return None
