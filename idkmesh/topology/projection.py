"""What is told of observations: a pure copy, and nothing of where anything is (RT-11.1, RT-11.2, RT-11.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from idkmesh.topology.held import Status

SCHEMA_VERSION: Final = "1"

PATH: Final = "/internal/v1/instance-topology/status"


def projection(provider: str, statuses: Iterable[Status]) -> dict[str, Any]:
    """Return the document of ``router-topology-status.v1.json``; ``provider`` is the provider's name.

    Each member is named here: what else an observation has cannot slip in.
    """
    observations = [
        {
            "agentId": status.target.agent_id,
            "agentCardVersion": status.target.agent_card_version,
            "releaseId": status.target.release_id,
            "state": status.observation.state.value,
            "localRevision": status.observation.revision,
            "observedAt": observed_text(status.observation.observed_at),
        }
        for status in statuses
    ]
    return {"schemaVersion": SCHEMA_VERSION, "provider": provider, "observations": observations}


def observed_text(instant: datetime) -> str:
    """Return an instant in UTC as RFC 3339 with milliseconds."""
    return instant.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
