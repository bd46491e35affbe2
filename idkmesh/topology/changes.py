"""What changes of a topology, as the values that events are made of (RT-10.2). Pure.

A change tells the target, the states, the revision and the cause's word. An endpoint has no way in (RT-11.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from idkmesh.changes import Change

if TYPE_CHECKING:
    from idkmesh.topology.model import Cause, Observation, State, Target

OPENED: Final = "idkmesh.topology.opened"
CHANGED: Final = "idkmesh.topology.changed"
RENEWED: Final = "idkmesh.topology.renewed"
CLOSED: Final = "idkmesh.topology.closed"
REFUSED: Final = "idkmesh.topology.refused"
OMITTED: Final = "idkmesh.topology.omitted"
PROVIDER_LOST: Final = "idkmesh.topology.provider_lost"
PROVIDER_BACK: Final = "idkmesh.topology.provider_back"


def opened_change(target: Target) -> Change:
    """Return the change of a first use."""
    return Change(OPENED, str(target), _members(target))


def state_change(target: Target, before: State, after: Observation) -> Change:
    """Return the change of an observation that has another state."""
    facts = {**_members(target), "from": before.value, "to": after.state.value, "localRevision": after.revision}
    return Change(CHANGED, str(target), facts if after.cause is None else {**facts, "cause": after.cause.value})


def renewed_change(target: Target, before: State, after: Observation, attempts: int) -> Change:
    """Return the change of an observation whose session is another one now."""
    facts = {"from": before.value, "to": after.state.value, "localRevision": after.revision, "attempts": attempts}
    return Change(RENEWED, str(target), {**_members(target), **facts})


def closed_change(target: Target, last: Observation) -> Change:
    """Return the change of an observation that nobody uses any more."""
    facts = {"to": last.state.value, "localRevision": last.revision}
    return Change(CLOSED, str(target), {**_members(target), **facts})


def refused_change(most: int) -> Change:
    """Return the change of a limit that is met."""
    return Change(REFUSED, None, {"max_observations": most})


def omitted_change(omitted: int, seconds: float) -> Change:
    """Return what is told instead of ``omitted`` changes within ``seconds`` (RT-10.3)."""
    return Change(OMITTED, None, {"omitted": omitted, "seconds": seconds})


def lost_change(provider: str, cause: Cause) -> Change:
    """Return the change of a provider whose boundary is not usable any more, or was not from the beginning on."""
    return Change(PROVIDER_LOST, provider, {"cause": cause.value})


def back_change(provider: str) -> Change:
    """Return the change of a provider whose boundary is usable again."""
    return Change(PROVIDER_BACK, provider, {})


def _members(target: Target) -> dict[str, Any]:
    return {
        "agentId": target.agent_id,
        "agentCardVersion": target.agent_card_version,
        "releaseId": target.release_id,
    }
