"""What a probe matrix says, as values (HL-3), and what a probe is. Times in the matrix are whole milliseconds."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.clock import Clock

MATRIX_VARIABLE: Final = "IDKMESH_MATRIX"
"""The environment variable that names the file of a service's matrix; empty is not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tcp:
    """Connect to a host and port, and close."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """Ask a URL (``http``, ``https``) with GET or HEAD. ``unix_socket`` is the path of a socket to ask it through.

    ``expect`` are the statuses that are ok, 200 to 399 where it is empty. ``headers`` maps names of fields to values,
    ``headers_from_env`` names of fields to the environment variables that hold them (credentials).
    """

    url: str
    method: str = "GET"
    unix_socket: str | None = None
    expect: tuple[int, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_from_env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Run an argument list, without a shell; exit status 0 is ok (HL-4.8)."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dns:
    """Resolve a name with the system's resolver."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """Want a file, and, if ``max_age_ms`` is given, one that was changed no longer ago."""

    path: str
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Want room on the file system of a path: one of the two minima at least is given."""

    path: str
    min_free_percent: float | None = None
    min_free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grpc:
    """Ask ``grpc.health.v1.Health/Check`` of ``HOST:PORT`` for a service (HL-4.10)."""

    target: str
    service: str = ""
    tls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """Call ``module:callable`` without arguments."""

    target: str


ProbeSpec = Tcp | Http | Command | Dns | File | Disk | Grpc | Python

KINDS: dict[str, type[ProbeSpec]] = {
    "tcp": Tcp,
    "http": Http,
    "command": Command,
    "dns": Dns,
    "file": File,
    "disk": Disk,
    "grpc": Grpc,
    "python": Python,
}
"""How each kind of probe is called in the file."""


class Refresh(enum.Enum):
    """When a probe is run."""

    SCHEDULE = "schedule"
    """By the schedule alone."""
    REQUEST = "request"
    """Once at the start, and from then on when a request finds a result that the next one would not (HL-4.6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """One row of the matrix."""

    name: str
    critical: bool
    probe: ProbeSpec
    timeout_ms: int
    interval_ms: int
    cache_ms: int
    failure_threshold: int = 1
    success_threshold: int = 1
    refresh: Refresh = Refresh.SCHEDULE


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How the orchestrator asks one kind of probe."""

    period_ms: int
    timeout_ms: int
    failure_threshold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """The orchestrator's own figures, written down here so that ours can be held against them."""

    startup: Figures
    liveness: Figures
    readiness: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogFigures:
    """Silent for longer than ``interval_ms`` x ``max_missed_ticks`` is overdue (HL-2.1)."""

    interval_ms: int
    max_missed_ticks: int

    @property
    def budget_seconds(self) -> float:
        """The longest silence, in seconds."""
        return self.interval_ms * self.max_missed_ticks / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMatrix:
    """The whole file (HL-3.1)."""

    orchestrator: Orchestrator
    watchdog: WatchdogFigures
    dependencies: tuple[Dependency, ...]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ProbeMatrix:
        """Read a file. Raises :class:`idkmesh.health.matrix_file.MatrixError`, a ValueError, with all that is wrong."""
        from idkmesh.health.matrix_file import read_matrix  # noqa: PLC0415  it makes these values, and needs them first

        return read_matrix(os.fspath(path))

    @classmethod
    def from_environment(cls, default: str | os.PathLike[str]) -> ProbeMatrix:
        """Read the file that ``IDKMESH_MATRIX`` names, else the ``default``, and raise as :meth:`load` does (HL-6.1).

        So one program takes its own matrix, that of a place it is deployed to, or that of a rehearsal (HL-8.1).
        """
        return cls.load(os.environ.get(MATRIX_VARIABLE) or default)


class Outcome(enum.Enum):
    """What came of one run of a probe (HL-4.2)."""

    OK = "ok"
    FAILED = "failed"
    COULD_NOT_RUN = "could_not_run"


@dataclass(frozen=True, slots=True)
class Result:
    """One run: when it began and how long it took (monotonic seconds), its outcome and a short word on it (HL-4.12).

    ``hanging`` says that a call which nothing can interrupt had not come back at the end (HL-4.11): this run's where it
    has failed, an earlier one's where it could not be run.
    """

    began: float
    latency: float
    outcome: Outcome
    detail: str
    hanging: bool = False


class Probe(Protocol):
    """Asks one dependency. One run at a time, each in some thread."""

    def run(self, timeout: float, clock: Clock) -> Result:
        """Ask once, and come back within ``timeout`` seconds with what came of it (HL-4.1).

        Whatever goes wrong is a result and no exception: one that is raised counts as a run that could not be made.
        """

    def close(self) -> None:
        """End what a run has started, and start nothing more. Any thread may call it, and it does not wait."""


class Verdict(enum.Enum):
    """What is known of a dependency (HL-1.4)."""

    OK = "ok"
    FAILING = "failing"
    UNKNOWN = "unknown"
