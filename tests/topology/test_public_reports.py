"""What users of such software have reported of registries and their clients: each case with its right value here.

Where a report asks for the last good set to stay, the contract decides otherwise (RT-2.5), and that is what is tried.
"""

from __future__ import annotations

import contextlib
import random

import pytest

from idkmesh.topology.backoff import FIRST_SECONDS
from idkmesh.topology.errors import AgentUnavailableError
from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, ProviderEvent, Snapshot, snapshot_of
from tests.topology.support import ECHO, EMPTY, HandProvider, ManualClock, Site, at


def site_at(*ports: int) -> Site:
    """Return a selector that has seen these endpoints, with what it told of that forgotten."""
    site = Site(HandProvider(at(*ports)), ManualClock())
    with contextlib.suppress(AgentUnavailableError):
        site.selector.select(ECHO)
    site.told.clear()
    return site


def test_an_empty_list_of_a_registry_that_restarts() -> None:
    """TOPO-01, RT-2.5: five, none, five: each counts at once, as one event with its revision, and nothing is kept."""
    site = site_at(1, 2, 3, 4, 5)
    site.watch.say(EMPTY)
    with pytest.raises(AgentUnavailableError):
        site.selector.select(ECHO)
    site.watch.say(at(1, 2, 3, 4, 5))
    assert site.selector.select(ECHO).revision == 3
    assert [(each.facts["from"], each.facts["to"]) for each in site.told] == [
        ("populated", "empty"),
        ("empty", "populated"),
    ]


def test_a_large_drop() -> None:
    """TOPO-01, RT-2.5: from fifty to one: the one that is left is the one that is asked."""
    site = site_at(*range(1, 51))
    site.watch.say(at(7))
    assert {site.selector.select(ECHO).endpoint.url for _ in range(10)} == {"http://127.0.0.1:7"}


@pytest.mark.parametrize("last", [EMPTY, NOT_DECLARED])
def test_a_removal_is_never_hidden(last: Snapshot) -> None:
    """TOPO-02, RT-2.5: the last instance, the release itself, and a start without any: told at once, and for good."""
    site = site_at(1, 2)
    site.watch.say(last)
    state = "empty" if last.declared else "missing"
    assert site.seen() == (state, 2)
    assert site.told[-1].facts["to"] == state
    begun = Site(HandProvider(last), ManualClock())
    with pytest.raises(AgentUnavailableError):
        begun.selector.select(ECHO)
    assert begun.seen() == (state, 1)


def test_equal_content_in_another_order() -> None:
    """TOPO-10, RT-2.3, RT-1.3: a hundred answers with the same set in another order are no change and no event."""
    site = site_at(1, 2, 3, 4, 5)
    known = site.selector.document()
    chance = random.Random(0)
    for _ in range(100):
        endpoints = list(at(1, 2, 3, 4, 5).endpoints)
        chance.shuffle(endpoints)
        site.watch.say(snapshot_of([*endpoints, endpoints[0]]))
    assert site.selector.document() == known
    assert site.told == []


def test_a_big_rollout() -> None:
    """TOPO-10, RT-10.2: a thousand instances that change one by one are no event, and the last set counts at once."""
    endpoints = at(*range(1, 2001)).endpoints
    site = site_at()
    site.watch.say(snapshot_of(endpoints[:1000]))
    site.told.clear()
    for number in range(1, 1001):
        site.watch.say(snapshot_of(endpoints[number : number + 1000]))
    assert site.told == []
    assert site.seen() == ("populated", 1002)


@pytest.mark.parametrize("cause", Cause)
def test_any_error_of_a_registry(cause: Cause) -> None:
    """TOPO-11, RT-2.5, RT-3.4, RT-5.4: told as one, with its cause, never as an empty set; the next attempt ends it."""
    clock = ManualClock()
    site = Site(HandProvider(at(1)), clock)
    site.selector.select(ECHO)
    site.told.clear()
    event: ProviderEvent = Failed(cause)
    site.watch.say(event)
    assert site.seen() == ("unavailable", 1)
    assert [(each.facts["to"], each.facts["cause"]) for each in site.told] == [("unavailable", cause.value)]
    with pytest.raises(AgentUnavailableError):
        site.selector.select(ECHO)
    clock.now += FIRST_SECONDS
    site.selector.keep()
    assert site.selector.select(ECHO).endpoint.url == "http://127.0.0.1:1"
    assert site.told[-1].facts["to"] == "populated"
