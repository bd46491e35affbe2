"""What is known of one instance: the hysteresis of AR-4 as one table. Pure; seconds are those of the boot clock.

Laws of this module:

1. A run is a row of equal words, from its first evidence to its newest. Only a run as long as the hysteresis moves
   anything.
2. What says nothing neither extends a run nor ends it.
3. Evidence of another life of the instance, or too old, is none: the instance is unknown, and the next word begins a
   run.
4. An instance has been unhealthy since its failures had lasted for the hysteresis, not since somebody noticed: when a
   restart falls due does not hang on how far apart the passes are.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from idkmesh.workloads.checks import NOTHING_KNOWN
from idkmesh.workloads.model import Word

if TYPE_CHECKING:
    from collections.abc import Mapping

HYSTERESIS_SECONDS: Final = {Word.FAILS: 20.0, Word.PASSES: 20.0}
"""How long checks must have failed or passed before the instance is taken for that (AR-4.1)."""

RESTART_AFTER_SECONDS: Final = 60.0
"""How long a replica is unhealthy before a restart falls due (AR-5.1): 80 s after the first failure."""

NEVER: Final = float("-inf")


class Health(enum.Enum):
    """What an instance is (AR-1.3)."""

    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


class Heard(enum.Enum):
    """What the machine hears: the plural is a run that has lasted for the hysteresis."""

    PASS = enum.auto()
    PASSES = enum.auto()
    FAIL = enum.auto()
    FAILS = enum.auto()
    NOTHING = enum.auto()
    ANEW = enum.auto()
    """What was known is of another life of the instance, or too old."""


_U, _H, _D = Health
_WORDS: Final = tuple(Heard)

# fmt: off
TRANSITIONS: Final[Mapping[Health, Mapping[Heard, Health]]] = {
    #                          pass  passes  fail  fails  nothing  anew
    _U: dict(zip(_WORDS, (     _U,   _H,     _U,   _D,    _U,      _U), strict=True)),
    _H: dict(zip(_WORDS, (     _H,   _H,     _H,   _D,    _H,      _U), strict=True)),
    _D: dict(zip(_WORDS, (     _D,   _H,     _D,   _D,    _D,      _U), strict=True)),
}
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracker:
    """What is known of an instance.

    ``health`` has been so since ``since``. ``word`` is that of the run that goes on, None before the first; it began at
    ``first``, and ``newest`` is the instant of the newest evidence, with its ``detail``. ``opened``: its port has been
    open in this life (AR-3.5).
    """

    since: float
    identity: str = ""
    health: Health = Health.UNKNOWN
    word: Word | None = None
    first: float = NEVER
    newest: float = NEVER
    detail: str = NOTHING_KNOWN
    opened: bool = False

    @property
    def span(self) -> float:
        """How long the run has lasted, in seconds."""
        return 0.0 if self.word is None else self.newest - self.first


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one pass says of an instance. ``identity`` is empty where the instance was not seen running."""

    word: Word
    detail: str
    identity: str = ""
    opened: bool = False


@dataclass(frozen=True, slots=True)
class HealthChange:
    """An instance is otherwise than before, and the word on why (AR-3.6)."""

    before: Health
    after: Health
    detail: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is on its way to change the health: ``seconds`` of ``of``."""

    word: Word
    seconds: float
    of: float

    def __str__(self) -> str:
        return f"{self.seconds:.0f} of {self.of:.0f} s {'failing' if self.word is Word.FAILS else 'passing'}"


def step(tracker: Tracker, evidence: Evidence, now: float, fresh_from: float) -> tuple[Tracker, HealthChange | None]:
    """Take in what a pass at ``now`` says. The change is None where the health stays.

    Evidence from before ``fresh_from`` is too old (AR-4.3).
    """
    before = tracker.health
    if evidence.identity and evidence.identity != tracker.identity:
        if tracker.identity:
            tracker = _moved(replace(tracker, opened=False), Heard.ANEW, now)
        tracker = replace(tracker, identity=evidence.identity)
    if tracker.word is not None and not fresh_from <= tracker.newest <= now:
        tracker = _moved(tracker, Heard.ANEW, now)
    silent = evidence.word is Word.NOTHING
    after = _moved(tracker, Heard.NOTHING, now) if silent else _with_word(tracker, evidence, now)
    change = None if after.health is before else HealthChange(before, after.health, after.detail)
    return after, change


def anew(tracker: Tracker, now: float) -> Tracker:
    """Return the tracker of the same life of an instance that nothing is known of any more."""
    return _moved(tracker, Heard.ANEW, now)


def health_at(tracker: Tracker, fresh_from: float) -> Health:
    """Return what is known: nothing, where the newest evidence is older than ``fresh_from``."""
    return tracker.health if tracker.newest >= fresh_from else Health.UNKNOWN


def is_due(tracker: Tracker, now: float) -> bool:
    """Say whether a restart has fallen due at the pass of ``now`` (AR-5.1), if it is one that may be restarted.

    The check of this very pass must have failed: a failure that nothing has confirmed since restarts nobody.
    """
    failed_now = tracker.word is Word.FAILS and tracker.newest == now
    return failed_now and tracker.health is Health.UNHEALTHY and now - tracker.since >= RESTART_AFTER_SECONDS


def progress_of(tracker: Tracker, fresh_from: float) -> Progress | None:
    """Return how far the run is on its way, None where it leads nowhere new."""
    word = tracker.word
    if word is None or tracker.newest < fresh_from:
        return None
    if TRANSITIONS[tracker.health][_held(word)] is tracker.health:
        return None
    return Progress(word, tracker.span, HYSTERESIS_SECONDS[word])


def _with_word(tracker: Tracker, evidence: Evidence, now: float) -> Tracker:
    first = tracker.first if evidence.word is tracker.word else now
    after = replace(
        tracker,
        word=evidence.word,
        first=first,
        newest=now,
        detail=evidence.detail,
        opened=tracker.opened or evidence.opened,
    )
    hold = HYSTERESIS_SECONDS[evidence.word]
    if after.span < hold:
        return _moved(after, Heard.FAIL if evidence.word is Word.FAILS else Heard.PASS, now)
    return _moved(after, _held(evidence.word), first + hold)


def _held(word: Word) -> Heard:
    return Heard.FAILS if word is Word.FAILS else Heard.PASSES


def _moved(tracker: Tracker, heard: Heard, at: float) -> Tracker:
    """Go where the table says; the one place that writes a health."""
    health = TRANSITIONS[tracker.health][heard]
    if heard is Heard.ANEW:
        tracker = replace(tracker, word=None, first=NEVER, newest=NEVER, detail=NOTHING_KNOWN)
    return tracker if health is tracker.health else replace(tracker, health=health, since=at)
