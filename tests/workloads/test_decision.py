from __future__ import annotations

from dataclasses import replace

import pytest

from idkmesh.workloads.decision import Due, cooldown_left, due_restarts, is_outstanding
from idkmesh.workloads.model import Instance, InstanceState, ModuleKind, Word
from idkmesh.workloads.record import Key, Record, Restart, RestartEnd, basis_of
from idkmesh.workloads.tracker import Health, Tracker
from tests.workloads.support import module

NOW, FRESH, COOLDOWN = 1000.0, 985.0, 300.0


def record(
    name: str, health: Health = Health.UNHEALTHY, *, since: float = 900.0, kind: ModuleKind = ModuleKind.STATELESS
) -> Record:
    word = Word.PASSES if health is Health.HEALTHY else Word.FAILS
    tracker = Tracker(since=since, identity="a", health=health, word=word, first=since - 20, newest=NOW, detail="why")
    owner, _, _ = name.partition("-")
    declared = module(owner, kind)
    instance = Instance(module=owner, name=name, state=InstanceState.RUNNING, identity="a")
    return Record(key=Key(owner, name), module=declared, basis=basis_of(declared), tracker=tracker, instance=instance)


def due(*records: Record) -> list[str]:
    return [each.key.name for each in due_restarts(records, NOW, FRESH, COOLDOWN)]


def restarted(each: Record, ago: float) -> Record:
    return replace(each, restart=Restart(NOW - ago, RestartEnd.DONE))


def test_due() -> None:
    """AR-5.1, AR-5.5: what is due says which instance, why, and how long it has been unhealthy."""
    assert due_restarts([record("web-1")], NOW, FRESH, COOLDOWN) == [Due(Key("web", "web-1"), "why", 100.0, True)]


@pytest.mark.parametrize("kind", [ModuleKind.SINGLETON, ModuleKind.STATEFUL])
def test_others_are_only_reported(kind: ModuleKind) -> None:
    """AR-1.1, AR-5.1: a singleton and a stateful module are never restarted."""
    assert due(record("db-1", kind=kind)) == []


def test_sixty_seconds() -> None:
    """AR-5.1: unhealthy for 60 s, and not a moment less."""
    assert due(record("web-1", since=940.0)) == ["web-1"]
    assert due(record("web-1", since=940.25)) == []


def test_one_a_module_the_longest_first() -> None:
    """AR-5.2: of a module whose replicas are all unhealthy one is restarted, who is so for the longest."""
    assert due(record("web-1", since=910), record("web-2", since=905), record("api-1")) == ["web-2", "api-1"]


def test_the_next_waits() -> None:
    """AR-5.2: while one that was restarted is not healthy again, and its cooldown lasts, no other one is restarted."""
    assert due(restarted(record("web-1", Health.UNKNOWN), 20), record("web-2")) == []
    assert due(restarted(record("web-1"), 299), record("web-2")) == []
    assert due(restarted(record("web-1", Health.UNKNOWN), 300), record("web-2")) == ["web-2"]
    assert due(restarted(record("web-1", Health.HEALTHY), 40), record("web-2")) == ["web-2"]


def test_what_came_of_it_does_not_matter() -> None:
    """AR-5.2, AR-5.3: a restart that failed, or whose end is not known, is outstanding too."""
    for end in RestartEnd:
        one = replace(record("web-1"), restart=Restart(NOW - 20, end))
        assert is_outstanding(one, NOW, FRESH, COOLDOWN)
        assert due(one, record("web-2")) == []


def test_cooldown() -> None:
    """AR-5.1: at most once in a cooldown, counted from the claim."""
    assert due(restarted(record("web-1"), 299.75)) == []
    assert due(restarted(record("web-1"), 300)) == ["web-1"]
    assert cooldown_left(restarted(record("web-1"), 299.75), NOW, COOLDOWN) == 0.25


def test_not_before() -> None:
    """AR-5.3: a restart that got no claim is not tried with every pass."""
    assert due(replace(record("web-1"), not_before=NOW + 1)) == []
    assert due(replace(record("web-1"), not_before=NOW)) == ["web-1"]
    assert cooldown_left(replace(record("web-1"), not_before=NOW + 1), NOW, COOLDOWN) == 1.0


@pytest.mark.parametrize("state", [state for state in InstanceState if state is not InstanceState.RUNNING])
def test_only_what_runs(state: InstanceState) -> None:
    """AR-3.1, AR-5.1: what is stopped, frozen, gone or unreachable is not restarted."""
    one = record("web-1")
    assert one.instance is not None
    assert due(replace(one, instance=replace(one.instance, state=state))) == []
    assert due(replace(one, instance=None)) == []


def test_only_what_is_ours() -> None:
    """AR-3.1: an instance that is named and not ours is never restarted."""
    one = record("web-1")
    assert one.instance is not None
    assert due(replace(one, instance=replace(one.instance, owned=False))) == []


def test_alone() -> None:
    """AR-5.2: it is told whether all the others are healthy, by evidence that is not too old."""

    def alone(other: Record) -> bool:
        (found,) = due_restarts([record("web-1"), other], NOW, FRESH, COOLDOWN)
        return found.alone

    healthy = record("web-2", Health.HEALTHY)
    assert alone(healthy)
    assert not alone(replace(healthy, tracker=replace(healthy.tracker, newest=FRESH - 1)))
    assert not alone(record("web-2", Health.UNKNOWN))


def test_one_that_cannot_be_restarted_holds_up_nobody_for_ever() -> None:
    """AR-5.2: a restart that failed leaves its instance unhealthy the longest; after its cooldown others have turns."""
    never_works = replace(record("web-1", since=100), restart=Restart(NOW - 300, RestartEnd.FAILED))
    assert due(never_works, record("web-2")) == ["web-2"]
    tried_later = replace(record("web-2", since=200), restart=Restart(NOW - 301, RestartEnd.FAILED))
    assert due(never_works, tried_later) == ["web-2"]


def test_a_restart_before_it_was_unhealthy_is_no_turn() -> None:
    """AR-5.2: a restart after which the instance was well again does not put it behind the others."""
    long_ago = replace(record("web-1", since=600), restart=Restart(500, RestartEnd.DONE))
    assert due(long_ago, record("web-2", since=610)) == ["web-1"]
