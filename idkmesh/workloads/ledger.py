"""What is known of every instance of a declaration, and what changes of it by a pass (AR-3.6, AR-4). Pure.

Laws of this module:

1. It reads no clock: each method is given the instant. One thread owns it; others read :attr:`Ledger.records`, which is
   replaced and never changed.
2. What says nothing is told when it begins, and again only after it could be asked meanwhile (AR-1.2).
3. A restart is remembered beyond the tracker: the instance that it gave is another one (AR-4.4), its cooldown is not
   over (AR-5.1).
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from idkmesh.workloads.changes import (
    COULD_NOT_RUN,
    MISDECLARED,
    check_trouble,
    driver_trouble,
    gathered,
    health_change,
    selector_trouble,
)
from idkmesh.workloads.checks import combine
from idkmesh.workloads.model import InstanceState, Word
from idkmesh.workloads.record import Key, Record, Seen, basis_of
from idkmesh.workloads.tracker import Evidence, Tracker, anew, step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from idkmesh.changes import Change
    from idkmesh.workloads.model import DesiredModule, Probe
    from idkmesh.workloads.record import Kept
    from idkmesh.workloads.survey import Observation, Survey

INSTANCE: Final = "instance"
"""The check that says nothing where none could be made."""


class Ledger:
    """The instances of ``modules``."""

    def __init__(self, modules: Sequence[DesiredModule]) -> None:
        self._modules = {module.name: module for module in modules}
        self.platforms: Mapping[str, str | None] = MappingProxyType({})
        """Each driver that was asked in the newest pass, with why it told nothing of its instances; None if it did."""
        self.unmatched: frozenset[str] = frozenset()
        """Modules whose selector matched nothing when their platform answered last."""
        self.records: Mapping[Key, Record] = MappingProxyType({})

    @property
    def modules(self) -> tuple[DesiredModule, ...]:
        """The modules that are declared, in the order of the file."""
        return tuple(self._modules.values())

    def begin(self, kept: Iterable[Kept], now: float) -> None:
        """Take what a store has kept, in place of all that was known.

        What is no longer declared is dropped; a tracker of other checks begins anew.
        """
        records = [
            Record(
                key=each.key,
                module=self._modules[each.key.module],
                basis=each.basis,
                tracker=each.tracker,
                restart=each.restart,
                restarts=each.restarts,
                not_before=each.not_before,
            )
            for each in kept
            if each.key.module in self._modules
        ]
        self._adopt(records, now)

    def reload(self, modules: Sequence[DesiredModule], now: float) -> None:
        """Take other modules. Instances of which the same is asked as before keep their trackers."""
        self._modules = {module.name: module for module in modules}
        self._adopt(self.records.values(), now)

    def update(self, record: Record) -> None:
        """Put a record in the place of the one with its key."""
        self.records = MappingProxyType({**self.records, record.key: record})

    def opened(self, key: Key, identity: str) -> bool:
        """Say whether the port of an instance has been open before, in the life of this identity (AR-3.5)."""
        record = self.records.get(key)
        return record is not None and record.tracker.identity == identity and record.tracker.opened

    def fold(self, survey: Survey, now: float, fresh_from: float, *, keep_seconds: float) -> list[Change]:
        """Take in what was seen in the pass of ``now``, and return what has changed by it.

        An instance that is no longer listed is kept while its evidence is fresh, and for ``keep_seconds`` after a
        restart: its cooldown goes on. One that is named is there from the first pass on, whatever its platform says.
        """
        changes = [*self._platform_changes(survey), *self._selector_changes(survey)]
        after: dict[Key, Record] = {}
        troubles: list[Change] = []
        moved: list[Change] = []
        for seen in survey.observations:
            module = self._modules[seen.key.module]
            before = self.records.get(seen.key) or _new(seen.key, module, now)
            after[seen.key], found, change = _observed(before, seen, now, fresh_from)
            troubles += found
            moved += [] if change is None else [change]
        for module in self._modules.values():
            for key in (Key(module.name, name) for name in module.instances if module.driver in survey.silent):
                after[key] = _unseen(self.records.get(key) or _new(key, module, now), now, fresh_from, silent=True)
        for key, record in self.records.items():
            silent = record.module.driver in survey.silent
            selected = silent and not record.module.instances
            if key not in after and (selected or _is_kept(record, now, fresh_from, keep_seconds)):
                after[key] = _unseen(record, now, fresh_from, silent=silent)
        order = {name: number for number, name in enumerate(self._modules)}
        self.records = MappingProxyType(dict(sorted(after.items(), key=lambda item: order[item[0].module])))
        return [*changes, *gathered(troubles), *moved]

    def _platform_changes(self, survey: Survey) -> list[Change]:
        """Note which platforms have answered, and return the changes of those that have ceased to."""
        before = self.platforms
        drivers = dict.fromkeys(module.driver for module in self._modules.values())
        self.platforms = MappingProxyType({name: survey.silent.get(name) for name in drivers})
        return [driver_trouble(name, why) for name, why in survey.silent.items() if before.get(name) is None]

    def _selector_changes(self, survey: Survey) -> list[Change]:
        """Note whose selector matches nothing, and return the changes of those that have ceased to match."""
        before = self.unmatched
        seen = {each.key.module for each in survey.observations}
        asked = [module for module in self._modules.values() if module.selector]
        empty = [
            module
            for module in asked
            if (module.name in before if module.driver in survey.silent else module.name not in seen)
        ]
        self.unmatched = frozenset(module.name for module in empty)
        return [selector_trouble(module) for module in empty if module.name not in before]

    def _adopt(self, records: Iterable[Record], now: float) -> None:
        adopted: dict[Key, Record] = {}
        for record in records:
            module = self._modules.get(record.key.module)
            if module is None:
                continue
            basis, tracker = basis_of(module), record.tracker
            if basis != record.basis:
                record = replace(record, port=None, command=None, troubles=frozenset())  # noqa: PLW2901  of this one
                tracker = anew(replace(tracker, opened=False), now)
            adopted[record.key] = replace(record, module=module, basis=basis, tracker=tracker)
        self.records = MappingProxyType(adopted)


def _new(key: Key, module: DesiredModule, now: float) -> Record:
    return Record(key=key, module=module, basis=basis_of(module), tracker=Tracker(since=now))


def _is_kept(record: Record, now: float, fresh_from: float, keep_seconds: float) -> bool:
    restarted = record.restart is not None and now - record.restart.at < keep_seconds
    return restarted or record.tracker.newest >= fresh_from


def _unseen(record: Record, now: float, fresh_from: float, *, silent: bool) -> Record:
    """Return the record of an instance that nobody has told of in this pass."""
    nothing = Evidence(Word.NOTHING, "")
    tracker, _ = step(record.tracker, nothing, now, fresh_from)
    state = InstanceState.UNREACHABLE if silent else InstanceState.GONE
    instance = None if record.instance is None else replace(record.instance, state=state)
    reason = "its platform tells nothing of its instances" if silent else "the instance is no longer listed"
    return replace(record, tracker=tracker, instance=instance, port=None, command=None, reason=reason)


def _observed(
    record: Record, seen: Observation, now: float, fresh_from: float
) -> tuple[Record, list[Change], Change | None]:
    """Return the record after a pass, the checks that say nothing since it, and whether it became (un)healthy."""
    word, detail = combine(seen.port, seen.command)
    identity = seen.instance.identity if seen.instance.state is InstanceState.RUNNING else ""
    opened = seen.port is not None and seen.port.word is Word.PASSES
    tracker, moved = step(record.tracker, Evidence(word, detail, identity, opened), now, fresh_from)
    troubles, changes = _troubles(record, seen)
    told = None if moved is None else health_change(record.key, moved)
    after = replace(
        record,
        tracker=tracker,
        instance=seen.instance,
        port=None if seen.port is None else Seen(seen.port, now),
        command=None if seen.command is None else Seen(seen.command, now),
        reason=seen.reason,
        troubles=troubles,
    )
    return after, changes, told


def _troubles(record: Record, seen: Observation) -> tuple[frozenset[tuple[str, str]], list[Change]]:
    """Return the checks that say nothing now, and the changes that tell of those that are new."""
    found: dict[tuple[str, str], str] = {}
    if seen.reason is not None:
        found[INSTANCE, COULD_NOT_RUN] = seen.reason
    for check, probe in (("port check", seen.port), ("readiness command", seen.command)):
        if probe is not None and probe.word is Word.NOTHING:
            found[check, _kind(probe)] = probe.reason
    new = [
        check_trouble(what, record.key, check, reason)
        for (check, what), reason in found.items()
        if (check, what) not in record.troubles
    ]
    if seen.reason is None:
        return frozenset(found), new
    # No check was made: those that could not run before are not told again for that.
    return frozenset(found) | {each for each in record.troubles if each[0] != INSTANCE}, new


def _kind(probe: Probe) -> str:
    return MISDECLARED if probe.misdeclared else COULD_NOT_RUN
