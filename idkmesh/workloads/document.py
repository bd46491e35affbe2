"""Modules and their instances as the documents of AR-7.2. Pure: plain data, with a published schema each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from idkmesh.events.envelope import time_text
from idkmesh.workloads.decision import cooldown_left, is_outstanding
from idkmesh.workloads.model import Word
from idkmesh.workloads.snapshot import Role
from idkmesh.workloads.tracker import NEVER, RESTART_AFTER_SECONDS, Health, health_at, progress_of

if TYPE_CHECKING:
    from idkmesh.workloads.ages import Stamp
    from idkmesh.workloads.model import DesiredModule
    from idkmesh.workloads.record import Record, Seen
    from idkmesh.workloads.snapshot import Snapshot
    from idkmesh.workloads.tracker import Tracker

SCHEMA_VERSION: Final = "0.1"


def module_list_document(snapshot: Snapshot, now: Stamp) -> dict[str, Any]:
    """Return all modules in the order of the declaration (``module-list.json``), as one page."""
    grouped: dict[str, list[Record]] = {module.name: [] for module in snapshot.modules}
    for record in snapshot.records.values():
        grouped.setdefault(record.key.module, []).append(record)
    return {
        "kind": "idkmesh-module-list",
        "schema_version": SCHEMA_VERSION,
        "lease": _lease(snapshot),
        "pass": {
            "interval_seconds": snapshot.spec.interval_s,
            "cooldown_seconds": snapshot.spec.cooldown_s,
            "last_pass_seconds": _seconds(snapshot.pass_seconds),
            "last_pass_age_seconds": _age(snapshot.passes.starts[-1] if snapshot.passes.starts else NEVER, now),
        },
        "store_fault": snapshot.store_fault,
        "platforms": _platforms(snapshot),
        "items": [_module(snapshot, module, grouped[module.name], now) for module in snapshot.modules],
        "page": {"next_cursor": None, "limit": len(snapshot.modules)},
    }


def module_document(snapshot: Snapshot, name: str, now: Stamp) -> dict[str, Any] | None:
    """Return one module (``module.json``), None where none of that name is declared."""
    module = next((each for each in snapshot.modules if each.name == name), None)
    return None if module is None else _module(snapshot, module, snapshot.records_of(name), now)


def short_document(snapshot: Snapshot, now: Stamp, lease_fault: str | None) -> dict[str, Any]:
    """Return workloads in short, for a status document. ``lease_fault`` is what the lease's store did not do."""
    fresh_from = snapshot.passes.fresh_from(now.boot)
    counts = Counter(health_at(record.tracker, fresh_from) for record in snapshot.records.values())
    return {
        "lease": {**_lease(snapshot), "fault": lease_fault},
        "store_fault": snapshot.store_fault,
        "platforms": _platforms(snapshot),
        "modules": len(snapshot.modules),
        "instances": {health.value: counts[health] for health in Health},
        "restarts_total": sum(record.restarts for record in snapshot.records.values()),
        "last_pass_seconds": _seconds(snapshot.pass_seconds),
    }


def _module(snapshot: Snapshot, module: DesiredModule, records: list[Record], now: Stamp) -> dict[str, Any]:
    fresh_from, cooldown = snapshot.passes.fresh_from(now.boot), float(snapshot.spec.cooldown_s)
    counts = Counter(health_at(record.tracker, fresh_from) for record in records)
    readiness = module.readiness
    outstanding = [record.key.name for record in records if is_outstanding(record, now.boot, fresh_from, cooldown)]
    return {
        "kind": "idkmesh-module",
        "schema_version": SCHEMA_VERSION,
        "name": module.name,
        "module_kind": module.kind.value,
        "driver": module.driver,
        "class": module.class_name,
        "port": module.port,
        # Without its arguments: somebody may have written a password there.
        "readiness": None
        if readiness is None
        else {"program": readiness.command[0], "timeout_seconds": readiness.timeout_secs},
        "reason": snapshot.reason_of(module),
        "counts": {health.value: counts[health] for health in Health},
        "restart_outstanding": outstanding[0] if outstanding else None,
        "lease": _lease(snapshot),
        "instances": [_instance(record, now, fresh_from, cooldown) for record in records],
    }


def _instance(record: Record, now: Stamp, fresh_from: float, cooldown: float) -> dict[str, Any]:
    tracker, instance, restart = record.tracker, record.instance, record.restart
    health, progress = health_at(tracker, fresh_from), progress_of(tracker, fresh_from)
    since = tracker.since if health is tracker.health else tracker.newest
    return {
        "name": record.key.name,
        "state": None if instance is None else instance.state.value,
        "owned": None if instance is None else instance.owned,
        "location": None if instance is None else instance.location,
        "reason": record.reason,
        "health": health.value,
        "since": time_text(now.label_of(since)),
        "since_seconds": _seconds(max(0.0, now.boot - since)),
        "detail": tracker.detail,
        "evidence_age_seconds": _age(tracker.newest, now),
        "port_check": _check(record.port, now),
        "readiness_command": _check(record.command, now),
        "progress": None
        if progress is None
        else {
            "outcome": progress.word.value,
            "seconds": _seconds(progress.seconds),
            "of_seconds": progress.of,
            "text": str(progress),
        },
        "restarts": record.restarts,
        "last_restart": None
        if restart is None
        else {
            "time": time_text(now.label_of(restart.at)),
            "age_seconds": _age(restart.at, now),
            "outcome": restart.end.value,
            "detail": restart.detail,
        },
        "cooldown_seconds": _seconds(cooldown_left(record, now.boot, cooldown)),
        "restart_due_seconds": _due_in(tracker, now, health) if record.restartable else None,
        "restart_withheld": record.withheld,
    }


def _check(seen: Seen | None, now: Stamp) -> dict[str, Any] | None:
    if seen is None:
        return None
    probe = seen.probe
    return {
        "outcome": probe.word.value,
        "reason": probe.reason,
        "misdeclared": probe.misdeclared,
        "took_seconds": _seconds(probe.seconds),
        "age_seconds": _age(seen.at, now),
    }


def _due_in(tracker: Tracker, now: Stamp, health: Health) -> float | None:
    """Return the seconds until a restart falls due if it goes on failing, None where none would."""
    if health is not Health.UNHEALTHY or tracker.word is not Word.FAILS:
        return None
    return _seconds(max(0.0, tracker.since + RESTART_AFTER_SECONDS - now.boot))


def _lease(snapshot: Snapshot) -> dict[str, Any]:
    return {"role": snapshot.role.value, "held": snapshot.role is Role.HOLDER, "holder": snapshot.holder}


def _platforms(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [{"name": name, "fault": fault} for name, fault in snapshot.platforms.items()]


def _age(instant: float, now: Stamp) -> float | None:
    return None if instant == NEVER else _seconds(max(0.0, now.boot - instant))


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
