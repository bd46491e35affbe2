"""``idkmesh readiness-adapter``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.cli.parser import add_settings, epilog_of, flags_of
from idkmesh.settings import ADAPTER

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands


def add(commands: Commands) -> None:
    """Add ``idkmesh readiness-adapter``."""
    parser = commands.add_parser(
        ADAPTER,
        help="answer /startup, /live and /ready for a node that only its command tells of",
        description="Look at a node each second, with its authenticated command, and answer /startup, /live and /ready "
        "to this machine from what was seen: 200 for yes, 503 for no.",
        epilog=epilog_of(
            ADAPTER,
            "with --check: 0 ready, 1 not ready or the look failed, 2 wrong usage or a bad file, 3 could not tell: the "
            "command could not be started",
        ),
    )
    parser.add_argument("--check", action="store_true", help="look once, print what was seen, and end")
    add_settings(parser, ADAPTER)
    text = "another program that prints the node's observation (default: a control tower is asked)"
    parser.add_argument("argv", metavar="-- ARGV", nargs="*", help=text)
    parser.program = "argv"
    parser.set_defaults(command=_readiness_adapter)


def _readiness_adapter(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.readiness_adapter import check, request_of, serve

    request = request_of(flags_of(ADAPTER, arguments), arguments.argv)
    return check(request) if arguments.check else serve(request)
