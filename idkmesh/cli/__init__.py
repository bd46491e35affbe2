"""The ``idkmesh`` command: what it takes. What each command does stands elsewhere and is imported when it runs.

A command has a function that adds it, beside the one that calls it, in the module of its kind. It is added in
:data:`ADDED`, which is the order of ``--help``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from idkmesh import __version__, console
from idkmesh.cli import asking, declaring, serving
from idkmesh.cli.asking import PROBE_KINDS, TOPOLOGY_STATES
from idkmesh.cli.declaring import INSPECTION_FORMATS, MANIFEST_FORMATS, SCENARIOS
from idkmesh.cli.parser import Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from idkmesh.cli.parser import Commands

__all__ = [
    "INSPECTION_FORMATS",
    "MANIFEST_FORMATS",
    "PROBE_KINDS",
    "SCENARIOS",
    "TOPOLOGY_STATES",
    "build_parser",
    "main",
]

ADDED: Final[tuple[Callable[[Commands], None], ...]] = (
    serving.add_demo,
    serving.add_control_tower,
    serving.add_serve,
    asking.add_inspect_request,
    declaring.add_inspect,
    asking.add_events,
    asking.add_healthcheck,
    declaring.add_probes,
    declaring.add_rehearse,
    declaring.add_modules,
    serving.add_supervise,
    asking.add_node,
    serving.add_readiness_adapter,
    serving.add_router,
    asking.add_topology,
    serving.add_config,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (by default the program's own arguments) asks for, and return its exit code."""
    code = console.run(functools.partial(_run, argv))
    if argv is None:
        console.leave(code)
    return code


def _run(argv: Sequence[str] | None) -> int:
    arguments = build_parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    return command(arguments)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    parser = Parser(prog="idkmesh", description="Tell the truth about a node, and serve it safely.")
    parser.add_argument("--version", action="version", version=f"idkmesh {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in ADDED:
        add(commands)
    return parser
