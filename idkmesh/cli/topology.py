"""``idkmesh topology``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.cli.parser import revision, seconds

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands

WAIT_SECONDS: Final = 60.0
ROUTER_URL: Final = "http://127.0.0.1:8780"
TOPOLOGY_STATES: Final = ("initializing", "missing", "empty", "populated", "unavailable")


def add(commands: Commands) -> None:
    """Add ``idkmesh topology``."""
    parser = commands.add_parser(
        "topology",
        help="print or await what a router has observed of a release",
        description="Ask a router, or a control tower that routes, for the status of its topology, and nothing else.",
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    showing = actions.add_parser(
        "status",
        help="print it",
        epilog="exit codes: 0 printed, 2 wrong usage or a bad token file, 3 it could not be had",
    )
    showing.add_argument("--json", action="store_true", help="print the JSON document")
    showing.set_defaults(command=_topology_status)
    waiting = actions.add_parser(
        "wait",
        help="wait until a release has a state",
        epilog="exit codes: 0 it has come about, 1 timed out, 2 wrong usage or a bad token file, 3 could not tell: no "
        "answer, or the session of the revision that counts was renewed meanwhile",
    )
    release = "AGENT/VERSION/RELEASE, or a release id that one observation has"
    waiting.add_argument("--release", metavar="R", required=True, help=release)
    waiting.add_argument("--state", choices=TOPOLOGY_STATES, required=True, help="the state that is waited for")
    after = "only with a higher revision than this one, of the same session; a failure, unavailable, keeps its revision"
    waiting.add_argument("--after-revision", metavar="N", type=revision, help=after)
    text = "how long (default: %(default)g)"
    waiting.add_argument("--timeout", type=seconds, default=WAIT_SECONDS, metavar="SECONDS", help=text)
    waiting.set_defaults(command=_topology_wait)
    for action in (showing, waiting):
        where = "an origin, or the URL of a projection, of a tower with /api/v1/topology (default: %(default)s)"
        action.add_argument("--url", default=ROUTER_URL, help=where)
        text = "the file of a credential's token, or of a tower's session token, of mode 0600"
        action.add_argument("--token-file", metavar="FILE", required=True, help=text)


def _topology_status(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.topology import status

    return status(arguments.url, arguments.token_file, as_json=arguments.json)


def _topology_wait(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.topology import wait, waiting_for

    waiting = waiting_for(arguments.release, arguments.state, arguments.after_revision)
    return wait(arguments.url, arguments.token_file, waiting, arguments.timeout)
