"""The commands that serve until they are told to end, and ``config``, which says what is in force for them.

Their settings stand in :mod:`idkmesh.settings`. Here is what is no setting: what is served, and what is done instead of
serving. The demo has none of its own: its page is at the tower's port, and its other flags are for the one time that
somebody looks at it. Its parts get no variable of the shell that it is started from.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from idkmesh import console
from idkmesh.cli.parser import add_settings, epilog_of, flags_of, port, whole_seconds
from idkmesh.service_runtime import SettingError
from idkmesh.settings import ADAPTER, COMMANDS, ROUTER, SERVE, SUPERVISE, TOWER, row_of
from idkmesh.settings_in_force import value_of

if TYPE_CHECKING:
    from idkmesh.cli.parser import Commands


def add_demo(commands: Commands) -> None:
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

    usual = row_of(TOWER, "port").default
    try:
        named = value_of(TOWER, "port", os.environ, arguments.port)
    except SettingError as error:
        raise console.CommandError(str(error), console.EXIT_USAGE) from None
    asked = arguments.port is not None or named != usual
    return demo(Request(named if asked else None, arguments.seconds, open_page=arguments.open))


def add_control_tower(commands: Commands) -> None:
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
    from idkmesh.commands.starting import control_tower

    return control_tower(flags_of(TOWER, arguments), open_page=arguments.open)


def add_serve(commands: Commands) -> None:
    """Add ``idkmesh serve``."""
    parser = commands.add_parser(
        SERVE,
        help="serve a folder, a WSGI callable or a handler class",
        description="Serve a folder, a WSGI callable or a BaseHTTPRequestHandler class, under the limits below. "
        "Symbolic links in a folder are followed, out of it too.",
        epilog=epilog_of(SERVE),
    )
    parser.add_argument("target", metavar="PATH | MODULE:ATTR", help="what to serve; MODULE may be in this directory")
    add_settings(parser, SERVE)
    parser.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.starting import serve

    return serve(arguments.target, flags_of(SERVE, arguments))


def add_supervise(commands: Commands) -> None:
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
    from idkmesh.commands.starting import look_once, supervise

    if arguments.once:
        return look_once(flags_of(SUPERVISE, arguments), as_json=arguments.json)
    if arguments.json:
        raise console.CommandError(
            "supervise --json needs --once; idkmesh events follow --json tells what happens", console.EXIT_USAGE
        )
    return supervise(flags_of(SUPERVISE, arguments))


def add_router(commands: Commands) -> None:
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
    from idkmesh.commands.starting import route

    return route(flags_of(ROUTER, arguments), check=arguments.check)


def add_readiness_adapter(commands: Commands) -> None:
    """Add ``idkmesh readiness-adapter``."""
    parser = commands.add_parser(
        ADAPTER,
        help="answer /startup, /live and /ready for a node that only its command tells of",
        description="Look at a node each second, with its authenticated command, and answer /startup, /live and /ready "
        "to this machine from what was seen: 200 for yes, 503 for no.",
        epilog=epilog_of(
            ADAPTER,
            "with --check: 0 ready, 1 not ready or the look failed, 2 wrong usage or a bad file, 3 could not tell: the "
            "command could not be started",
        ),
    )
    parser.add_argument("--check", action="store_true", help="look once, print what was seen, and end")
    add_settings(parser, ADAPTER)
    text = "another program that prints the node's observation (default: a control tower is asked)"
    parser.add_argument("argv", metavar="-- ARGV", nargs="*", help=text)
    parser.program = "argv"
    parser.set_defaults(command=_readiness_adapter)


def _readiness_adapter(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.starting import readiness_adapter

    return readiness_adapter(flags_of(ADAPTER, arguments), arguments.argv, check=arguments.check)


def add_config(commands: Commands) -> None:
    """Add ``idkmesh config``."""
    parser = commands.add_parser("config", help="say which settings are in force", description="Look at settings.")
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    showing = actions.add_parser(
        "show",
        help="print each value in force, and where it came from",
        description="Print the value of each setting that a command would have if it were started here and now, and "
        "where it came from: a flag, a variable or the default. Without a command, of all. No secret is shown, no file "
        "opened.",
        epilog="exit codes: 0 printed, 2 wrong usage, or a value that the command would refuse",
    )
    showing.add_argument("--json", action="store_true", help="print a JSON document")
    showing.set_defaults(command=_config_show, of=None)
    of = showing.add_subparsers(title="commands that serve", metavar="COMMAND")
    for name in COMMANDS:
        one = of.add_parser(name, description=f"Print what is in force for idkmesh {name} with these flags.")
        # Also after the name; suppressed, since it would else take back what stands before.
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON document")
        add_settings(one, name)
        one.set_defaults(of=name)


def _config_show(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.config import show

    flags = {} if arguments.of is None else flags_of(arguments.of, arguments)
    return show(arguments.of, flags, as_json=arguments.json)
