"""``idkmesh router``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.cli.parser import add_settings, epilog_of, flags_of
from idkmesh.settings import ROUTER

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands
    from idkmesh.commands.inputs import Flags


def add(commands: Commands) -> None:
    """Add ``idkmesh router``."""
    parser = commands.add_parser(
        ROUTER,
        help="pass invocations on to ready instances of exact releases",
        description="Watch the releases that are asked for, pass each invocation on to a ready instance of its own "
        "release, and fail closed where none is known. SIGTERM drains.",
        epilog=epilog_of(
            ROUTER,
            "with --check: 0 it is right, 1 it needs a package or a file of releases that is not here, 2 wrong usage "
            "or a bad file",
        ),
    )
    parser.add_argument("--check", action="store_true", help="judge FILE and the token files that it names, and end")
    add_settings(parser, ROUTER)
    parser.set_defaults(command=_router)


def _router(arguments: argparse.Namespace) -> int:
    return route(flags_of(ROUTER, arguments), check=arguments.check)


def route(flags: Flags, *, check: bool) -> int:
    """Route invocations until a signal ends it, or only judge the configuration; return the exit code."""
    from idkmesh.commands.service_start import begun

    with begun(ROUTER, flags) as start:
        from idkmesh.commands import router as command

        return command.check(start.given["router"]) if check else command.route(start)
