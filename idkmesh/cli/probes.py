"""``idkmesh probes``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.cli.parser import port

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands

MANIFEST_FORMATS: Final = ("kubernetes", "compose", "systemd")


def add(commands: Commands) -> None:
    """Add ``idkmesh probes``."""
    parser = commands.add_parser(
        "probes",
        help="try the probes of a matrix, or print what an orchestrator is to be told",
        description="Try the probes of a probe matrix, or print the stanza of an orchestrator that fits it.",
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    running = actions.add_parser(
        "run",
        help="run each probe once, and print what came of it",
        epilog="exit codes: 0 every critical one is ok, 1 a critical one is not, 2 wrong usage or a bad file, "
        "3 a critical one could not be run",
    )
    running.add_argument("--json", action="store_true", help="print a JSON document")
    running.set_defaults(command=_probes_run)
    writing = actions.add_parser(
        "manifest",
        help="print the stanza for an orchestrator that fits the matrix",
        epilog="exit codes: 0 printed, 2 wrong usage or a bad file",
    )
    writing.add_argument("--format", choices=MANIFEST_FORMATS, required=True, help="for whom")
    where = "where the probe paths are answered, that of --probe-listen; needed but for systemd, which asks nothing"
    writing.add_argument("--port", type=port, help=where)
    writing.add_argument("--host", default="127.0.0.1", help="of the probe paths, from within (default: %(default)s)")
    writing.set_defaults(command=_probes_manifest)
    for action in (running, writing):
        action.add_argument("matrix", metavar="MATRIX", help="a probe matrix")


def _probes_run(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.probes import run_probes

    return run_probes(arguments.matrix, as_json=arguments.json)


def _probes_manifest(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.probes import print_manifest

    return print_manifest(arguments.matrix, arguments.format, arguments.port, arguments.host)
