"""The ``idkmesh`` command: what it takes. What each command does stands in :mod:`idkmesh.commands`.

Each command has a module of its own name here, whose ``add`` adds its parser, and one there. A module is imported when
its command is asked for, and what does the work when it runs.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Final

from idkmesh import __version__, console
from idkmesh.cli.parser import Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from idkmesh.cli.parser import Commands

__all__ = ["COMMANDS", "build_parser", "main"]

COMMANDS: Final = (
    "demo",
    "control-tower",
    "serve",
    "inspect-request",
    "inspect",
    "events",
    "healthcheck",
    "probes",
    "rehearse",
    "modules",
    "supervise",
    "node",
    "readiness-adapter",
    "router",
    "topology",
    "config",
)
"""Their names, in the order of ``--help``. The module of a name has an underscore for each hyphen."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (by default the program's own arguments) asks for, and return its exit code."""
    code = console.run(functools.partial(_run, sys.argv[1:] if argv is None else argv))
    if argv is None:
        console.leave(code)
    return code


def _run(argv: Sequence[str]) -> int:
    asked = argv[0] if argv else None
    arguments = build_parser((asked,) if asked in COMMANDS else COMMANDS).parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    return command(arguments)


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the whole command, or of no more than the commands of these names."""
    parser = Parser(prog="idkmesh", description="Tell the truth about a node, and serve it safely.")
    parser.add_argument("--version", action="version", version=f"idkmesh {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
        add: Callable[[Commands], None] = module.add
        add(commands)
    return parser
