from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.workloads.drivers.lxd import chosen
from idkmesh.workloads.drivers.lxd_answers import instances_of
from idkmesh.workloads.drivers.lxd_balancers import EXTENSION, MAX_BALANCERS, backend_health
from idkmesh.workloads.model import DesiredModule, ModuleKind
from tests.workloads.recorded import metadata

STATE = "/1.0/networks/net%201/load-balancers/192.0.2.7/state"


def backend(address: str, **ports: str) -> dict[str, object]:
    listed = [{"protocol": "tcp", "port": int(port[1:]), "status": status} for port, status in ports.items()]
    return {"address": address, "ports": listed}


def platform(**backends: object) -> dict[str, Any]:
    """Return what an Incus would answer, by path: made by hand after its documentation, no real one was recorded."""
    return {
        "/1.0": {"api_extensions": ["network_ovn", EXTENSION]},
        "/1.0/networks?recursion=1": [{"name": "lxdbr0", "type": "bridge"}, {"name": "net 1", "type": "ovn"}],
        "/1.0/networks/net%201/load-balancers?recursion=1": [{"listen_address": "192.0.2.7"}],
        STATE: {"backend_health": backends},
    }


def test_what_a_balancer_reports() -> None:
    """AR-3.5: online passes, offline and error fail, any other word says nothing."""
    answers = platform(
        one=backend("10.0.0.5", p80="online", p81="offline"), two=backend("10.0.0.6", p80="error", p81="new")
    )
    expected = {("10.0.0.5", 80): True, ("10.0.0.5", 81): False, ("10.0.0.6", 80): False}
    assert backend_health(answers.__getitem__) == (expected, 0)


def test_one_balancer_that_reaches_it_counts() -> None:
    """AR-3.5: a backend of two balancers is well when one of them reaches it."""
    answers = platform(one=backend("10.0.0.5", p80="online"))
    answers["/1.0/networks/net%201/load-balancers?recursion=1"].append({"listen_address": "192.0.2.8"})
    answers[STATE.replace(".7/", ".8/")] = {"backend_health": {"one": backend("10.0.0.5", p80="offline")}}
    assert backend_health(answers.__getitem__) == ({("10.0.0.5", 80): True}, 0)


def test_a_platform_that_reports_nothing() -> None:
    """AR-3.5: LXD has no such extension: it is asked one thing, and the port is tried instead."""
    asked: list[str] = []

    def get(path: str) -> object:
        asked.append(path)
        return {"api_extensions": ["network_load_balancer"]}

    assert backend_health(get) == ({}, 0)
    assert asked == ["/1.0"]


def test_many_balancers() -> None:
    """AR-8.4: the requests of one listing are bounded, and those that are not made are counted."""
    answers = platform()
    answers["/1.0/networks/net%201/load-balancers?recursion=1"] *= MAX_BALANCERS + 50
    asked: list[str] = []

    def get(path: str) -> object:
        asked.append(path)
        return answers[path]

    assert backend_health(get) == ({}, 50)
    assert len(asked) == MAX_BALANCERS + 3


@pytest.mark.parametrize("port", [None, 80, 81])
def test_an_instance_gets_its_own(port: int | None) -> None:
    """AR-3.5: what is reported of the module's port at the instance's address, and nothing of another port."""
    found = instances_of(metadata("listing-recursion2"))
    module = DesiredModule(name="web", kind=ModuleKind.STATELESS, driver="lxd", instances=("web-1",), port=port)
    (instance,) = chosen(module, found, {(str(found["web-1"].address), 80): False})
    assert instance.port_health is (False if port == 80 else None)


@pytest.mark.parametrize("name", ["\ud800", "x" * 100_000, "", 7])
def test_a_name_that_is_none(name: object) -> None:
    """AR-8.4: a network and a balancer whose name fits in no request are counted, the others are asked."""
    answers = platform(one=backend("10.0.0.5", p80="online"))
    answers["/1.0/networks?recursion=1"].insert(0, {"name": name, "type": "ovn"})
    answers["/1.0/networks/net%201/load-balancers?recursion=1"].insert(0, {"listen_address": name})
    assert backend_health(answers.__getitem__) == ({("10.0.0.5", 80): True}, 2)


hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.just("ovn"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "type", "backend_health", "address", "ports", "port"]), inner)
    ),
    max_leaves=12,
)


@given(st.sampled_from(sorted(platform())), hostile)
def test_hostile_answers(path: str, answer: object) -> None:
    """AR-8.4: whatever is answered, something is reported or nothing is, and nothing is raised."""
    answers = {**platform(one=backend("10.0.0.5", p80="online")), path: answer}
    assert set(backend_health(lambda asked: answers.get(asked))[0].values()) <= {True, False}  # noqa: PLW0108  typed
