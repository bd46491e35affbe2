"""``idkmesh probes``: try a matrix's probes once, and write what an orchestrator is to be told (HL-6.3)."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh import console
from idkmesh.clock import SystemClock
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.health.crew import Crew
from idkmesh.health.document import kind_of
from idkmesh.health.manifest import manifest
from idkmesh.health.matrix_file import read_matrix
from idkmesh.health.model import Outcome, Result
from idkmesh.health.probes import probe_for
from idkmesh.health.rounds import CONCURRENCY, TIMEOUT, Run
from idkmesh.validation.findings import MatrixError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from idkmesh.health.model import Dependency, ProbeMatrix
    from idkmesh.health.probes import DeadlineProbe

EXIT_COULD_NOT_RUN: Final = 3

QUIET_SECONDS: Final = 1.0
"""How long the probes may take until a person is told what is waited for; then again after twice as long."""

_SHOWN_NAMES: Final = 5
_COLUMNS: Final = ("NAME", "KIND", "CRITICAL", "OUTCOME", "LATENCY", "DETAIL")


class Tried(NamedTuple):
    """A dependency and what came of its one run."""

    dependency: Dependency
    result: Result


def run_probes(file: str, *, as_json: bool) -> int:
    """Run each probe of a matrix once, print what came of it in the matrix's order, and return the exit code."""
    matrix = _read(file)
    if matrix is None:
        return EXIT_USAGE
    with _interruptible():
        tried = try_all(matrix.dependencies, _progress if _has_reader() else _no_progress)
    code = exit_code(tried)
    if as_json:
        console.say(json.dumps(run_document(tried, code), indent=2))
    else:
        for line in table(tried):
            console.say(line)
    return code


def print_manifest(file: str, output: str, port: int | None, host: str) -> int:
    """Print the stanza of a format, and return the exit code. ``port`` is that of the probe paths, if given."""
    matrix = _read(file)
    if matrix is None:
        return EXIT_USAGE
    try:
        text = manifest(matrix, output, port=port, host=host)
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    console.say(text.rstrip("\n"))
    return 0


def try_all(
    dependencies: Sequence[Dependency], progress: Callable[[int, Sequence[str]], None], concurrency: int = CONCURRENCY
) -> list[Tried]:
    """Run each probe once, at most ``concurrency`` at a time, and return the results in the same order.

    A probe that overstays its deadline is not waited for (HL-4.11). ``progress`` gets how many have come back and the
    names of those that are out: after one second, and then each time after twice as long.
    """
    attempt = _Attempt(concurrency)
    waiting = list(enumerate(dependencies))[::-1]
    pause = QUIET_SECONDS
    told_at = attempt.clock.monotonic() + pause
    try:
        while waiting or attempt.out:
            while waiting and len(attempt.out) < concurrency:
                attempt.begin(*waiting.pop())
            attempt.wait(told_at)
            if attempt.out and (now := attempt.clock.monotonic()) >= told_at:
                progress(len(attempt.results), [run.name for run in attempt.out])
                pause *= 2
                told_at = now + pause
    finally:
        attempt.end()
    return [Tried(dependency, attempt.results[place]) for place, dependency in enumerate(dependencies)]


class _Attempt:
    """The runs that are out, each with its place in the matrix, and the results by place. One thread owns it."""

    def __init__(self, concurrency: int) -> None:
        self.clock = SystemClock()
        self.out: dict[Run, int] = {}
        self.results: dict[int, Result] = {}
        self._back: queue.SimpleQueue[tuple[Run, Result]] = queue.SimpleQueue()
        self._crew = Crew(concurrency, self.clock, lambda run, result, _raised: self._back.put((run, result)))
        self._probes: list[DeadlineProbe] = []

    def begin(self, place: int, dependency: Dependency) -> None:
        now = self.clock.monotonic()
        probe = probe_for(dependency.probe)
        run = Run(dependency, probe, now, now)
        try:
            self._crew.give(run)
        except RuntimeError:
            self.results[place] = Result(now, 0.0, Outcome.COULD_NOT_RUN, "no thread could be started")
            return
        self.out[run] = place
        self._probes.append(probe)

    def wait(self, until: float) -> None:
        """Take in a result, or those that have overstayed; come back at ``until`` (monotonic seconds) at the latest."""
        if not self.out:
            return
        until = min(until, *(run.given_up_at for run in self.out))
        try:
            run, result = self._back.get(timeout=max(0.0, until - self.clock.monotonic()))
        except queue.Empty:
            now = self.clock.monotonic()
            for late in [run for run in self.out if now >= run.given_up_at]:
                self._crew.give_up()
                self.results[self.out.pop(late)] = Result(late.began, now - late.began, Outcome.FAILED, TIMEOUT)
            return
        if run in self.out:
            self._crew.free()
            self.results[self.out.pop(run)] = result
        else:  # it was given up, and has come back after all
            self._crew.regain()

    def end(self) -> None:
        """Send the workers home, the lost ones when they come back, and end what a run has started."""
        self._crew.dismiss()
        for probe in self._probes:
            probe.close()


def exit_code(tried: Sequence[Tried]) -> int:
    """Return 0 if every critical one is ok, 1 if one has failed, else 3: one could not be run. Pure."""
    outcomes = {each.result.outcome for each in tried if each.dependency.critical}
    if Outcome.FAILED in outcomes:
        return EXIT_FAILED
    return EXIT_COULD_NOT_RUN if Outcome.COULD_NOT_RUN in outcomes else 0


def table(tried: Sequence[Tried]) -> list[str]:
    """Return lines with columns as wide as what stands in them, the head first."""
    return console.aligned([_COLUMNS, *map(_row, tried)])


def run_document(tried: Sequence[Tried], code: int) -> dict[str, Any]:
    """Return the document of ``--json`` (``probe-run.json``)."""
    return {
        "kind": "idkmesh-probe-run",
        "schema_version": "0.1",
        "exit_code": code,
        "results": [
            {
                "name": dependency.name,
                "probe": kind_of(dependency.probe),
                "critical": dependency.critical,
                "outcome": result.outcome.value,
                "latency_ms": _milliseconds(result),
                "timeout_ms": dependency.timeout_ms,
                "detail": result.detail,
            }
            for dependency, result in tried
        ],
    }


def _row(each: Tried) -> tuple[str, ...]:
    dependency, result = each
    critical = "yes" if dependency.critical else "no"
    latency = f"{_milliseconds(result):.1f} ms"
    return (dependency.name, kind_of(dependency.probe), critical, result.outcome.value, latency, result.detail)


def _milliseconds(result: Result) -> float:
    return round(result.latency * 1000, 1)


def _read(file: str) -> ProbeMatrix | None:
    """Return a matrix, or complain of all that is wrong with it, a line each."""
    try:
        return read_matrix(file)
    except MatrixError as error:
        for line in error.lines():
            console.complain(line)
        return None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Have SIGINT and SIGTERM raise for a while: a command that a probe has started must not outlive its deadline."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A shell starts what runs in the background with SIGINT ignored, and that stays so.
    kept = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}
    try:
        for number in kept:
            signal.signal(number, _raise)
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _raise(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _has_reader() -> bool:
    """Say whether a person looks: a program that reads standard error wants what went wrong, and nothing else."""
    return sys.stderr is not None and sys.stderr.isatty()


def _progress(back: int, names: Sequence[str]) -> None:
    more = len(names) - _SHOWN_NAMES
    shown = ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
    console.complain(f"idkmesh: {back} have come back, waiting for {shown}")


def _no_progress(_back: int, _names: Sequence[str]) -> None:
    """Tell nobody."""
