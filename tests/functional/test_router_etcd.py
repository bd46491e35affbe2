"""The proof of the topology from outside: a real etcd, a real agent process, and the projection alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from idkmesh.topology.model import endpoint_of, target_of
from tests.functional.router_support import RELEASE, Site, agent, routing
from tests.functional.supervise_support import until
from tests.topology.etcd_hands import EtcdHands
from tests.workloads.etcd_support import WHY_NOT, Etcd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.functional.router_support import Routing

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

PREFIX = "/s3cr3t/agents"
TARGET = target_of(RELEASE)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    member = Etcd(tmp_path_factory.mktemp("etcd"))
    yield member
    member.kill()


@pytest.fixture
def hands(etcd: Etcd) -> EtcdHands:
    found = EtcdHands(etcd.url, PREFIX)
    found.remove(TARGET)
    return found


@pytest.fixture
def site(tmp_path: Path, etcd: Etcd) -> Site:
    return Site(tmp_path, f"etcd: {{endpoints: ['{etcd.url}'], prefix: {PREFIX}}}")


def populated(service: Routing) -> int:
    """Invoke until the release is known, and return the revision that is proved to be consumed."""
    until(lambda: service.invoke(1).status == 200, "an instance is registered")
    code, out, errors = service.topology("wait", f"--release={RELEASE}", "--state=populated")
    assert (code, errors) == (0, "")
    return int(out.rpartition(" ")[2])


def test_a_lease_that_ends_is_proved_by_the_projection_alone(site: Site, hands: EtcdHands) -> None:
    """RT-13.1: populated at a revision; the lease ends; a newer empty; AGENT_UNAVAILABLE; the ledger with it."""
    with agent() as echo, routing(site) as service:
        hands.put(hands.key(TARGET), "{}")
        lease = hands.lease(2)  # nobody keeps it alive: it ends by itself, as that of an instance that is gone
        hands.register(TARGET, "s3cr3t-instance", endpoint_of(echo.url), lease)
        revision = populated(service)
        waited = service.topology(
            "wait", f"--release={RELEASE}", "--state=empty", f"--after-revision={revision}", "--timeout=30"
        )
        assert waited == (0, f"{RELEASE}: empty at revision {revision + 1}\n", "")
        assert echo.process.poll() is None, "the instance itself lives: only its registration has ended"
        answer = service.invoke(2)
        assert (answer.status, answer.code, answer.error["details"]) == (503, "AGENT_UNAVAILABLE", {"state": "empty"})
        last = service.told("agent.invoked")[-1]["data"]
        assert (last["outcome"], last["state"], last["localRevision"]) == ("AGENT_UNAVAILABLE", "empty", revision + 1)
        document = service.status()
        assert document["provider"] == "etcd"
        assert service.end() == 0
        told = repr((document, answer, service.lines, service.announced, service.events()))
        for secret in ("s3cr3t", str(lease), echo.url):
            assert secret not in told


def test_a_dead_instance_with_a_lease_is_a_failed_transport(site: Site, hands: EtcdHands) -> None:
    """RT-13.2: the process is dead and its lease lives: AGENT_TRANSPORT_FAILED, and state and revision as they were."""
    with agent() as echo, routing(site) as service:
        hands.declare(TARGET, endpoint_of(echo.url))
        revision = populated(service)
        before = service.status()
        echo.kill()
        answer = service.invoke(2)
        assert (answer.status, answer.code) == (502, "AGENT_TRANSPORT_FAILED")
        assert service.status() == before
        row = service.observation()
        assert (row["state"], row["localRevision"]) == ("populated", revision)
        last = service.told("agent.invoked")[-1]["data"]
        assert (last["outcome"], last["reason"], last["localRevision"]) == (
            "AGENT_TRANSPORT_FAILED",
            "connect",
            revision,
        )
        code, _, errors = service.topology(
            "wait", f"--release={RELEASE}", "--state=empty", f"--after-revision={revision}", "--timeout=1"
        )
        assert (code, "timed out" in errors) == (1, True)
