"""The table of faults: what is done, what one should see and why, and what is expected by when (DM-2.1, DM-2.2). Pure.

Laws of this module:

1. A bound is a sum of figures that stand in the files or in the contract of the part that keeps them, and of
   :data:`SLACK_SECONDS`. What no contract says is named here: the start of a program, a wave of clients.
2. An expectation is a question to two looks, the newest and the one before the fault, and to nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.adapter.sampling import CHILD_SECONDS, INTERVAL_SECONDS
from idkmesh.adapter.verdict import MAX_AGE_SECONDS
from idkmesh.demo import questions
from idkmesh.demo.questions import SPARED, WEDGED
from idkmesh.demo.settings import DELAY_FILE
from idkmesh.httpd.crossing import QUIET_SECONDS
from idkmesh.workloads.drivers.process_guard import GRACE_SECONDS
from idkmesh.workloads.model import Word
from idkmesh.workloads.tracker import HYSTERESIS_SECONDS, RESTART_AFTER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.demo.seen import Seen
    from idkmesh.demo.settings import Figures

SLACK_SECONDS: Final = 1.0
"""For the machine, and for the look that sees it (DM-2.2)."""

START_SECONDS: Final = 2.0
"""For the start of one of the shop's programs."""

WAVE_SECONDS: Final = 1.0
"""From one wave of the flood to the next, and until the ingress is full."""

PRESSURE_SECONDS: Final = QUIET_SECONDS
"""How long after its last time a limit that was met counts as pressure (RA-5.5)."""

RELEASES_SECONDS: Final = 1.0
"""Until a file of releases that was replaced is read, and a second for what tells of it (RT-6.2)."""

_LOOKED: Final = INTERVAL_SECONDS + CHILD_SECONDS
"""Until the adapter has looked again (RA-7.1, RA-7.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What is to be seen within ``bound`` seconds. ``holds`` is asked with the newest look and the one before."""

    what: str
    bound: float
    holds: Callable[[Seen, Seen], bool]

    @property
    def given_up(self) -> float:
        """After how many seconds it counts as not seen (DM-3.2)."""
        return self.bound + max(self.bound, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row of the table. It lasts ``seconds`` at least, and until each of ``then`` was seen or is given up."""

    key: str
    name: str
    does: str
    see: str
    why: str
    seconds: float
    then: tuple[Expectation, ...]
    stays: tuple[Expectation, ...]
    after: tuple[Expectation, ...]
    """What is to be seen once it is undone, counted from then."""

    @property
    def longest(self) -> float:
        """How long it takes, its recovery included, where all is seen in its bound."""
        lasts = max(self.seconds, *(each.bound for each in self.then))
        return lasts + max(each.bound for each in self.after)


def table(figures: Figures, *, routed: bool = True) -> tuple[Fault, ...]:
    """Return all faults, in the order of the schedule. What a router tells is expected where one is there."""
    return (
        _slow_cache(figures),
        _stopped_store(figures),
        _flood(figures),
        _filled_ingress(figures),
        _paused_node(figures),
        _wedged_replica(figures, routed=routed),
    )


def noticed(figures: Figures) -> float:
    """Return how long a dependency that fails is not known to (HL-8.5)."""
    return (figures.interval_ms + figures.timeout_ms) / 1000 + SLACK_SECONDS


def back(figures: Figures, successes: int = 1) -> float:
    """Return the same of one that answers again."""
    return (successes * figures.interval_ms + figures.timeout_ms) / 1000 + SLACK_SECONDS


def passed(figures: Figures) -> float:
    """Return how long what the supervisor has to do waits: a pass, and the checks of the one that may be running."""
    return float(figures.pass_seconds + figures.check_seconds)


def _slow_cache(figures: Figures) -> Fault:
    return Fault(
        key="1",
        name="slow the cache",
        does=f"echo {figures.delay_ms} > {DELAY_FILE}: each of its answers is {figures.delay_ms} ms late.",
        see="Dependencies: the cache fails with a timeout. Overview: the node stays ready, and names it.",
        why="The matrix says that the cache is not critical: slow is better than closed.",
        seconds=10.0,
        then=(
            Expectation(
                what="the cache is failing", bound=noticed(figures), holds=questions.verdict("cache", "failing")
            ),
        ),
        stays=(_ALIVE, _READY, _NOTHING_RESTARTED),
        after=(Expectation(what="the cache is ok", bound=back(figures), holds=questions.verdict("cache", "ok")),),
    )


def _stopped_store(figures: Figures) -> Fault:
    stop = passed(figures) + noticed(figures)
    start = passed(figures) + START_SECONDS + back(figures, figures.back_after)
    return Fault(
        key="2",
        name="stop the store",
        does="modules.yaml loses its store, and the tower gets SIGHUP: its driver ends the process.",
        see="Overview: not ready, because of the store; still alive. Dependencies: the adapter fails too, for it says "
        "so. Workloads: the store is gone, and neither web nor worker is restarted.",
        why="The store is critical, so nobody is to be sent here; but a restart of others would bring no store back.",
        seconds=15.0,
        then=(
            Expectation(what="the store is failing", bound=stop, holds=questions.verdict("store", "failing")),
            Expectation(what="the node is not ready", bound=stop, holds=questions.not_ready),
            Expectation(what="the adapter says not ready", bound=stop + _LOOKED, holds=questions.adapter_not_ready),
        ),
        stays=(_ALIVE, _NOTHING_RESTARTED),
        after=(
            Expectation(what="the store is ok", bound=start, holds=questions.verdict("store", "ok")),
            Expectation(what="the adapter says ready", bound=start + _LOOKED, holds=questions.adapter_ready),
        ),
    )


def _flood(figures: Figures) -> Fault:
    return Fault(
        key="3",
        name="flood the server",
        does=f"{2 * figures.places} clients send the tower a request each, and again; it has {figures.places} places.",
        see="Overview: what is refused as overloaded is counted, perhaps a question of this page too. Events: a limit "
        "is met, and free again. The adapter says live, not ready: probes are answered all the while.",
        why="Beyond its places the server says 503 at once, before it reads a body, and needs no thread for it.",
        seconds=10.0,
        then=(
            Expectation(
                what="requests are refused as overloaded",
                bound=2 * WAVE_SECONDS + SLACK_SECONDS,
                holds=questions.overloaded,
            ),
            _adapter_live_alone(2 * WAVE_SECONDS),
        ),
        stays=(_ALIVE,),
        after=(_adapter_back(INTERVAL_SECONDS + PRESSURE_SECONDS),),
    )


def _filled_ingress(figures: Figures) -> Fault:
    return Fault(
        key="4",
        name="fill the ingress",
        does=f"{figures.connections} connections to the tower, each with half a request: as many as it takes.",
        see="Overview: hardly a connection is free, and the page goes on. Dependencies: the adapter says not ready; in "
        "this terminal: live.",
        why="The connection whose progress is oldest gives way to a newcomer. No thread waits for half a request.",
        seconds=10.0,
        then=(
            Expectation(what="no connection is free", bound=WAVE_SECONDS + SLACK_SECONDS, holds=questions.full),
            _adapter_live_alone(WAVE_SECONDS),
        ),
        stays=(_ALIVE,),
        after=(_adapter_back(PRESSURE_SECONDS),),
    )


def _paused_node(figures: Figures) -> Fault:
    verdicts = back(figures, figures.back_after)
    return Fault(
        key="5",
        name="pause a node",
        does="SIGSTOP to the tower: its port still accepts, and nobody answers.",
        see="Every page turns grey and says how old it is. The adapter, in this terminal: not live. The shop goes on.",
        why="What is known of a node is true for 3 s; after that the adapter says no, and not what was so before.",
        seconds=6.0,
        then=(
            Expectation(
                what="the adapter says not live",
                bound=MAX_AGE_SECONDS + SLACK_SECONDS,
                holds=questions.adapter_not_live,
            ),
        ),
        stays=(),
        after=(
            _adapter_back(verdicts),
            Expectation(what="the tower answers", bound=verdicts, holds=questions.tower_answers),
        ),
    )


def _another_revision(times: int) -> Expectation:
    return Expectation(
        what="the topology has another revision",
        bound=RELEASES_SECONDS + SLACK_SECONDS,
        holds=questions.revised(times),
    )


def _wedged_replica(figures: Figures, *, routed: bool) -> Fault:
    fails = HYSTERESIS_SECONDS[Word.FAILS]
    restart = passed(figures) + fails + RESTART_AFTER_SECONDS + passed(figures)
    passes = passed(figures) + HYSTERESIS_SECONDS[Word.PASSES] + passed(figures)
    return Fault(
        key="6",
        name="wedge a replica",
        does=f"SIGSTOP to {WEDGED}" + (", which is taken out of releases.json." if routed else "."),
        see=f"Dependencies: {WEDGED} fails. Workloads: unhealthy after {fails:.0f} s, restarted "
        f"{fails + RESTART_AFTER_SECONDS:.0f} s after its first failure."
        + (f" Topology: another revision, by which {SPARED} gets every order." if routed else ""),
        why="A process that hangs is mended by a restart, as one that waits for a store is not. It is careful: only "
        "stateless replicas, one at a time, and an event before it is done.",
        seconds=10.0,
        then=(
            Expectation(
                what=f"{WEDGED} is failing", bound=noticed(figures), holds=questions.verdict(WEDGED, "failing")
            ),
            *((_another_revision(1),) if routed else ()),
            Expectation(
                what=f"{WEDGED} is unhealthy",
                bound=passed(figures) + fails + passed(figures) + SLACK_SECONDS,
                holds=questions.unhealthy,
            ),
            Expectation(
                what=f"{WEDGED} is restarted",
                bound=restart + GRACE_SECONDS + START_SECONDS + SLACK_SECONDS,
                holds=questions.restarted,
            ),
        ),
        stays=(_ALIVE, _READY, _SPARED),
        after=(
            Expectation(
                what=f"{WEDGED} is ok", bound=START_SECONDS + back(figures), holds=questions.verdict(WEDGED, "ok")
            ),
            Expectation(what=f"{WEDGED} is healthy", bound=passes + SLACK_SECONDS, holds=questions.healthy),
            *((_another_revision(2),) if routed else ()),
        ),
    )


def _adapter_live_alone(seconds: float) -> Expectation:
    return Expectation(
        what="the adapter says live, not ready",
        bound=seconds + _LOOKED + SLACK_SECONDS,
        holds=questions.adapter_live_alone,
    )


def _adapter_back(seconds: float) -> Expectation:
    return Expectation(
        what="the adapter says live and ready", bound=seconds + _LOOKED + SLACK_SECONDS, holds=questions.adapter_ready
    )


_ALIVE: Final = Expectation(what="the node stays alive", bound=0.0, holds=questions.alive)
_READY: Final = Expectation(what="the node stays ready", bound=0.0, holds=questions.ready)
_NOTHING_RESTARTED: Final = Expectation(what="nothing is restarted", bound=0.0, holds=questions.kept())
_SPARED: Final = Expectation(what=f"{SPARED} is not restarted", bound=0.0, holds=questions.kept(SPARED))
