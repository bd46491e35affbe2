"""What is to be rehearsed, as one value. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from idkmesh.health.model import ProbeMatrix
    from idkmesh.rehearsal.faults import Fault
    from idkmesh.rehearsal.orchestrator import Settings

PORT_FIELD = "{port}"
"""In the target and the command: a free port, another for each instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a scenario expects of a service that keeps the contract.

    ``cause`` is of its restarts, ``startup`` or ``liveness``, or ``none``. ``leaves_rotation`` is None where either may
    be. ``always_served`` wants an instance in rotation at all times.
    """

    restarts: int
    cause: str = "none"
    leaves_rotation: bool | None = None
    always_served: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One rehearsal.

    ``faults`` count from the start, or, with ``from_rotation``, from the first time in rotation. It takes ``seconds``
    from there; with ``settle`` it ends as soon as the service has been in rotation again for so long, without a
    warning, after the last fault.
    """

    matrix: ProbeMatrix
    settings: Settings
    target: str
    argv: tuple[str, ...]
    faults: tuple[Fault, ...]
    seconds: float
    from_rotation: bool = False
    settle: float | None = None
    scenario: str | None = None
    expectation: Expectation | None = None
