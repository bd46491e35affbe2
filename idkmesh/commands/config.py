"""``idkmesh config show``: which value of each setting is in force, and where it came from (CT-9.13)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from idkmesh import console
from idkmesh.commands.inputs import chosen, store_named, warn_of_slips
from idkmesh.settings import COMMANDS, TABLE, Kind
from idkmesh.settings_in_force import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from idkmesh.settings_in_force import InForce, Value

DOCUMENT_KIND: Final = "idkmesh-settings"
SCHEMA_VERSION: Final = "0.1"

_COLUMNS: Final = ("SETTING", "VALUE", "FROM")
_UNITS: Final = {"seconds": "s"}


def show(command: str | None, flags: Mapping[str, Any], *, as_json: bool) -> int:
    """Print what is in force for a command, or for all without flags, and return the exit code.

    Raises :class:`~idkmesh.console.CommandError` for what the command itself would refuse (exit code 2).
    """
    warn_of_slips(command)
    known = [chosen(name, flags) for name in (COMMANDS if command is None else (command,))]
    if as_json:
        console.say(json.dumps(settings_document(known), indent=2))
        return 0
    for line in table(known[0].values.values()) if command is not None else table_of_all(known):
        console.say(console.fitted(line))
    return 0


def table(values: Iterable[Value]) -> list[str]:
    """Return a line for each setting of one command, the head first."""
    return console.aligned([_COLUMNS, *map(_row, values)])


def table_of_all(known: Iterable[InForce]) -> list[str]:
    """Return a line for each setting, and for each value where commands differ, with the commands that have it."""
    commands: dict[tuple[str, ...], list[str]] = {}
    for given in known:
        for value in given.values.values():
            commands.setdefault(_row(value), []).append(given.command)
    order = [row.name for row in TABLE]
    rows = sorted(commands, key=lambda row: order.index(row[0]))
    return console.aligned([(*_COLUMNS, "OF"), *((*row, ", ".join(commands[row])) for row in rows)])


def settings_document(known: Iterable[InForce]) -> dict[str, Any]:
    """Return the document of ``--json`` (``settings.json``)."""
    return {
        "kind": DOCUMENT_KIND,
        "schema_version": SCHEMA_VERSION,
        "commands": [
            {"command": given.command, "settings": [_document(value) for value in given.values.values()]}
            for given in known
        ],
    }


def _document(value: Value) -> dict[str, Any]:
    row, origin = value.row, value.origin
    secret = row.kind is Kind.SECRET
    return {
        "name": row.name,
        "value": None if secret else _plain(value),
        "unit": row.unit,
        "secret": secret,
        "set": origin.source is not Source.DEFAULT,
        "origin": {"source": origin.source.value, "name": origin.name},
        "flag": row.flag,
        "variable": row.variable,
    }


def _plain(value: Value) -> Any:  # noqa: ANN401  each kind has a type of its own
    if isinstance(value.value, tuple):
        return "{}:{}".format(*value.value)
    if value.row.name == "store":
        return str(store_named(value.value))
    return value.value


def _row(value: Value) -> tuple[str, ...]:
    return (value.row.name, _shown(value), _told(value))


def _shown(value: Value) -> str:
    """Return a value as people read it, with its unit. Of a secret, whether it is set."""
    row, plain = value.row, _plain(value)
    if row.kind is Kind.SECRET:
        return "set" if value.origin.source is not Source.DEFAULT else row.default_text
    if isinstance(plain, bool):
        return "on" if plain else "off"
    if plain is None:
        return "-"
    text = f"{plain:.15g}" if isinstance(plain, float) else str(plain)
    return f"{text} {_UNITS.get(row.unit, row.unit)}" if row.unit else text


def _told(value: Value) -> str:
    if value.row.needed and value.value is None:
        return f"needed: {value.row.flag}"
    source, name = value.origin
    return source.value if name is None else f"{source.value} {name}"
