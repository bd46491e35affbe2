"""The provider `nacos`, over a small server of the tests' own that speaks its wire protocol."""

from __future__ import annotations

import ast
import contextlib
import gzip
import importlib
import json
import logging
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import idkmesh
from idkmesh.changes import Change
from idkmesh.topology.model import Cause, Failed, Snapshot, Target, endpoint_of, snapshot_of
from idkmesh.topology.provider import Counted, ProviderFailureError
from idkmesh.topology.providers import boundary, packages
from idkmesh.topology.providers.nacos import NacosProvider, server_of
from idkmesh.topology.providers.nacos_service import service_name, snapshot_of_service, target_of_service
from idkmesh.topology.providers.packages import MissingPackageError
from tests.topology.nacos_hands import WHY_NOT, Nacos, host
from tests.topology.support import WAIT, Heard, chosen, eventually, selecting
from tests.workloads.etcd_support import answering, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

ONE, TWO = Target("agent-one", "1.0.0+b1", "r-1"), Target("agent-two", "1", "r")
NAME, OTHER = service_name(ONE), service_name(TWO)
A, B = (endpoint_of(f"http://127.0.0.1:{port}") for port in (9001, 9002))
AT_A, AT_B = host("127.0.0.1", 9001), host("127.0.0.1", 9002)
EMPTY = snapshot_of([])
LOSS_SECONDS = 5.0
"""RT-8.5."""
SLACK = 5.0
"""What a busy machine may add: that the times make five seconds at most is proved by their sum."""


class Site:
    """A provider over the server, and what it tells."""

    def __init__(self, servers: Sequence[str], **more: Any) -> None:
        self.lines: list[tuple[str, int]] = []
        self.provider = NacosProvider(servers, line=lambda line, level: self.lines.append((line, level)), **more)

    def heard(self, target: Target) -> Heard:
        heard = Heard()
        self.provider.observe(target, heard)
        return heard


@pytest.fixture(scope="module")
def one_nacos() -> Iterator[Nacos]:
    server = Nacos()
    yield server
    server.end()


@pytest.fixture
def nacos(one_nacos: Nacos) -> Nacos:
    """Return the server, as at first."""
    one_nacos.do("anew")
    return one_nacos


@contextlib.contextmanager
def site(*servers: str, **more: Any) -> Iterator[Site]:
    made = Site(servers, **more)
    try:
        yield made
    finally:
        made.provider.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust a lost connection longer: whether a new one begins in time is not for a busy machine to say."""
    monkeypatch.setattr(boundary, "TRUST_SECONDS", WAIT)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for an answer, which a test holds."""
    monkeypatch.setattr(importlib.import_module("idkmesh.topology.providers.nacos_link"), "ANSWER_SECONDS", WAIT)


def hears(heard: Heard, event: Snapshot | Failed) -> bool:
    return eventually(lambda: heard.last() == event)


# --- services --------------------------------------------------------------------------------------------------------


def test_an_empty_push_counts_at_once(nacos: Nacos) -> None:
    """RT-8.2: an empty push is empty, and so is one that a server wrote before what is known, by its own clock."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        nacos.put(NAME)
        assert hears(heard, EMPTY)
        nacos.put(NAME, AT_B)
        assert hears(heard, snapshot_of([B]))
        nacos.put(NAME, lastRefTime=1)
        assert hears(heard, EMPTY)
        assert [event for event in heard.events if isinstance(event, Failed)] == []
        assert eventually(lambda: len(nacos.told()["acknowledged"]) == 3)


def test_a_service_that_is_not_there(nacos: Nacos) -> None:
    """RT-8.3: it is empty, not missing: Nacos does not tell the two apart."""
    with site(nacos.address) as there:
        assert hears(there.heard(ONE), EMPTY)
        assert there.provider.snapshot(TWO, WAIT) == EMPTY


def test_namespace_group_and_clusters(nacos: Nacos) -> None:
    """RT-8.1: a service of another namespace or group is another one; of named clusters alone instances are taken."""
    nacos.put(NAME, AT_A)
    nacos.put(NAME, AT_A, namespace="ours")
    near = [host("10.0.0.1", 1, clusterName="near"), host("10.0.0.2", 2, clusterName="far")]
    nacos.put(NAME, *near, host("10.0.0.3", 3, clusterName="other"), namespace="ours", group="agents")
    with site(nacos.address, namespace="ours", group="agents", clusters=["near", "far"]) as there:
        heard = there.heard(ONE)
        both = snapshot_of([endpoint_of("http://10.0.0.1:1"), endpoint_of("http://10.0.0.2:2")])
        assert hears(heard, both)
        assert there.provider.snapshot(ONE, WAIT) == both
        nacos.put(NAME, AT_B)
        nacos.put(NAME, AT_B, namespace="ours")
        nacos.put(NAME, near[0], namespace="ours", group="agents")
        assert hears(heard, snapshot_of([endpoint_of("http://10.0.0.1:1")]))
        assert len(heard.events) == 2


@pytest.mark.parametrize(
    ("instance", "endpoint"),
    [
        (AT_A, "http://127.0.0.1:9001"),
        (host("127.0.0.1", 9001, metadata=None), "http://127.0.0.1:9001"),
        (host("127.0.0.1", 9001, metadata={"scheme": "https"}), "https://127.0.0.1:9001"),
        (host("fd00::1", 9001), "http://[fd00::1]:9001"),
        (host("agent.example", 9001), "http://agent.example:9001"),
        (host("127.0.0.1", 9001, healthy=False), None),
        (host("127.0.0.1", 9001, enabled=False), None),
        (host("127.0.0.1", 9001, weight=0), None),
    ],
)
def test_what_is_ready(instance: dict[str, Any], endpoint: str | None) -> None:
    """RT-8.1: an instance is ready when it is healthy, enabled and has a weight; its metadata may say https."""
    found = snapshot_of_service({"hosts": [instance]}, frozenset())
    assert found == snapshot_of([endpoint_of(endpoint)] if endpoint else [])


@pytest.mark.parametrize(
    "instance",
    [
        None,
        5,
        "127.0.0.1:9001",
        {},
        {"ip": "127.0.0.1", "port": 9001},
        host("127.0.0.1", 9001, healthy="true"),
        host("127.0.0.1", 9001, healthy=None),
        host("127.0.0.1", 9001, weight="1"),
        host("127.0.0.1", 9001, metadata=5),
        host("127.0.0.1", 9001, metadata={"scheme": "ftp"}),
        host("127.0.0.1", 9001, metadata={"scheme": ["http"]}),
        host("127.0.0.1", 0),
        host("127.0.0.1", 70_000),
        host("127.0.0.1/secret", 9001),
        host("user@h", 9001),
        host("", 9001),
        {**AT_A, "port": "9001"},
    ],
)
def test_what_is_no_instance(instance: Any) -> None:
    """RT-8.6: it is counted and not used, and the others are."""
    assert snapshot_of_service({"hosts": [instance, AT_B]}, frozenset()) == snapshot_of([B], unreadable=1)


@pytest.mark.parametrize("info", [None, [], {}, {"hosts": None}, {"hosts": {}}, {"hosts": "x"}])
def test_what_is_no_description(info: Any) -> None:
    """RT-8.6, RT-2.6: without a list of instances nothing is known, which is another thing than empty."""
    assert snapshot_of_service(info, frozenset()) == snapshot_of([], unreadable=1)


def test_the_protection_of_a_server_is_seen_through() -> None:
    """RT-8.6, RT-8.2: below its threshold Nacos calls sick instances healthy; then nobody is taken for ready."""
    info = {"hosts": [AT_A, AT_B], "reachProtectionThreshold": True}
    assert snapshot_of_service(info, frozenset()) == snapshot_of([], unreadable=2)


@pytest.mark.parametrize(
    ("info", "target"),
    [
        ({"name": NAME, "groupName": "g"}, ONE),
        ({"name": f"g@@{NAME}", "groupName": "x"}, ONE),
        ({"name": NAME, "groupName": "other"}, None),
        ({"name": f"other@@{NAME}", "groupName": "g"}, None),
        ({"name": "some.service", "groupName": "g"}, None),
        ({"name": "a:b:c:d", "groupName": "g"}, None),
        ({"name": "a:b:", "groupName": "g"}, None),
        ({"name": None, "groupName": "g"}, None),
        ({}, None),
    ],
)
def test_whose_service_it_is(info: dict[str, Any], target: Target | None) -> None:
    """RT-8.1: the service of a release is AGENT:VERSION:RELEASE of the group; others are nobody's."""
    assert target_of_service(info, "g") == target


def test_instances_that_cannot_be_read_are_told(nacos: Nacos) -> None:
    """RT-8.6: one line with their number, and nothing of what they say."""
    nacos.put(NAME, AT_A, host("secret/", 1), {"ip": "secret"})
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A], unreadable=2))
        nacos.put(NAME, AT_A)
        assert hears(heard, snapshot_of([A]))
    assert [level for _, level in there.lines] == [logging.WARNING, logging.INFO]
    assert "2 instances" in there.lines[0][0]
    assert "secret" not in str(there.lines)


# --- pushes and answers ----------------------------------------------------------------------------------------------


def test_a_push_that_overtakes_an_answer(nacos: Nacos) -> None:
    """RT-8.7: what was pushed while an older answer was on its way stays."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        nacos.do("hold", on=True)
        heard = there.heard(ONE)
        assert eventually(lambda: bool(nacos.told()["subscribed"]))
        nacos.put(NAME, AT_B)
        assert hears(heard, snapshot_of([B]))
        nacos.do("hold", on=False)
        assert hears(there.heard(TWO), EMPTY)  # asked for after the other one, whose answer has come
        assert heard.events == [snapshot_of([B])]


def test_an_answer_that_was_written_later(nacos: Nacos) -> None:
    """RT-8.7: a push that came while it was on its way was written before, and does not outlast it."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        nacos.do("hold", on=True)
        nacos.do("be", late=True)
        heard = there.heard(ONE)
        assert eventually(lambda: bool(nacos.told()["subscribed"]))
        nacos.put(NAME, AT_A)
        assert hears(heard, snapshot_of([A]))
        nacos.put(NAME, AT_B, pushes=False)
        nacos.do("hold", on=False)
        assert hears(heard, snapshot_of([B]))


def test_a_push_that_was_lost(nacos: Nacos, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-8.7: each subscription is asked for anew from time to time, and ended where nobody watches any more."""
    monkeypatch.setattr(importlib.import_module("idkmesh.topology.providers.nacos_follower"), "ROUND_SECONDS", 0.2)
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard, other = Heard(), there.heard(TWO)
        watch = there.provider.observe(ONE, heard)
        assert hears(heard, snapshot_of([A]))
        assert hears(other, EMPTY)
        nacos.put(NAME, AT_B, pushes=False)
        assert hears(heard, snapshot_of([B]))
        watch.close()
        assert eventually(lambda: [key[2] for key in nacos.told()["subscribed"]] == [OTHER])


def test_a_push_that_nobody_watches(nacos: Nacos) -> None:
    """RT-8.7, RT-5.2: what it says is not kept back from the next watch, and the subscription is ended."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = Heard()
        watch = there.provider.observe(ONE, heard)
        assert hears(heard, snapshot_of([A]))
        watch.close()
        nacos.put(NAME)
        assert eventually(lambda: len(nacos.told()["acknowledged"]) == 1)
        assert eventually(lambda: nacos.told()["subscribed"] == [])
        again = there.heard(ONE)
        nacos.put(NAME, AT_B)
        assert hears(again, snapshot_of([B]))
        assert snapshot_of([A]) not in again.events


def test_an_end_and_a_new_beginning(nacos: Nacos) -> None:
    """RT-8.7: a service is subscribed to anew once its end has been answered: no server takes them crosswise."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = Heard()
        watch = there.provider.observe(ONE, heard)
        assert hears(heard, snapshot_of([A]))
        nacos.do("hold", on=True)
        watch.close()
        nacos.put(NAME, AT_B)
        assert eventually(lambda: subscriptions_asked(nacos) == 2)
        again = there.heard(ONE)
        assert not eventually(lambda: subscriptions_asked(nacos) > 2, 0.5)
        nacos.do("hold", on=False)
        assert hears(again, snapshot_of([B]))
        assert eventually(lambda: bool(nacos.told()["subscribed"]))


def subscriptions_asked(nacos: Nacos) -> int:
    return int(nacos.told()["asked"].count("SubscribeServiceRequest"))


def test_a_service_that_can_be_read_again(nacos: Nacos) -> None:
    """RT-3.5, RT-2.6: the good push that comes between two attempts counts: it is right again within 5 s of it."""
    nacos.put(NAME, {"ip": "secret"})
    with site(nacos.address) as there, selecting(there.provider) as selector:
        assert eventually(lambda: chosen(selector, ONE) == "unavailable")
        nacos.put(NAME, AT_A)
        began = time.monotonic()
        assert eventually(lambda: chosen(selector, ONE) == A.url)
        assert time.monotonic() - began < 5.0 + SLACK


@pytest.mark.usefixtures("patient")
def test_a_push_that_nobody_can_read(nacos: Nacos) -> None:
    """RT-8.7, RT-8.5: whose it was is not known, so everything is asked for anew."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        for body in ("<html>", '{"serviceInfo": null}', "[]"):
            nacos.put(NAME, AT_A if heard.last() == snapshot_of([B]) else AT_B, pushes=False)
            expected = snapshot_of([A] if heard.last() == snapshot_of([B]) else [B])
            nacos.do("push_as", "NotifySubscriberRequest", body)
            assert hears(heard, expected)
        assert not any(isinstance(event, Failed) for event in heard.events)


@pytest.mark.usefixtures("patient")
def test_a_fault_while_a_push_is_taken(nacos: Nacos, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-5.4, RT-8.5: what was pushed is not lost: the connection is made anew, and a line names the fault."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))

        def broken(*_: object) -> None:
            raise RuntimeError("secret")

        with monkeypatch.context() as patch:
            patch.setattr(
                importlib.import_module("idkmesh.topology.providers.nacos_follower"), "target_of_service", broken
            )
            nacos.put(NAME, AT_B)
            assert eventually(lambda: bool(there.lines))
        assert hears(heard, snapshot_of([B]))
        assert set(there.lines) == {("provider nacos: it has a fault: RuntimeError", logging.ERROR)}


def test_what_else_a_server_sends(nacos: Nacos) -> None:
    """RT-8.5: it is told that the client is there; what is not known is passed over."""
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, EMPTY)
        nacos.do("push_as", "SomethingNewRequest", "{}")
        nacos.do("detect")
        assert eventually(lambda: "ClientDetectionResponse detect" in nacos.told()["acknowledged"])
        nacos.put(NAME, AT_A)
        assert hears(heard, snapshot_of([A]))
        assert nacos.told()["connections"] == 1


def test_a_server_that_does_not_confirm(nacos: Nacos) -> None:
    """RT-8.5: earlier servers do not confirm a connection's set-up."""
    nacos.do("be", negotiates=False)
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        assert hears(there.heard(ONE), snapshot_of([A]))


# --- losses ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", ["reset", "forget", "end_streams"])
def test_a_connection_that_is_lost(nacos: Nacos, how: str) -> None:
    """RT-8.5, RT-10.6: sent away, forgotten or ended, it is made again, all is asked for anew, and it is counted."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        assert there.provider.counted() == Counted()
        nacos.do(how)
        nacos.put(NAME, AT_B, pushes=False)
        assert hears(heard, snapshot_of([B]))
        nacos.put(NAME, AT_A)
        assert hears(heard, snapshot_of([A]))
        assert not any(isinstance(event, Failed) for event in heard.events)
        assert there.provider.counted() == Counted(reconnects=1)
        assert there.lines == []


def test_the_times_of_a_loss() -> None:
    """RT-8.5, RT-5.5: a loss is found, and trust in what was known is over, within 5 s."""
    follower = importlib.import_module("idkmesh.topology.providers.nacos_follower")
    link = importlib.import_module("idkmesh.topology.providers.nacos_link")
    assert (follower.BEAT_SECONDS, link.ANSWER_SECONDS, boundary.TRUST_SECONDS) == (1.0, 1.5, 2.0)
    assert follower.BEAT_SECONDS + link.ANSWER_SECONDS + boundary.TRUST_SECONDS + follower.ROUND_PAUSE <= LOSS_SECONDS


@pytest.mark.usefixtures("patient", "unhurried")
def test_what_was_heard_anew_is_trusted_for_good(nacos: Nacos) -> None:
    """RT-8.5: what a new server has said something of does not end with the trust in the old one; all else does."""
    nacos.put(NAME, AT_A)
    nacos.put(OTHER, AT_A)
    with site(nacos.address) as there:
        heard, other = there.heard(ONE), there.heard(TWO)
        assert hears(heard, snapshot_of([A]))
        assert hears(other, snapshot_of([A]))
        nacos.put(OTHER, AT_B)
        assert hears(other, snapshot_of([B]))
        nacos.do("be", held=[OTHER])
        nacos.do("hold", on=True)
        nacos.do("end_streams")
        nacos.put(NAME, AT_B, pushes=False)
        assert hears(heard, snapshot_of([B]))
        follower = there.provider._follower
        assert follower._pushes == {}
        follower._loop.call_soon_threadsafe(follower._expire, time.monotonic() + 2 * WAIT)
        assert eventually(lambda: isinstance(other.last(), Failed))
        nacos.put(NAME, AT_A)
        assert hears(heard, snapshot_of([A]))
        assert not any(isinstance(event, Failed) for event in heard.events)


@pytest.mark.usefixtures("patient")
def test_a_connection_that_is_lost_is_no_failure(nacos: Nacos) -> None:
    """RT-5.6, RT-8.5: while what was known is trusted the boundary is usable, and who begins a watch then waits."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        nacos.do("stop")
        assert eventually(lambda: there.provider._follower.boundary.cause is not None)
        other = there.heard(TWO)
        assert there.provider.usable().usable
        nacos.do("start")
        assert hears(other, EMPTY)
        assert not any(isinstance(event, Failed) for event in heard.events + other.events)
        assert there.lines == []


@pytest.mark.usefixtures("patient")
def test_a_server_that_is_not_ready(nacos: Nacos) -> None:
    """RT-8.5: one that answers a subscription with a code of 3xx is left for another one; no service fails of it."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        nacos.do("be", refuses={OTHER: 301})
        before = nacos.told()["asked"].count("ServerCheckRequest")
        other = there.heard(TWO)
        assert eventually(lambda: nacos.told()["asked"].count("ServerCheckRequest") > before)
        nacos.do("be", refuses={})
        assert hears(other, EMPTY)
        assert not any(isinstance(event, Failed) for event in heard.events + other.events)


def test_a_server_that_is_never_ready(nacos: Nacos) -> None:
    """RT-8.5, RT-5.6: a connection that says nothing of what is watched gives no trust: the watch fails, as told."""
    nacos.do("be", refuses={NAME: 301})
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, Failed(Cause.LOST))
        assert heard.events == [Failed(Cause.LOST)]
        assert there.lines[:1] == [("provider nacos: lost; its releases are unavailable; look at Nacos", logging.ERROR)]


@pytest.mark.usefixtures("patient", "unhurried")
def test_instances_are_told_of_once(nacos: Nacos) -> None:
    """RT-8.6: a reconnection is no end of instances that cannot be read: no line comes of it."""
    nacos.put(NAME, AT_A)
    nacos.put(OTHER, AT_A, {"ip": "secret"})
    with site(nacos.address) as there:
        assert hears(there.heard(TWO), snapshot_of([A], unreadable=1))
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        nacos.do("be", held=[OTHER])
        nacos.do("hold", on=True)
        nacos.do("end_streams")
        nacos.put(NAME, AT_B, pushes=False)
        assert hears(heard, snapshot_of([B]))
        assert [level for _, level in there.lines] == [logging.WARNING]
        nacos.do("hold", on=False)
        follower = there.provider._follower
        assert eventually(lambda: not follower._stale)
        assert [level for _, level in there.lines] == [logging.WARNING]


def test_instances_are_told_of_anew_after_a_loss(nacos: Nacos) -> None:
    """RT-8.6, RT-8.5: with the server, what there was of them is not known any more: no end of theirs is told."""
    nacos.put(NAME, AT_A)
    nacos.put(OTHER, AT_A, {"ip": "secret"})
    with site(nacos.address) as there:
        heard = there.heard(TWO)
        assert hears(heard, snapshot_of([A], unreadable=1))
        nacos.do("stop")
        assert eventually(lambda: isinstance(heard.last(), Failed))
        nacos.do("start")
        assert eventually(lambda: there.provider.usable().usable)
        assert hears(there.heard(ONE), snapshot_of([A]))
        assert hears(there.heard(TWO), snapshot_of([A], unreadable=1))
    assert [level for _, level in there.lines] == [logging.WARNING, logging.ERROR, logging.INFO, logging.WARNING]


@pytest.mark.usefixtures("unhurried")
def test_who_asks_at_the_end(nacos: Nacos) -> None:
    """RT-5.1, RT-5.4: whoever has asked once is told that it is over, and by no exception of a loop's."""
    nacos.do("hold", on=True)
    with site(nacos.address) as there, ThreadPoolExecutor(1) as pool:
        assert eventually(lambda: there.provider.usable().usable)
        asked = pool.submit(there.provider.snapshot, ONE, WAIT)
        assert eventually(lambda: "ServiceQueryRequest" in nacos.told()["asked"])
        there.provider.close()
        with pytest.raises(ProviderFailureError, match=r"^closed$"):
            asked.result(WAIT)


def test_a_paused_server(nacos: Nacos) -> None:
    """RT-8.5: it is unavailable within 5 s, nothing is selected from memory, and it is right again after it."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there, selecting(there.provider) as selector:
        assert eventually(lambda: chosen(selector, ONE) == A.url)
        nacos.signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            assert eventually(lambda: chosen(selector, ONE) == "unavailable")
            assert time.monotonic() - began < LOSS_SECONDS + SLACK
            assert not there.provider.usable().usable
            assert not eventually(lambda: chosen(selector, ONE) != "unavailable", 2.0)
            with pytest.raises(ProviderFailureError):
                there.provider.snapshot(ONE, 0.2)
        finally:
            nacos.signal(signal.SIGCONT)
        nacos.put(NAME, AT_B)
        assert eventually(lambda: chosen(selector, ONE) == B.url)
    *losses, back = there.lines
    assert {level for _, level in losses} == {logging.ERROR}
    assert back[1] == logging.INFO


def test_several_servers(nacos: Nacos) -> None:
    """RT-8.5: where one does not answer, another one is asked."""
    nacos.put(NAME, AT_A)
    with socket.create_server(("127.0.0.1", 0)) as dead, site(f"127.0.0.1:{port_of(dead)}", nacos.address) as there:
        assert eventually(lambda: there.provider.usable().usable)
        assert hears(there.heard(ONE), snapshot_of([A]))


def port_of(listener: socket.socket) -> int:
    """Return what is named as the port of HTTP of a server whose gRPC this would be."""
    return int(listener.getsockname()[1]) - 1_000


def test_a_service_that_is_refused(nacos: Nacos) -> None:
    """RT-5.4, RT-8.5: the watch of one service fails, others go on."""
    nacos.do("be", refuses={OTHER: 403})
    with site(nacos.address) as there:
        assert hears(there.heard(TWO), Failed(Cause.REFUSED))
        heard = there.heard(ONE)
        assert hears(heard, EMPTY)
        nacos.do("be", refuses={OTHER: 500})
        assert hears(there.heard(TWO), Failed(Cause.UNREADABLE))
        nacos.put(NAME, AT_A)
        assert hears(heard, snapshot_of([A]))
        assert nacos.told()["connections"] == 1


# --- users -----------------------------------------------------------------------------------------------------------


def test_a_user(nacos: Nacos, caplog: pytest.LogCaptureFixture) -> None:
    """RT-8.1, RT-11.5: a user logs in, and neither the password nor the token is in any line, repr or log."""
    nacos.do("be", token="token-secret")
    nacos.put(NAME, AT_A)
    with caplog.at_level(logging.DEBUG), site(nacos.address, username="router", password="right") as there:
        assert hears(there.heard(ONE), snapshot_of([A]))
    assert nacos.told()["logins"] == [{"username": ["router"], "password": ["right"]}]
    said = str(there.lines) + caplog.text + repr(vars(there.provider)) + repr(vars(there.provider._follower))
    assert "right" not in said
    assert "token-secret" not in said
    assert "9001" not in said


@pytest.mark.parametrize("user", [{}, {"username": "router", "password": "wrong"}])
def test_no_user(nacos: Nacos, user: dict[str, str]) -> None:
    """RT-5.4: without one where one is needed, or with a wrong password, it is refused."""
    nacos.do("be", token="token-secret")
    with site(nacos.address, **user) as there:
        assert hears(there.heard(ONE), Failed(Cause.REFUSED))


@pytest.mark.usefixtures("patient")
def test_a_right_that_is_missed_later(nacos: Nacos) -> None:
    """TOPO-07, RT-5.4, RT-8.5: a token that is refused from the next call on: pushes go on, then it is `refused`."""
    nacos.put(NAME, AT_A)
    with site(nacos.address) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        nacos.do("be", token="token-secret")
        assert hears(there.heard(TWO), Failed(Cause.REFUSED))
        nacos.put(NAME, AT_B)
        assert hears(heard, snapshot_of([B]))
        nacos.do("end_streams")
        assert hears(heard, Failed(Cause.REFUSED))


def test_nobody_to_log_in_with() -> None:
    """RT-5.4: a login that nobody has answered is not refused."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = port_of(unused)
        with site(f"127.0.0.1:{port}", username="router", password="right") as there:
            assert hears(there.heard(ONE), Failed(Cause.UNREACHABLE))


@pytest.mark.parametrize(
    ("coding", "cause"), [("identity", Cause.UNREADABLE), ("gzip", Cause.UNREADABLE), (None, Cause.REFUSED)]
)
def test_a_login_without_an_end(coding: str | None, cause: Cause) -> None:
    """RT-8.1, RT-5.4: no more than 64 KiB of an answer to a login is taken, none is unpacked, and none of a refusal."""
    sent: list[int] = []
    bomb = gzip.compress(bytes(64 * 1024 * 1024)) if coding == "gzip" else b"x" * 256 * 1024

    class Endless(answering({})):  # type: ignore[misc]  # made above
        def do_POST(self) -> None:
            self.send_response(200 if coding else 403)
            self.send_header("Content-Encoding", coding or "identity")
            self.end_headers()
            with contextlib.suppress(OSError):
                while len(sent) < 256:
                    self.wfile.write(bomb)
                    sent.append(1)

    with serving(Endless) as url, site(url.removeprefix("http://"), username="router", password="right") as there:
        assert hears(there.heard(ONE), Failed(cause))
    assert len(sent) < 256


def test_a_login_that_is_sent_elsewhere() -> None:
    """RT-8.1: a redirect is not followed: the password would go along."""
    asked = []

    class Elsewhere(answering({})):  # type: ignore[misc]  # made above
        def do_POST(self) -> None:
            asked.append(self.path.partition("?")[0])
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Elsewhere) as url, site(url.removeprefix("http://"), username="router", password="right") as there:
        assert hears(there.heard(ONE), Failed(Cause.REFUSED))
    assert set(asked) == {"/nacos/v1/auth/users/login"}


# --- its making ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "more", "line"),
    [
        ([], {}, r"provider\.nacos\.servers: none is named"),
        (["http://secret:8848"], {}, r"provider\.nacos\.servers: must be HOST:PORT"),
        (["h"], {}, r"provider\.nacos\.servers: must be HOST:PORT"),
        (["h:64536"], {}, r"provider\.nacos\.servers: must be HOST:PORT"),
        (["h:1"], {"namespace": ""}, r"provider\.nacos\.namespace: must be"),
        (["h:1"], {"group": "a@@b"}, r"provider\.nacos\.group: must be"),
        (["h:1"], {"clusters": ["a,b"]}, r"provider\.nacos\.clusters: must be"),
        (["h:1"], {"username": "u"}, r"provider\.nacos: a username and a password"),
    ],
)
def test_what_it_is_not_made_of(servers: list[str], more: dict[str, Any], line: str) -> None:
    """RT-8.1: it is refused in one line that names the member, without what stands there."""
    with pytest.raises(ValueError, match=line) as told:
        NacosProvider(servers, line=lambda *_: None, **more)
    assert "secret" not in str(told.value)


def test_a_server_that_was_never_there() -> None:
    """RT-10.2: the provider is told as lost from the beginning on, once, with the cause and no address."""
    told: list[Change] = []
    lines: list[str] = []
    provider = NacosProvider(["127.0.0.1:1"], line=lambda line, _: lines.append(line), changed=told.append)
    try:
        assert eventually(lambda: bool(told))
    finally:
        provider.close()
    assert told == [Change("idkmesh.topology.provider_lost", "nacos", {"cause": "unreachable"})]
    assert "127.0.0.1" not in str(lines)


def test_servers() -> None:
    """RT-8.1: a server is a host and the port of its HTTP."""
    assert server_of("nacos-1:8848") == ("nacos-1", 8848)
    assert server_of("[::1]:8848") == ("::1", 8848)


def test_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-8.4, CLI-07: the line says which extra brings it."""
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    line = r"^the provider nacos needs the package nacos-sdk-python: pip install 'idkmesh\[nacos\]'$"
    with pytest.raises(MissingPackageError, match=line):
        NacosProvider(["h:1"], line=lambda *_: None)


def test_nothing_else_imports_the_sdk() -> None:
    """RT-8.1: one module imports it, and that only once the provider is made: it is heavy."""
    package = Path(idkmesh.__file__).parent
    importing = {
        path.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in {"v2", "nacos"})
        or (isinstance(node, ast.Import) and any(name.name.partition(".")[0] in {"v2", "nacos"} for name in node.names))
    }
    assert importing == {"nacos_link.py"}
    program = "import json, sys, idkmesh.topology.providers.nacos; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, cwd=package.parent, timeout=60
    )
    assert not {"v2", "grpc"} & set(json.loads(ran.stdout))
