"""The table of faults: its bounds, and what it asks of looks."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from idkmesh.child_process import spawn
from idkmesh.demo.acts import Actor
from idkmesh.demo.faults import SLACK_SECONDS, Expectation, Fault, table
from idkmesh.demo.seen import Seen
from idkmesh.demo.settings import Figures, Ports, Site
from tests.demo.support import WELL_INSTANCE, WELL_TOWER, failing, seen_at

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 30.0
TABLE = {fault.name: fault for fault in table(Figures())}
NAMES = (
    "slow the cache", "stop the store", "flood the server", "fill the ingress", "pause a node", "wedge a replica",
)  # fmt: skip


def bounds(name: str) -> dict[str, float]:
    fault = TABLE[name]
    return {each.what: each.bound for each in (*fault.then, *fault.after)}


def test_the_table() -> None:
    """DM-2.1: six faults, by their keys, each with what is done, what to see, why, and what is expected."""
    assert tuple(TABLE) == NAMES
    assert [fault.key for fault in TABLE.values()] == list("123456")
    for fault in TABLE.values():
        assert all((fault.does, fault.see, fault.why, fault.then, fault.after)), fault.name


def test_every_fault_can_be_done(tmp_path: Path) -> None:
    """DM-2.1: for each row there is what does it, and what undoes it."""
    tower = spawn([sys.executable, "-c", ""], os.environ)
    actor = Actor(Site(folder=tmp_path, ports=Ports(page=1, first=2), python="python3"), tower, "token")
    assert tuple(actor._acts) == NAMES
    assert tower.wait(PATIENCE)
    assert tower.end() == 0


def test_bounds_are_those_of_the_figures() -> None:
    """DM-2.2: with other figures in the files other bounds are announced, by HL-8.5, AR-4.1, AR-5.1 and RA-3.3."""
    assert SLACK_SECONDS == 1.0
    assert bounds("slow the cache") == {"the cache is failing": 1.5 + 1, "the cache is ok": 1.5 + 1}
    slow = next(iter(table(Figures(interval_ms=4000, timeout_ms=2000))))
    assert slow.then[0].bound == 6 + 1
    stopped = bounds("stop the store")
    assert stopped["the node is not ready"] == 3 + 2 + 1.5 + 1
    assert stopped["the store is ok"] == 3 + 2 + 2 + 2.5 + 1
    assert bounds("pause a node")["the adapter says not live"] == 3 + 1
    wedged = bounds("wedge a replica")
    assert wedged["web-2 is unhealthy"] == 5 + 20 + 5 + 1
    assert wedged["web-2 is restarted"] == 5 + 80 + 5 + 10 + 2 + 1


def test_contractual_times_are_said() -> None:
    """DM-2.2: 20 s until unhealthy and 80 s until a restart stand in what is announced."""
    assert "unhealthy after 20 s, restarted 80 s after its first failure" in TABLE["wedge a replica"].see
    assert "true for 3 s" in TABLE["pause a node"].why


BEFORE = seen_at(1.0)
RESTARTED = {**WELL_TOWER.instances, "web-2": replace(WELL_INSTANCE, restarts=1)}
UNHEALTHY = {**WELL_TOWER.instances, "web-2": replace(WELL_INSTANCE, health="unhealthy")}

EVIDENCE: dict[str, Seen] = {
    "the cache is failing": failing(2.0, "cache"),
    "the store is failing": failing(2.0, "store"),
    "the node is not ready": seen_at(2.0, readiness="not_ready"),
    "the adapter says not ready": seen_at(2.0, ready=False),
    "requests are refused as overloaded": seen_at(2.0, overloaded=1),
    "no connection is free": seen_at(2.0, free_connections=0),
    "the adapter says live, not ready": seen_at(2.0, ready=False),
    "the adapter says not live": seen_at(2.0, live=False, ready=False),
    "web-2 is failing": failing(2.0, "web-2"),
    "the topology has another revision": seen_at(2.0, revision=2),
    "web-2 is unhealthy": seen_at(2.0, instances=UNHEALTHY),
    "web-2 is restarted": seen_at(2.0, instances=RESTARTED),
}
COUNTEREVIDENCE: dict[str, Seen] = {
    "the node stays alive": seen_at(2.0, alive=False),
    "the node stays ready": seen_at(2.0, readiness="not_ready"),
    "nothing is restarted": seen_at(2.0, instances=RESTARTED),
    "web-1 is not restarted": seen_at(2.0, instances={**RESTARTED, "web-1": replace(WELL_INSTANCE, restarts=1)}),
}


def rows(part: str) -> list[tuple[Fault, Expectation]]:
    return [(fault, each) for fault in TABLE.values() for each in getattr(fault, part)]


def name(value: object) -> str:
    return value.what if isinstance(value, Expectation) else value.name if isinstance(value, Fault) else ""


@pytest.mark.parametrize(("fault", "each"), rows("then"), ids=name)
def test_what_is_expected_is_not_so_before(fault: Fault, each: Expectation) -> None:
    """DM-3.2: each expectation holds with its evidence, neither while all is well nor where nobody answers."""
    assert each.holds(EVIDENCE[each.what], BEFORE)
    assert not each.holds(BEFORE, BEFORE)
    assert not each.holds(Seen(), BEFORE)


@pytest.mark.parametrize(("fault", "each"), rows("stays"), ids=name)
def test_what_is_to_hold(fault: Fault, each: Expectation) -> None:
    """DM-3.2: it holds while all is well and where nobody answers, and is broken by the contrary alone."""
    assert each.holds(BEFORE, BEFORE)
    assert each.holds(Seen(), BEFORE)
    assert not each.holds(COUNTEREVIDENCE[each.what], BEFORE)


@pytest.mark.parametrize(("fault", "each"), rows("after"), ids=name)
def test_the_recovery_is_seen_once_all_is_well(fault: Fault, each: Expectation) -> None:
    """DM-3.3: what is expected after a fault is that all is as before."""
    assert each.holds(seen_at(2.0, revision=3) if "another revision" in each.what else BEFORE, BEFORE)
    assert not each.holds(Seen(), BEFORE)


def test_the_second_revision_is_another_one() -> None:
    """DM-3.3: what a fault has brought to the topology is no recovery from it; an empty release is none either."""
    (each,) = (each for each in TABLE["wedge a replica"].after if "another revision" in each.what)
    assert not each.holds(seen_at(2.0, revision=2), BEFORE)
    assert not each.holds(seen_at(2.0, revision=3, release="empty"), BEFORE)


def test_without_a_router_nothing_is_announced_of_it() -> None:
    """DM-1.3: neither in words nor among what is looked for."""
    *_, fault = table(Figures(), routed=False)
    assert fault.name == "wedge a replica"
    assert "opology" not in fault.see
    assert "releases.json" not in fault.does
    assert [each.what for each in (*fault.then, *fault.after) if "topology" in each.what] == []


def test_a_store_that_is_gone_was_not_restarted() -> None:
    """DM-3.2: what is no longer declared counts for nothing among what must not be restarted."""
    (kept,) = (each for each in TABLE["stop the store"].stays if each.what == "nothing is restarted")
    without = {name: row for name, row in WELL_TOWER.instances.items() if name != "store-1"}
    assert kept.holds(seen_at(2.0, instances=without), BEFORE)
