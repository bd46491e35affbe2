"""One pass without a lease, which acts on nothing: for a person who asks (AR-7.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.workloads.ages import Stamp, system_stamp
from idkmesh.workloads.calls import Calls
from idkmesh.workloads.checks import combine
from idkmesh.workloads.ledger import Ledger
from idkmesh.workloads.model import Word
from idkmesh.workloads.passes import Passes
from idkmesh.workloads.snapshot import Role, Snapshot
from idkmesh.workloads.survey import Surveyor
from idkmesh.workloads.tallies import Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.changes import Change
    from idkmesh.workloads.drivers.driver import Driver
    from idkmesh.workloads.model import Declaration
    from idkmesh.workloads.survey import Patience, Survey

ALL_PASS, SOMETHING_FAILS, SOMETHING_SAYS_NOTHING = 0, 1, 3


def look_once(  # noqa: PLR0913  what it looks at, and who hears of it
    declaration: Declaration,
    drivers: Mapping[str, Driver],
    *,
    uid: int,
    changed: Callable[[Change], None] = lambda _change: None,
    stamp: Callable[[], Stamp] = system_stamp,
    patience: Patience | None = None,
) -> tuple[Snapshot, int]:
    """Return what one pass sees, and the exit code that says what it comes to. ``changed`` hears what says nothing."""
    now = stamp()
    ledger = Ledger(declaration.modules)
    passes = Passes(float(declaration.supervisor.interval_s)).begin(now.boot)
    survey = Surveyor(drivers, Calls(), uid=uid, patience=patience).survey(
        declaration.modules, opened=ledger.opened, go=lambda: True, beat=lambda: None
    )
    for change in ledger.fold(survey, now.boot, passes.fresh_from(now.boot), keep_seconds=0.0):
        changed(change)
    seconds = max(0.0, stamp().boot - now.boot)
    snapshot = Snapshot(
        role=Role.OBSERVER,
        modules=declaration.modules,
        spec=declaration.supervisor,
        passes=passes,
        records=ledger.records,
        platforms=ledger.platforms,
        unmatched=ledger.unmatched,
        tallies=Tallies().with_observations(survey.observations).with_pass(seconds),
        pass_seconds=seconds,
    )
    return snapshot, exit_code(survey, {module.name for module in declaration.modules})


def exit_code(survey: Survey, modules: set[str]) -> int:
    """Return 0 where every instance passes, 1 where one fails, else 3. A module without an instance says nothing."""
    words = {combine(seen.port, seen.command)[0] for seen in survey.observations}
    if Word.FAILS in words:
        return SOMETHING_FAILS
    seen_modules = {seen.key.module for seen in survey.observations}
    return SOMETHING_SAYS_NOTHING if Word.NOTHING in words or seen_modules != modules else ALL_PASS
