"""A verdict as a line for people. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from idkmesh.adapter.verdict import Verdict


def verdict_line(told: Verdict, failure: str | None) -> str:
    """Return what holds and what stands against the rest (RA-7.5); ``failure`` says why nothing was seen."""
    against = ", ".join(told.not_ready)
    if not told.live:
        why = "" if failure is None else f" ({failure})"
        return f"the node is not live: {', '.join(told.not_live)}{why}"
    if told.ready:
        return "the node is live and ready"
    if told.started:
        return f"the node is live, and not ready: {against}"
    return f"the node is live, has not started, and is not ready: {against}"
