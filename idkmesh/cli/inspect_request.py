"""``idkmesh inspect-request``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands


def add(commands: Commands) -> None:
    """Add ``idkmesh inspect-request``."""
    parser = commands.add_parser(
        "inspect-request",
        help="say how the request rules judge some bytes",
        description="Print, as JSON, how the request rules judge the bytes in FILE.",
        epilog="exit codes: 0 accepted, 1 refused or incomplete, 2 wrong usage or FILE cannot be read",
    )
    parser.add_argument("file", metavar="FILE", help="raw request bytes; - is standard input")
    parser.set_defaults(command=_inspect_request)


def _inspect_request(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.inspect_request import inspect_request_file

    return inspect_request_file(arguments.file)
