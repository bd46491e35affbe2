"""What a supervision is known to do at one instant: for who answers, and cheap to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from idkmesh.workloads.ages import system_stamp
from idkmesh.workloads.snapshot import Snapshot

if TYPE_CHECKING:
    from idkmesh.workloads.ages import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadReading:
    """What is known at ``now``. ``lease_fault`` is what the lease's store did not do, None where it did."""

    snapshot: Snapshot
    now: Stamp
    lease_fault: str | None = None


def nothing_supervised() -> WorkloadReading:
    """Return what is known where no declaration was given."""
    return WorkloadReading(snapshot=Snapshot.of_nothing(), now=system_stamp())
