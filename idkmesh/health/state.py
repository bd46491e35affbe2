"""What is known of one dependency: the machine of HL-4.7 as one table, and how a verdict ends (HL-4.5). Pure.

Laws of this module:

1. The first result decides at once. After that a verdict changes when its contrary has been seen as often in a row as
   the threshold says; a counter-result begins the count anew.
2. A verdict that was lost (its result expired, or the probe could not be run) is unknown. It comes back with the first
   result that says the same; a result that says the contrary needs its threshold as ever, and until then it is unknown.
   So a gap is no short cut past a threshold, and never turns a failure into ``ok``.
3. Expiring ends no row: a dependency whose results do not live until the next one would else never reach a threshold.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from idkmesh.health.model import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.health.model import Dependency, Result

STALE: Final = "stale"
"""The word on a verdict whose result has expired."""


class Standing(enum.Enum):
    """Where the machine is."""

    NEW = enum.auto()
    """Nothing has been decided yet."""
    OK = enum.auto()
    OK_LOST = enum.auto()
    FAILING = enum.auto()
    FAILING_LOST = enum.auto()


VERDICTS: Final[Mapping[Standing, Verdict]] = {
    Standing.NEW: Verdict.UNKNOWN,
    Standing.OK: Verdict.OK,
    Standing.OK_LOST: Verdict.UNKNOWN,
    Standing.FAILING: Verdict.FAILING,
    Standing.FAILING_LOST: Verdict.UNKNOWN,
}
"""What each standing says of the dependency."""


class Word(enum.Enum):
    """What the machine hears: the plural is a row that has reached its threshold."""

    SUCCESS = enum.auto()
    SUCCESSES = enum.auto()
    FAILURE = enum.auto()
    FAILURES = enum.auto()
    NOTHING = enum.auto()
    """The probe could not be run, or what it said has expired."""


def _row(success: Standing, successes: Standing, failure: Standing, failures: Standing, nothing: Standing) -> _Row:
    return {
        Word.SUCCESS: success,
        Word.SUCCESSES: successes,
        Word.FAILURE: failure,
        Word.FAILURES: failures,
        Word.NOTHING: nothing,
    }


_Row = dict[Word, Standing]
_NEW, _OK, _OK_LOST, _FAILING, _FAILING_LOST = Standing

# fmt: off
TRANSITIONS: Final[Mapping[Standing, Mapping[Word, Standing]]] = {
    #                             success        successes  failure    failures   nothing
    _NEW:          _row(          _OK,           _OK,       _FAILING,  _FAILING,  _NEW),
    _OK:           _row(          _OK,           _OK,       _OK,       _FAILING,  _OK_LOST),
    _OK_LOST:      _row(          _OK,           _OK,       _OK_LOST,  _FAILING,  _OK_LOST),
    _FAILING:      _row(          _FAILING,      _OK,       _FAILING,  _FAILING,  _FAILING_LOST),
    _FAILING_LOST: _row(          _FAILING_LOST, _OK,       _FAILING,  _FAILING,  _FAILING_LOST),
}
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyState:
    """What is known of one dependency, in monotonic seconds.

    ``since`` is when the verdict became what it is, or when the dependency was first heard of. ``successes`` and
    ``failures`` are the lengths of the row that goes on; one of them at least is 0. ``last`` is the newest result,
    which lives until ``expires``.
    """

    since: float
    standing: Standing = Standing.NEW
    successes: int = 0
    failures: int = 0
    last: Result | None = None
    expires: float = float("-inf")

    @property
    def verdict(self) -> Verdict:
        """The verdict that was last published: :func:`verdict_at` says what it is worth now."""
        return VERDICTS[self.standing]


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A verdict has changed, and the word on why (HL-4.12)."""

    before: Verdict
    after: Verdict
    detail: str


def ended(result: Result) -> float:
    """Return the instant at which a result was known, in monotonic seconds. Its life begins there."""
    return result.began + result.latency


def step(
    state: DependencyState, result: Result, dependency: Dependency
) -> tuple[DependencyState, VerdictChange | None]:
    """Take a result in. The change is None where the verdict stays, below a threshold too.

    A result that began before the stored one did is dropped: the same state is returned (HL-4.3).
    """
    if state.last is not None and result.began < state.last.began:
        return state, None
    successes = state.successes + 1 if result.outcome is Outcome.OK else 0
    failures = state.failures + 1 if result.outcome is Outcome.FAILED else 0
    heard = replace(
        state,
        successes=successes,
        failures=failures,
        last=result,
        expires=ended(result) + dependency.cache_ms / 1000,
    )
    word = _word(successes, failures, dependency)
    return _moved(heard, word, at=ended(result), detail=result.detail)


def expire(state: DependencyState, now: float) -> tuple[DependencyState, VerdictChange | None]:
    """Let a verdict go whose result has expired by ``now`` (HL-4.5). Publishes it once, as :func:`step` does."""
    if state.verdict is verdict_at(state, now):
        return state, None
    return _moved(state, Word.NOTHING, at=state.expires, detail=STALE)


def verdict_at(state: DependencyState, now: float) -> Verdict:
    """Return what is known at ``now``: nothing, once the result has lived its ``cache_ms`` (HL-1.4, HL-4.5)."""
    return VERDICTS[state.standing] if now < state.expires else Verdict.UNKNOWN


def refigured(state: DependencyState, dependency: Dependency, now: float) -> DependencyState:
    """Judge what is known by other figures (HL-3.5): the verdict, the rows and the result stay.

    A longer ``cache_ms`` counts from the result's end. A shorter one counts from ``now``, unless the former one ends
    before that: so there is time for the next run. What has expired stays so.
    """
    if state.last is None or now >= state.expires:
        return state
    cache = dependency.cache_ms / 1000
    return replace(state, expires=max(ended(state.last) + cache, min(state.expires, now + cache)))


def age_at(state: DependencyState, now: float) -> float | None:
    """Return how old the newest result is, in seconds, or None where there is none (HL-1.4)."""
    return None if state.last is None else max(0.0, now - ended(state.last))


def _word(successes: int, failures: int, dependency: Dependency) -> Word:
    if successes:
        return Word.SUCCESSES if successes >= dependency.success_threshold else Word.SUCCESS
    if failures:
        return Word.FAILURES if failures >= dependency.failure_threshold else Word.FAILURE
    return Word.NOTHING


def _moved(
    state: DependencyState, word: Word, *, at: float, detail: str
) -> tuple[DependencyState, VerdictChange | None]:
    """Go where the table says; the one place that writes a standing."""
    standing = TRANSITIONS[state.standing][word]
    before, after = state.verdict, VERDICTS[standing]
    if before is after:
        return replace(state, standing=standing), None
    # A result can have ended before the one before it had expired, and still be heard of later.
    since = max(state.since, at)
    return replace(state, standing=standing, since=since), VerdictChange(before, after, detail)
