"""What is wrong in a declaration of modules: place, module, field, rule and mend (AR-2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from idkmesh.validation.findings import Finding, RefusedError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.validation.findings import Path


@dataclass(frozen=True, slots=True)
class DeclarationFinding(Finding):
    """One thing that is wrong. As text it is one line, ``file:line:column: module NAME, field: what; mend [rule]``.

    ``module`` is the module's name as far as it is one, else its place in the list from 1, as ``#3``; None outside
    modules. ``field`` is what is wrong within the module, or within the file outside modules:
    ``readiness.command[1]``; empty for the whole of either. A value that stands in no file has an empty ``file``, and
    line and column 0; its text begins with the module.
    """

    module: str | None = None
    field: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else ""
        module = None if self.module is None else f"module {self.module}"
        about = ", ".join(filter(None, (module, self.field)))
        return f"{place}{about + ': ' if about else ''}{self.what}; {self.mend} [{self.rule.value}]"


class DeclarationError(RefusedError[DeclarationFinding]):
    """A declaration of modules is refused."""


def named(findings: tuple[Finding, ...], values: Any, *, within: bool = False) -> Iterator[DeclarationFinding]:  # noqa: ANN401  JSON-like
    """Give findings with module and field. ``values`` are those of the file, or of one module if ``within``."""
    rows = values.get("modules") if isinstance(values, dict) and not within else None
    for each in findings:
        path, module = each.path, None
        if within:
            module = _name(values)
        elif len(path) > 1 and path[0] == "modules" and isinstance(path[1], int):
            number = path[1]
            module = _name(rows[number] if rows and number < len(rows) else None) or f"#{number + 1}"
            path = path[2:]
        yield DeclarationFinding(
            each.file, each.line, each.column, each.rule, each.what, each.mend, each.path, module, _field(path)
        )


def _name(row: Any) -> str | None:  # noqa: ANN401  JSON-like
    name = row.get("name") if isinstance(row, dict) else None
    return name if isinstance(name, str) else None


def _field(path: Path) -> str:
    """Return a path as text: ``classes.web.runtime``. A key that could be more than a name is a question mark."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part if shown(part) else '?'}"
    return text.removeprefix(".")
