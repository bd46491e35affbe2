"""``idkmesh events``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.cli.parser import MAX_EVENTS, add_setting, count
from idkmesh.events.envelope import FILTERS
from idkmesh.settings import TOWER, row_of

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands

LISTED_EVENTS: Final = 50


def add(commands: Commands) -> None:
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
