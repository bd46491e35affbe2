"""``idkmesh demo``: what it takes.

The demo has no settings of its own: its page is at the tower's port, and its other flags are for the one time that
somebody looks at it. Its parts get no variable of the shell that it is started from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.cli.parser import port, whole_seconds
from idkmesh.settings import TOWER, row_of

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands


def add(commands: Commands) -> None:
    """Add ``idkmesh demo``."""
    parser = commands.add_parser(
        "demo",
        help="run a small shop under a control tower, and let things go wrong in it",
        description="Start a shop of five local processes, a control tower that owns and watches them, a router and a "
        "readiness adapter, and let one thing after the other go wrong, each announced and then looked for. Nothing of "
        "it is left at the end.",
        epilog="exit codes: 0 ended as asked, 1 could not start, or, with --for, something was not seen, 2 wrong usage",
    )
    row = row_of(TOWER, "port")
    text = f"the page's port, 0 for a free one (else {row.variable}, else {row.default}, or a free one if it is taken)"
    parser.add_argument("--port", type=port, help=text)
    text = "end by itself after that"
    parser.add_argument("--for", type=whole_seconds, dest="seconds", metavar="SECONDS", help=text)
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.set_defaults(command=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.demo import Request, demo
    from idkmesh.commands.inputs import of_tower

    usual = row_of(TOWER, "port").default
    named = of_tower("port", arguments.port)
    asked = arguments.port is not None or named != usual
    return demo(Request(named if asked else None, arguments.seconds, open_page=arguments.open))
