"""``idkmesh rehearse``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands

SCENARIOS: Final = (
    "critical-timeout", "dependency-outage", "exhausted-startup", "flap", "noncritical-failure", "rolling-update",
    "slow-startup", "wedged-watchdog",
)  # fmt: skip


def add(commands: Commands) -> None:
    """Add ``idkmesh rehearse``."""
    parser = commands.add_parser(
        "rehearse",
        help="run a service under a local orchestrator, with failing dependencies",
        description="Start COMMAND, put a proxy before each TCP and HTTP dependency of the matrix, ask the target's "
        "/startupz, /livez and /readyz as a kubelet does, and say whether the contract of the probes holds. A time is "
        "500ms, 1.5s or 2m, counted from the start. In the target and in COMMAND, {port} is a free port.",
        usage="%(prog)s --matrix FILE --target URL [FLAGS] -- COMMAND [ARGUMENT ...]",
        epilog="exit codes: 0 the contract held, 1 it did not, 2 wrong usage or a bad file, 3 could not tell",
    )
    parser.add_argument("--matrix", metavar="FILE", required=True, help="the probe matrix of the service")
    parser.add_argument("--target", metavar="URL", required=True, help="where the service answers, http://HOST:PORT")
    parser.add_argument("--scenario", metavar="NAME", help=f"in place of faults of one's own: {', '.join(SCENARIOS)}")
    failing = "have a dependency refuse connections; NAME=cut@ resets them, NAME=blackhole@ answers nothing"
    parser.add_argument("--fail", metavar="NAME@5s..20s", action="append", default=[], help=failing)
    slowing = "delay what a dependency answers, by twice its timeout or, with NAME=800ms@, by that"
    parser.add_argument("--slow", metavar="NAME@5s..20s", action="append", default=[], help=slowing)
    wedging = "stop the service's processes (SIGSTOP), for good without an end"
    parser.add_argument("--wedge", metavar="30s[..45s]", action="append", default=[], help=wedging)
    rolling = "have a second instance take the place of the first; needs {port}"
    parser.add_argument("--roll", metavar="10s", action="append", default=[], help=rolling)
    parser.add_argument("--for", metavar="60s", dest="seconds", help="how long (default: 60s)")
    parser.add_argument("--grace", metavar="5s", help="between TERM and KILL (default: 5s, or the scenario's)")
    parser.add_argument("--backoff", metavar="1s", help="the first back-off (default: 1s, or the scenario's)")
    parser.add_argument("--output", metavar="FILE", help="append what COMMAND prints to FILE (default: standard error)")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII alone")
    parser.add_argument(
        "--json", action="store_true", help="print a JSON document; the timeline goes to standard error"
    )
    parser.add_argument("argv", metavar="-- COMMAND", nargs="+", help="the service, with its arguments")
    parser.set_defaults(command=_rehearse)


def _rehearse(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.rehearse import Request, rehearse

    given = {name: value for name, value in vars(arguments).items() if name != "command"}
    return rehearse(Request(**given))
