"""``idkmesh inspect``: what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands

INSPECTION_FORMATS: Final = ("text", "json", "sarif")


def add(commands: Commands) -> None:
    """Add ``idkmesh inspect``."""
    parser = commands.add_parser(
        "inspect",
        help="judge the probes that manifests and matrices declare",
        description="Judge the probes that probe matrices, Kubernetes manifests and Compose files declare. Files that "
        "are given together belong together: a Service in one selects the pods of another.",
        epilog="exit codes: 0 no errors, 1 errors found, 2 wrong usage or a FILE cannot be read, 3 a FILE of which "
        "nothing can be told: a template, or of no kind that is known",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("files", metavar="FILE", nargs="*", default=[], help="a YAML file; - is standard input")
    what.add_argument("--explain", metavar="RULE", help="say what a rule is about, PB303 for example, and read no file")
    parser.add_argument("--format", choices=INSPECTION_FORMATS, default="text", help="default: %(default)s")
    parser.add_argument("--matrix", metavar="FILE", help="hold the manifests against this probe matrix")
    parser.set_defaults(command=_inspect)


def _inspect(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.inspect import explain, inspect_files

    if arguments.explain is not None:
        return explain(arguments.explain)
    return inspect_files(arguments.files, arguments.matrix, arguments.format)
