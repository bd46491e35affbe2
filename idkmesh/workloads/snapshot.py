"""What a supervisor lets others see: one value, replaced as a whole, so that nobody waits (AR-7.2). Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from idkmesh.workloads.changes import platform_reason, unmatched_reason
from idkmesh.workloads.model import SupervisorSpec
from idkmesh.workloads.passes import Passes
from idkmesh.workloads.tallies import Tallies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.workloads.model import DesiredModule
    from idkmesh.workloads.record import Key, Record


class Role(enum.Enum):
    """What a supervisor does (AR-6.4)."""

    STARTING = "starting"
    """No pass has been made."""
    STANDBY = "standby"
    """Somebody else holds the lease, or nobody is known to."""
    HOLDER = "holder"
    OBSERVER = "observer"
    """It makes one pass without a lease, and acts on nothing."""
    NONE = "none"
    """No declaration was given: nothing is supervised here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that is known at one instant.

    ``holder`` is who holds the lease as far as is known. ``store_fault`` is why trackers are not kept, None if they
    are. ``pass_seconds`` is how long the newest pass took. ``platforms`` are the drivers that were asked in it, each
    with why it told nothing of its instances, None where it did; ``unmatched`` are modules whose selector matches
    nothing.
    """

    role: Role
    modules: tuple[DesiredModule, ...]
    spec: SupervisorSpec
    passes: Passes
    records: Mapping[Key, Record] = field(default_factory=lambda: MappingProxyType({}))
    holder: str | None = None
    tallies: Tallies = field(default_factory=Tallies)
    pass_seconds: float | None = None
    store_fault: str | None = None
    platforms: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    unmatched: frozenset[str] = frozenset()

    @classmethod
    def of_nothing(cls) -> Snapshot:
        """Return what is known where no declaration was given."""
        spec = SupervisorSpec()
        return cls(role=Role.NONE, modules=(), spec=spec, passes=Passes(float(spec.interval_s)))

    def standing_by(self, holder: str | None) -> Snapshot:
        """Return what is shown where ``holder`` acts, and not this supervisor: nothing of its instances (AR-6.4)."""
        return replace(self, role=Role.STANDBY, holder=holder, records={}, platforms={}, unmatched=frozenset())

    def records_of(self, module: str) -> list[Record]:
        """Return the instances of a module, in the order in which they were listed."""
        return [record for key, record in self.records.items() if key.module == module]

    def reason_of(self, module: DesiredModule) -> str | None:
        """Return why nothing new is known of a module's instances, or why it has none; None where neither is so."""
        if (fault := self.platforms.get(module.driver)) is not None:
            return platform_reason(module.driver, fault)
        return unmatched_reason(module) if module.name in self.unmatched else None
