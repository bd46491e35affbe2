"""Writes ``docs/reference/settings.md`` from the tables of settings."""

from __future__ import annotations

import itertools
import textwrap

from idkmesh.control_tower.probe_listener import LIMITS
from idkmesh.events.retention import RETENTION_SETTINGS
from idkmesh.service_runtime import MAX_HEADER_LINE_BYTES, MAX_REQUEST_LINE_BYTES, SPARE_CONNECTIONS, Setting
from idkmesh.settings import COMMANDS, TABLE, CommandSetting, Group, rows_of
from idkmesh.workloads.model import PROCESS_VARIABLES

TITLES = {
    Group.MAIN: "Where it listens, and for whom",
    Group.HEALTH: "Health and probes",
    Group.WORKLOADS: "Workloads",
    Group.ROUTER: "Routing",
    Group.EVENTS: "What the event store keeps",
    Group.LIMITS: "Limits",
}
NOTES = {
    Group.MAIN: "",
    Group.HEALTH: f"""The probe listener has bounds of its own, which are no settings: {LIMITS.max_connections} \
connections, of which the least useful gives way, {LIMITS.request_timeout:g} s for a request head of \
{LIMITS.max_header_bytes:,} bytes. SIGHUP comes also where a terminal hangs up.""",
    Group.WORKLOADS: f"""Intervals, cooldown and lease stand in the file itself. A process of the driver `process`, \
and its readiness command, find the name of their module in `{PROCESS_VARIABLES[0]}` and their own in \
`{PROCESS_VARIABLES[1]}`: the module's, `-`, and a number from 1 to `replicas`. These two are no settings.""",
    Group.ROUTER: "What a router does stands in its file, as [its contract](../specifications/ROUTER_TOPOLOGY_V0_1.md) \
says (RT-9.1).",
    Group.EVENTS: "",
    Group.LIMITS: f"""The limits in force stand in the status document under `operations.limits`; `max_connections` is \
lowered at start to what the limit of open files allows. With workers it is at least `max_concurrent_requests` + \
`max_sse_clients` + {SPARE_CONNECTIONS}. The serial profile, `ServiceLimits(serial=True)`, has no workers and no such \
rule. The grammar has two bounds that are no settings, which the limits document states too: a request line of \
{MAX_REQUEST_LINE_BYTES:,} bytes (beyond it 414) and a header line of {MAX_HEADER_LINE_BYTES:,} bytes (431), both \
counted with their CRLF.""",
}


def paragraph(text: str) -> str:
    """Return the text in lines of at most 120 characters, broken at spaces."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def settings_page() -> str:
    """Return the page."""
    ordered = sorted(TABLE, key=lambda row: list(Group).index(row.group))
    parts = []
    for group, rows in itertools.groupby(ordered, key=lambda row: row.group):
        named = itertools.groupby(sorted(rows, key=_place), key=lambda row: row.name)
        sections = "\n".join(section(list(same)) for _, same in named)
        note = f"{paragraph(NOTES[group])}\n\n" if NOTES[group] else ""
        parts.append(f"## {TITLES[group]}\n\n{note}{sections}")
    return f"""# Settings

Made by `scripts/reference` from the table in `idkmesh/settings.py`, whose numbers are those of
`idkmesh/service_runtime.py` and `idkmesh/events/retention.py`; change it there.

A flag wins over its variable, the variable over the default. `idkmesh config show COMMAND` says which value of each is
in force, and where it came from. A number is a plain decimal one: no sign, exponent, underscore, unit or space. What is
refused is one line on standard error and exit code 2; in Python it is a `SettingError`, which is a `ValueError`. An
empty variable is one that is not given, but for a number or a port, where it is refused.
[Why some have no flag or no variable](../decisions/0018-settings.md).

{overview()}
{chr(10).join(parts)}"""


def _place(row: CommandSetting) -> int:
    return [other.name for other in TABLE].index(row.name)


def overview() -> str:
    """Return a table of all settings, and which command has which."""
    head = f"| setting | {' | '.join(f'`{command}`' for command in COMMANDS)} |"
    lines = [head, "|---" * (len(COMMANDS) + 1) + "|"]
    for name in dict.fromkeys(row.name for row in sorted(TABLE, key=lambda row: list(Group).index(row.group))):
        cells = [_cell(name, command) for command in COMMANDS]
        lines.append(f"| [{name}](#{name}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(name: str, command: str) -> str:
    flags = [f"`{row.flag}`" if row.flag else "variable" for row in rows_of(command) if row.name == name]
    return flags[0] if flags else ""


def section(rows: list[CommandSetting]) -> str:
    """Return the section of a name: of its one row, or of those in which commands differ."""
    number = rows[0].number
    if number is not None:
        return number_section(number, rows[0])
    return f"### {rows[0].name}\n\n" + "\n".join(_described(row, alone=len(rows) == 1) for row in rows)


def _described(row: CommandSetting, *, alone: bool) -> str:
    of = ", ".join(f"`{command}`" for command in row.commands)
    flag = f"`{row.flag}`" if row.flag else f"none: {row.no_flag}"
    variable = f"`{row.variable}`" if row.variable else f"none: {row.no_variable}"
    default = "none, it is needed" if row.needed else row.default_words
    meaning = f"{row.meaning[0].upper()}{row.meaning[1:]}."
    return f"""{"" if alone else f"#### {row.name} of {row.commands[0]}{chr(10)}{chr(10)}"}{paragraph(meaning)}

| | |
|---|---|
| commands | {of} |
| takes | {row.takes} |
| default | {default} |
| flag | {flag} |
| variable | {variable} |
"""


def number_section(setting: Setting, row: CommandSetting) -> str:
    """Return the section of a number."""
    owner = "Retention" if setting in RETENTION_SETTINGS else "ServiceLimits"
    unit = "" if setting.unit == "count" else f" {setting.unit}"
    noun = "a whole number" if setting.kind is int else "a number"
    return f"""### {setting.name}

{paragraph(setting.meaning)}

| | |
|---|---|
| commands | {", ".join(f"`{command}`" for command in row.commands)} |
| default | {row.default_words}{unit} |
| range | {setting.minimum:.15g} to {setting.maximum:.15g}{unit} |
| constructor | `{owner}({setting.name}=...)`, {noun} |
| flag | `{row.flag}` |
| variable | `{row.variable}` |
| in the limits document | `{setting.document_key}` |
| does not cover | {setting.not_covered} |
| precedent | {setting.precedent} |
"""
