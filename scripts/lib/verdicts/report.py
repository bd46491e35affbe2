"""What was seen, as JSON and as the page ``docs/VERDICTS.md`` (FT-5). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from scripts.lib.verdicts import figures as of
from scripts.lib.verdicts.cells import WELL, Observer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scripts.lib.verdicts.cells import Seen
    from scripts.lib.verdicts.table import Row


_ABOUT: Final = """\
Written by `scripts/fault_table`; the contract is [FAULT_TABLE_V0_1.md](specifications/FAULT_TABLE_V0_1.md). Each fault
happens to real processes: a control tower with matrix, modules and router, a readiness adapter, an etcd, the programs
that the tower depends on, and the page in a Chromium. Each observer is asked ten times a second; whether a restart is
due, once in the orchestrator's period."""

_TABLE: Final = """\
What each says in the fault, for good. A dash: what it says of a node that is well, all the while, in every answer
({words})."""

_CELLS: Final = """\
Seconds from the begin of the fault until every answer is an expected one, and from its end until all is well, each
beside its bound. An observer that is not in a list said throughout what it says of a node that is well. Where a word is
that of a node that is well, the time is until it is said again for good: the fault itself is a restart."""


def document(row: Row, seen: Mapping[Observer, Seen], left: int) -> dict[str, Any]:
    """Return one row with what came of it."""
    cells = {}
    for observer, cell in row.cells.items():
        found = seen[observer]
        cells[observer.value] = {
            "expected": list(cell.words),
            "seen": list(found.words),
            "notice": [found.noticed, cell.notice],
            "recover": [found.recovered, cell.recover],
            "wrong": found.wrong,
        }
    return {"name": row.name, "seconds": row.seconds, "left_behind": left, "cells": cells}


def wrong_cells(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each cell that is wrong, and for each process that was left behind."""
    found = [
        f"{row['name']}, {observer}: {cell['wrong']}"
        for row in rows
        for observer, cell in row["cells"].items()
        if cell["wrong"]
    ]
    return found + [f"{row['name']}: {row['left_behind']} left behind" for row in rows if row["left_behind"]]


def page(rows: Sequence[Mapping[str, Any]], table: Sequence[Row], machine: str, not_run: Mapping[str, str]) -> str:
    """Return the page. Without a date: what it says is compared by what it says."""
    cells = sum(len(row["cells"]) for row in rows)
    wrong = wrong_cells(rows)
    does = {row.name: row.does for row in table}
    words = ", ".join(f"{observer.value} `{word}`" for observer, word in WELL.items())
    lines = [
        f"# Verdicts in faults\n\n{_ABOUT}\n",
        f"**{len(rows)} faults, {cells} cells, {len(wrong)} wrong.**\n",
        *(f"- {line}" for line in wrong),
        f"## Settings\n\n{_settings()}\n\nMachine: {machine}.\n",
        f"## The table\n\n{_TABLE.format(words=words)}\n",
        f"| fault | {' | '.join(Observer)} |",
        f"|---|{'---|' * len(Observer)}",
        *(f"| {row['name']} | {' | '.join(_short(row['cells'][each]) for each in Observer)} |" for row in rows),
        f"\n## Each cell\n\n{_CELLS}\n",
    ]
    for row in rows:
        lines += _section(row, does.get(row["name"], ""))
    if not_run:
        lines += ["## Not played\n", *(f"- {name}: {why}." for name, why in not_run.items()), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _settings() -> str:
    figures = of.ORCHESTRATOR
    asked = {"startup": figures.startup, "liveness": figures.liveness, "readiness": figures.readiness}
    probes = [
        f"| {name} | {each.period_ms} | {each.timeout_ms} | {each.failure_threshold} |" for name, each in asked.items()
    ]
    rows = [
        f"| {each.name} | {'yes' if each.critical else 'no'} "
        f"| {each.interval_ms} | {each.timeout_ms} | {each.cache_ms} | {each.success_threshold} |"
        for each in of.matrix(1, 1, ("check",)).dependencies
    ]
    lines = [
        "| orchestrator | period_ms | timeout_ms | failure_threshold |",
        "|---|---|---|---|",
        *probes,
        "",
        "| dependency | critical | interval_ms | timeout_ms | cache_ms | success_threshold |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"Watchdog: {of.WATCHDOG.budget_seconds:g} s. An observer waits {of.ASK_SECONDS:g} s for an answer.",
        f"Each bound has {of.SLACK:g} s for the machine, and {of.START_SECONDS:g} s for each start of a process.",
    ]
    return "\n".join(lines)


def _short(cell: Mapping[str, Any]) -> str:
    if cell["wrong"]:
        return "**wrong**"
    if not cell["notice"][1] and not cell["recover"][1]:
        return "-"
    return " or ".join(cell["seen"])


def _section(row: Mapping[str, Any], does: str) -> list[str]:
    shown = [(name, cell) for name, cell in row["cells"].items() if _short(cell) != "-"]
    lines = [f"### {row['name']}\n", f"{does[:1].upper()}{does[1:]}.\n"]
    if not shown:
        return [*lines, "Nobody says anything else than before.\n"]
    lines += ["| observer | expected | seen | noticed | bound | recovered | bound |", "|---|---|---|---|---|---|---|"]
    for name, cell in shown:
        words = (" or ".join(cell["expected"]), " or ".join(cell["seen"]))
        times = (*cell["notice"], *cell["recover"])
        lines.append(f"| {name} | {' | '.join(words)} | {' | '.join(_time(each) for each in times)} |")
    return [*lines, ""]


def _time(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f}"
