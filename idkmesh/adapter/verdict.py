"""The truth table: what a supervisor is told of what was seen of a node (RA-3). Pure.

Laws:

1. One table says what each verdict needs. Ready needs all that live needs.
2. Unknown and too old are never yes: without a fresh observation every verdict is no.
3. A failed look clears what was seen at once. A look that could not be begun leaves it to its age: it says something of
   this program, and nothing of the node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from idkmesh.adapter.observation import Failure, Observation

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_AGE_SECONDS: Final = 3.0
"""How old an observation may be, from the completion of its sample, by the monotonic clock."""

RESULT: Final = "result"
"""What fails while there is no successful observation."""
FRESH: Final = "fresh"
"""What fails when it is too old."""
IDENTITY: Final = "identity"
"""What fails when it is of another node."""
NOTHING_YET: Final = "nothing has been seen of the node yet"


class Condition(NamedTuple):
    """One row: its name, what it says to people where it fails, and whether an observation meets it.

    ``holds`` is asked with the id of the node that is meant.
    """

    name: str
    failing: str
    holds: Callable[[Observation, str], bool]


FOR_LIVE: Final = (
    Condition(IDENTITY, "it is another node", lambda seen, node_id: seen.node.id == node_id),
    Condition(
        "health",
        "a part of the node is silent, or its durable clock cannot be read",
        lambda seen, _: seen.health == "ok",
    ),
    Condition("listeners", "a listener of the node is gone, or not its own", lambda seen, _: _owned(seen)),
    Condition("clock", "its event store, or the mark beside it, cannot be read", lambda seen, _: seen.clock.readable),
)
"""What live needs beside a successful observation that is fresh (RA-3.1)."""

FOR_READY: Final = (
    Condition(
        "pressure", "a limit of the node was met within the last 5 s", lambda seen, _: seen.pressure == "available"
    ),
    Condition("connections", "no connection is free", lambda seen, _: seen.capacity.connections.free > 0),
    Condition("exchanges", "no place for a request is free", lambda seen, _: seen.capacity.exchanges.free > 0),
    Condition("buffers", "no memory for requests is free", lambda seen, _: seen.capacity.buffers.free > 0),
    Condition(
        "activation", "the node's own readiness says no; its /readyz names why", lambda seen, _: seen.activation_ready
    ),
    Condition("draining", "the node is ending", lambda seen, _: not seen.draining),
    Condition(
        "clock_behind", "the wall clock is behind what the node has recorded", lambda seen, _: seen.clock.behind_ms == 0
    ),
)
"""What ready needs beside all of that (RA-3.2)."""


class NotStarted(NamedTuple):
    """A look that could not be begun, and why."""

    reason: str


Outcome: TypeAlias = Observation | Failure | NotStarted
"""What came of one look."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of a node: the last observation, when its sample was complete (monotonic seconds), and the latch.

    ``failure`` is why there is no observation, None where there is one. ``started_boot`` is the boot id of the lifetime
    in which readiness was seen, None where it was not.
    """

    observation: Observation | None = None
    completed_at: float = 0.0
    failure: str | None = NOTHING_YET
    started_boot: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a supervisor is told. ``not_live`` and ``not_ready`` name the conditions that fail, in the table's order."""

    live: bool
    ready: bool
    started: bool
    not_live: tuple[str, ...]
    not_ready: tuple[str, ...]


def after(held: Held, outcome: Outcome, node_id: str, now: float) -> Held:
    """Return what is known after a look that was complete at ``now`` (monotonic seconds)."""
    if isinstance(outcome, NotStarted):
        return held
    if isinstance(outcome, Failure):
        return replace(held, observation=None, failure=outcome.reason)
    seen = replace(held, observation=outcome, completed_at=now, failure=None)
    if outcome.node.id != node_id:
        return seen  # another node says nothing of this one's lifetime
    if outcome.node.boot_id != held.started_boot:
        seen = replace(seen, started_boot=None)
    return replace(seen, started_boot=outcome.node.boot_id) if verdict(seen, node_id, now).ready else seen


def verdict(held: Held, node_id: str, now: float) -> Verdict:
    """Return the verdicts on the node ``node_id`` at ``now`` (monotonic seconds)."""
    seen = held.observation
    if seen is None or not 0.0 <= now - held.completed_at <= MAX_AGE_SECONDS:
        why = (RESULT,) if seen is None else (FRESH,)
        return Verdict(live=False, ready=False, started=False, not_live=why, not_ready=why)
    not_live = _failing(FOR_LIVE, seen, node_id)
    not_ready = not_live + _failing(FOR_READY, seen, node_id)
    return Verdict(
        live=not not_live,
        ready=not not_ready,
        started=not not_live and held.started_boot == seen.node.boot_id,
        not_live=not_live,
        not_ready=not_ready,
    )


def _failing(table: tuple[Condition, ...], seen: Observation, node_id: str) -> tuple[str, ...]:
    return tuple(condition.name for condition in table if not condition.holds(seen, node_id))


def _owned(seen: Observation) -> bool:
    """Say whether every listener that should exist is there, with the process that owns it. None at all is not."""
    return bool(seen.listeners) and all(each.live and each.owner_pid is not None for each in seen.listeners)
