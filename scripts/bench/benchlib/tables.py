"""Tables as Markdown, so that a printed table is also the one that stands in the documentation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    Cell = str | int | float | None


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a Markdown table with aligned columns: the first to the left, the others to the right."""
    cells = [list(header), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(_line(row, widths) for row in [cells[0], rule, *cells[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    return "| " + " | ".join([row[0].ljust(len(first)), *rest]) + " |"


def _text(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.2f}" if abs(cell) < 10 else f"{cell:.1f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
