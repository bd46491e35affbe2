"""What is done to a service and its dependencies, and when (HL-8.3). Pure: texts to values, values to a schedule.

Times are seconds since the rehearsal's origin: its start, or, in a scenario, the first time in rotation.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from idkmesh.health.model import Http, Tcp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from idkmesh.health.model import Dependency, ProbeMatrix

DEFAULT_SLOWNESS: Final = 2.0
"""By how many of its own timeouts a dependency is slowed where no delay is given: more than any probe waits for."""

MAX_SECONDS: Final = 86_400.0

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_TIME: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m)")
_FAULT: Final = re.compile(r"([a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?)(?:=([a-z0-9.]{1,24}))?@(.+)")


class How(enum.Enum):
    """What is done."""

    REFUSE = "refuse"
    """The dependency's port is closed, and what was open is reset."""
    CUT = "cut"
    """Each connection is reset as soon as it is made, and what was open too."""
    BLACKHOLE = "blackhole"
    """Nothing comes back, not even to a connect."""
    SLOW = "slow"
    """What comes back comes later."""
    WEDGE = "wedge"
    """The service's processes are stopped (SIGSTOP); a process that replaces them is not."""
    ROLL = "roll"
    """A second instance is started, and takes the place of the first once it is in rotation."""


FAILURES: Final = (How.REFUSE, How.CUT, How.BLACKHOLE)
"""The ways in which a dependency can fail; the first unless said otherwise."""

OF_DEPENDENCIES: Final = frozenset({*FAILURES, How.SLOW})


class FaultError(ValueError):
    """A fault that cannot be done. One line: what, and what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is done from ``begin`` to ``end``. ``name`` is a dependency's, ``delay`` that of ``SLOW``."""

    how: How
    begin: float
    end: float
    name: str = ""
    delay: float = 0.0

    def __str__(self) -> str:
        what = {How.WEDGE: "the service stopped (SIGSTOP)", How.ROLL: "rolling update"}.get(self.how)
        return what or f"{self.name} {self.how.value}" + (f" by {self.delay * 1000:.0f} ms" if self.delay else "")


@dataclass(frozen=True, slots=True)
class Move:
    """A fault begins, or ends."""

    at: float
    fault: Fault
    begins: bool


def parse_seconds(text: str) -> float:
    """Return a time as it is written on the command line, ``500ms``, ``1.5s``, ``2m``; raise :class:`FaultError`."""
    found = _TIME.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else -1.0
    if not 0 <= seconds <= MAX_SECONDS:
        raise FaultError(f"{text!r} is no time: write 500ms, 1.5s or 2m, at most a day")
    return seconds


def parse_window(text: str) -> tuple[float, float]:
    """Return begin and end of ``5s..20s``."""
    first, dots, last = text.partition("..")
    if not dots:
        raise FaultError(f"{text!r} is no span of time: write its begin and end, 5s..20s")
    begin, end = parse_seconds(first), parse_seconds(last)
    if begin >= end:
        raise FaultError(f"{text!r} ends before it has begun: write its begin and end, 5s..20s")
    return begin, end


def parse_wedge(text: str) -> tuple[float, float]:
    """Return begin and end of ``30s..45s``, or of ``30s``, which has no end."""
    return parse_window(text) if ".." in text else (parse_seconds(text), math.inf)


def parse_failure(text: str) -> Fault:
    """Return what ``--fail NAME[=refuse|cut|blackhole]@5s..20s`` says."""
    name, option, begin, end = _parts(text)
    words = {how.value: how for how in FAILURES}
    if option is not None and option not in words:
        raise FaultError(f"{text!r}: {option!r} is no way to fail: write one of {', '.join(words)}")
    return Fault(how=FAILURES[0] if option is None else words[option], name=name, begin=begin, end=end)


def parse_slowness(text: str) -> Fault:
    """Return what ``--slow NAME[=800ms]@5s..20s`` says; without a delay :func:`resolved` gives one."""
    name, option, begin, end = _parts(text)
    delay = 0.0 if option is None else parse_seconds(option)
    return Fault(how=How.SLOW, name=name, begin=begin, end=end, delay=delay)


def _parts(text: str) -> tuple[str, str | None, float, float]:
    found = _FAULT.fullmatch(text)
    if found is None:
        raise FaultError(f"{text!r} is no fault: write a dependency's name and when, orders-db@5s..20s")
    return found[1], found[2], *parse_window(found[3])


def can_be_failed(dependency: Dependency) -> bool:
    """Say whether a proxy can stand before a dependency: it has an address, and TLS names no other host."""
    match dependency.probe:
        case Tcp():
            return True
        case Http(url=url, unix_socket=None):
            return url[:5].lower() == "http:"
    return False


def resolved(faults: Iterable[Fault], matrix: ProbeMatrix) -> tuple[Fault, ...]:
    """Return the faults with all that they left open, or raise :class:`FaultError` for those that cannot be done."""
    known = {dependency.name: dependency for dependency in matrix.dependencies}
    done: list[Fault] = []
    for fault in faults:
        if fault.how in OF_DEPENDENCIES:
            if fault.name not in known:
                raise FaultError(
                    f"{fault.name}: the matrix has no such dependency: it has {', '.join(known) or 'none'}"
                )
            dependency = known[fault.name]
            if not can_be_failed(dependency):
                raise FaultError(f"{fault.name} cannot be failed: its probe has no plain TCP or HTTP address")
            if fault.how is How.SLOW and not fault.delay:
                fault = replace(fault, delay=DEFAULT_SLOWNESS * dependency.timeout_ms / 1000)  # noqa: PLW2901  filled in
        clash = next((other for other in done if _clash(fault, other)), None)
        if clash is not None:
            raise FaultError(
                f"{fault}: two of its faults overlap, at {max(fault.begin, clash.begin):g} s: separate them"
            )
        done.append(fault)
    return tuple(sorted(done, key=lambda fault: fault.begin))


def _clash(one: Fault, other: Fault) -> bool:
    same = one.name == other.name and (bool(one.name) or one.how is other.how)
    return same and one.begin < other.end and other.begin < one.end


def moves(faults: Sequence[Fault]) -> tuple[Move, ...]:
    """Return what is to be done, in the order of time; where one ends as another begins, the end comes first."""
    begins = [Move(fault.begin, fault, begins=True) for fault in faults]
    ends = [Move(fault.end, fault, begins=False) for fault in faults if fault.how is not How.ROLL]
    return tuple(sorted([*begins, *ends], key=lambda move: (move.at, move.begins)))
