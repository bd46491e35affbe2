"""What can change of health: the types of the events of HL-5.4."""

from __future__ import annotations

from typing import Final

DEPENDENCY_CHANGED: Final = "idkmesh.dependency.changed"
DEPENDENCY_NOT_RUN: Final = "idkmesh.dependency.could_not_run"
READINESS_CHANGED: Final = "idkmesh.readiness.changed"
STARTUP_SUCCEEDED: Final = "idkmesh.startup.succeeded"
LIVENESS_FAILED: Final = "idkmesh.liveness.failed"
LIVENESS_RECOVERED: Final = "idkmesh.liveness.recovered"
SLOT_HELD: Final = "idkmesh.slot.held"
MATRIX_RELOADED: Final = "idkmesh.matrix.reloaded"
MATRIX_REFUSED: Final = "idkmesh.matrix.refused"
