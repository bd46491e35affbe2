"""The contract of topology providers (RT-5), over each of them on the real thing."""

from __future__ import annotations

import functools
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.clock import SystemClock
from idkmesh.topology.errors import AgentUnavailableError
from idkmesh.topology.model import NOT_DECLARED, Cause, Endpoint, Failed, Snapshot, Target, endpoint_of, snapshot_of
from idkmesh.topology.provider import ProviderFailureError
from idkmesh.topology.selector import WatchSelector
from idkmesh.topology.snapshot_selector import SnapshotSelector
from tests.contract.topology_worlds import ASKED, FIXED, WATCHED
from tests.topology.support import WAIT, Heard, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.topology.model import ProviderEvent
    from idkmesh.topology.provider import Watch
    from tests.contract.topology_worlds import World

ONE, TWO = Target("agent-one", "1.0.0+b1", "r-1"), Target("agent-one", "1.0.0+b1", "r-2")
A, B, C = (endpoint_of(f"http://127.0.0.1:{port}") for port in (9001, 9002, 9003))
EMPTY = snapshot_of([])


@pytest.fixture(params=[*WATCHED, *ASKED, *FIXED])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Return each world."""
    with {**WATCHED, **ASKED, **FIXED}[request.param](tmp_path) as made:
        yield made


@pytest.fixture(params=WATCHED)
def watching(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Return each world of a provider that observes."""
    with WATCHED[request.param](tmp_path) as made:
        yield made


@pytest.fixture(params=[*WATCHED, *ASKED])
def breaking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Return each world whose source can go away."""
    with {**WATCHED, **ASKED}[request.param](tmp_path) as made:
        yield made


@pytest.fixture(params=[*ASKED, *FIXED])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Return each world of a provider that observes nothing."""
    with {**ASKED, **FIXED}[request.param](tmp_path) as made:
        yield made


def nothing(world: World) -> Snapshot:
    """Return what a release that is not declared looks like."""
    return NOT_DECLARED if world.tells_missing else EMPTY


def hears(heard: Heard, event: ProviderEvent) -> bool:
    return eventually(lambda: heard.last() == event)


def fails(heard: Heard) -> bool:
    return eventually(lambda: isinstance(heard.last(), Failed))


# --- asking once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoints", [(), (A,), (B, A), (A, B, C)], ids=len)
def test_a_snapshot_is_what_is_there(world: World, endpoints: tuple[Endpoint, ...]) -> None:
    """RT-5.1, RT-1.3: a release that is declared has its endpoints, another one nothing of them."""
    world.declare(ONE, *endpoints)
    assert eventually(lambda: world.provider.snapshot(ONE, WAIT) == snapshot_of(endpoints))
    assert world.provider.snapshot(TWO, WAIT) == nothing(world)


def test_a_snapshot_of_what_was_removed(world: World) -> None:
    """RT-5.1: what is not declared any more is not, and what is declared without an instance is that."""
    world.declare(ONE, A)
    world.declare(TWO, B)
    assert eventually(lambda: world.provider.snapshot(TWO, WAIT) == snapshot_of([B]))
    world.remove(ONE)
    world.declare(TWO)
    assert eventually(lambda: world.provider.snapshot(ONE, WAIT) == nothing(world))
    assert eventually(lambda: world.provider.snapshot(TWO, WAIT) == EMPTY)


def test_a_snapshot_of_a_source_that_is_gone(breaking: World) -> None:
    """RT-5.1, RT-5.4: it ends within its time, with one word, and is told as soon as the source is back."""
    breaking.declare(ONE, A)
    breaking.break_off()
    began = time.monotonic()
    with pytest.raises(ProviderFailureError) as told:
        breaking.provider.snapshot(ONE, 0.5)
    assert time.monotonic() - began < 20
    assert str(told.value) == told.value.cause.value
    assert told.value.__cause__ is None
    breaking.mend()
    assert eventually(lambda: _now(breaking, ONE) == snapshot_of([A]))


def _now(world: World, target: Target) -> Snapshot | None:
    try:
        return world.provider.snapshot(target, 0.5)
    except ProviderFailureError:
        return None


# --- observing -------------------------------------------------------------------------------------------------------


def test_a_watch_begins_with_what_is_there(watching: World) -> None:
    """RT-5.2: the first snapshot comes whatever it is: endpoints, none, or no declaration."""
    three = Target("agent-three", "1", "r")
    watching.declare(ONE, A, B)
    watching.declare(TWO)
    heard = {target: Heard() for target in (ONE, TWO, three)}
    watches = [watching.provider.observe(target, sink) for target, sink in heard.items()]
    assert hears(heard[ONE], snapshot_of([A, B]))
    assert hears(heard[TWO], EMPTY)
    assert hears(heard[three], nothing(watching))
    for watch in watches:
        watch.close()


def test_a_watch_tells_each_change(watching: World) -> None:
    """RT-5.2: whole snapshots, one at a time and in order: instances come and go, the declaration too."""
    heard = Heard()
    watch = watching.provider.observe(ONE, heard)
    assert hears(heard, nothing(watching))
    for endpoints in ((A,), (A, B), (B,), (), (C,)):
        watching.declare(ONE, *endpoints)
        assert hears(heard, snapshot_of(endpoints))
    watching.remove(ONE)
    assert hears(heard, nothing(watching))
    watching.declare(ONE)
    assert hears(heard, EMPTY)
    assert not heard.beside
    watch.close()


def test_watches_of_others_hear_their_own(watching: World) -> None:
    """RT-5.2: a change of one release is not told of another one, with a name that begins alike."""
    longer = Target(ONE.agent_id, ONE.agent_card_version, f"{ONE.release_id}0")
    watching.declare(ONE, A)
    first, second = Heard(), Heard()
    watches = [watching.provider.observe(ONE, first), watching.provider.observe(longer, second)]
    assert hears(first, snapshot_of([A]))
    assert hears(second, nothing(watching))
    told = len(first.events)  # what was written a moment ago may reach the provider after a watch has begun (RT-5.5)
    watching.declare(longer, B)
    assert hears(second, snapshot_of([B]))
    assert set(first.events[told:]) <= {snapshot_of([A])}
    for watch in watches:
        watch.close()


def test_two_watches_of_one_release(watching: World) -> None:
    """RT-5.2: each has its own course, and the end of one is not that of the other."""
    watching.declare(ONE, A)
    first, second = Heard(), Heard()
    one, two = (watching.provider.observe(ONE, sink) for sink in (first, second))
    assert hears(first, snapshot_of([A]))
    assert hears(second, snapshot_of([A]))
    one.close()
    one.close()
    watching.declare(ONE, B)
    assert hears(second, snapshot_of([B]))
    told = len(first.events)
    watching.declare(ONE, C)
    assert hears(second, snapshot_of([C]))
    assert len(first.events) == told
    two.close()


def begins_with(world: World, expected: Snapshot) -> bool:
    """Say whether this is what a watch that is opened now hears first."""
    heard = Heard()
    watch = world.provider.observe(ONE, heard)
    assert eventually(lambda: bool(heard.events))
    watch.close()
    return heard.events[0] == expected


def test_what_changed_while_nobody_watched(watching: World) -> None:
    """RT-5.2, RT-5.5, RT-2.5: a watch begins with what is there, not with what the one before it has heard."""
    for endpoints in ((A,), (), (B,)):
        watching.declare(ONE, *endpoints)
        expected = snapshot_of(endpoints)
        assert eventually(functools.partial(begins_with, watching, expected))


def test_a_watch_is_closed_from_within(watching: World) -> None:
    """RT-5.3: a sink that closes its own watch is called no more, and others are."""
    watching.declare(ONE, A)
    heard, beside = Heard(), Heard()
    watches: list[Watch] = []
    closed = threading.Event()

    def once(event: ProviderEvent) -> None:
        heard(event)
        opened.wait(WAIT)
        watches[0].close()
        closed.set()

    opened = threading.Event()
    watches.append(watching.provider.observe(ONE, once))
    opened.set()
    assert closed.wait(WAIT)
    other = watching.provider.observe(ONE, beside)
    watching.declare(ONE, B)
    assert hears(beside, snapshot_of([B]))
    assert len(heard.events) == 1, "of whatever was known when it began"
    other.close()


def test_a_watch_is_opened_from_within(watching: World) -> None:
    """RT-5.3: a sink may do what a selector does in it: open another watch, ask whether the boundary is usable."""
    watching.declare(ONE, A)
    watching.declare(TWO, B)
    second: list[Watch] = []
    heard, usable = Heard(), []

    def first(_: ProviderEvent) -> None:
        if not second:
            second.append(watching.provider.observe(TWO, heard))
            usable.append(watching.provider.usable().usable)

    watch = watching.provider.observe(ONE, first)
    assert hears(heard, snapshot_of([B]))
    assert usable == [True]
    watch.close()
    second[0].close()


def test_a_source_that_goes_away(watching: World) -> None:
    """RT-5.2, RT-5.5, RT-5.6: every watch fails once and hears nothing after it; a new one hears the truth later."""
    watching.declare(ONE, A)
    heard = [Heard(), Heard()]
    for sink in heard:
        watching.provider.observe(ONE, sink)
    assert all(hears(sink, snapshot_of([A])) for sink in heard)
    assert watching.provider.usable().usable
    watching.break_off()
    assert all(fails(sink) for sink in heard)
    assert eventually(lambda: not watching.provider.usable().usable)
    assert isinstance(watching.provider.usable().cause, Cause)
    watching.mend()
    assert eventually(lambda: watching.provider.usable().usable)
    again = Heard()
    watch = watching.provider.observe(ONE, again)
    assert hears(again, snapshot_of([A]))
    watch.close()
    assert [sum(isinstance(event, Failed) for event in sink.events) for sink in heard] == [1, 1]
    assert all(isinstance(sink.last(), Failed) for sink in heard)


def test_many_watches(watching: World) -> None:
    """RT-5.2, RT-6.5: 300 releases, each with its own watch, hear a change of each; and no thread for each is there."""
    targets = [Target(f"agent-{number}", "1", "r") for number in range(300)]
    threads = threading.active_count()
    heard = {target: Heard() for target in targets}
    watches = [watching.provider.observe(target, sink) for target, sink in heard.items()]
    for number, target in enumerate(targets[:20]):
        watching.declare(target, endpoint_of(f"http://127.0.0.1:{number + 1}"))
    for number, target in enumerate(targets[:20]):
        assert hears(heard[target], snapshot_of([endpoint_of(f"http://127.0.0.1:{number + 1}")]))
    assert all(hears(heard[target], nothing(watching)) for target in targets[20:])
    assert threading.active_count() <= threads + 5
    for watch in watches:
        watch.close()


# --- the end ---------------------------------------------------------------------------------------------------------


def test_an_end_is_an_end(world: World) -> None:
    """RT-5.7: no thread is left, nothing is heard any more, a watch is refused with `closed`; twice is once."""
    world.declare(ONE, A)
    world.provider.close()  # its threads begin as they are needed, and would be taken for those of the other
    before = set(threading.enumerate())
    provider, heard = world.more(), Heard()
    if provider.continuous:
        provider.observe(ONE, heard)
        assert hears(heard, snapshot_of([A]))
    provider.close()
    provider.close()
    assert set(threading.enumerate()) <= before
    told = len(heard.events)
    for refused in (lambda: provider.observe(ONE, heard), lambda: provider.snapshot(ONE, 1.0)):
        with pytest.raises(ProviderFailureError) as error:
            refused()
        if provider.continuous:
            assert error.value.cause is Cause.CLOSED
    assert (provider.usable().usable, provider.usable().cause) == (False, Cause.CLOSED)
    world.declare(ONE, B)
    assert len(heard.events) == told


def test_an_end_leaves_no_descriptor(world: World) -> None:
    """RT-5.7: what a provider has opened is closed by its end, however often one is made."""
    world.declare(ONE, A)
    world.more().close()
    assert eventually(lambda: world.provider.snapshot(ONE, WAIT) == snapshot_of([A]))
    before = descriptors()
    for _ in range(3):
        provider = world.more()
        assert eventually(lambda made=provider: made.snapshot(ONE, WAIT) == snapshot_of([A]))  # type: ignore[misc]
        provider.close()
    assert eventually(lambda: descriptors() <= before)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_observes_nothing_refuses_to(asked: World) -> None:
    """RT-5.9, RT-5.8, RT-10.6: a provider without observation says so beforehand, and opens and counts nothing."""
    assert not asked.provider.continuous
    assert asked.provider.counted() is None
    with pytest.raises(ProviderFailureError) as error:
        asked.provider.observe(ONE, Heard())
    assert error.value.cause is Cause.FAULT
    assert eventually(lambda: asked.provider.usable().usable)


# --- with a selector -------------------------------------------------------------------------------------------------


def chosen(selector: WatchSelector | SnapshotSelector) -> str:
    """Return the endpoint that is selected, or the state that refuses."""
    try:
        return selector.select(ONE).endpoint.url
    except AgentUnavailableError as error:
        return error.state.value


def test_a_selector_that_watches(watching: World) -> None:
    """RT-4.1, RT-3.5: what is there is selected; what is empty or gone refuses, and is right again by itself."""
    watching.declare(ONE, A)
    selector = WatchSelector(
        watching.provider, clock=SystemClock(), changed=lambda _: None, line=lambda *_: None, max_observations=10
    )
    with selector:
        assert eventually(lambda: chosen(selector) == A.url)
        watching.declare(ONE)
        assert eventually(lambda: chosen(selector) == "empty")
        watching.break_off()
        assert eventually(lambda: chosen(selector) == "unavailable")
        watching.mend()
        watching.declare(ONE, B)
        assert eventually(lambda: chosen(selector) == B.url)


def test_a_selector_that_asks(world: World) -> None:
    """RT-4.5, RT-5.9: the same without observation, over any provider."""
    world.declare(ONE, A)
    assert eventually(lambda: chosen(SnapshotSelector(world.provider, line=lambda *_: None)) == A.url)
    world.declare(ONE)
    assert eventually(lambda: chosen(SnapshotSelector(world.provider, line=lambda *_: None)) == "empty")
