"""``idkmesh node``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands


def add(commands: Commands) -> None:
    """Add ``idkmesh node``."""
    parser = commands.add_parser("node", help="look at a running node", description="Look at a running node.")
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    getting = actions.add_parser(
        "get",
        help="ask a control tower how its node is",
        description="Ask a control tower once, within a second, how its node is. No proxy is used, no name looked up.",
        epilog="exit codes: 0 it has answered, whatever it says of itself (readiness-adapter --check judges that), "
        "1 nobody listens or it timed out, 2 wrong usage or a bad FILE, 3 could not tell: not the answer of a node, or "
        "the token is refused",
    )
    text = "the address and the token, as control-tower --client-file writes them"
    getting.add_argument("--client-file", metavar="FILE", required=True, help=text)
    getting.add_argument("--json", action="store_true", help="print the document as the node gives it")
    getting.set_defaults(command=_node_get)


def _node_get(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.node import get

    return get(arguments.client_file, as_json=arguments.json)
