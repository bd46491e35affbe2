"""``idkmesh rehearse``: read the matrix and the flags, rehearse, print what happens and what it shows (HL-8)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from idkmesh import console
from idkmesh.console import EXIT_USAGE, CommandError
from idkmesh.health.matrix_file import read_matrix
from idkmesh.health.model import MATRIX_VARIABLE
from idkmesh.rehearsal import faults as parsing
from idkmesh.rehearsal.faults import Fault, FaultError, How, parse_seconds, resolved
from idkmesh.rehearsal.orchestrator import Kind, Settings
from idkmesh.rehearsal.plan import PORT_FIELD, Plan
from idkmesh.rehearsal.prober import ask
from idkmesh.rehearsal.proxy import Proxies
from idkmesh.rehearsal.report import json_report, text_report
from idkmesh.rehearsal.reroute import rerouted_matrix, upstreams, variables
from idkmesh.rehearsal.run import CannotStartError, Rehearsal, RehearsalInterruptedError
from idkmesh.rehearsal.scenario import faults_of, packaged, watched_seconds
from idkmesh.rehearsal.verdict import judge
from idkmesh.validation.findings import MatrixError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

    from idkmesh.health.model import ProbeMatrix
    from idkmesh.rehearsal.measure import Record
    from idkmesh.rehearsal.timeline import Entry

EXIT_UNKNOWN: Final = 3

SECONDS: Final = 60.0
GRACE_SECONDS: Final = 5.0
BACKOFF_SECONDS: Final = 1.0
"""A tenth of a kubelet's, so that a rehearsal shows several restarts within its time. The report says so."""


ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""A terminal that is closed sends HUP. Each of these would end this process at once, and leave the command behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for, as it was written."""

    matrix: str
    target: str
    argv: Sequence[str]
    scenario: str | None = None
    fail: Sequence[str] = ()
    slow: Sequence[str] = ()
    wedge: Sequence[str] = ()
    roll: Sequence[str] = ()
    seconds: str | None = None
    grace: str | None = None
    backoff: str | None = None
    output: str | None = None
    ascii: bool = False
    json: bool = False


def rehearse(request: Request) -> int:
    """Rehearse, and return the exit code: 0 the contract held, 1 it did not, 3 could not tell.

    Raises :class:`CommandError` for wrong usage and bad files (2), and where the command does not start (3).
    """
    try:
        matrix = read_matrix(request.matrix)
        plan = plan_of(request, matrix)
        behind = upstreams(matrix)
    except MatrixError as error:
        for line in error.lines()[:-1]:
            console.complain(line)
        raise CommandError(error.lines()[-1], EXIT_USAGE) from None
    except FaultError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    with contextlib.ExitStack() as stack:
        _refuse_a_target_that_answers(plan)
        output = _Output(stack.enter_context(_opened(request.output)))
        try:
            proxies = stack.enter_context(Proxies(behind))
        except OSError as error:
            raise CommandError(f"no proxy can stand before {error.strerror}", EXIT_USAGE) from None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idkmesh-rehearse-")))
        environ = _environ(request, proxies.ports, folder)
        tell = _to_stderr if request.json else _to_stdout
        rehearsal = Rehearsal(plan, proxies, environ, tell=tell, line=output.line)
        signals = stack.enter_context(_interrupting(rehearsal))
        try:
            record = rehearsal.run()
        except RehearsalInterruptedError:
            raise SystemExit(128 + signals[0]) from None
        except CannotStartError as error:
            raise CommandError(str(error), EXIT_UNKNOWN) from None
    return _report(request, plan, record)


def plan_of(request: Request, matrix: ProbeMatrix) -> Plan:
    """Return what is to be rehearsed. Raises :class:`FaultError` for what cannot be."""
    _check_target(request.target)
    scenario = None if request.scenario is None else packaged(request.scenario)
    own = _own_faults(request)
    if scenario is not None and (own or request.seconds is not None):
        raise FaultError(f"--scenario {scenario.name} has faults and a time of its own: leave the other flags out")
    grace, backoff, settle = (GRACE_SECONDS, BACKOFF_SECONDS, None) if scenario is None else scenario.profile
    settings = Settings(
        figures=matrix.orchestrator,
        grace=grace if request.grace is None else parse_seconds(request.grace),
        backoff=backoff if request.backoff is None else parse_seconds(request.backoff),
    )
    faults = resolved(own, matrix) if scenario is None else faults_of(scenario, matrix, settings)
    if any(fault.how is How.ROLL for fault in faults) and PORT_FIELD not in request.target:
        raise FaultError(
            f"a rolling update needs two ports: write {PORT_FIELD} for the port in --target and the command"
        )
    seconds = SECONDS if request.seconds is None else parse_seconds(request.seconds)
    if scenario is not None and settle is not None:
        seconds = watched_seconds(faults, matrix, settings, settle)
    return Plan(
        matrix=matrix,
        settings=settings,
        target=request.target,
        argv=tuple(request.argv),
        faults=faults,
        seconds=seconds,
        from_rotation=scenario is not None and scenario.from_rotation,
        settle=settle,
        scenario=request.scenario,
        expectation=None if scenario is None else scenario.expectation,
    )


def _own_faults(request: Request) -> list[Fault]:
    windows = [parsing.parse_wedge(text) for text in request.wedge]
    instants = [parse_seconds(text) for text in request.roll]
    return [
        *map(parsing.parse_failure, request.fail),
        *map(parsing.parse_slowness, request.slow),
        *(Fault(how=How.WEDGE, begin=begin, end=end) for begin, end in windows),
        *(Fault(how=How.ROLL, begin=at, end=at) for at in instants),
    ]


def _check_target(text: str) -> None:
    try:
        url = urlsplit(text.replace(PORT_FIELD, "1"))
        good = url.scheme == "http" and bool(url.hostname) and url.port != 0 and not (url.query or url.fragment)
    except ValueError:
        good = False
    if not good or "@" in text or not text.isascii() or not text.isprintable() or " " in text:
        raise FaultError("--target is no plain URL: write http://HOST:PORT, or http://HOST:{port}")


def _refuse_a_target_that_answers(plan: Plan) -> None:
    """Raise :class:`CommandError` where somebody answers before the command runs: all would be told of a stranger."""
    if PORT_FIELD in plan.target:
        return
    for kind in (Kind.STARTUP, Kind.LIVENESS):
        url = plan.target.rstrip("/") + kind.path
        said = ask(url, plan.settings.of(kind).timeout_ms / 1000)
        if said.ok:
            what = f"somebody answers {url} already ({said.detail})"
            raise CommandError(f"{what}: end that program, or give target and command another port", EXIT_USAGE)


def _environ(request: Request, ports: Mapping[str, int], folder: Path) -> dict[str, str]:
    """Return what the command gets: this environment, where its dependencies are, and a matrix that says so too."""
    copy = folder / "probe-matrix.yaml"
    text = Path(request.matrix).read_text(encoding="utf-8-sig")
    copy.write_text(rerouted_matrix(text, ports), encoding="utf-8")
    return {**os.environ, **variables(ports), MATRIX_VARIABLE: str(copy)}


@contextlib.contextmanager
def _interrupting(rehearsal: Rehearsal) -> Iterator[list[int]]:
    """Have the signals that end a command end the rehearsal, and give the list that their numbers come into.

    One that is ignored stays so: a rehearsal under ``nohup`` outlives its terminal.
    """
    came: list[int] = []

    def note(number: int, _frame: object) -> None:
        came.append(number)
        rehearsal.interrupt()

    heeded = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heeded}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _opened(name: str | None) -> Iterator[BinaryIO | None]:
    if name is None:
        yield None
        return
    try:
        file = Path(name).open("ab")  # noqa: SIM115  the clause is about opening alone
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CommandError(f"--output: cannot write {name}: {console.reason(error)}", EXIT_USAGE) from None
    with file:
        yield file


class _Output:
    """Where the command's output goes. Lines come from one thread an instance; each is written whole."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self._full = False

    def line(self, name: str, line: bytes) -> None:
        """Pass a line on."""
        if self._file is None:
            console.complain(f"{name} | {line.decode('utf-8', 'replace').rstrip()}")
            return
        try:
            self._file.write(name.encode() + b" | " + line.rstrip(b"\r\n") + b"\n")
            self._file.flush()
        except (OSError, ValueError) as error:  # ValueError: closed, since a reader that has left the group is late
            if not self._full:
                self._full = True
                console.complain(f"idkmesh: the output of the command is lost from here on: {console.reason(error)}")


def _to_stdout(entry: Entry) -> None:
    console.say(console.fitted(str(entry)))


def _to_stderr(entry: Entry) -> None:
    console.complain(str(entry))


def _report(request: Request, plan: Plan, record: Record) -> int:
    judgement = judge(plan, record)
    if request.json:
        console.say(json.dumps(json_report(plan, record, judgement), indent=2))
    else:
        for line in text_report(plan, record, judgement, ascii_only=request.ascii or not _draws_blocks()):
            console.say(console.fitted(line))
    return judgement.verdict.exit_code


def _draws_blocks() -> bool:
    """Say whether standard output can show what strips are drawn with."""
    try:
        "█▒▓·".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
