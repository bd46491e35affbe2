"""What is told of observations: the document, its schema, figures, and that a reading changes nothing."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from idkmesh.clock import SystemClock
from idkmesh.control_tower import assets
from idkmesh.topology.errors import AgentUnavailableError
from idkmesh.topology.metrics import TopologyCollector, counters, gauges
from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, ProviderEvent, State
from idkmesh.topology.projection import document, observed_text, row
from tests.topology.support import ECHO, EMPTY, UTC, HandProvider, ManualClock, Site, at, other

MEMBERS = ["agentId", "agentCardVersion", "releaseId", "state", "localRevision", "observedAt"]
SCHEMA = assets.schema("router-topology-status.v1.json")


def valid(told: bytes) -> dict[str, Any]:
    """Return the document, after its schema has judged it."""
    read: dict[str, Any] = json.loads(told)
    jsonschema.Draft202012Validator(SCHEMA).validate(read)
    return read


def site_of_each_state() -> Site:
    """Return a selector with an observation in each state but ``initializing``, which takes a second to get."""
    site = Site(HandProvider(), ManualClock())
    events: tuple[ProviderEvent, ...] = (NOT_DECLARED, EMPTY, at(1), Failed(Cause.LOST))
    for number, event in enumerate(events):
        site.provider.at_once = (event,)
        try:
            site.selector.select(other(number))
        except AgentUnavailableError:
            continue
    return site


def test_the_document_in_each_state() -> None:
    """RT-11.1, RT-2.4: exactly these members, in the order of the openings; the schema takes each."""
    read = valid(site_of_each_state().selector.document())
    assert list(read) == ["schemaVersion", "provider", "observations"]
    assert (read["schemaVersion"], read["provider"]) == ("1", "etcd")
    assert [list(each) for each in read["observations"]] == [MEMBERS] * 4
    assert [each["state"] for each in read["observations"]] == ["missing", "empty", "populated", "unavailable"]
    assert [each["localRevision"] for each in read["observations"]] == [1, 1, 1, 0]
    assert {each["observedAt"] for each in read["observations"]} == {"2026-01-02T03:04:05.678Z"}


def test_nothing_is_observed() -> None:
    """RT-11.1, RT-3.1: before the first use there is nothing, and that is a document too."""
    site = Site(HandProvider(), ManualClock())
    assert valid(site.selector.document()) == {"schemaVersion": "1", "provider": "etcd", "observations": []}


def test_before_the_first_snapshot() -> None:
    """RT-2.2, RT-2.4: an opening is shown with revision 0 and its own instant."""
    site = Site(HandProvider(), SystemClock())
    with pytest.raises(AgentUnavailableError):
        site.selector.select(ECHO)
    (found,) = valid(site.selector.document())["observations"]
    assert (found["state"], found["localRevision"]) == ("initializing", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": "http://a:1"},
        {"cause": "lost"},
        {"state": "ready"},
        {"localRevision": -1},
        {"localRevision": 1.5},
        {"observedAt": "2026-01-02T03:04:05Z"},
        {"agentId": "a/b"},
        {"releaseId": None},
    ],
)
def test_the_schema_allows_nothing_else(change: dict[str, Any]) -> None:
    """RT-11.1, RT-11.5: a member more, or a value that is none of these, is refused by the schema."""
    site = site_of_each_state()
    read = json.loads(site.selector.document())
    read["observations"][0].update(change)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(read)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate({**json.loads(site.selector.document()), **change})


def test_a_reading_changes_nothing() -> None:
    """RT-11.2: no provider is asked, no observation, count or time is another one; what was read is a copy."""
    site = site_of_each_state()
    calls, tallies = site.provider.calls, site.selector.tallies()
    due = site.selector._sessions.due_at()
    first = site.selector.document()
    for _ in range(100):
        site.selector.statuses()
        assert site.selector.document() == first
    assert site.provider.calls == calls
    assert site.selector.tallies() == tallies
    assert site.selector._sessions.due_at() == due
    site.selector.statuses().clear()
    site.selector.tallies().transitions.clear()
    assert len(site.selector.statuses()) == 4
    assert site.selector.tallies() == tallies


def test_rows_are_of_the_newest_observation() -> None:
    """RT-11.1: the document says what the values say, whatever has happened."""
    site = Site(HandProvider(at(1)), ManualClock())
    site.selector.select(ECHO)
    for event in (at(2), EMPTY, NOT_DECLARED, Failed(Cause.LOST)):
        site.watch.say(event)
        (found,) = valid(site.selector.document())["observations"]
        (status,) = site.selector.statuses()
        assert found == row(*status)
    assert valid(document("file", [])) == {"schemaVersion": "1", "provider": "file", "observations": []}
    assert observed_text(UTC.replace(microsecond=0)) == "2026-01-02T03:04:05.000Z"


@pytest.mark.alone
def test_a_reading_of_ten_thousand() -> None:
    """RT-11.6: 20 ms at most, the best of ten: what a busy machine adds is not the reading's."""
    site = Site(HandProvider(at(1)), ManualClock(), most=10_000)
    for number in range(10_000):
        site.selector.select(other(number))
    took = []
    for _ in range(10):
        began = time.perf_counter()
        site.selector.document()
        took.append(time.perf_counter() - began)
    assert len(json.loads(site.selector.document())["observations"]) == 10_000
    assert min(took) <= 0.020


def test_figures() -> None:
    """RT-10.4: by state, transition, end and outcome; every state has a value, and no label names a target."""
    site = site_of_each_state()
    (states,) = gauges(site.selector.statuses())
    assert states.values == {(state.value,): int(state is not State.INITIALIZING) for state in State}
    found = {each.name: each for each in counters(site.selector.tallies())}
    assert found["idkmesh_topology_transitions"].values == {
        ("initializing", to): 1 for to in ("missing", "empty", "populated", "unavailable")
    }
    assert found["idkmesh_topology_sessions"].values == {("opened",): 4, ("failed",): 1}
    assert found["idkmesh_topology_selections"].values == {
        (outcome,): 1 for outcome in ("missing", "empty", "selected", "unavailable")
    }
    assert found["idkmesh_topology_dropped"].values == {(): 0}


def test_figures_as_prometheus_reads_them() -> None:
    """RT-10.4, RT-11.5: the text is of its format, and names neither a target nor an endpoint."""
    site = site_of_each_state()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(TopologyCollector(site.selector.statuses(), site.selector.tallies()))
    text = generate_latest(registry).decode()
    names = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    assert names == {
        *("idkmesh_topology_observations", "idkmesh_topology_transitions_total", "idkmesh_topology_sessions_total"),
        *("idkmesh_topology_selections_total", "idkmesh_topology_dropped_total"),
    }
    assert "agent-" not in text
    assert "127.0.0.1" not in text
