"""The ``idkmesh`` command: what it takes. What each command does stands elsewhere and is imported when it runs."""

from __future__ import annotations

import argparse
import functools
import re
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from idkmesh import __version__, console
from idkmesh.events.envelope import FILTERS
from idkmesh.events.retention import RETENTION_SETTINGS
from idkmesh.service_runtime import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from idkmesh.commands import HealthFlags
    from idkmesh.service_runtime import Setting

TOWER_PORT: Final = 8765
SERVE_PORT: Final = 8000
ADAPTER_LISTEN: Final = "127.0.0.1:18181"
LISTED_EVENTS: Final = 50
INSPECTION_FORMATS: Final = ("text", "json", "sarif")
MANIFEST_FORMATS: Final = ("kubernetes", "compose", "systemd")
SCENARIOS: Final = (
    "critical-timeout", "dependency-outage", "exhausted-startup", "flap", "noncritical-failure", "rolling-update",
    "slow-startup", "wedged-watchdog",
)  # fmt: skip
PROBE_KINDS: Final = {
    "ready": "may it get traffic? (default)",
    "live": "does it make progress?",
    "startup": "has it started?",
}
HEALTHCHECK_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 60.0
ROUTER_URL: Final = "http://127.0.0.1:8780"
TOPOLOGY_STATES: Final = ("initializing", "missing", "empty", "populated", "unavailable")
_SECONDS: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3})?")
_MAX_HEALTHCHECK_SECONDS: Final = 300
_PORT: Final = re.compile(r"[0-9]{1,5}")
_REVISION: Final = re.compile(r"[0-9]{1,15}")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,6}")
_MAX_PORT: Final = 65_535
_MAX_EVENTS: Final = 10_000

_EXIT_CODES: Final = (
    "exit codes: 0 ended as asked, 1 could not start, 2 wrong usage, 130 and 143 a second SIGINT or SIGTERM, "
    "141 nobody reads the output"
)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; ``--help`` says the rest."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  argparse's own
        super().__init__(allow_abbrev=False, **settings)
        self._first = ""
        self.program: str | None = None
        """The name of what takes another program's words: all that follow ``--``, and no other."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401  argparse's own
        """Parse, and keep what comes first: without a command argparse looks at no flag."""
        given = list(sys.argv[1:] if args is None else args)
        self._first = given[0] if given else ""
        if self.program is None:
            return super().parse_known_args(given, namespace)
        end = given.index("--") if "--" in given else len(given)
        found, rest = super().parse_known_args(given[:end], namespace)
        if words := getattr(found, self.program):
            self.error(f"unrecognized arguments: {words[0]}; another program's come after --")
        if given[end : end + 2] in (["--"], ["--", ""]):
            self.error("no program follows --")
        setattr(found, self.program, given[end + 1 :])
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Exit with 2 and one line."""
        if message.endswith("required: COMMAND") and self._first.startswith("-"):
            message = f"unrecognized arguments: {self._first}"
        console.complain(f"{self.prog}: {message} ({self.prog} --help shows the usage)")
        raise SystemExit(console.EXIT_USAGE)


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
    parser = _Parser(prog="idkmesh", description="Tell the truth about a node, and serve it safely.")
    parser.add_argument("--version", action="version", version=f"idkmesh {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_control_tower(commands)
    _add_serve(commands)
    _add_inspect_request(commands)
    _add_inspect(commands)
    _add_events(commands)
    _add_healthcheck(commands)
    _add_probes(commands)
    _add_rehearse(commands)
    _add_modules(commands)
    _add_supervise(commands)
    _add_node(commands)
    _add_readiness_adapter(commands)
    _add_router(commands)
    _add_topology(commands)
    return parser


def _add_control_tower(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "control-tower",
        help="serve this node's status to this machine",
        description="Serve this node's status, probes and page to this machine. Loopback only.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="a loopback address, or localhost, which is 127.0.0.1 (default: %(default)s)",
    )
    parser.add_argument("--port", type=_port, default=TOWER_PORT, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--port-file", metavar="FILE", help="write the port to FILE, and remove it at the end")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="read the session token from FILE (default: IDKMESH_CONTROL_TOWER_TOKEN, else random)",
    )
    text = "write address and token to FILE, for idkmesh node get, and remove it at the end"
    parser.add_argument("--client-file", metavar="FILE", help=text)
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    _add_health(parser, "without one it watches its own store and the disk under it")
    _add_modules_flag(parser, "supervise these modules besides, as idkmesh supervise does")
    routing = parser.add_argument_group("router")
    routing.add_argument("--router", metavar="FILE", help="route besides, as idkmesh router --config FILE does")
    add_event_flags(parser)
    _add_limits(parser)
    parser.set_defaults(command=_control_tower)


def _add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "serve",
        help="serve a folder, a WSGI callable or a handler class",
        description="Serve a folder, a WSGI callable or a BaseHTTPRequestHandler class, under the limits below. "
        "Symbolic links in a folder are followed, out of it too.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("target", metavar="PATH | MODULE:ATTR", help="what to serve; MODULE may be in this directory")
    parser.add_argument("--host", default="127.0.0.1", help="the address to bind (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=SERVE_PORT, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate chain (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key, if that is not in the same file")
    _add_health(parser, "it needs --probe-listen")
    _add_limits(parser)
    parser.set_defaults(command=_serve)


def _add_inspect_request(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "inspect-request",
        help="say how the request rules judge some bytes",
        description="Print, as JSON, how the request rules judge the bytes in FILE.",
        epilog="exit codes: 0 accepted, 1 refused or incomplete, 2 wrong usage or FILE cannot be read",
    )
    parser.add_argument("file", metavar="FILE", help="raw request bytes; - is standard input")
    parser.set_defaults(command=_inspect_request)


def _add_inspect(commands: argparse._SubParsersAction[_Parser]) -> None:
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


def _add_events(commands: argparse._SubParsersAction[_Parser]) -> None:
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
    many = f"how many, at most {_MAX_EVENTS} (default: %(default)s)"
    listing.add_argument("--limit", type=_count, default=LISTED_EVENTS, metavar="N", help=many)
    following = actions.add_parser("follow", help="print what is recorded from now on, until Ctrl-C", epilog=exit_codes)
    for action in (listing, following):
        action.add_argument("--json", action="store_true", help="print each event whole, as a JSON document in a line")
        after = "begin after this event: its id, as --json shows it, or its number in this store"
        action.add_argument("--after", metavar="ID", help=after)
        for name in FILTERS:
            action.add_argument(f"--{name}", metavar=name.upper(), help=f"only events with this {name}")
        _add_store(action)
        action.set_defaults(command=_events, limit=None)
    listing.set_defaults(limit=LISTED_EVENTS)


def _add_healthcheck(commands: argparse._SubParsersAction[_Parser]) -> None:
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
    parser.add_argument("--timeout", type=_seconds, default=HEALTHCHECK_SECONDS, metavar="SECONDS", help=text)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--port", type=_port, default=TOWER_PORT, help="the port on 127.0.0.1 (default: %(default)s)")
    where.add_argument("url", metavar="URL", nargs="?", help="an origin, or the URL of a probe path with its path")
    parser.set_defaults(command=_healthcheck)


def _add_probes(commands: argparse._SubParsersAction[_Parser]) -> None:
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
    port = "where the probe paths are answered, that of --probe-listen; needed but for systemd, which asks nothing"
    writing.add_argument("--port", type=_port, help=port)
    writing.add_argument("--host", default="127.0.0.1", help="of the probe paths, from within (default: %(default)s)")
    writing.set_defaults(command=_probes_manifest)
    for action in (running, writing):
        action.add_argument("matrix", metavar="MATRIX", help="a probe matrix")


def _add_rehearse(commands: argparse._SubParsersAction[_Parser]) -> None:
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


def _add_modules(commands: argparse._SubParsersAction[_Parser]) -> None:
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


def _add_supervise(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "supervise",
        help="check the instances of modules, and restart stateless replicas that stay unhealthy",
        description="Ask each instance of the modules each few seconds whether it is ready, and restart a replica of a "
        "stateless module that stays unhealthy. Of several supervisors only the holder of the lease acts. SIGHUP reads "
        "FILE again; SIGTERM ends it, with the processes that it has started.",
        epilog=f"{_EXIT_CODES}; with --once: 0 all pass, 1 something fails, 2 wrong usage or a bad file, 3 something "
        "says nothing",
    )
    _add_modules_flag(parser, "the declaration of modules")
    parser.add_argument("--once", action="store_true", help="make one pass without acting, and print what it saw")
    parser.add_argument("--json", action="store_true", help="with --once: print a JSON document")
    _add_probe_listen(parser.add_argument_group("health"))
    add_event_flags(parser)
    parser.set_defaults(command=_supervise)


def _add_router(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "router",
        help="pass invocations on to ready instances of exact releases",
        description="Watch the releases that are asked for, pass each invocation on to a ready instance of its own "
        "release, and fail closed where none is known. SIGTERM drains.",
        epilog=f"{_EXIT_CODES}; with --check: 0 it is right, 1 it needs a package or a file of releases that "
        "is not here, 2 wrong usage or a bad file",
    )
    parser.add_argument("--config", metavar="FILE", required=True, help="where it listens, for whom, on which provider")
    parser.add_argument("--check", action="store_true", help="judge FILE and the token files that it names, and end")
    _add_probe_listen(parser.add_argument_group("health"))
    add_event_flags(parser)
    _add_limits(parser)
    parser.set_defaults(command=_router)


def _add_topology(commands: argparse._SubParsersAction[_Parser]) -> None:
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
    waiting.add_argument("--after-revision", metavar="N", type=_revision, help=after)
    text = "how long (default: %(default)g)"
    waiting.add_argument("--timeout", type=_seconds, default=WAIT_SECONDS, metavar="SECONDS", help=text)
    waiting.set_defaults(command=_topology_wait)
    for action in (showing, waiting):
        where = "an origin, or the URL of a projection, of a tower with /api/v1/topology (default: %(default)s)"
        action.add_argument("--url", default=ROUTER_URL, help=where)
        text = "the file of a credential's token, or of a tower's session token, of mode 0600"
        action.add_argument("--token-file", metavar="FILE", required=True, help=text)


def _add_modules_flag(parser: argparse.ArgumentParser, what: str) -> None:
    group = parser.add_argument_group("workloads", "IDKMESH_PROBE_UID is the user that commands run as: 65534, nobody")
    text = f"{what}; SIGHUP reads FILE again (default: IDKMESH_MODULES)"
    group.add_argument("--modules", metavar="FILE", help=text)


def _add_node(commands: argparse._SubParsersAction[_Parser]) -> None:
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


def _add_readiness_adapter(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "readiness-adapter",
        help="answer /startup, /live and /ready for a node that only its command tells of",
        description="Look at a node each second, with its authenticated command, and answer /startup, /live and /ready "
        "to this machine from what was seen: 200 for yes, 503 for no.",
        epilog=f"{_EXIT_CODES}; with --check: 0 ready, 1 not ready or the look failed, 2 wrong usage or a bad file, "
        "3 could not tell: the command could not be started",
    )
    parser.add_argument("--node-id", metavar="ID", required=True, help="the node that is meant; idkmesh node get says")
    text = (
        "the node's address and token, which control-tower writes; ARGV finds its path in IDKMESH_CLIENT_FILE, and may "
    )
    parser.add_argument("--client-file", metavar="FILE", help=f"{text}do without one")
    listen = "a loopback IPv4 address and a port, 0 for a free one (default: %(default)s)"
    parser.add_argument("--listen", metavar="ADDR:PORT", default=ADAPTER_LISTEN, help=listen)
    parser.add_argument("--check", action="store_true", help="look once, print what was seen, and end")
    text = "another program that prints the node's observation (default: a control tower is asked)"
    parser.add_argument("argv", metavar="-- ARGV", nargs="*", help=text)
    parser.program = "argv"
    parser.set_defaults(command=_readiness_adapter)


def add_event_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a service that records events: where it keeps them, and how many."""
    group = parser.add_argument_group("events", "each is a variable too, IDKMESH_STORE for example; flags win")
    _add_store(group)
    _add_settings(group, RETENTION_SETTINGS)


def _add_health(parser: argparse.ArgumentParser, without: str) -> None:
    """Add the flags of a service that has probes."""
    group = parser.add_argument_group("health", "each is a variable too, IDKMESH_MATRIX for example; flags win")
    matrix = f"what it depends on, and how that is probed; SIGHUP reads FILE again; {without}"
    group.add_argument("--matrix", metavar="FILE", help=matrix)
    _add_probe_listen(group)


def _add_probe_listen(group: argparse._ActionsContainer) -> None:
    listen = "answer /livez, /readyz, /startupz and /healthz here too, and nothing else, to anybody"
    group.add_argument("--probe-listen", metavar="ADDR:PORT", help=listen)


def _add_store(group: argparse._ActionsContainer) -> None:
    text = (
        "the event store's file (default: IDKMESH_STORE, else events.sqlite3 in the user's state directory, "
        "~/.local/state/idkmesh on Linux)"
    )
    group.add_argument("--store", metavar="PATH", help=text)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every row of the settings table. Its value is judged where variables are judged too."""
    group = parser.add_argument_group(
        "limits", "each is a variable too, IDKMESH_REQUEST_TIMEOUT for example; flags win"
    )
    _add_settings(group, SETTINGS)


def _add_settings(group: argparse._ActionsContainer, settings: Sequence[Setting]) -> None:
    for setting in settings:
        text = f"{setting.meaning} Takes {setting.range_text} (default: {setting.default:.15g})."
        metavar = "SECONDS" if setting.unit == "seconds" else "BYTES" if setting.unit == "bytes" else "N"
        group.add_argument(setting.flag, metavar=metavar, help=text.replace("%", "%%"))


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text) or int(text) > _MAX_EVENTS:
        raise argparse.ArgumentTypeError(f"{text!r} is refused, it must be a whole number from 1 to {_MAX_EVENTS}")
    return int(text)


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is refused, a port is a whole number from 0 to {_MAX_PORT}")
    return int(text)


def _revision(text: str) -> int:
    if not _REVISION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is refused, a revision is a whole number from 0")
    return int(text)


def _seconds(text: str) -> float:
    if not _SECONDS.fullmatch(text) or not 0 < float(text) <= _MAX_HEALTHCHECK_SECONDS:
        allowed = f"a number of seconds above 0 and up to {_MAX_HEALTHCHECK_SECONDS}"
        raise argparse.ArgumentTypeError(f"{text!r} is refused, it must be {allowed}")
    return float(text)


def _limit_flags(arguments: argparse.Namespace) -> dict[str, str | None]:
    return {setting.name: getattr(arguments, setting.name) for setting in SETTINGS}


def _health_flags(arguments: argparse.Namespace) -> HealthFlags:
    from idkmesh.commands import HealthFlags

    return HealthFlags(arguments.matrix, arguments.probe_listen)


def _control_tower(arguments: argparse.Namespace) -> int:
    from idkmesh.commands import control_tower

    return control_tower(
        (arguments.host, arguments.port),
        _limit_flags(arguments),
        event_flags(arguments),
        _health_flags(arguments),
        modules=arguments.modules,
        router=arguments.router,
        port_file=arguments.port_file,
        token_file=arguments.token_file,
        client_file=arguments.client_file,
        open_page=arguments.open,
    )


def _serve(arguments: argparse.Namespace) -> int:
    from idkmesh.commands import serve

    return serve(
        arguments.target,
        (arguments.host, arguments.port),
        _limit_flags(arguments),
        _health_flags(arguments),
        tls_files=(arguments.tls_cert, arguments.tls_key),
    )


def _inspect_request(arguments: argparse.Namespace) -> int:
    from idkmesh.commands import inspect_request_file

    return inspect_request_file(arguments.file)


def _inspect(arguments: argparse.Namespace) -> int:
    if arguments.explain is not None:
        from idkmesh.inspect_command import explain

        return explain(arguments.explain)
    from idkmesh.commands import inspect_files

    return inspect_files(arguments.files, arguments.matrix, arguments.format)


def event_flags(arguments: argparse.Namespace) -> dict[str, str | None]:
    """Return what :func:`add_event_flags` has taken, by the names of the settings."""
    return {name: getattr(arguments, name) for name in ("store", *(setting.name for setting in RETENTION_SETTINGS))}


def _events(arguments: argparse.Namespace) -> int:
    from idkmesh.commands import list_events

    return list_events(
        arguments.store,
        {name: getattr(arguments, name) for name in FILTERS},
        after=arguments.after,
        limit=arguments.limit,
        as_json=arguments.json,
    )


def _healthcheck(arguments: argparse.Namespace) -> int:
    from idkmesh.healthcheck_command import healthcheck

    url = arguments.url if arguments.url is not None else f"http://127.0.0.1:{arguments.port}"
    return healthcheck(url, arguments.kind, arguments.timeout)


def _probes_run(arguments: argparse.Namespace) -> int:
    from idkmesh.probes_command import run_probes

    return run_probes(arguments.matrix, as_json=arguments.json)


def _probes_manifest(arguments: argparse.Namespace) -> int:
    from idkmesh.probes_command import print_manifest

    return print_manifest(arguments.matrix, arguments.format, arguments.port, arguments.host)


def _rehearse(arguments: argparse.Namespace) -> int:
    from idkmesh.commands import rehearse

    given = {name: value for name, value in vars(arguments).items() if name != "command"}
    return rehearse(given)


def _supervise(arguments: argparse.Namespace) -> int:
    from idkmesh.commands import look_once, supervise

    if arguments.once:
        return look_once(arguments.modules, as_json=arguments.json)
    if arguments.json:
        raise console.CommandError(
            "supervise --json needs --once; idkmesh events follow --json tells what happens", console.EXIT_USAGE
        )
    return supervise(arguments.modules, event_flags(arguments), arguments.probe_listen)


def _router(arguments: argparse.Namespace) -> int:
    from idkmesh.commands import route

    return route(
        arguments.config,
        _limit_flags(arguments),
        event_flags(arguments),
        arguments.probe_listen,
        check=arguments.check,
    )


def _topology_status(arguments: argparse.Namespace) -> int:
    from idkmesh.topology_command import status

    return status(arguments.url, arguments.token_file, as_json=arguments.json)


def _topology_wait(arguments: argparse.Namespace) -> int:
    from idkmesh.topology_command import wait, waiting_for

    waiting = waiting_for(arguments.release, arguments.state, arguments.after_revision)
    return wait(arguments.url, arguments.token_file, waiting, arguments.timeout)


def _modules_check(arguments: argparse.Namespace) -> int:
    from idkmesh.modules_command import check_modules

    return check_modules(arguments.file, as_json=arguments.json)


def _node_get(arguments: argparse.Namespace) -> int:
    from idkmesh.node_command import get

    return get(arguments.client_file, as_json=arguments.json)


def _readiness_adapter(arguments: argparse.Namespace) -> int:
    from idkmesh.readiness_adapter_command import Request, check, serve

    request = Request(
        node_id=arguments.node_id,
        client_file=arguments.client_file,
        listen=arguments.listen,
        argv=tuple(arguments.argv),
    )
    return check(request) if arguments.check else serve(request)
