"""The port check (AR-3.5): a connection to an instance's port, or what the platform's load balancer says of it.

Whoever looks from outside may have no way in. So of a connection that is not made only the instance's own refusal
counts against it: no route, no right and a full machine tell of us, and silence tells of the way unless the port has
been open before.

A firewall between us that *rejects* looks as a refusal does: Linux gives the same error for a reset and for ICMP's
"port unreachable".
"""

from __future__ import annotations

import errno
import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from idkmesh.clock import SystemClock
from idkmesh.health.model import Outcome
from idkmesh.health.probes.connecting import connect
from idkmesh.health.probes.probe import Deadline
from idkmesh.health.probes.resolving import Resolver
from idkmesh.health.probes.words import ProbeError, word_of
from idkmesh.workloads.checks import nothing
from idkmesh.workloads.model import Probe, Word

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.clock import Clock
    from idkmesh.workloads.model import Instance

CONNECT_SECONDS: Final = 2.0
"""How long a connection may take in all."""

REFUSED: Final = word_of(OSError(errno.ECONNREFUSED, "")).detail
TIMEOUT: Final = word_of(OSError(errno.ETIMEDOUT, "")).detail

BACKEND_WORDS: Final = {True: "the load balancer takes it for healthy", False: "the load balancer takes it for down"}


def reported_probe(instance: Instance) -> Probe | None:
    """Return what the platform reports of an instance's port, None where it reports nothing. Pure."""
    if instance.port_health is None:
        return None
    return Probe(Word.PASSES if instance.port_health else Word.FAILS, BACKEND_WORDS[instance.port_health])


def judged(error: ProbeError, *, opened: bool) -> Probe:
    """Return what a connection that was not made says. Pure.

    ``opened`` is whether the port has been open before, in this life of the instance.
    """
    if error.outcome is Outcome.FAILED and error.detail == REFUSED:
        return Probe(Word.FAILS, REFUSED)
    if error.outcome is Outcome.FAILED and error.detail == TIMEOUT:
        return Probe(Word.FAILS, TIMEOUT) if opened else nothing("timeout, and it was never seen open")
    return nothing(error.detail)


def check_port(
    address: str | None,
    port: int,
    *,
    opened: bool,
    timeout: float = CONNECT_SECONDS,
    clock: Clock | None = None,
) -> Probe:
    """Connect to a numeric address and close, within ``timeout`` seconds in all. Raises nothing."""
    clock = clock or SystemClock()
    began = clock.monotonic()
    probe = _guarded(lambda: _connected(address, port, Deadline(clock, began + timeout)), opened=opened)
    return replace(probe, seconds=max(0.0, clock.monotonic() - began))


def _guarded(attempt: Callable[[], Probe], *, opened: bool) -> Probe:
    try:
        return attempt()
    except ProbeError as error:
        return judged(error, opened=opened)
    except OSError as error:
        return judged(word_of(error), opened=opened)
    except Exception as error:  # noqa: BLE001  a fault of ours says nothing of the instance
        return nothing(f"a fault of the port check: {type(error).__name__}")


def _connected(address: str | None, port: int, deadline: Deadline) -> Probe:
    if not address:
        return nothing("no address")
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return nothing("no numeric address")
    connect(Resolver().addresses(address, port, deadline), deadline).close()
    return Probe(Word.PASSES, "connected")
