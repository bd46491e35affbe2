"""``idkmesh config show``: which value of each setting is in force, and where it came from (CT-9.13)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh import console
from idkmesh.commands.inputs import chosen, store_named, warn_of_slips
from idkmesh.console import EXIT_USAGE
from idkmesh.service_runtime import SettingError
from idkmesh.settings import COMMANDS, TABLE, Kind
from idkmesh.settings_in_force import Source, each_in_force

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from idkmesh.settings_in_force import InForce, Value

DOCUMENT_KIND: Final = "idkmesh-settings"
SCHEMA_VERSION: Final = "0.1"

_COLUMNS: Final = ("SETTING", "VALUE", "FROM")
_UNITS: Final = {"seconds": "s"}


class Looked(NamedTuple):
    """A command with its values, none where one of them is refused, and what it refuses to start for."""

    command: str
    values: Sequence[Value]
    refused: str | None = None


def show(command: str | None, flags: Mapping[str, Any], *, as_json: bool) -> int:
    """Print what is in force for a command, or for all without flags, and return the exit code.

    Of all, what one command refuses is a line on standard error, and hides no other command.

    Raises :class:`~idkmesh.console.CommandError` for what the command itself would refuse (exit code 2).
    """
    warn_of_slips(command)
    looked = [_look(name, os.environ) for name in COMMANDS] if command is None else [_of(chosen(command, flags))]
    for line in refusals(looked):
        console.complain(f"idkmesh: {line}")
    if not any(each.values for each in looked):
        return EXIT_USAGE
    if as_json:
        console.say(json.dumps(settings_document(looked), indent=2))
        return 0
    for line in table(looked[0].values) if command is not None else table_of_all(looked):
        console.say(console.fitted(line))
    return 0


def _look(command: str, environ: Mapping[str, str]) -> Looked:
    try:
        return _of(each_in_force(command, {}, environ))
    except SettingError as error:
        return Looked(command, (), str(error))


def _of(known: InForce) -> Looked:
    return Looked(known.command, tuple(known.values.values()), known.clash())


def refusals(looked: Iterable[Looked]) -> list[str]:
    """Return a line for each thing that is refused, after the names of the commands that refuse it."""
    commands: dict[str, list[str]] = {}
    for each in looked:
        if each.refused is not None:
            commands.setdefault(each.refused.removeprefix(f"{each.command}: "), []).append(each.command)
    return [f"{', '.join(names)}: {text}" for text, names in commands.items()]


def table(values: Iterable[Value]) -> list[str]:
    """Return a line for each setting of one command, the head first."""
    return console.aligned([_COLUMNS, *map(_row, values)])


def table_of_all(looked: Iterable[Looked]) -> list[str]:
    """Return a line for each setting, and for each value where commands differ, with the commands that have it."""
    commands: dict[tuple[str, ...], list[str]] = {}
    for each in looked:
        for value in each.values:
            commands.setdefault(_row(value), []).append(each.command)
    order = [row.name for row in TABLE]
    rows = sorted(commands, key=lambda row: order.index(row[0]))
    return console.aligned([(*_COLUMNS, "OF"), *((*row, ", ".join(commands[row])) for row in rows)])


def settings_document(looked: Iterable[Looked]) -> dict[str, Any]:
    """Return the document of ``--json`` (``settings.json``)."""
    return {
        "kind": DOCUMENT_KIND,
        "schema_version": SCHEMA_VERSION,
        "commands": [
            {
                "command": each.command,
                "settings": [_document(value) for value in each.values],
                "refused": each.refused,
            }
            for each in looked
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
