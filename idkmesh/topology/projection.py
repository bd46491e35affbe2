"""What is told of observations: a pure copy, and nothing of where anything is (RT-11.1, RT-11.2, RT-11.5).

Laws of this module:

1. Each member is named in :func:`row`: what else an observation has cannot slip in.
2. A row is written when its observation is, so that a reading of ten thousand only joins texts (RT-11.6).
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from idkmesh.topology.model import Observation, Target

SCHEMA_VERSION: Final = "1"

PATH: Final = "/internal/v1/instance-topology/status"

PIECE_ROWS: Final = 1_000
"""Of one piece of a document."""

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


def row(target: Target, observation: Observation) -> dict[str, Any]:
    """Return what is told of one observation."""
    return {
        "agentId": target.agent_id,
        "agentCardVersion": target.agent_card_version,
        "releaseId": target.release_id,
        "state": observation.state.value,
        "localRevision": observation.revision,
        "observedAt": observed_text(observation.observed_at),
    }


def row_text(target: Target, observation: Observation) -> str:
    """Return the same as compact JSON."""
    return _ENCODER.encode(row(target, observation))


def document(provider: str, rows: Iterable[str]) -> bytes:
    """Return the document of ``router-topology-status.v1.json`` in UTF-8; ``rows`` are texts of :func:`row_text`."""
    return b"".join(pieces(provider, rows))


def pieces(provider: str, rows: Iterable[str]) -> Iterator[bytes]:
    """Return the same in pieces: of a large one no text of the whole is made."""
    head = _ENCODER.encode({"schemaVersion": SCHEMA_VERSION, "provider": provider, "observations": []})
    yield head.removesuffix("]}").encode()
    left, comma = iter(rows), ""
    while some := list(itertools.islice(left, PIECE_ROWS)):
        yield (comma + ",".join(some)).encode()
        comma = ","
    yield b"]}"


def observed_text(instant: datetime) -> str:
    """Return an instant in UTC as RFC 3339 with milliseconds."""
    return instant.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
