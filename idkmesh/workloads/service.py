"""The supervision of one declaration as a whole: its drivers, its lease, its trackers, and the supervisor over them.

It runs alone (``idkmesh supervise``) or inside the control tower: both make a service and hand it plain functions.

Laws of this module:

1. Who asks what is known reads one value, and waits for nothing.
2. A declaration that is refused changes nothing: the running one goes on, and that is said.
3. A driver is closed once no pass uses it: the thread that makes passes says so, however long the one before took.
4. The end goes from the inside out: first nobody acts any more, then the lease is given back, then the processes end.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.changes import Change
from idkmesh.service_runtime import log_line
from idkmesh.workloads.ages import system_stamp
from idkmesh.workloads.changes import MODULES_REFUSED
from idkmesh.workloads.parts import (
    PROCESS,
    SupervisionError,
    drivers_of,
    going_on,
    holder_of_this_process,
    keeper_of,
    trackers_of,
)
from idkmesh.workloads.reading import WorkloadReading
from idkmesh.workloads.snapshot import Role
from idkmesh.workloads.supervisor import Supervisor
from idkmesh.workloads.voice import Voice, printing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from idkmesh.health.watchdog import Beat
    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.model import Declaration

COMPONENT: Final = "supervisor"
"""How the thread that makes passes is called in a watchdog."""

GIVE_BACK_SECONDS: Final = 2.5
"""How long the end waits for the lease's store: one call of it (AR-6.2), and the thread."""

PROCESSES_SECONDS: Final = 12.0
"""How long the end waits for processes, which have 10 s to end by themselves (AR-8.5)."""


class Supervised(NamedTuple):
    """What is supervised, as whom commands run, and the file that it came from."""

    declaration: Declaration
    uid: int
    file: Path


class WorkloadService:
    """Supervises ``what``; its trackers, and a lease in a file, are kept in the folder ``place``.

    ``changed`` takes each change and must not wait. ``record`` takes the one before a restart, and returns whether it
    is committed. ``log`` takes a line and a level of :mod:`logging`, and must not wait. ``watch`` takes the thread that
    makes passes into a watchdog, at the start. Any thread may call any method.

    Raises :class:`SupervisionError`, one line, where a part cannot be had: an extra that is not installed, a
    certificate that cannot be read.
    """

    def __init__(  # noqa: PLR0913  what it supervises, and the parts that it speaks to
        self,
        what: Supervised,
        place: Path,
        *,
        changed: Callable[[Change], None],
        record: Callable[[Change], bool],
        log: Callable[[str, int], None] = log_line,
        watch: Callable[[], Beat] | None = None,
    ) -> None:
        self._declaration = what.declaration
        self._log = log = printing(log)
        self._voice = Voice(changed, log)
        self._watch = watch
        self._beat: Beat | None = None
        self._drivers = drivers_of(what.declaration, log)
        self._retired: list[tuple[str, Driver]] = []
        """Drivers that are no longer wanted, by name, and that a pass may still use."""
        self._unclosed: list[Driver] = []
        self._closing: list[threading.Thread] = []
        self._keeper = keeper_of(what.declaration.supervisor.lease, place, holder_of_this_process(), changed, log)
        self._supervisor = Supervisor(
            what.declaration,
            dict(self._drivers),
            self._keeper,
            trackers_of(what.declaration.supervisor.lease, place, log),
            uid=what.uid,
            changed=changed,
            record=record,
            log=log,
            alive=self._alive,
            released=self._release,
        )
        self._reloading = threading.Lock()
        self._ended = threading.Event()

    # --- its life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to supervise, once. Raises ``RuntimeError`` the second time."""
        if self._watch is not None and self._beat is None:
            self._beat = self._watch()
        self._keeper.start()
        self._supervisor.start()

    def stop(self, timeout: float) -> bool:
        """End, and say whether that came about in time. A second call changes nothing.

        What runs has ``timeout`` seconds; then the lease is given back and processes end, which takes up to 15 s more.
        """
        if self._ended.is_set():
            return True
        self._ended.set()
        ended = self._supervisor.stop(timeout)
        if self._beat is not None:
            self._beat.close()
        given_back = self._keeper.stop(GIVE_BACK_SECONDS)
        if not given_back:
            self._log("the lease was not given back in time: it ends by itself", logging.WARNING)
        with self._reloading:
            self._close([*self._drivers.values(), *(driver for _, driver in self._retired)])
            closing = list(self._closing)
        return _joined(closing, PROCESSES_SECONDS) and ended and given_back

    def reload(self, declaration: Declaration) -> None:
        """Take another declaration with the next pass; what is declared as before keeps what is known of it.

        Raises :class:`SupervisionError` where that cannot be done, and then nothing has changed: the lease is read at
        the start alone, for trackers and claims belong to it.
        """
        with self._reloading:
            if self._ended.is_set():
                raise SupervisionError("the supervisor has ended")
            if declaration.supervisor.lease != self._declaration.supervisor.lease:
                raise SupervisionError(
                    "supervisor.lease has changed, and is read at the start alone; end the supervisor and start it anew"
                )
            # Processes that a pass of before may still use are taken again, and not started a second time beside them.
            known = {name: driver for name, driver in self._retired if name == PROCESS} | self._drivers
            kept = {name: known[name] for name in going_on(known, self._declaration, declaration)}
            drivers = drivers_of(declaration, self._log, kept)
            before = [*self._retired, *self._drivers.items()]
            self._retired = [(name, driver) for name, driver in before if drivers.get(name) is not driver]
            self._declaration, self._drivers = declaration, dict(drivers)
            self._supervisor.reload(declaration, drivers)

    def reload_from(self, path: Path | str) -> bool:
        """Read a declaration and take it, or say in one line why the running one stays."""
        from idkmesh.workloads.declaration import DeclarationError, read_declaration  # noqa: PLC0415  YAML

        try:
            self.reload(read_declaration(path, again=True))
        except DeclarationError as error:
            first = error.findings[0]
            facts = {
                "findings": len(error.findings),
                "line": first.line,
                "column": first.column,
                "module": first.module,
                "field": first.field,
                "rule": first.rule.value,
                "what": first.what,
            }
            self._refuse(str(error), facts)
        except SupervisionError as error:
            self._refuse(str(error), {"findings": 0, "what": str(error)})
        except Exception as error:  # noqa: BLE001  a fault of ours must not end who reloads
            self._refuse(f"{type(error).__name__}: {error}", {"findings": 0, "what": type(error).__name__})
        else:
            return True
        return False

    # --- for who answers ------------------------------------------------------------------------------------------

    def reading(self) -> WorkloadReading:
        """Return what is known. Waits for nothing."""
        snapshot = self._supervisor.snapshot()
        if snapshot.role is Role.HOLDER and self._keeper.held() is None:
            # A pass may go on for a minute: until its end nobody says that he holds what another one may hold by now.
            snapshot = snapshot.standing_by(self._keeper.holder_name())
        return WorkloadReading(snapshot=snapshot, now=system_stamp(), lease_fault=self._keeper.trouble)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _alive(self) -> None:
        """Beat. The supervising thread's."""
        if self._beat is not None:
            self._beat.beat()

    def _release(self, drivers: Sequence[Driver]) -> None:
        """Close drivers that no pass uses any more, but for one that a later reload wants. The supervising thread's."""
        released = {id(driver) for driver in drivers}
        with self._reloading:
            wanted = {id(driver) for driver in self._drivers.values()}
            self._retired = [each for each in self._retired if id(each[1]) not in released]
            self._closing = [thread for thread in self._closing if thread.is_alive()]
            self._close([driver for driver in drivers if id(driver) not in wanted])

    def _close(self, drivers: Iterable[Driver]) -> None:
        """Begin to close drivers, and those that could not be closed before. Under the lock."""
        waiting, self._unclosed = [*self._unclosed, *drivers], []
        for driver in waiting:
            thread = threading.Thread(target=self._close_one, args=(driver,), name="driver-close", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                self._unclosed.append(driver)
                self._log("a driver is not closed: the machine is out of threads; it is tried again", logging.ERROR)
            else:
                self._closing.append(thread)

    def _close_one(self, driver: Driver) -> None:
        try:
            driver.close()
        except Exception as error:  # noqa: BLE001  a fault of the driver's: who ends goes on
            self._log(f"a driver of {type(driver).__name__} is not closed: {type(error).__name__}", logging.ERROR)

    def _refuse(self, line: str, facts: Mapping[str, Any]) -> None:
        self._log(f"the declaration of modules is refused, the running one stays: {line}", logging.ERROR)
        self._voice.tell(Change(MODULES_REFUSED, None, facts))


def _joined(threads: Iterable[threading.Thread], timeout: float) -> bool:
    """Wait for threads, and say whether they had ended in time."""
    until = time.monotonic() + timeout
    ended = True
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
        ended = ended and not thread.is_alive()
    return ended
