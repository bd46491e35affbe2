"""``idkmesh control-tower``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.cli.parser import add_settings, epilog_of, flags_of
from idkmesh.settings import TOWER

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands
    from idkmesh.commands.inputs import Flags


def add(commands: Commands) -> None:
    """Add ``idkmesh control-tower``."""
    parser = commands.add_parser(
        TOWER,
        help="serve this node's status to this machine",
        description="Serve this node's status, probes and page to this machine. Loopback only.",
        epilog=epilog_of(TOWER),
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_settings(parser, TOWER)
    parser.set_defaults(command=_control_tower)


def _control_tower(arguments: argparse.Namespace) -> int:
    return control_tower(flags_of(TOWER, arguments), open_page=arguments.open)


def control_tower(flags: Flags, *, open_page: bool) -> int:
    """Serve the control tower until a signal ends it, and return the exit code."""
    from idkmesh.commands.service_start import begun

    with begun(TOWER, flags) as start:
        from idkmesh.commands import control_tower as command

        return command.control_tower(start, open_page=open_page)
