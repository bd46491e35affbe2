"""What the command lines of all commands share: the parser, the forms of values, and the flags of settings."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from idkmesh import console
from idkmesh.settings import Group, Kind, rows_of
from idkmesh.settings_in_force import port_of

if TYPE_CHECKING:
    from idkmesh.settings import CommandSetting

    Commands = argparse._SubParsersAction["Parser"]  # noqa: SLF001  argparse gives it no other name

EXIT_CODES: Final = (
    "exit codes: 0 ended as asked, 1 could not start, 2 wrong usage, 130 and 143 a second SIGINT or SIGTERM, "
    "141 nobody reads the output"
)
MAX_EVENTS: Final = 10_000

_SECONDS: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3})?")
_MAX_SECONDS: Final = 300
_REVISION: Final = re.compile(r"[0-9]{1,15}")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,6}")
_DAY: Final = 86_400


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; ``--help`` says the rest."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  argparse's own
        super().__init__(allow_abbrev=False, **settings)
        self._first = ""
        self.program: str | None = None
        """The name of what takes another program's words: all that follow ``--``, and no other."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401  argparse's own
        """Parse, and keep what comes first: without a command argparse looks at no flag."""
        given = list(sys.argv[1:] if args is None else args)
        self._first = given[0] if given else ""
        if self.program is None:
            return super().parse_known_args(given, namespace)
        end = given.index("--") if "--" in given else len(given)
        found, rest = super().parse_known_args(given[:end], namespace)
        if words := getattr(found, self.program):
            self.error(f"unrecognized arguments: {words[0]}; another program's come after --")
        if given[end : end + 2] in (["--"], ["--", ""]):
            self.error("no program follows --")
        setattr(found, self.program, given[end + 1 :])
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Exit with 2 and one line."""
        if message.endswith("required: COMMAND") and self._first.startswith("-"):
            message = f"unrecognized arguments: {self._first}"
        console.complain(f"{self.prog}: {message} ({self.prog} --help shows the usage)")
        raise SystemExit(console.EXIT_USAGE)


def epilog_of(command: str, more: str = "") -> str:
    """Return what stands at the end of ``--help`` of a command that serves. ``more`` are further exit codes."""
    known = f"idkmesh config show {command} says which value of each flag and variable is in force"
    rows = [f"{row.variable} ({row.meaning})" for row in rows_of(command) if row.flag is None]
    variables = f". Variables without a flag: {', '.join(rows)}" if rows else ""
    return f"{EXIT_CODES}{f'; {more}' if more else ''}. {known}{variables}."


def add_settings(parser: argparse.ArgumentParser, command: str) -> None:
    """Add a flag for each setting of a command. A value is judged where variables are judged too."""
    groups: dict[Group, argparse._ActionsContainer] = {Group.MAIN: parser}
    for row in rows_of(command):
        if row.flag is None:
            continue
        if row.group not in groups:
            groups[row.group] = parser.add_argument_group(row.group.name.lower(), row.group.value)
        add_setting(groups[row.group], row)


def add_setting(group: argparse._ActionsContainer, row: CommandSetting) -> None:
    """Add the flag of one setting, whose value is None where it is not given."""
    kind: Any = port if row.kind is Kind.PORT else str
    group.add_argument(
        row.flag or "", dest=row.name, type=kind, metavar=row.metavar, help=_help(row).replace("%", "%%")
    )


def _help(row: CommandSetting) -> str:
    if row.number is not None:
        return f"{row.meaning} Takes {row.takes} (default: {row.default_words})."
    has_default = row.default is not None or row.default_text != "none"
    notes = [f"default: {row.default_words}"] if has_default else []
    notes += [f"variable: {row.variable}"] if row.variable is not None else []
    return f"{row.meaning} ({'; '.join(notes)})" if notes else row.meaning


def flags_of(command: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the command line says of a command's settings, by their names; None where it says nothing."""
    return {row.name: getattr(arguments, row.name) for row in rows_of(command) if row.flag is not None}


def count(text: str) -> int:
    """Return a number of events."""
    if not _COUNT.fullmatch(text) or int(text) > MAX_EVENTS:
        raise argparse.ArgumentTypeError(f"{text!r} is refused, it must be a whole number from 1 to {MAX_EVENTS}")
    return int(text)


def port(text: str) -> int:
    """Return a port."""
    try:
        return port_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def revision(text: str) -> int:
    """Return the revision of an observation."""
    if not _REVISION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is refused, a revision is a whole number from 0")
    return int(text)


def seconds(text: str) -> float:
    """Return how long somebody waits."""
    if not _SECONDS.fullmatch(text) or not 0 < float(text) <= _MAX_SECONDS:
        allowed = f"a number of seconds above 0 and up to {_MAX_SECONDS}"
        raise argparse.ArgumentTypeError(f"{text!r} is refused, it must be {allowed}")
    return float(text)


def whole_seconds(text: str) -> float:
    """Return how long something goes on."""
    if not _COUNT.fullmatch(text) or int(text) > _DAY:
        allowed = f"a whole number of seconds from 1 to {_DAY}"
        raise argparse.ArgumentTypeError(f"{text!r} is refused, it must be {allowed}")
    return float(text)
