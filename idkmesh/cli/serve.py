"""``idkmesh serve``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.cli.parser import add_settings, epilog_of, flags_of
from idkmesh.settings import SERVE

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands
    from idkmesh.commands.inputs import Flags


def add(commands: Commands) -> None:
    """Add ``idkmesh serve``."""
    parser = commands.add_parser(
        SERVE,
        help="serve a folder, a WSGI callable or a handler class",
        description="Serve a folder, a WSGI callable or a BaseHTTPRequestHandler class, under the limits below. "
        "Symbolic links in a folder are followed, out of it too.",
        epilog=epilog_of(SERVE),
    )
    parser.add_argument("target", metavar="PATH | MODULE:ATTR", help="what to serve; MODULE may be in this directory")
    add_settings(parser, SERVE)
    parser.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    return serve(arguments.target, flags_of(SERVE, arguments))


def serve(target: str, flags: Flags) -> int:
    """Serve a folder, a WSGI callable or a handler class until a signal ends it, and return the exit code."""
    from idkmesh.commands.service_start import begun

    with begun(SERVE, flags) as start:
        from idkmesh.commands import serve as command

        return command.serve(start, target)
