"""``idkmesh config``: what it takes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from idkmesh.cli.parser import add_settings, flags_of
from idkmesh.settings import COMMANDS

if TYPE_CHECKING:
    from idkmesh.cli.parser import Commands


def add(commands: Commands) -> None:
    """Add ``idkmesh config``."""
    parser = commands.add_parser("config", help="say which settings are in force", description="Look at settings.")
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    showing = actions.add_parser(
        "show",
        help="print each value in force, and where it came from",
        description="Print the value of each setting that a command would have if it were started here and now, and "
        "where it came from: a flag, a variable or the default. Without a command, of all. No secret is shown, no file "
        "opened.",
        epilog="exit codes: 0 printed, 2 wrong usage, or a value that the command, or every command, would refuse",
    )
    showing.add_argument("--json", action="store_true", help="print a JSON document")
    showing.set_defaults(command=_config_show, of=None)
    of = showing.add_subparsers(title="commands that serve", metavar="COMMAND")
    for name in COMMANDS:
        one = of.add_parser(name, description=f"Print what is in force for idkmesh {name} with these flags.")
        # Also after the name; suppressed, since it would else take back what stands before.
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON document")
        add_settings(one, name)
        one.set_defaults(of=name)


def _config_show(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.config import show

    flags = {} if arguments.of is None else flags_of(arguments.of, arguments)
    return show(arguments.of, flags, as_json=arguments.json)
