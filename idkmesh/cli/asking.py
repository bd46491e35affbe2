"""The commands that ask once what is or was: a request, the events of a node, its probes, a router's topology."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from idkmesh import console
from idkmesh.cli.parser import MAX_EVENTS, add_setting, count, port, revision, seconds
from idkmesh.events.envelope import FILTERS
from idkmesh.service_runtime import SettingError
from idkmesh.settings import TOWER, row_of
from idkmesh.settings_in_force import value_of

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands

LISTED_EVENTS: Final = 50
PROBE_KINDS: Final = {
    "ready": "may it get traffic? (default)",
    "live": "does it make progress?",
    "startup": "has it started?",
}
HEALTHCHECK_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 60.0
ROUTER_URL: Final = "http://127.0.0.1:8780"
TOPOLOGY_STATES: Final = ("initializing", "missing", "empty", "populated", "unavailable")


def add_inspect_request(commands: Commands) -> None:
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


def add_events(commands: Commands) -> None:
    """Add ``idkmesh events``."""
    parser = commands.add_parser(
        "events",
        help="print what a node's services have recorded",
        description="Print the events in a store's file, which is read and never written to.",
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    exit_codes = (
        "exit codes: 0 ended as asked, 2 wrong usage, a file that is no event store, or no such position, "
        "3 there is no store yet, or it cannot be read"
    )
    listing = actions.add_parser("list", help="print the newest events, oldest first", epilog=exit_codes)
    many = f"how many, at most {MAX_EVENTS} (default: %(default)s)"
    listing.add_argument("--limit", type=count, default=LISTED_EVENTS, metavar="N", help=many)
    following = actions.add_parser("follow", help="print what is recorded from now on, until Ctrl-C", epilog=exit_codes)
    for action in (listing, following):
        action.add_argument("--json", action="store_true", help="print each event whole, as a JSON document in a line")
        after = "begin after this event: its id, as --json shows it, or its number in this store"
        action.add_argument("--after", metavar="ID", help=after)
        for name in FILTERS:
            action.add_argument(f"--{name}", metavar=name.upper(), help=f"only events with this {name}")
        add_setting(action, row_of(TOWER, "store"))
        action.set_defaults(command=_events, limit=None)
    listing.set_defaults(limit=LISTED_EVENTS)


def _events(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.events import list_events

    return list_events(
        arguments.store,
        {name: getattr(arguments, name) for name in FILTERS},
        after=arguments.after,
        limit=arguments.limit,
        as_json=arguments.json,
    )


def add_healthcheck(commands: Commands) -> None:
    """Add ``idkmesh healthcheck``."""
    parser = commands.add_parser(
        "healthcheck",
        help="ask a service's probe path, for Docker's HEALTHCHECK",
        description="Ask a probe path once, print what it says in a line, and tell by the exit code. No proxy is used "
        "and no redirect followed.",
        epilog="exit codes: 0 yes, 1 no, nobody listens or timed out, 2 wrong usage, 3 could not tell: no such host, "
        "or not the answer of a probe path",
    )
    kinds = parser.add_mutually_exclusive_group()
    for name, text in PROBE_KINDS.items():
        kinds.add_argument(f"--{name}", dest="kind", action="store_const", const=name, help=text)
    text = "for the whole check, the name look-up included (default: %(default)g)"
    parser.add_argument("--timeout", type=seconds, default=HEALTHCHECK_SECONDS, metavar="SECONDS", help=text)
    where = parser.add_mutually_exclusive_group()
    row = row_of(TOWER, "port")
    where.add_argument(
        "--port",
        type=port,
        help=f"the port on 127.0.0.1 (default: {row.variable}, as of a control tower, else {row.default})",
    )
    where.add_argument("url", metavar="URL", nargs="?", help="an origin, or the URL of a probe path with its path")
    parser.set_defaults(command=_healthcheck)


def _healthcheck(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.healthcheck import healthcheck

    if arguments.url is not None:
        return healthcheck(arguments.url, arguments.kind, arguments.timeout)
    try:
        number = value_of(TOWER, "port", os.environ, arguments.port)
    except SettingError as error:
        raise console.CommandError(str(error), console.EXIT_USAGE) from None
    return healthcheck(f"http://127.0.0.1:{number}", arguments.kind, arguments.timeout)


def add_node(commands: Commands) -> None:
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


def add_topology(commands: Commands) -> None:
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
