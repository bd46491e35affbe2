"""What changes of workloads, as the values that events and lines are made of (AR-7.3, AR-5.5). Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from idkmesh.changes import Change
from idkmesh.events.envelope import MAX_ATTRIBUTE_CHARACTERS
from idkmesh.workloads.checks import printable
from idkmesh.workloads.model import OWNER_KEY
from idkmesh.workloads.record import basis_of
from idkmesh.workloads.tracker import Health

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.workloads.model import DesiredModule
    from idkmesh.workloads.record import Key
    from idkmesh.workloads.tracker import HealthChange

INSTANCE_HEALTHY: Final = "idkmesh.instance.healthy"
INSTANCE_UNHEALTHY: Final = "idkmesh.instance.unhealthy"
RESTART_REQUESTED: Final = "idkmesh.instance.restart_requested"
RESTARTED: Final = "idkmesh.instance.restarted"
RESTART_FAILED: Final = "idkmesh.instance.restart_failed"
COULD_NOT_RUN: Final = "idkmesh.check.could_not_run"
MISDECLARED: Final = "idkmesh.check.misdeclared"
LEASE_ACQUIRED: Final = "idkmesh.lease.acquired"
LEASE_LOST: Final = "idkmesh.lease.lost"
MODULES_RELOADED: Final = "idkmesh.modules.reloaded"
MODULES_REFUSED: Final = "idkmesh.modules.refused"

SELECTOR: Final = "selector"
"""What matched nothing, where a check would stand."""

SHOWN_KEYS: Final = 3
"""Of a selector, in a line: it may have sixteen long ones."""

TOLD_ONE_BY_ONE: Final = 20
"""Checks that say nothing for one reason since one pass: beyond this many they are one change with their number."""

_HEALTH_TYPES: Final = {Health.HEALTHY: INSTANCE_HEALTHY, Health.UNHEALTHY: INSTANCE_UNHEALTHY}


def health_change(key: Key, change: HealthChange) -> Change | None:
    """Return the change of an instance that became healthy or unhealthy, None where it became unknown."""
    what = _HEALTH_TYPES.get(change.after)
    if what is None:
        return None
    facts = {"module": key.module, "instance": key.name, "from": change.before.value, "detail": change.detail}
    return Change(what, str(key), facts)


def check_trouble(what: str, key: Key, check: str, reason: str) -> Change:
    """Return the change of a check that says nothing: ``what`` is could_not_run or misdeclared."""
    return Change(what, str(key), {"module": key.module, "instance": key.name, "check": check, "reason": reason})


def gathered(troubles: Sequence[Change]) -> list[Change]:
    """Return the checks that say nothing since this pass, where many say nothing for one reason in one change.

    A file of ten thousand instances that are not there would be twenty thousand lines and events otherwise.
    """
    groups: dict[tuple[str, object, object], list[Change]] = {}
    for each in troubles:
        groups.setdefault((each.what, each.facts["check"], each.facts["reason"]), []).append(each)
    found: list[Change] = []
    for (what, check, reason), alike in groups.items():
        if len(alike) <= TOLD_ONE_BY_ONE:
            found += alike
            continue
        modules = {each.facts["module"] for each in alike}
        plural = "" if len(modules) == 1 else "s"
        facts = {"instances": len(alike), "modules": len(modules), "check": check, "reason": reason}
        if len(modules) == 1:
            facts |= {"module": modules.pop()}
        found.append(Change(what, f"{len(alike):,} instances of {facts['modules']:,} module{plural}", facts))
    return found


def fit(change: Change) -> Change:
    """Return the change with a subject that an event may have: what is not printable in it is a question mark (EV-1.5).

    A name that somebody else has given is no reason to lose what is told of it.
    """
    if change.subject is None:
        return change
    return replace(change, subject=printable(change.subject)[:MAX_ATTRIBUTE_CHARACTERS] or "?")


def driver_trouble(driver: str, reason: str) -> Change:
    """Return the change of a platform that does not tell of its instances."""
    return Change(COULD_NOT_RUN, driver, {"driver": driver, "check": "platform", "reason": reason})


def unmatched_reason(module: DesiredModule) -> str:
    """Return why a module has no instances whose selector matches none, and what to do."""
    keys = ", ".join([*module.selector][:SHOWN_KEYS]) + (", ..." if len(module.selector) > SHOWN_KEYS else "")
    value = module.name if OWNER_KEY in module.selector else "VALUE"
    key = OWNER_KEY if OWNER_KEY in module.selector else "KEY"
    return f"its selector matches no instance: none has what it wants of {keys}; run lxc config set NAME {key} {value}"


def selector_trouble(module: DesiredModule) -> Change:
    """Return the change of a module whose selector matches no instance."""
    facts = {"module": module.name, "check": SELECTOR, "reason": unmatched_reason(module)}
    return Change(COULD_NOT_RUN, module.name, facts)


def platform_reason(driver: str, fault: str) -> str:
    """Return why nothing new is known of the instances of a platform."""
    return f"platform {driver} tells nothing of its instances: {fault}"


def reload_change(before: Sequence[DesiredModule], after: Sequence[DesiredModule], platforms: Sequence[str]) -> Change:
    """Return the change of a declaration that is taken. ``platforms`` are drivers whose platform has changed."""
    old, new = ({module.name: basis_of(module) for module in modules} for modules in (before, after))
    both = old.keys() & new.keys()
    kept = sum(old[name] == new[name] for name in both)
    facts = {
        "modules": len(new),
        "kept": kept,
        "changed": len(both) - kept,
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "platforms": list(platforms),
    }
    return Change(MODULES_RELOADED, None, facts)


def restart_change(what: str, key: Key, *, detail: str, unhealthy_seconds: float, outcome: str = "") -> Change:
    """Return the change of a restart (AR-5.5). ``outcome`` is why it failed."""
    facts = {
        "module": key.module,
        "instance": key.name,
        "detail": detail,
        "unhealthy_seconds": round(unhealthy_seconds, 3),
    }
    return Change(what, str(key), {**facts, "outcome": outcome} if outcome else facts)
