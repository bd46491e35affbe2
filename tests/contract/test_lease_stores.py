"""What holds for every store of leases, on the real ones: a file, and an etcd."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.lease.etcd import EtcdLeaseStore
from idkmesh.workloads.lease.sqlite import SqliteLeaseStore
from tests.workloads.etcd_support import WHY_NOT, Etcd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.workloads.lease.store import LeaseStore

    Make = Callable[[], LeaseStore]

LONG = 60.0
SHORT = 3.0
"""Seconds. Of etcd a lease is no shorter with its usual timing."""
BUSY = 5.0
"""Seconds that a busy machine may take beside what is promised."""


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    member = Etcd(tmp_path_factory.mktemp("etcd"))
    yield member
    member.kill()


@pytest.fixture(params=["sqlite", pytest.param("etcd", marks=pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT))])
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return what makes one more store of the same lease, as another supervisor would."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("lease") / "lease.sqlite3"
        return lambda: SqliteLeaseStore(path)
    member: Etcd = request.getfixturevalue("etcd")
    name = f"{request.node.name}-{time.monotonic_ns()}"
    return lambda: EtcdLeaseStore([member.url], name, call_seconds=5)  # a busy machine is not what is tried here


def waited(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def test_it_says_what_it_is(make: Make) -> None:
    """AR-6.4: its name and its place, as the line of a standby has them."""
    store = make()
    assert store.name
    assert store.place.endswith("/lease.sqlite3") or store.place.startswith("etcd at http://127.0.0.1:")


def test_one_holds_it(make: Make) -> None:
    """AR-6.1: while one holds the lease nobody else gets it, the same name included, and everybody sees who does."""
    one, other = make(), make()
    assert one.holder() is None
    grant = one.acquire("one", LONG)
    assert grant is not None
    assert grant.holder == "one"
    assert other.acquire("other", LONG) is None
    assert one.acquire("one", LONG) is None
    assert other.holder() == one.holder() == "one"
    assert one.renew(grant, LONG)


def test_one_of_many_gets_it(make: Make) -> None:
    """AR-6.1: of eight that try at the same time exactly one holds it."""
    stores = [make() for _ in range(8)]
    ready = threading.Barrier(8)

    def attempt(number: int) -> bool:
        ready.wait(30)
        return stores[number].acquire(f"holder {number}", LONG) is not None

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1


def test_given_back(make: Make) -> None:
    """AR-6.3: who ends gives it back, and the next has it at once; giving back what is another's changes nothing."""
    one, other = make(), make()
    first = one.acquire("one", LONG)
    assert first is not None
    one.release(first)
    assert one.holder() is None
    second = other.acquire("other", LONG)
    assert second is not None
    one.release(first)
    assert other.holder() == "other"
    assert other.renew(second, LONG)
    assert not one.renew(first, LONG)


def test_it_ends_by_itself(make: Make) -> None:
    """AR-6.2: a lease that nobody renews is over after its ttl, and what it was renewed for counts."""
    one, other = make(), make()
    grant = one.acquire("one", SHORT)
    assert grant is not None
    began = time.monotonic()
    time.sleep(SHORT / 2)
    renewed = time.monotonic()
    assert one.renew(grant, SHORT)
    assert waited(lambda: other.acquire("other", LONG) is not None, 30)
    assert time.monotonic() - began > SHORT * 1.4 - 0.1
    assert time.monotonic() - renewed > SHORT * 0.9
    assert not one.renew(grant, SHORT)
    assert not one.claim(grant, "web-1", 60)


def test_a_later_holding_of_the_same_name_is_another(make: Make) -> None:
    """AR-6.2: a grant is one holding: an earlier one of the same supervisor neither renews nor claims."""
    store = make()
    first = store.acquire("one", LONG)
    assert first is not None
    store.release(first)
    second = store.acquire("one", LONG)
    assert second is not None
    assert second != first
    assert not store.renew(first, LONG)
    assert not store.claim(first, "web-1", 60)
    assert store.claim(second, "web-1", 60)


def test_a_claim_is_spent(make: Make) -> None:
    """AR-5.3: one claim of an instance in a cooldown, whoever holds the lease by then; other instances are free."""
    one, other = make(), make()
    grant = one.acquire("one", LONG)
    assert grant is not None
    assert one.claim(grant, "web-1", 60)
    assert not one.claim(grant, "web-1", 60)
    assert one.claim(grant, "web-2", 60)
    assert one.claim(grant, "wéb/3 ", 60)
    one.release(grant)
    grant = other.acquire("other", LONG)
    assert grant is not None
    assert not other.claim(grant, "web-1", 60)
    assert not other.claim(grant, "wéb/3 ", 60)
    assert other.claim(grant, "web-4", 60)


def test_a_claim_ends_with_its_cooldown(make: Make) -> None:
    """AR-5.3: never before the cooldown is over, and soon after that it can be claimed again."""
    store = make()
    grant = store.acquire("one", LONG)
    assert grant is not None
    began = time.monotonic()
    assert store.claim(grant, "web-1", SHORT)
    assert waited(lambda: store.claim(grant, "web-1", SHORT), SHORT + store.claim_slack + BUSY)
    assert time.monotonic() - began >= SHORT


def test_claims_of_many_at_once(make: Make) -> None:
    """AR-5.3: of eight claims of one instance at the same time exactly one is true."""
    store = make()
    grant = store.acquire("one", LONG)
    assert grant is not None
    stores = [make() for _ in range(8)]
    ready = threading.Barrier(8)

    def attempt(number: int) -> bool:
        ready.wait(30)
        return stores[number].claim(grant, "web-1", 60)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1


def test_closed_twice(make: Make) -> None:
    """AR-6.3: closing changes nothing for others, and may be done again."""
    store = make()
    assert store.acquire("one", LONG) is not None
    store.close()
    store.close()
    assert make().holder() == "one"
