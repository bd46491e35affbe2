"""The fault table as data, the bounds that the settings imply for each row, and how a row is played and measured."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from idkmesh.health.model import Figures, Orchestrator, Refresh, Tcp
from idkmesh.health.rounds import OVERSTAY_SECONDS
from idkmesh.health.schedule import LEAST_EARLY
from idkmesh.rehearsal.orchestrator import Do, Settings
from tests.health.support import COULD_NOT_RUN, FAILED, OK, START, dependency
from tests.health.world import BEAT_SECONDS, NEVER, Chances, Fault, World

if TYPE_CHECKING:
    from idkmesh.health.model import Dependency

FIGURES = Orchestrator(
    startup=Figures(period_ms=1000, timeout_ms=400, failure_threshold=10),
    liveness=Figures(period_ms=1700, timeout_ms=400, failure_threshold=2),
    readiness=Figures(period_ms=1300, timeout_ms=400, failure_threshold=2),
)
SETTINGS = Settings(figures=FIGURES, grace=2.0, backoff=1.0)
BUDGET = 3.0
"""Of the watchdog, in seconds."""

TINY = 1e-6
LATEST = 1 - LEAST_EARLY
"""Of an interval: how far apart the runs of a schedule begin at the most."""
SETTLED = 8.0
LASTS = 9.0
"""How long a process is well before a fault, and how long that lasts, in seconds: longer than any bound here."""
ROUNDS = 15

REFUSED = ((FAILED, 0.0),)
TIMES_OUT = ((FAILED, 1.0),)
SLOW = ((OK, 1.0),)
CANNOT_RUN = ((COULD_NOT_RUN, 0.0),)
STUCK = ((FAILED, NEVER),)


def flap(words: str) -> tuple[tuple[Any, float], ...]:
    return tuple((OK if word == "S" else FAILED, 0.0) for word in words)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: the dependencies, the fault, and what it must come to.

    ``leaves`` is whether readiness fails, ``warns`` whether a warning names the dependency, ``boot`` that the fault is
    there before the process is. ``restarts`` are the orchestrator's.
    """

    fault: Fault
    rows: tuple[Dependency, ...] = (dependency("db", success_threshold=2),)
    leaves: bool = True
    warns: bool = False
    boot: bool = False
    restarts: int = 0
    lasts: float = LASTS


DB = ("db",)
CACHE = dependency("cache", critical=False, failure_threshold=3, success_threshold=2)
BOTH = (dependency("db", success_threshold=2), CACHE)
THREE = tuple(dependency(f"d{number}", success_threshold=number) for number in range(1, 4))
ASKED = dependency("db", refresh=Refresh.REQUEST, cache_ms=3901, success_threshold=2)
"""A question comes just before a run may be asked for: cache - period is a multiple of the period and a little more."""
NEW = dependency("new", success_threshold=2)
WITH_NEW = (BOTH[0], NEW)
ELSEWHERE = dependency("db", probe=Tcp(host="elsewhere", port=2), success_threshold=2)
TABLE = {
    "refused": Row(fault=Fault(hits=DB, says=REFUSED)),
    "timing out": Row(fault=Fault(hits=DB, says=TIMES_OUT)),
    "slow, below its timeout": Row(fault=Fault(hits=DB, says=SLOW), leaves=False),
    "the shortest cache": Row(
        fault=Fault(hits=DB, says=SLOW), leaves=False, rows=(dependency("db", cache_ms=1501, timeout_ms=500),)
    ),
    "flapping, never two successes in a row": Row(fault=Fault(hits=DB, says=flap("FS"))),
    "flapping, noncritical, below its thresholds": Row(
        fault=Fault(hits=("cache",), says=flap("FFS")), rows=BOTH, leaves=False
    ),
    "noncritical, refused": Row(fault=Fault(hits=("cache",), says=REFUSED), rows=BOTH, leaves=False, warns=True),
    "noncritical, timing out": Row(fault=Fault(hits=("cache",), says=TIMES_OUT), rows=BOTH, leaves=False, warns=True),
    "down at boot": Row(fault=Fault(hits=DB, says=REFUSED), boot=True),
    "timing out at boot": Row(fault=Fault(hits=DB, says=TIMES_OUT), boot=True),
    "all down": Row(fault=Fault(hits=("d1", "d2", "d3"), says=REFUSED), rows=THREE),
    "all timing out": Row(fault=Fault(hits=("d1", "d2", "d3"), says=TIMES_OUT), rows=THREE),
    "the probe cannot be run": Row(fault=Fault(hits=DB, says=CANNOT_RUN)),
    "the probe is stuck": Row(fault=Fault(hits=DB, says=STUCK), rows=(dependency("db", cache_ms=5000),)),
    "the probe is stuck, a short cache": Row(fault=Fault(hits=DB, says=STUCK), rows=(dependency("db", cache_ms=1600),)),
    "asked for, slow, below its timeout": Row(fault=Fault(hits=DB, says=SLOW), rows=(ASKED,), leaves=False),
    "asked for, the shortest cache": Row(
        fault=Fault(hits=DB, says=SLOW), rows=(dependency("db", refresh=Refresh.REQUEST, cache_ms=2801),), leaves=False
    ),
    "asked for, refused": Row(fault=Fault(hits=DB, says=REFUSED), rows=(ASKED,)),
    "asked for, timing out": Row(fault=Fault(hits=DB, says=TIMES_OUT), rows=(ASKED,)),
    "asked for, noncritical, timing out": Row(
        fault=Fault(hits=("cache",), says=TIMES_OUT),
        rows=(replace(ASKED, name="cache", critical=False, failure_threshold=2),),
        leaves=False,
        warns=True,
    ),
    "other figures by a reload": Row(
        fault=Fault(becomes=(dependency("db", success_threshold=3, interval_ms=700, cache_ms=1500),)), leaves=False
    ),
    "a new one by a reload": Row(fault=Fault(becomes=WITH_NEW), leaves=False),
    "a slow new one by a reload": Row(fault=Fault(becomes=WITH_NEW, hits=("new",), says=SLOW), leaves=False),
    "a new one by a reload, refused": Row(fault=Fault(becomes=WITH_NEW, hits=("new",), says=REFUSED)),
    "a new one by a reload, timing out": Row(fault=Fault(becomes=WITH_NEW, hits=("new",), says=TIMES_OUT)),
    "a new one by a reload, cannot be run": Row(fault=Fault(becomes=WITH_NEW, hits=("new",), says=CANNOT_RUN)),
    "a new one by a reload, stuck": Row(fault=Fault(becomes=WITH_NEW, hits=("new",), says=STUCK)),
    "another probe by a reload": Row(fault=Fault(becomes=(ELSEWHERE,)), leaves=False),
    "another probe by a reload, timing out": Row(fault=Fault(becomes=(ELSEWHERE,), hits=DB, says=TIMES_OUT)),
    "the runner stands still, for less than the budget": Row(fault=Fault(halts="runner"), lasts=2.9),
    "the runner stands still": Row(fault=Fault(halts="runner"), restarts=1),
    "the front stands still": Row(fault=Fault(halts="front"), leaves=False, restarts=1),
    "the process stands still": Row(fault=Fault(halts="process"), restarts=1),
    "the front stands still, all is down": Row(fault=Fault(hits=DB, says=REFUSED, halts="front"), restarts=1),
}
OUTAGES = [name for name, row in TABLE.items() if not row.restarts]
SEEN = [name for name in OUTAGES if TABLE[name].leaves or TABLE[name].warns]
STALLS = [name for name, row in TABLE.items() if row.restarts]


@dataclass(frozen=True)
class Implied:
    """What the settings imply, in seconds. ``notice`` is until no answer says ready (or one lacks the warning).

    ``leave`` is until the instance is out of rotation. ``back`` and ``enter`` are the ends of both, from the fault's
    end; ``soonest`` is before which ``back`` is not. ``restart`` is until the restart is decided, ``spared`` before
    which it is not.
    """

    notice: float
    leave: float
    back: float
    enter: float
    soonest: float = 0.0
    restart: float = NEVER
    spared: float = NEVER


def implied(row: Row) -> Implied:
    """Return the bounds of a row; the longest of a critical dependency that is hit, the shortest to notice.

    Of a dependency: interval I, timeout T, cache C, thresholds F and S. Of the orchestrator: period P, timeout t,
    threshold N; those of liveness where a restart is meant. W is the watchdog's budget.

    A run has begun just before the fault, and its success counts; it may take T. Runs begin I apart at the most, which
    is 2 % less than the interval that is declared (HL-4.3).

    - Failures that take a share x of T: the F-th has begun by F I, and says so x T later: F I + x T.
    - A probe that cannot be run: one such run is enough, whatever F: I.
    - A probe that never comes back: it is given up at I + T + 1 s. The last success ended by T, and lives C. What is
      first holds: min(I + T + 1 s, T + C), with F = 1.
    - A probe that a reload brings begins at once, and is waited for: what it says first holds, whatever F: x T. If
      it never comes back, it is given up at T + 1 s.
    - A runner that stands still: the last success had been heard, and lives C.
    - Refresh by request: a run begins at the first question at which the result would not live until the next one is
      answered and I is over. A result that took all of T lives until T + C after its run began; so the next run begins
      by C, since C is at least I + P + T, and the F-th says so x T later: F C + x T.

    Then the orchestrator: it has asked just before, the N-th question after that is sent by N P and answered by t.

    Back: a run has begun just before the end and fails; the S-th after it begins by S I, and takes T. A verdict that
    was lost but not contradicted needs one success in place of S; a runner that stood still has one under way at once.
    By request the S-th run after the one that fails begins by S C, as above. In rotation after one question more: P +
    t. S - 1 intervals of 0.8 I at the least lie between S successes.

    A beat may come up to half a second, or W / 2, before its component stands still; it is overdue after W, and
    answers at once that it is: W + N P + t, and no sooner than W - beat + (N - 1) P. A process that stands still as a
    whole answers nothing: N P + t, no sooner than (N - 1) P.
    """
    fault, readiness, liveness = row.fault, FIGURES.readiness, FIGURES.liveness
    period, answer, count = readiness.period_ms / 1000, readiness.timeout_ms / 1000, readiness.failure_threshold
    hit = [each for each in fault.becomes or row.rows if each.name in fault.hits] or list(row.rows)
    notice, back, soonest = NEVER, 0.0, 0.0
    outcome, share = fault.says[0] if fault.says else (OK, 0.0)
    for each in hit:
        interval, timeout, cache = (ms / 1000 for ms in (each.interval_ms, each.timeout_ms, each.cache_ms))
        needed, apart = each.success_threshold, interval * LATEST
        if fault.halts in {"runner", "process"}:
            first, needed = cache, 0
        elif each.refresh is Refresh.REQUEST:
            first, apart = each.failure_threshold * cache + share * timeout, cache
        elif fault.becomes:
            first = timeout + OVERSTAY_SECONDS if share == NEVER else share * timeout
            needed = 1 if outcome is COULD_NOT_RUN else needed
        elif share == NEVER:
            first = min(apart + timeout + OVERSTAY_SECONDS, timeout + cache)
        elif outcome is COULD_NOT_RUN:
            first, needed = apart, 1
        else:
            first = each.failure_threshold * apart + share * timeout
        notice, back = min(notice, first), max(back, needed * apart + timeout)
        seldom = any(word is OK for word, _ in fault.says)  # a flap's last success may be the first of the row
        soonest = max(soonest, 0.0 if seldom else (needed - 1) * 0.8 * interval)
    restart = {"process": (0.0, 0.0), "": (NEVER, NEVER)}.get(fault.halts, (BUDGET, BUDGET - BEAT_SECONDS))
    turn = liveness.period_ms / 1000
    return Implied(
        notice=notice,
        leave=notice + count * period + answer,
        back=back,
        enter=back + period + answer,
        soonest=soonest,
        restart=restart[0] + liveness.failure_threshold * turn + liveness.timeout_ms / 1000,
        spared=restart[1] + (liveness.failure_threshold - 1) * turn,
    )


def by_chance(row: Row, seed: int) -> Chances:
    chance = random.Random(seed)
    begin = START + SETTLED + chance.random() * 2
    timeout = min(each.timeout_ms for each in row.rows) / 1000
    return Chances(
        begin=START - 1 if row.boot else begin,
        end=begin + row.lasts,
        boot=chance.random(),
        healthy=chance.choice([0.0, chance.random(), 1.0]) * min(1.0, timeout / 0.5),
        answer=chance.choice([0.0, chance.random() * 0.4]),
        random=chance.random,
    )


def played(row: Row, chances: Chances) -> World:
    world = World(row.rows, row.fault, SETTINGS, chances, BUDGET)
    return world.run(chances.end + 12.0)


@dataclass(frozen=True)
class Seen:
    """What was measured, beside :class:`Implied`. None is what did not come about."""

    notice: float | None
    leave: float | None
    back: float | None
    enter: float | None


def seen(row: Row, chances: Chances, world: World) -> Seen:
    """Measure when a fault showed for good, and when it first did no more after its end."""
    begin, end = chances.begin, chances.end
    shows = [(each.at, bool(each.warnings) if row.warns else not each.ready) for each in world.shown]
    during = [at - begin for at, showing in shows if showing and begin <= at < end]

    def first(instants: list[float], since: float) -> float | None:
        return next((at - since for at in instants if at >= since), None)

    return Seen(
        notice=during[-1] if during else None,
        leave=first([at for at in world.times(Do.LEAVE) if at < end + 1], begin),
        back=first([at for at, showing in shows if not showing], end),
        enter=first(world.times(Do.ENTER), end),
    )


def ready_too_late(row: Row, chances: Chances, world: World) -> list[float]:
    """Return when in a fault an answer said ready, or had no warning, although the bound was over."""
    late = chances.begin + implied(row).notice + TINY
    spans = zip(world.shown, [*(each.at for each in world.shown[1:]), NEVER], strict=True)
    return [
        max(each.at, late)
        for each, until in spans
        if (not each.warnings if row.warns else each.ready) and max(each.at, late) < min(until, chances.end)
    ]


def restarts(world: World) -> int:
    return len(world.times(Do.TERMINATE))


def longest(row: Row) -> Chances:
    """Return the order that takes longest: no jitter, a good run that has begun just before, and so a question.

    Runs begin each 0.98 s (the interval of all rows here is 1 s), questions each 1.3 s from the startup's answer on.
    All of it are multiples of 0.02 s, so that both meet.
    """
    bounds, place = implied(row), 0.02 * (len(row.rows) - 1)
    # A runner is to stand still just after a result.
    before = 0.5 if row.fault.halts else 0.0
    boot, run, asked = next(
        (boot, run, asked)
        for boot, run, question in itertools.product([step / 50 for step in range(50)], range(8, 14), range(4, 14))
        for asked in [(1.4 if boot + place + 0.5 <= 1 else 2.4) + 1.3 * question]
        if abs(boot + place + run * LATEST + before + bounds.notice - asked) < place + TINY
    )
    begin = START + boot + place + run * LATEST + before + TINY
    # A stuck probe is asked again by a rhythm that begins where it was given up; of a flap's runs every second fails.
    first = boot + place + run * LATEST + (1.5 % LATEST if row.fault.says == STUCK else 0.0)
    step = len(row.fault.says) or 1
    ends = (first + (9 + step * later) * LATEST for later in range(65))
    end = next(at for at in ends if abs((at + bounds.back - asked) % 1.3 - 0.65) > 0.65 - place - TINY)
    return Chances(
        begin=begin,
        end=begin + row.lasts if row.fault.halts else START + end + TINY,
        boot=boot,
        healthy=1.0,
        answer=0.4,
    )
