"""The parts that a supervisor is made of: each of its kind, from what a declaration says. Imports what is wanted alone.

What cannot be had is a :class:`SupervisionError`, one line: an extra that is not installed, a file that cannot be read.
"""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.lease.keeper import LeaseKeeper
from idkmesh.workloads.lease.store import LeaseStoreError
from idkmesh.workloads.tracker_store import TrackerStore, TrackerStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from idkmesh.changes import Change
    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.lease.store import LeaseStore
    from idkmesh.workloads.model import Declaration, DesiredModule, Instance, LeaseSpec, Readiness, Run

LXD: Final = "lxd"
PROCESS: Final = "process"
LEASE_FILE: Final = "lease.sqlite3"
"""The lease's file where none is named; several names stand in one."""


class SupervisionError(Exception):
    """A supervisor cannot be made, or cannot take another declaration. As text it is one line."""


class OthersProcesses:
    """In the place of the driver ``process`` for who looks once: processes belong to the supervisor that started them.

    A :class:`~idkmesh.workloads.drivers.driver.Driver` that tells nothing, and starts nothing.
    """

    def instances(self, modules: Sequence[DesiredModule]) -> list[Instance]:  # noqa: ARG002  the driver's signature
        """Raise :class:`DriverError`: nothing is known here."""
        raise DriverError("its processes belong to the supervisor that starts them, and a single look starts none")

    def run(self, instance: Instance, readiness: Readiness, uid: int) -> Run:
        """Is never called: there are no instances."""
        raise NotImplementedError

    def restart(self, instance: Instance, may_act: Callable[[], bool]) -> None:
        """Is never called either."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back nothing."""


def drivers_of(
    declaration: Declaration,
    log: Callable[[str, int], None],
    kept: Mapping[str, Driver] | None = None,
    *,
    look_only: bool = False,
) -> dict[str, Driver]:
    """Return the drivers that the modules want, by name; those of ``kept`` are taken where they are wanted.

    ``look_only``: nothing is to be started.
    """
    drivers: dict[str, Driver] = {}
    for name in {module.driver: None for module in declaration.modules}:
        if kept is not None and name in kept:
            drivers[name] = kept[name]
        elif name == PROCESS:
            drivers[name] = OthersProcesses() if look_only else _process_driver(log)
        elif name == LXD and declaration.lxd is not None:
            drivers[name] = _lxd_driver(declaration, log)
    return drivers


def going_on(drivers: Iterable[str], before: Declaration, after: Declaration) -> list[str]:
    """Return the names of the drivers that are good for another declaration too: their platform is the same. Pure."""
    return [name for name in drivers if name != LXD or before.lxd == after.lxd]


def lease_store_of(spec: LeaseSpec, place: Path) -> LeaseStore:
    """Return the store of the lease; a file that is not named stands in the folder ``place``."""
    try:
        if spec.kind == "etcd":
            from idkmesh.workloads.lease.etcd import EtcdLeaseStore  # noqa: PLC0415  an extra

            return EtcdLeaseStore(spec.endpoints, spec.name)
        from idkmesh.workloads.lease.sqlite import SqliteLeaseStore  # noqa: PLC0415  who uses etcd needs no SQLite
        from idkmesh.workloads.lease.time_limited import TimeLimitedLeaseStore  # noqa: PLC0415  as below

        path = place / LEASE_FILE if spec.path is None else Path(spec.path)
        file = SqliteLeaseStore(path, spec.name, make_folder=spec.path is None)
        return TimeLimitedLeaseStore(file)
    except (LeaseStoreError, ValueError) as error:
        raise SupervisionError(str(error)) from None


def keeper_of(
    spec: LeaseSpec, place: Path, holder: str, changed: Callable[[Change], None], log: Callable[[str, int], None]
) -> LeaseKeeper:
    """Return the keeper of the lease, which holds it in the name ``holder``, and says by ``log`` what becomes of it."""
    store = lease_store_of(spec, place)
    try:
        return LeaseKeeper(store, holder, float(spec.ttl_s), changed=changed, log=log)
    except ValueError as error:
        raise SupervisionError(f"supervisor.lease: {error}") from None


def trackers_of(spec: LeaseSpec, place: Path, log: Callable[[str, int], None]) -> TrackerStore:
    """Return where trackers are kept: a file in ``place`` for each name of a lease."""
    try:
        return TrackerStore(place / f"trackers-{spec.name}.sqlite3", lambda line: log(line, logging.WARNING))
    except TrackerStoreError as error:
        raise SupervisionError(str(error)) from None


def holder_of_this_process() -> str:
    """Return how this supervisor is called: a person finds the process by it."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _process_driver(log: Callable[[str, int], None]) -> Driver:
    from idkmesh.workloads.drivers.process import ProcessDriver  # noqa: PLC0415  POSIX, and for development

    return ProcessDriver(log=log)


def _lxd_driver(declaration: Declaration, log: Callable[[str, int], None]) -> Driver:
    from idkmesh.workloads.drivers.lxd import LxdDriver  # noqa: PLC0415  an extra

    assert declaration.lxd is not None  # noqa: S101  the caller has looked
    try:
        return LxdDriver(declaration.lxd, log)
    except DriverError as error:
        raise SupervisionError(str(error)) from None
