"""What a cell of the table of faults is, and how one is judged from what was sampled (FT-2). Pure.

Times are seconds. A sample has the instant at which its answer came, and the word that it comes to.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Observer(enum.StrEnum):
    """Who looks. The first three ask the node, the next three its readiness adapter."""

    LIVE = "live"
    READY = "ready"
    STARTUP = "startup"
    ADAPTER_LIVE = "adapter live"
    ADAPTER_READY = "adapter ready"
    ADAPTER_STARTED = "adapter started"
    RESTART = "restart"
    TOPOLOGY = "topology"
    PAGE = "page"


NO_ANSWER: Final = "no answer"
WELL: Final[Mapping[Observer, str]] = {
    Observer.LIVE: "ok",
    Observer.READY: "ready",
    Observer.STARTUP: "started",
    Observer.ADAPTER_LIVE: "live",
    Observer.ADAPTER_READY: "ready",
    Observer.ADAPTER_STARTED: "started",
    Observer.RESTART: "none",
    Observer.TOPOLOGY: "populated",
    Observer.PAGE: "Ready",
}
"""What each says while nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one observer is to say in a fault: one of ``words``, from ``notice`` after its begin on.

    ``recover`` is after its end by when all is well again. Both are 0 where nothing may show, not for a moment.
    """

    words: tuple[str, ...]
    notice: float = 0.0
    recover: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer."""

    at: float
    observer: Observer
    word: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What one cell came to. A time that is None did not come about; ``wrong`` is empty where the cell is right."""

    words: tuple[str, ...]
    noticed: float | None
    recovered: float | None
    wrong: str


def judged(cell: Cell, well: str, samples: Sequence[Sample], begin: float, end: float) -> Seen:
    """Judge one observer's samples of one fault: every one of them, after each bound."""
    during = [each for each in samples if begin <= each.at <= end]
    after = [each for each in samples if each.at > end]
    noticed = _settled(during, cell.words, begin)
    if noticed == 0.0 and well not in cell.words:  # who waits for an answer says nothing before it has waited
        noticed = during[0].at - begin
    recovered = _settled(after, (well,), end)
    since = begin + (cell.notice if noticed is None else noticed)
    words = tuple(dict.fromkeys(each.word for each in during if each.at >= since))
    wrong = _reason(cell.words, noticed, cell.notice, words) or _reason(
        (well,), recovered, cell.recover, tuple(each.word for each in after[-1:]), "afterwards "
    )
    return Seen(words=words, noticed=noticed, recovered=recovered, wrong=wrong)


def _settled(samples: Sequence[Sample], words: tuple[str, ...], since: float) -> float | None:
    """Return after how long every answer is one of these words, None where the last one is another, or none came."""
    if not samples or samples[-1].word not in words:
        return None
    first = samples[-1]
    for each in reversed(samples):
        if each.word not in words:
            return first.at - since
        first = each
    return 0.0


def _reason(words: tuple[str, ...], took: float | None, bound: float, seen: tuple[str, ...], when: str = "") -> str:
    if took is None:
        return f"{when}{' or '.join(words)} expected, seen {' and '.join(seen) or 'nothing'}"
    if took > bound:
        return f"{when}{' or '.join(words)} after {took:.1f} s, bound {bound:.1f} s"
    return ""
