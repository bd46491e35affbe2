"""``idkmesh modules``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands


def add(commands: Commands) -> None:
    """Add ``idkmesh modules``."""
    parser = commands.add_parser(
        "modules",
        help="judge a declaration of modules and their readiness commands",
        description="Judge a declaration of modules: their instances, and the commands that say that they are ready.",
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    checking = actions.add_parser(
        "check",
        help="say what is in it, or all that is wrong with it",
        epilog="exit codes: 0 it is right, 2 wrong usage or a bad file",
    )
    checking.add_argument("--json", action="store_true", help="print a JSON document")
    checking.add_argument("file", metavar="FILE", help="a declaration of modules")
    checking.set_defaults(command=_modules_check)


def _modules_check(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.modules import check_modules

    return check_modules(arguments.file, as_json=arguments.json)
