"""Observations to begin with: of a node to which nothing is amiss, and with one thing amiss each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from idkmesh.adapter.observation import Capacity, DurableClock, NodeIdentity, Observation, parse_observation

EXAMPLE_FILE: Final = Path(__file__).parents[2] / "examples" / "node-observation.json"
EXAMPLE: Final[dict[str, Any]] = json.loads(EXAMPLE_FILE.read_bytes())


def well() -> Observation:
    """Return the example."""
    seen = parse_observation(EXAMPLE_FILE.read_bytes())
    assert isinstance(seen, Observation)
    return seen


WELL: Final = well()
NODE_ID: Final = WELL.node.id
FULL: Final = Capacity(4, 4)

AMISS: Final[dict[str, dict[str, Any]]] = {
    "identity": {"node": NodeIdentity("another", WELL.node.boot_id)},
    "health": {"health": "failing"},
    "listeners": {"listeners": (replace(WELL.listeners[0], live=False),)},
    "clock": {"clock": DurableClock(readable=False, behind_ms=0)},
    "pressure": {"pressure": "exhausted"},
    "connections": {"connections": FULL},
    "exchanges": {"exchanges": FULL},
    "buffers": {"buffers": FULL},
    "activation": {"activation_ready": False},
    "draining": {"draining": True},
    "clock_behind": {"behind_ms": 1},
}
"""What makes each condition of the truth table fail, and no other."""


def with_amiss(*names: str) -> Observation:
    """Return the example with these conditions failing, by name."""
    changes: dict[str, Any] = {}
    for name in names:
        changes |= AMISS[name]
    capacity = replace(
        WELL.capacity,
        **{name: changes.pop(name) for name in ("connections", "exchanges", "buffers") if name in changes},
    )
    clock = replace(changes.pop("clock", WELL.clock), behind_ms=changes.pop("behind_ms", 0))
    return replace(WELL, capacity=capacity, clock=clock, **changes)
