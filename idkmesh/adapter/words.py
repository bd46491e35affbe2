"""A verdict as a line for people. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.adapter.verdict import FOR_LIVE, FOR_READY, IDENTITY, RESULT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.adapter.verdict import Held, Verdict

_FAILING: Final = {condition.name: condition.failing for condition in (*FOR_LIVE, *FOR_READY)}


def verdict_line(told: Verdict, held: Held, node_id: str) -> str:
    """Return what holds and what stands against the rest, and why (RA-7.5). ``node_id`` is the node that is meant."""
    if not told.live:
        return f"the node is not live: {', '.join(_with_reason(name, held, node_id) for name in told.not_live)}"
    against = ", ".join(told.not_ready)
    if told.ready:
        return "the node is live and ready"
    if told.started:
        return f"the node is live, and not ready: {against}"
    return f"the node is live, has not started, and is not ready: {against}"


def answer_line(word: str, against: Sequence[str]) -> str:
    """Return a verdict on an observation: yes, or the names of the conditions that fail, each in words too (RA-6.1)."""
    if not against:
        return f"{word} yes"
    return f"{word} no: {', '.join(f'{name} ({_FAILING[name]})' for name in against)}"


def not_begun_line(argv: Sequence[str], reason: str) -> str:
    """Return that a look could not be begun: which program, and why (RA-7.5)."""
    return f"the node's command {argv[0]!r} could not be started: {reason}"


def _with_reason(name: str, held: Held, node_id: str) -> str:
    """Return a condition's name, and what is known of it beyond that."""
    if name == RESULT:
        return f"{name} ({held.failure})"
    if name == IDENTITY and held.observation is not None:
        return f"{name} (it is {held.observation.node.id}, and {node_id} is meant)"
    return name
