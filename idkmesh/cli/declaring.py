"""The commands that judge or try what is declared: probes, their matrices, services under them, and modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.cli.parser import port

if TYPE_CHECKING:
    import argparse

    from idkmesh.cli.parser import Commands

INSPECTION_FORMATS: Final = ("text", "json", "sarif")
MANIFEST_FORMATS: Final = ("kubernetes", "compose", "systemd")
SCENARIOS: Final = (
    "critical-timeout", "dependency-outage", "exhausted-startup", "flap", "noncritical-failure", "rolling-update",
    "slow-startup", "wedged-watchdog",
)  # fmt: skip


def add_inspect(commands: Commands) -> None:
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


def add_probes(commands: Commands) -> None:
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


def add_rehearse(commands: Commands) -> None:
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


def add_modules(commands: Commands) -> None:
    """Add ``idkmesh modules``."""
    parser = commands.add_parser(
        "modules",
        help="judge a declaration of modules and their readiness commands",
        description="Judge a declaration of modules: their instances, and the commands that say that they are ready.",
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    checking = actions.add_parser(
        "check",
        help="say what is in it, or all that is wrong with it",
        epilog="exit codes: 0 it is right, 2 wrong usage or a bad file",
    )
    checking.add_argument("--json", action="store_true", help="print a JSON document")
    checking.add_argument("file", metavar="FILE", help="a declaration of modules")
    checking.set_defaults(command=_modules_check)


def _modules_check(arguments: argparse.Namespace) -> int:
    from idkmesh.commands.modules import check_modules

    return check_modules(arguments.file, as_json=arguments.json)
