"""What is kept of each instance: tracker, newest checks, restarts. Values; seconds are those of the boot clock."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.workloads.model import ModuleKind

if TYPE_CHECKING:
    from idkmesh.workloads.model import DesiredModule, Instance, Probe
    from idkmesh.workloads.tracker import Tracker

NOT_SEEN: Final = "not seen yet"


class Key(NamedTuple):
    """Which instance: names of its module and of itself."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}/{self.name}"


class RestartEnd(enum.Enum):
    """What came of a restart."""

    PENDING = "pending"
    """It is claimed, and not known to have come about."""
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart whose claim is spent: when, and what came of it."""

    at: float
    end: RestartEnd
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A check's newest probe, and the pass that it was made in."""

    probe: Probe
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What of an instance outlives a supervisor (AR-4.5); see :class:`Record`."""

    key: Key
    basis: str
    tracker: Tracker
    restart: Restart | None = None
    restarts: int = 0
    not_before: float = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One instance. ``instance`` is how its platform last described it, None where it has not been seen.

    ``basis`` tells what is asked of it: a tracker of other checks says nothing of these. ``reason`` is why no check was
    made, if none was. ``troubles`` are the checks that say nothing and have been told to. ``restart`` is the newest
    one, ``restarts`` how many have come about. No restart is tried before ``not_before``, and ``withheld`` says why.
    """

    key: Key
    module: DesiredModule
    basis: str
    tracker: Tracker
    instance: Instance | None = None
    port: Seen | None = None
    command: Seen | None = None
    reason: str | None = NOT_SEEN
    troubles: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    restart: Restart | None = None
    restarts: int = 0
    not_before: float = float("-inf")
    withheld: str | None = None

    @property
    def restartable(self) -> bool:
        """Whether a restart may ever be done (AR-1.1)."""
        return self.module.kind is ModuleKind.STATELESS


def basis_of(module: DesiredModule) -> str:
    """Return a text that is the same as long as the same is asked of the same thing."""
    readiness = module.readiness
    asked = [module.driver, module.port, None if readiness is None else [readiness.command, readiness.timeout_secs]]
    text = json.dumps([*asked, module.argv, module.cwd])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
