"""``idkmesh supervise``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh import console
from idkmesh.cli.parser import add_settings, epilog_of, flags_of
from idkmesh.settings import SUPERVISE

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands


def add(commands: Commands) -> None:
    """Add ``idkmesh supervise``."""
    parser = commands.add_parser(
        SUPERVISE,
        help="check the instances of modules, and restart stateless replicas that stay unhealthy",
        description="Ask each instance of the modules each few seconds whether it is ready, and restart a replica of a "
        "stateless module that stays unhealthy. Of several supervisors only the holder of the lease acts. SIGHUP reads "
        "FILE again; SIGTERM ends it, with the processes that it has started.",
        epilog=epilog_of(
            SUPERVISE,
            "with --once: 0 all pass, 1 something fails, 2 wrong usage or a bad file, 3 something says nothing",
        ),
    )
    parser.add_argument("--once", action="store_true", help="make one pass without acting, and print what it saw")
    parser.add_argument("--json", action="store_true", help="with --once: print a JSON document")
    add_settings(parser, SUPERVISE)
    parser.set_defaults(command=_supervise)


def _supervise(arguments: argparse.Namespace) -> int:
    flags = flags_of(SUPERVISE, arguments)
    if arguments.once:
        from idkmesh.commands.supervise import look

        return look(flags, as_json=arguments.json)
    if arguments.json:
        raise console.CommandError(
            "supervise --json needs --once; idkmesh events follow --json tells what happens", console.EXIT_USAGE
        )
    from idkmesh.commands.service_start import begun

    with begun(SUPERVISE, flags) as start:
        from idkmesh.commands.supervise import supervise

        return supervise(start)
