"""What was seen, as JSON and as the page ``docs/VERDICTS.md`` (FT-5). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from scripts.lib.document_links import anchor
from scripts.lib.verdicts import figures as of
from scripts.lib.verdicts.cells import NO_ANSWER, WELL, Observer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scripts.lib.verdicts.cells import Seen
    from scripts.lib.verdicts.table import Row


_ABOUT: Final = """\
What each part of a node says while something is wrong, how soon, and how soon after the end. Each fault happens to real
processes: a control tower with matrix, modules and router, its readiness adapter, an etcd, an LXD, the programs that
the tower depends on, and the page in a Chromium. Written by `scripts/fault_table`; the contract, and what is not
claimed, is [FAULT_TABLE_V0_1.md](specifications/FAULT_TABLE_V0_1.md)."""

_WHO: Final[Mapping[Observer, str]] = {
    Observer.LIVE: "`/livez` of the node's probe listener",
    Observer.READY: "`/readyz`",
    Observer.STARTUP: "`/startupz`",
    Observer.ADAPTER_LIVE: "`/live` of its readiness adapter",
    Observer.ADAPTER_READY: "`/ready`: may it get new work?",
    Observer.ADAPTER_STARTED: "`/startup`",
    Observer.RESTART: "would an orchestrator restart the node (`due`), or was a replica restarted (`of a module`)?",
    Observer.TOPOLOGY: "the state of a release by the node's router",
    Observer.PAGE: "the verdict that a person sees",
}

_TABLE: Final = """\
What each says in the fault, for good. A dash: what it says of a node that is well, all the while, in every answer. In
parentheses: the same, but for a while that has a bound. Each is asked ten times a second; whether a restart is due,
once in the orchestrator's period."""

_CELLS: Final = """\
Seconds from the begin of the fault until every answer is an expected one, and from its end until all is well, each
beside its bound. Who is not in a list said throughout what it says of a node that is well. Where a word is that of a
node that is well, the time is until it is said again for good: the fault itself is a restart, or its end is felt."""


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
    return {
        "name": row.name, "seconds": row.seconds, "left_behind": left, "leaves": row.leaves, "cells": cells,
    }  # fmt: skip


def wrong_cells(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each cell that is wrong, and for each process that was left behind."""
    found = [
        f"{row['name']}, {observer}: {cell['wrong']}"
        for row in rows
        for observer, cell in row["cells"].items()
        if cell["wrong"]
    ]
    return found + [
        f"{row['name']}: {row['left_behind']} left behind, {row.get('leaves', 0)} expected"
        for row in rows
        if row["left_behind"] != row.get("leaves", 0)
    ]


def page(rows: Sequence[Mapping[str, Any]], table: Sequence[Row], machine: str, not_run: Mapping[str, str]) -> str:
    """Return the page. Without a date: what it says is compared by what it says."""
    cells = sum(len(row["cells"]) for row in rows)
    wrong = wrong_cells(rows)
    known = {row.name: row for row in table}
    lines = [
        f"# Verdicts in faults\n\n{_ABOUT}\n",
        f"**{len(rows)} faults, {cells} cells, {len(wrong)} wrong.**\n",
        *(f"- {line}" for line in wrong),
        *_in_short(rows),
        f"## The table\n\n{_TABLE}\n",
        "| observer | what it is | of a node that is well |",
        "|---|---|---|",
        *(f"| {observer} | {_WHO[observer]} | {word} |" for observer, word in WELL.items()),
        f"\n| fault | {' | '.join(Observer)} |",
        f"|---|{'---|' * len(Observer)}",
        *(f"| {_link(row['name'])} | {' | '.join(_short(o, row['cells'][o]) for o in Observer)} |" for row in rows),
        f"\n## Settings\n\n{_settings()}\n\nMachine: {machine}.\n",
        f"## Each cell\n\n{_CELLS}\n",
    ]
    for each in rows:
        lines += _section(each, known.get(each["name"]))
    if not_run:
        lines += ["## Not played\n", *(f"- {name}: {why}." for name, why in not_run.items()), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _in_short(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what most want to know of the table: what a restart is due in, and what takes traffic away."""

    def where(observer: Observer, *words: str) -> str:
        found = [_link(row["name"]) for row in rows if set(row["cells"][observer]["seen"]) & set(words)]
        return ", ".join(found) or "none"

    due, of_a_module = where(Observer.RESTART, "due"), where(Observer.RESTART, "of a module")
    return [
        f"- A restart of the node is due in: {due}. A replica of a module is restarted in: {of_a_module}.",
        f"- The node is not ready, or does not answer, in: {where(Observer.READY, 'not_ready', NO_ANSWER)}.\n",
    ]


def _link(name: str) -> str:
    """Return a link to a row's section."""
    return f"[{name}](#{anchor(name)})"


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
        f"Modules are looked at each {of.PASS_SECONDS} s; a command in an instance has {of.COMMAND_SECONDS} s.",
        f"Each bound has {of.SLACK:g} s for the machine, and {of.START_SECONDS:g} s for each start of a process.",
    ]
    return "\n".join(lines)


def _short(observer: Observer, cell: Mapping[str, Any]) -> str:
    seen = " or ".join(cell["seen"])
    if cell["wrong"]:
        return "**wrong**"
    if not cell["notice"][1] and not cell["recover"][1]:
        return "-"
    return f"({seen})" if cell["seen"] == cell["expected"] == [WELL[observer]] else seen


def _section(found: Mapping[str, Any], row: Row | None) -> list[str]:
    shown = [(name, cell) for name, cell in found["cells"].items() if _short(Observer(name), cell) != "-"]
    lines = [f"### {found['name']}\n"]
    if row is not None:
        lines += [f"{_sentence(row.does)}\n", f"Expected: {row.why}.\n"]
    if not shown:
        return [*lines, "Nobody says anything else than before.\n"]
    lines += ["| observer | expected | seen | noticed | bound | recovered | bound |", "|---|---|---|---|---|---|---|"]
    for name, cell in shown:
        words = (" or ".join(cell["expected"]), " or ".join(cell["seen"]))
        times = (*cell["notice"], *cell["recover"])
        lines.append(f"| {name} | {' | '.join(words)} | {' | '.join(_time(each) for each in times)} |")
    return [*lines, ""]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _time(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f}"
