"""Sessions and selections, with a provider and a clock in the test's hands."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from idkmesh.clock import SystemClock
from idkmesh.topology.errors import AgentUnavailableError, SelectionError, TooManyObservationsError
from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, ProviderEvent, Snapshot, State
from idkmesh.topology.provider import ProviderFailureError
from idkmesh.topology.sessions import AT_ONCE, Now
from idkmesh.topology.snapshot_selector import SnapshotSelector
from tests.topology.support import ECHO, EMPTY, WAIT, HandProvider, ManualClock, Site, at, eventually, other

if TYPE_CHECKING:
    import datetime as dt

    from idkmesh.topology.model import Target
    from idkmesh.topology.provider import Sink
    from tests.topology.support import HandWatch


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def refused(site: Site) -> tuple[str, str, int | None]:
    """Return how a selection is refused: code, state, revision."""
    with pytest.raises(AgentUnavailableError) as told:
        site.selector.select(ECHO)
    return told.value.code, told.value.state.value, told.value.revision


# --- selecting -------------------------------------------------------------------------------------------------------


def test_the_newest_snapshot_is_selected_from(clock: ManualClock) -> None:
    """RT-4.1, RT-3.1: the first use opens one observation; each use has what the newest snapshot has."""
    site = Site(HandProvider(at(1)), clock)
    assert site.selector.statuses() == []
    assert site.provider.calls == 0
    chosen = site.selector.select(ECHO)
    assert (chosen.target, chosen.endpoint.url, chosen.revision) == (ECHO, "http://127.0.0.1:1", 1)
    site.watch.say(at(2))
    chosen = site.selector.select(ECHO)
    assert (chosen.endpoint.url, chosen.revision) == ("http://127.0.0.1:2", 2)
    assert site.provider.calls == 1


@pytest.mark.parametrize(
    ("event", "state", "revision"),
    [(EMPTY, "empty", 2), (NOT_DECLARED, "missing", 2), (Failed(Cause.LOST), "unavailable", 1)],
)
def test_it_fails_closed_at_once(clock: ManualClock, event: ProviderEvent, state: str, revision: int) -> None:
    """RT-4.1, RT-2.5: nothing is served from before, from the moment on at which the router has heard it."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    site.watch.say(event)
    assert refused(site) == ("AGENT_UNAVAILABLE", state, revision)
    assert site.seen() == (state, revision)


def test_how_it_says_no(clock: ManualClock) -> None:
    """RT-4.1, RT-3.2: code, status, whether a retry helps, and one line without an endpoint."""
    for error in (AgentUnavailableError(ECHO, State.EMPTY, 4), TooManyObservationsError(ECHO, 7)):
        assert isinstance(error, SelectionError)
        assert (error.status, error.retryable) == (503, True)
        assert "\n" not in str(error)
        assert str(ECHO) in str(error)
    assert AgentUnavailableError.code == "AGENT_UNAVAILABLE"
    assert TooManyObservationsError.code == "too_many_observations"


def test_endpoints_are_taken_in_turn(clock: ManualClock) -> None:
    """RT-4.3: each in the order of their text; another snapshot does not begin with the first one again."""
    site = Site(HandProvider(at(3, 1, 2)), clock)
    ports = [site.selector.select(ECHO).endpoint.url[-1] for _ in range(7)]
    assert ports == ["1", "2", "3", "1", "2", "3", "1"]
    site.watch.say(at(1, 2))
    assert [site.selector.select(ECHO).endpoint.url[-1] for _ in range(2)] == ["2", "1"]


def test_a_first_use_waits_for_the_first_snapshot() -> None:
    """RT-4.2, RT-4.4: eight first uses at once open one watch, wait for its snapshot and all have it."""
    site = Site(HandProvider(), SystemClock())
    with ThreadPoolExecutor(8) as pool:
        uses = [pool.submit(site.selector.select, ECHO) for _ in range(8)]
        assert eventually(lambda: len(site.provider.watches) == 1)
        site.watch.say(at(1))
        assert {use.result(WAIT).revision for use in uses} == {1}
    assert len(site.provider.watches) == 1


def test_a_first_use_waits_a_second_and_no_longer() -> None:
    """RT-4.2: from the opening on; a use after that second does not wait at all."""
    site = Site(HandProvider(), SystemClock())
    began = time.monotonic()
    assert refused(site) == ("AGENT_UNAVAILABLE", "initializing", 0)
    assert time.monotonic() - began >= 1.0
    cpu, threads = time.monotonic(), threading.active_count()
    for _ in range(50):
        refused(site)
    assert time.monotonic() - cpu < 50  # a second for each, had they waited
    assert threading.active_count() == threads


def test_a_first_use_that_fails_does_not_wait(clock: ManualClock) -> None:
    """RT-4.2, RT-3.3: a failure is what there is to hear, too."""
    site = Site(HandProvider(Failed(Cause.UNREACHABLE)), clock)
    assert refused(site) == ("AGENT_UNAVAILABLE", "unavailable", 0)


def test_threads_select_what_was_the_newest() -> None:
    """RT-4.4: while snapshots with another port each come, no thread sees an older one than it saw before."""
    site = Site(HandProvider(at(1)), SystemClock())
    site.selector.select(ECHO)

    def use() -> bool:
        seen = [site.selector.select(ECHO) for _ in range(300)]
        revisions = [chosen.revision or 0 for chosen in seen]
        return revisions == sorted(revisions) and all(
            chosen.endpoint.url.endswith(f":{revision}") for chosen, revision in zip(seen, revisions, strict=True)
        )

    with ThreadPoolExecutor(4) as pool:
        uses = [pool.submit(use) for _ in range(4)]
        for port in range(2, 300):
            site.watch.say(at(port))
        assert all(each.result(WAIT) for each in uses)


# --- how many --------------------------------------------------------------------------------------------------------


def test_so_many_and_no_more(clock: ManualClock) -> None:
    """RT-3.2, RT-10.2: one more is refused as such, opens nothing and closes nothing; that is told once."""
    site = Site(HandProvider(at(1)), clock, most=2)
    site.selector.select(other(1))
    site.selector.select(other(2))
    for _ in range(3):
        with pytest.raises(TooManyObservationsError, match="max_observations"):
            site.selector.select(ECHO)
    assert [status.target for status in site.selector.statuses()] == [other(1), other(2)]
    assert len(site.provider.watches) == 2
    assert site.types().count("refused") == 1
    assert site.selector.select(other(1)).revision == 1
    clock.now += 3600
    site.selector.keep()
    site.selector.select(ECHO)
    site.selector.select(other(1))
    with pytest.raises(TooManyObservationsError):
        site.selector.select(other(2))
    assert site.types().count("refused") == 2


@pytest.mark.parametrize("most", [0, -1, 65_537, True, 1.0, "1024", None])
def test_the_range_of_the_limit(clock: ManualClock, most: object) -> None:
    """RT-3.2: what is no whole number from 1 to 65,536 is refused at construction, with the range."""
    with pytest.raises(ValueError, match="max_observations: must be a whole number from 1 to 65536"):
        Site(HandProvider(), clock, most=most)  # type: ignore[arg-type]


def test_an_hour_without_a_use(clock: ManualClock) -> None:
    """RT-3.6, RT-11.2: what is not used for an hour is closed within a minute; a reading is no use."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    site.selector.select(other(1))
    clock.now += 3000
    site.selector.keep()
    site.selector.select(other(1))
    for _ in range(11):
        clock.now += 60
        site.selector.keep()
        site.selector.statuses()
    assert [status.target for status in site.selector.statuses()] == [other(1)]
    assert [watch.closed for watch in site.provider.watches] == [1, 0]
    assert site.types()[-1] == "closed"
    assert site.selector.select(ECHO).revision == 1


def test_memory_of_an_observation() -> None:
    """RT-3.8: 2 KB each, its target and an endpoint of its own included."""
    site = Site(HandProvider(), ManualClock(), most=2000)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(2000):
            site.provider.at_once = (at(number + 1),)
            site.selector.select(other(number))
        site.told.clear()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 2000 <= 2048


# --- sessions --------------------------------------------------------------------------------------------------------


def test_silence_is_a_failure(clock: ManualClock) -> None:
    """RT-3.3, RT-2.4: ten seconds without a word, and the watch is closed."""
    site = Site(HandProvider(), clock)
    with ThreadPoolExecutor(1) as pool:
        use = pool.submit(site.selector.select, ECHO)
        assert eventually(lambda: bool(site.provider.watches))
        clock.now += 9.9
        site.selector.keep()
        assert site.seen() == ("initializing", 0)
        clock.now += 0.2
        site.selector.keep()
        with pytest.raises(AgentUnavailableError):
            use.result(WAIT)
    assert site.seen() == ("unavailable", 0)
    assert site.watch.closed == 1
    assert site.told[-1].facts["cause"] == "silent"


def test_who_has_spoken_may_be_silent(clock: ManualClock) -> None:
    """RT-3.3: a session that was heard of does not fail for its silence; that is the provider's to find."""
    site = Site(HandProvider(EMPTY), clock)
    refused(site)
    clock.now += 30
    site.selector.keep()
    assert site.seen() == ("empty", 1)


def attempts(site: Site, clock: ManualClock, seconds: float) -> list[float]:
    """Return when, after the beginning, watches are opened within ``seconds``."""
    began, found, known = clock.now, [], len(site.provider.watches)
    while clock.now < began + seconds:
        clock.now += 0.01
        site.selector.keep()
        if len(site.provider.watches) > known:
            known = len(site.provider.watches)
            found.append(clock.now - began)
    return found


def test_attempts_come_later_and_later(clock: ManualClock) -> None:
    """RT-3.4: after a half to the whole of 0.5, 1, 2, 4, 5, 5 s; nothing is seen of attempts that fail."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    site.provider.at_once = (Failed(Cause.UNREACHABLE),)
    site.watch.say(Failed(Cause.LOST))
    failed = site.selector.statuses()
    found = attempts(site, clock, 60)
    gaps = [after - before for before, after in zip([0.0, *found], found, strict=False)]
    whole = [0.5, 1, 2, 4, *[5] * len(gaps)]
    assert all(most / 2 - 0.02 <= gap <= most + 0.02 for gap, most in zip(gaps, whole, strict=False))
    assert len(gaps) >= 14
    assert max(gaps[4:]) - min(gaps[4:]) > 0.02  # by chance
    assert site.selector.statuses() == failed
    assert site.seen() == ("unavailable", 1)
    assert site.types() == ["opened", "changed", "changed"]


def test_a_renewal_begins_at_nothing(clock: ManualClock) -> None:
    """RT-3.4, RT-3.5, RT-1.4, RT-10.2: the first snapshot of an attempt is revision 1 of a new session, within 5 s."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    for port in (2, 3, 4):
        site.watch.say(at(port))
    site.provider.at_once = (Failed(Cause.UNREACHABLE),)
    site.watch.say(Failed(Cause.LOST))
    attempts(site, clock, 120)
    assert site.seen() == ("unavailable", 4)
    site.provider.at_once = (EMPTY,)
    assert len(attempts(site, clock, 5.02)) == 1
    assert site.seen() == ("empty", 1)
    assert site.told[-1].what == "idkmesh.topology.renewed"
    assert site.told[-1].facts["attempts"] > 20
    site.watch.say(Failed(Cause.LOST))
    assert len(attempts(site, clock, 5.02)) == 1
    assert site.told[-1].facts["attempts"] == 1
    site.told.pop()
    site.told.pop()
    assert (site.told[-1].facts["from"], site.told[-1].facts["to"]) == ("unavailable", "empty")


def test_an_attempt_that_is_silent(clock: ManualClock) -> None:
    """RT-3.4: its watch is closed after ten seconds, another attempt follows, and uses do not wait meanwhile."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    site.provider.at_once = ()
    site.watch.say(Failed(Cause.LOST))
    assert len(attempts(site, clock, 0.52)) == 1
    assert refused(site) == ("AGENT_UNAVAILABLE", "unavailable", 1)
    silent = site.watch
    (again,) = attempts(site, clock, 11.5)
    assert 10.2 < again < 11.1  # the attempt came after 0.25 to 0.5 s, 0.52 s are over, the next one after 0.5 to 1 s
    assert silent.closed == 1
    silent.say(at(9))
    assert site.seen() == ("unavailable", 1)


def test_failures_in_a_row_end(clock: ManualClock) -> None:
    """RT-3.4: a session that has lived for a minute has not failed in a row: the next attempt comes soon."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    found = []
    for _ in range(5):
        site.watch.say(Failed(Cause.LOST))
        found += attempts(site, clock, 5.1)
    assert found[-1] > 2.4
    clock.now += 60
    site.watch.say(Failed(Cause.LOST))
    assert attempts(site, clock, 5.1)[0] <= 0.52


def test_nothing_is_attempted_for_what_is_closed(clock: ManualClock) -> None:
    """RT-3.6, RT-3.4: an observation that failed and is closed is not made anew."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    clock.now += 3599.9
    site.provider.at_once = (Failed(Cause.UNREACHABLE),)
    site.watch.say(Failed(Cause.LOST))
    clock.now += 0.1
    site.selector.keep()
    assert attempts(site, clock, 20) == []
    assert site.selector.statuses() == []


def test_a_lost_provider_of_many(clock: ManualClock) -> None:
    """RT-3.5: of a thousand observations each is right again within 5 s, however few attempts one look begins."""
    site = Site(HandProvider(at(1)), clock)
    for number in range(1000):
        site.selector.select(other(number))
    for watch in list(site.provider.watches):
        watch.say(Failed(Cause.LOST))
    site.provider.at_once = (EMPTY,)
    until = clock.now + 5
    while clock.now < until:
        clock.now = max(clock.now, site.selector._sessions.due_at())
        site.selector.keep()
    assert {status.observation.state for status in site.selector.statuses()} == {State.EMPTY}


def done_by_a_look(site: Site) -> int:
    """Return how many sessions a look has ended, closed and begun."""
    sessions = site.selector._sessions
    before = len(site.provider.watches) + sessions.tallies.sessions["failed"] + sessions.tallies.sessions["closed"]
    site.selector.keep()
    now = len(site.provider.watches) + sessions.tallies.sessions["failed"] + sessions.tallies.sessions["closed"]
    return now - before


@pytest.mark.parametrize("what", ["attempts", "silent", "unused"])
def test_what_a_look_does_at_once(clock: ManualClock, what: str) -> None:
    """RT-4.1: a look holds the lock that selections wait for: it does a part of what is due, the next one follows."""
    site = Site(HandProvider(at(1)), clock, most=2000)
    for number in range(2 * AT_ONCE + 1):
        target, now = other(number), Now(clock.now, clock.utc())
        _, session = site.selector._sessions.used(target, now)
        assert session is not None
        if what != "silent":
            session(at(1))
        if what == "attempts":
            session(Failed(Cause.LOST))
    site.provider.at_once = ()
    clock.now += {"attempts": 0.5, "silent": 10.0, "unused": 3600.0}[what]
    found = []
    while site.selector._sessions.due_at() <= clock.now:
        found.append(done_by_a_look(site))
    assert [number for number in found if number] == [AT_ONCE, AT_ONCE, 1]


def test_what_is_used_again_is_not_closed(clock: ManualClock) -> None:
    """RT-3.6: a use between the look that found it unused and its turn keeps it."""
    site = Site(HandProvider(at(1)), clock, most=2000)
    for number in range(AT_ONCE + 2):
        site.selector.select(other(number))
    clock.now += 3600
    site.selector.keep()
    assert len(site.selector.statuses()) == 2
    site.selector.select(other(AT_ONCE))
    while site.selector._sessions.due_at() <= clock.now:
        site.selector.keep()
    assert [status.target for status in site.selector.statuses()] == [other(AT_ONCE)]


def test_nothing_is_attempted_for_what_came_after(clock: ManualClock) -> None:
    """RT-3.6, RT-3.4: an attempt that was due for an observation that is closed is none of the one opened since."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    clock.now += 3599.9
    site.watch.say(Failed(Cause.LOST))
    clock.now += 0.1
    site.selector.keep()
    site.selector.select(ECHO)
    opened = len(site.provider.watches)
    assert attempts(site, clock, 5) == []
    assert len(site.provider.watches) == opened
    assert site.seen() == ("populated", 1)


def test_who_has_failed_is_not_silent_as_well(clock: ManualClock) -> None:
    """RT-3.7, RT-10.4: the time of a session that is over passes without a word: nothing was dropped."""
    site = Site(HandProvider(Failed(Cause.LOST)), clock)
    assert refused(site)[1] == "unavailable"
    attempts(site, clock, 30)
    assert site.selector.tallies().dropped == 0


@pytest.mark.parametrize("how", ["failed", "closed", "renewed", "stopped"])
def test_a_watch_that_is_over_is_not_heard(clock: ManualClock, how: str) -> None:
    """RT-3.7: whatever still comes of it changes nothing, and is counted."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    old = site.watch
    if how == "closed":
        clock.now += 3600
        site.selector.keep()
    elif how == "stopped":
        site.selector.stop()
    else:
        old.say(Failed(Cause.LOST))
    if how == "renewed":
        attempts(site, clock, 1)
    before, told = site.selector.statuses(), len(site.told)
    for event in (at(5), EMPTY, NOT_DECLARED, Failed(Cause.FAULT)):
        old.say(event)
    assert site.selector.statuses() == before
    assert len(site.told) == told
    assert site.selector.tallies().dropped == 4
    assert old.closed == 1


def test_a_failure_within_the_opening_closes_the_watch(clock: ManualClock) -> None:
    """RT-5.2, RT-3.7: a sink may hear all before `observe` has returned; the handle that comes then is closed."""
    site = Site(HandProvider(at(1), Failed(Cause.LOST), at(2)), clock)
    assert refused(site) == ("AGENT_UNAVAILABLE", "unavailable", 1)
    assert site.watch.closed == 1
    assert site.selector.tallies().dropped == 1


@pytest.mark.parametrize(
    ("error", "cause"),
    [(ProviderFailureError(Cause.REFUSED), "refused"), (RuntimeError("token=s3cret http://10.0.0.1:1"), "fault")],
)
def test_a_provider_that_cannot_open(clock: ManualClock, error: Exception, cause: str) -> None:
    """RT-5.4, RT-1.5: its refusal, or its fault, is a word; what an exception says goes nowhere."""
    site = Site(HandProvider(), clock)
    site.provider.refuses = error
    assert refused(site) == ("AGENT_UNAVAILABLE", "unavailable", 0)
    assert site.told[-1].facts["cause"] == cause
    assert "s3cret" not in f"{site.lines}{site.told}"
    site.provider.refuses, site.provider.at_once = None, (at(1),)
    attempts(site, clock, 1)
    assert site.selector.select(ECHO).revision == 1


# --- its life --------------------------------------------------------------------------------------------------------


def test_its_thread_keeps_the_times() -> None:
    """RT-3.4: started, it renews by itself; stopped, it leaves no thread, and each watch is closed."""
    site = Site(HandProvider(at(1)), SystemClock())
    with site.selector:
        with pytest.raises(RuntimeError, match="once"):
            site.selector.start()
        site.selector.select(ECHO)
        site.watch.say(Failed(Cause.LOST))
        assert eventually(lambda: site.seen() == ("populated", 1))
        assert "topology-keeper" in {thread.name for thread in threading.enumerate()}
    assert "topology-keeper" not in {thread.name for thread in threading.enumerate()}
    assert [watch.closed for watch in site.provider.watches] == [1, 1]
    assert site.selector.statuses() == []
    assert refused(site) == ("AGENT_UNAVAILABLE", "unavailable", None)
    with pytest.raises(RuntimeError, match="once"):
        site.selector.start()


def test_who_waits_is_told_of_the_end(clock: ManualClock) -> None:
    """RT-4.2: a use that waits for a first snapshot ends with the selector, however long it would have waited."""

    class Slow(HandProvider):
        def observe(self, target: Target, sink: Sink) -> HandWatch:
            clock.now -= 30
            return super().observe(target, sink)

    site = Site(Slow(), clock)
    with ThreadPoolExecutor(1) as pool:
        use = pool.submit(site.selector.select, ECHO)
        assert eventually(lambda: bool(site.provider.watches))
        site.selector.stop()
        with pytest.raises(AgentUnavailableError):
            use.result(WAIT)


def test_a_taker_with_a_fault(clock: ManualClock) -> None:
    """RT-10.2: a taker of changes that raises ends nothing, and one that calls back is answered."""
    site = Site(HandProvider(at(1)), clock)

    def take(_: object) -> None:
        site.told.append(site.told[0])
        assert site.selector.statuses() is not None
        raise RuntimeError("s3cret")

    broken = type(site.selector)(
        site.provider, clock=clock, changed=take, line=lambda line, _: site.lines.append(line), max_observations=5
    )
    assert broken.select(ECHO).revision == 1
    assert site.lines
    assert "s3cret" not in str(site.lines)


def test_its_thread_outlives_a_fault() -> None:
    """RT-3.4: a fault while the times are kept, of a clock for example, is one line, and they are kept on."""

    class Broken(SystemClock):
        broken = True

        def utc(self) -> dt.datetime:
            if self.broken and threading.current_thread().name == "topology-keeper":
                self.broken = False
                raise RuntimeError("s3cret")
            return super().utc()

    site = Site(HandProvider(at(1)), Broken())
    with site.selector:
        assert eventually(lambda: bool(site.lines))
        site.selector.select(ECHO)
        site.watch.say(Failed(Cause.LOST))
        assert eventually(lambda: site.seen() == ("populated", 1))
    assert site.lines == ["the keeper of the topology has a fault: RuntimeError"]


def test_a_watch_that_does_not_close(clock: ManualClock) -> None:
    """RT-5.3, RT-1.5: a handle with a fault keeps no other from being closed, and its words stay in."""
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    site.selector.select(other(1))

    def broken() -> None:
        raise RuntimeError("s3cret")

    site.provider.watches[0].close = broken  # type: ignore[method-assign]
    site.selector.stop()
    assert site.watch.closed == 1
    assert site.lines == ["provider etcd: a watch does not close: RuntimeError"]


def test_it_says_whether_its_provider_is_usable(clock: ManualClock) -> None:
    """RT-5.6: what the provider says."""
    site = Site(HandProvider(), clock)
    assert site.selector.usable() == site.provider.usable()


def test_it_observes_or_is_refused(clock: ManualClock) -> None:
    """RT-5.9: a provider that observes nothing is not watched."""
    with pytest.raises(ValueError, match="observes nothing"):
        Site(HandProvider(continuous=False), clock)


# --- without observation ---------------------------------------------------------------------------------------------


def test_a_snapshot_for_each_selection() -> None:
    """RT-4.5, RT-5.9: the provider is asked each time, for a second at most; nothing is kept but the turn."""
    provider = HandProvider(continuous=False)
    selector = SnapshotSelector(provider, line=lambda *_: None)
    selector.start()
    provider.answer = at(1, 2)
    chosen = [selector.select(ECHO) for _ in range(3)]
    assert [each.endpoint.url[-1] for each in chosen] == ["1", "2", "1"]
    assert {each.revision for each in chosen} == {None}
    assert provider.asked == [(ECHO, 1.0)] * 3
    assert selector.usable().usable
    assert not hasattr(selector, "statuses")
    selector.stop()


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (EMPTY, "empty"),
        (NOT_DECLARED, "missing"),
        (Snapshot(declared=True, unreadable=1), "unavailable"),
        (ProviderFailureError(Cause.UNREACHABLE), "unavailable"),
        (RuntimeError("token=s3cret"), "unavailable"),
    ],
)
def test_it_fails_closed_without_observation_too(answer: Snapshot | Exception, state: str) -> None:
    """RT-4.5, RT-4.1, RT-5.4: no endpoint, no declaration, no answer: each is refused, and no words of a provider's."""
    provider, lines = HandProvider(continuous=False), []
    provider.answer = answer
    selector = SnapshotSelector(provider, line=lambda line, _: lines.append(line))
    with pytest.raises(AgentUnavailableError) as told:
        selector.select(ECHO)
    assert (told.value.state.value, told.value.revision) == (state, None)
    assert "s3cret" not in f"{lines}{told.value}"
