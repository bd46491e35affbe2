"""``idkmesh healthcheck``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.cli.parser import port, seconds
from idkmesh.settings import TOWER, row_of

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands

PROBE_KINDS: Final = {
    "ready": "may it get traffic? (default)",
    "live": "does it make progress?",
    "startup": "has it started?",
}
HEALTHCHECK_SECONDS: Final = 5.0


def add(commands: Commands) -> None:
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
    from idkmesh.commands.inputs import of_tower

    number = of_tower("port", arguments.port)
    return healthcheck(f"http://127.0.0.1:{number}", arguments.kind, arguments.timeout)
