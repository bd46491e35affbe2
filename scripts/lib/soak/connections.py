"""Mixed connections against a full control tower: no wrong status, and all that was taken is given back."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from itertools import count as numbers
from typing import TYPE_CHECKING, Final

from idkmesh.events.store import READERS
from scripts.bench.benchlib.messages import fetch
from scripts.lib.soak.kinds import INVOCATION, all_kinds, deck
from scripts.lib.soak.load import Course
from scripts.lib.soak.state import Step
from scripts.lib.soak.tower import PLACES, started

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from scripts.lib.soak.kinds import Kind
    from scripts.lib.soak.state import State
    from scripts.lib.soak.tower import Tower, Use

STEP: Final = 5_000
WARM_UP: Final = 20_000
"""Connections before the baseline, of the same kinds: most workers are there then, and what the C library keeps for
each is mostly full (docs/explanation/limits.md). They do not count."""
FILLING: Final = 5_000
"""Invocations before those, each an event: so many that the latest events that streams are written from (4 MiB), and
the pages that the store's writer keeps (2 MiB), are all there. Both are bounded, and would seem lost if they came
later."""
LOOK_SECONDS: Final = 4.0
REST_SECONDS: Final = 45.0
WORKERS: Final = 2 * PLACES
"""Workers are started when first needed, and stay: at most one for each place, of the tower and of its router."""
MORE_DESCRIPTORS: Final = 2 * READERS + 1
"""File and log of each connection that reads a tower's store, once so many have read at once (EV-2.14); and the file
once more, which SQLite keeps of a connection that only looked."""
ALLOWED_BYTES: Final = 16 << 20
"""What memory may be above the baseline: of the workers that were not there yet, and what the allocator keeps in pieces
for them; whatever the number of connections."""


def steps(state: State, folder: Path) -> Generator[Step, None, None]:
    """Play what is left, a step at a time, against one tower; then compare it at rest with its baseline."""
    with started(folder / "tower") as tower, closing(Course()) as course:
        kinds = all_kinds(tower.port, tower.router, tower.token, _epoch(tower))
        idle = tower.use()
        warm = _warm_up(course, kinds, state.goal)
        base = _at_rest(tower, 0)
        wrong = [f"in the warm-up: {line}" for line in _taken(course)]
        yield Step(wrong=wrong, sums={"warm-up": warm})
        first = state.done
        while first < state.goal:
            many = min(STEP, state.goal - first)
            course.run(first, slice_of(kinds, first, many))
            first += many
            used = tower.use()
            highs = {"threads, highest": used.threads, "resident bytes, highest": used.resident}
            step = Step(count=many, sums=dict(course.counts), wrong=_taken(course), highs=highs)
            if first == state.goal:  # it counts once the tower was compared: else an interrupted part would end without
                rest = compared(idle, base, _at_rest(tower, base.descriptors + MORE_DESCRIPTORS), tower.log())
                step = together(step, rest)
            yield step


def _warm_up(course: Course, kinds: Sequence[Kind], most: int) -> int:
    """Play what comes before the baseline, at most as many of each sort as the load itself; return how many."""
    mixed = slice_of(kinds, 0, min(WARM_UP, most))
    filling = [next(kind for kind in kinds if kind.name == INVOCATION)] * min(FILLING, most)
    course.run(-len(mixed) - len(filling), [*filling, *mixed])
    return len(mixed) + len(filling)


def slice_of(kinds: Sequence[Kind], first: int, many: int) -> list[Kind]:
    """Return the kinds of the connections with these numbers: the same whenever it is asked."""
    size = sum(kind.share for kind in kinds)
    cards = chain.from_iterable(deck(kinds, number) for number in numbers(first // size))
    return list(islice(cards, first % size, first % size + many))


def compared(idle: Use, base: Use, rest: Use, log: str) -> Step:
    """Set a tower at rest against its baseline; ``idle`` is what it used before the first connection."""
    wrong = []
    if rest.descriptors > base.descriptors + MORE_DESCRIPTORS:
        wrong.append(f"{rest.descriptors - base.descriptors} descriptors more than at the baseline")
    if rest.threads > idle.threads + WORKERS:
        wrong.append(f"{rest.threads} threads: {idle.threads} before the first connection, and {WORKERS} workers")
    if rest.resident > base.resident + ALLOWED_BYTES:
        wrong.append(f"{(rest.resident - base.resident) / 2**20:.1f} MiB more than at the baseline")
    if "Traceback" in log:
        wrong.append(f"a traceback in the tower's log: {log[log.index('Traceback') :][:2000]!r}")
    highs = {
        "descriptors, baseline": base.descriptors,
        "descriptors, at rest": rest.descriptors,
        "threads before the first connection": idle.threads,
        "threads, baseline": base.threads,
        "threads, at rest": rest.threads,
        "resident bytes, baseline": base.resident,
        "resident bytes, at rest": rest.resident,
    }
    return Step(wrong=wrong, highs=highs, sums={"towers compared at rest": 1})


def together(step: Step, rest: Step) -> Step:
    """Return a step of the load and the comparison after it as one: neither is saved without the other."""
    return replace(
        step,
        sums={**step.sums, **rest.sums},
        highs={**step.highs, **rest.highs},
        wrong=[*step.wrong, *rest.wrong],
    )


def _taken(course: Course) -> list[str]:
    found = list(course.wrong)
    course.wrong.clear()
    course.counts.clear()
    return found


def _at_rest(tower: Tower, goal: int) -> Use:
    """Return what a tower uses at rest, with the fewest descriptors seen: a probe that runs has one for a moment.

    It is waited for until they are no more than a goal, with an end.
    """
    began = time.monotonic()
    fewest, used = 1 << 30, tower.use()
    while time.monotonic() < began + (REST_SECONDS if 0 < goal < fewest else LOOK_SECONDS):
        time.sleep(0.05)
        used = tower.use()
        fewest = min(fewest, used.descriptors)
    return replace(used, descriptors=fewest)


def _epoch(tower: Tower) -> str:
    answer = fetch(tower.port, "/api/v1/events?limit=1", [("X-IDKMesh-UI-Token", tower.token)])
    found = json.loads(answer.body if answer else b"{}")
    first: str = found["items"][0]["id"]  # of the form EPOCH.SEQUENCE
    return first.partition(".")[0]
