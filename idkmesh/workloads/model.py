"""What a declaration of modules says, and what is seen of their instances, as values (AR-1, AR-2, AR-3). Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.workloads.declaration_findings import DeclarationFinding

DEFAULT_TIMEOUT_SECS: Final = 5
DEFAULT_INTERVAL_S: Final = 5
DEFAULT_COOLDOWN_S: Final = 300
DEFAULT_TTL_S: Final = 15
DEFAULT_LEASE_NAME: Final = "default"
DEFAULT_PROBE_UID: Final = 65534
OWNER_KEY: Final = "user.idkmesh.module"
"""The configuration key by which an instance says which module it belongs to (AR-3.1)."""

PROCESS_VARIABLES: Final = ("IDKMESH_MODULE", "IDKMESH_INSTANCE")
"""What a process and its readiness command find the names of module and instance in (AR-8.5)."""


class ModuleKind(enum.Enum):
    """What may be done to an instance: only a replica of a stateless module is ever restarted (AR-1.1)."""

    STATELESS = "stateless"
    SINGLETON = "singleton"
    STATEFUL = "stateful"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A readiness command (AR-2.3): a program and its arguments, and how long it may take, in whole seconds."""

    command: tuple[str, ...]
    timeout_secs: int = DEFAULT_TIMEOUT_SECS


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredModule:
    """A module as it is declared, its class applied (AR-2.2).

    ``instances`` are names, ``selector`` is configuration that an instance has; one of them is there with the driver
    ``lxd``. ``argv`` and ``replicas`` are there with the driver ``process``; ``cwd`` is where its processes run.
    """

    name: str
    kind: ModuleKind
    driver: str
    readiness: Readiness | None = None
    port: int | None = None
    class_name: str | None = None
    instances: tuple[str, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 0
    argv: tuple[str, ...] = ()
    cwd: str | None = None

    def validate(self) -> tuple[DeclarationFinding, ...]:
        """Judge it by the table that judges the file (AR-2.4), wherever it came from; return all that is wrong."""
        from idkmesh.workloads.validation import validate_module  # noqa: PLC0415  the table has these values' names

        return validate_module(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LxdPlatform:
    """How LXD or Incus is reached (AR-8.2): a Unix socket, or a URL with paths of a client's certificate and key.

    ``server_cert`` is the path of the certificate that the daemon must show; the system's authorities if None.
    """

    socket: str | None = None
    url: str | None = None
    cert: str | None = None
    key: str | None = None
    server_cert: str | None = None
    project: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSpec:
    """Which store keeps the lease (AR-6). ``kind`` is ``sqlite`` or ``etcd``.

    ``path`` is of the SQLite file, beside the trackers if None; ``endpoints`` are URLs of etcd; ``name`` tells
    supervisors apart that do not belong together.
    """

    kind: str = "sqlite"
    ttl_s: int = DEFAULT_TTL_S
    path: str | None = None
    endpoints: tuple[str, ...] = ()
    name: str = DEFAULT_LEASE_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSpec:
    """The supervisor's own figures, in whole seconds."""

    interval_s: int = DEFAULT_INTERVAL_S
    cooldown_s: int = DEFAULT_COOLDOWN_S
    lease: LeaseSpec = field(default_factory=LeaseSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A whole ``modules.yaml`` (AR-2.1), in the order of the file."""

    modules: tuple[DesiredModule, ...]
    supervisor: SupervisorSpec = field(default_factory=SupervisorSpec)
    lxd: LxdPlatform | None = None


class InstanceState(enum.Enum):
    """What a platform says of an instance."""

    RUNNING = "running"
    STOPPED = "stopped"
    FROZEN = "frozen"
    GONE = "gone"
    """It is declared and not there."""
    UNREACHABLE = "unreachable"
    """The platform, or the member it runs on, does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance as its platform describes it in one pass.

    ``identity`` changes when it is made anew or started anew (AR-4.4): an opaque text. ``address`` is where its port is
    asked, None where it has none. ``location`` is the cluster member. ``owned`` is AR-3.1. ``port_health`` is what a
    load balancer of the platform reports of it, None where it reports nothing.
    """

    module: str
    name: str
    state: InstanceState
    identity: str
    owned: bool = True
    address: str | None = None
    location: str | None = None
    port_health: bool | None = None


class Word(enum.Enum):
    """What a check says (AR-1.2)."""

    PASSES = "passes"
    FAILS = "fails"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of one check: its word, a reason in words of this project, and how long it took, in seconds.

    ``misdeclared`` is a command that leaves something behind (AR-3.4).
    """

    word: Word
    reason: str
    seconds: float = 0.0
    misdeclared: bool = False


class RunEnd(enum.Enum):
    """How a command's run ended, as a driver tells it."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    """It was still running at the limit, and is dead now."""
    COULD_NOT_RUN = "could_not_run"
    LEFT_BEHIND = "left_behind"
    """The command has ended, or was killed, and something that it started holds its output."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a command. ``code`` is there where it has exited: 0 to 255, 128 and more for a signal."""

    end: RunEnd
    reason: str
    code: int | None = None
    seconds: float = 0.0
