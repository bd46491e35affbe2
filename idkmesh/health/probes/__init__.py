"""The probes: one module a kind, one way to run them (HL-4.1).

A probe is made once for each declaration and run again and again, by one thread at a time. Between runs it keeps what
it has imported and the call that it has abandoned, so a declaration that has not changed keeps its probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from idkmesh.health.model import Command, Disk, Dns, File, Grpc, Http, Python, Tcp
from idkmesh.health.probes.command import CommandProbe
from idkmesh.health.probes.disk import DiskProbe
from idkmesh.health.probes.dns import DnsProbe
from idkmesh.health.probes.file import FileProbe
from idkmesh.health.probes.grpc import GrpcProbe
from idkmesh.health.probes.http import HttpProbe
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.python import PythonProbe
from idkmesh.health.probes.tcp import TcpProbe

if TYPE_CHECKING:
    from idkmesh.health.model import ProbeSpec

__all__ = ["DeadlineProbe", "probe_for"]


def probe_for(spec: ProbeSpec) -> DeadlineProbe:  # noqa: PLR0911  one for each kind
    """Return the probe of a declaration. What is wrong with the declaration is told by its first run, not here."""
    match spec:
        case Tcp():
            return TcpProbe(spec)
        case Http():
            return HttpProbe(spec)
        case Command():
            return CommandProbe(spec)
        case Dns():
            return DnsProbe(spec)
        case File():
            return FileProbe(spec)
        case Disk():
            return DiskProbe(spec)
        case Grpc():
            return GrpcProbe(spec)
        case Python():
            return PythonProbe(spec)
        case _:
            assert_never(spec)
