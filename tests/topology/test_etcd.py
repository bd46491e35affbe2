"""The provider `etcd` over a real etcd: keys and leases; etcd cut off, paused, compacted and set back."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import certifi
import pytest
import requests.adapters

from idkmesh.etcd.gateway import Call, EtcdError, Members, b64
from idkmesh.etcd.gateway import endpoint_of as member_of
from idkmesh.topology.model import NOT_DECLARED, Cause, Failed, Snapshot, Target, endpoint_of, snapshot_of
from idkmesh.topology.provider import Counted, ProviderFailureError
from idkmesh.topology.providers import boundary, etcd_releases, packages
from idkmesh.topology.providers import etcd as module
from idkmesh.topology.providers.etcd import EtcdProvider
from idkmesh.topology.providers.etcd_follower import cause_of
from idkmesh.topology.providers.etcd_stream import open_stream
from idkmesh.topology.providers.etcd_wire import PROGRESS, WatchMessage
from idkmesh.topology.providers.forms import DEFAULT_PREFIX
from idkmesh.topology.providers.packages import MissingPackageError
from tests.health.certificates import authority_pem, certificate
from tests.topology.etcd_hands import EtcdHands
from tests.topology.relay import relay
from tests.topology.support import WAIT, Heard, chosen, eventually, selecting
from tests.workloads.etcd_support import WHY_NOT, Etcd, answering, free_ports, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

ONE = Target("agent-one", "1.0.0", "r-1")
TWO = Target("agent-two", "1.0.0", "r-1")
A, B = (endpoint_of(f"http://127.0.0.1:{port}") for port in (9001, 9002))
LOSS_SECONDS = 5.0
"""RT-7.3."""
SLACK = 5.0
"""What a busy machine may add: that the times make five seconds at most is proved by their sum."""


class Site:
    """A provider over an etcd, and what it tells."""

    def __init__(self, *urls: str) -> None:
        self.lines: list[tuple[str, int]] = []
        self.provider = EtcdProvider(urls, line=lambda line, level: self.lines.append((line, level)))

    def heard(self, target: Target) -> Heard:
        heard = Heard()
        self.provider.observe(target, heard)
        return heard


@pytest.fixture
def hands(one_etcd: Etcd) -> EtcdHands:
    """Return hands over an etcd in which nothing is."""
    hands = EtcdHands(one_etcd.url, DEFAULT_PREFIX)
    hands.ask("kv/deleterange", {"key": "AA==", "range_end": "AA=="})
    return hands


@contextlib.contextmanager
def site(*urls: str) -> Iterator[Site]:
    made = Site(*urls)
    try:
        yield made
    finally:
        made.provider.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust a lost stream longer: whether a new one begins in time is not for a busy machine to say."""
    monkeypatch.setattr(boundary, "TRUST_SECONDS", WAIT)


def hears(heard: Heard, event: Snapshot | Failed) -> bool:
    return eventually(lambda: heard.last() == event)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


@pytest.fixture
def namespace() -> Iterator[tuple[str, str, str]]:
    """Give a network namespace, the link in it, and its address: the other end of the link is here."""
    number = os.getpid() % 60_000
    name, here, there = f"idk-{number}", f"idkh{number}", f"idkn{number}"
    net = f"10.{200 + number % 50}.{number // 50 % 250}"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network namespaces here (root, and iproute2)")
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("addr", "add", f"{net}.1/30", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{net}.2/30", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        ip("-n", name, "link", "set", "lo", "up")
        yield name, there, f"{net}.2"
    finally:
        ip("netns", "del", name)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_an_instance_lives_as_long_as_its_lease(hands: EtcdHands) -> None:
    """RT-7.1: the end of a lease, revoked or run out, takes its instance; without an instance it is empty."""
    hands.put(hands.key(ONE), "whatever")
    kept, short = hands.lease(), hands.lease(1)
    hands.register(ONE, "kept", A, kept)
    hands.register(ONE, "short", B, short)
    with site(hands.url) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        hands.revoke(kept)
        assert hears(heard, snapshot_of([]))
        hands.delete(hands.key(ONE))
        assert hears(heard, NOT_DECLARED)
        assert snapshot_of([A, B]) in heard.events


def test_an_instance_of_nothing(hands: EtcdHands) -> None:
    """RT-7.1: an instance below a release that is not declared is none: the release is missing."""
    hands.register(ONE, "i", A)
    with site(hands.url) as there:
        heard = there.heard(ONE)
        assert hears(heard, NOT_DECLARED)
        assert there.provider.snapshot(ONE, WAIT) == NOT_DECLARED
        hands.put(hands.key(ONE), "")
        assert hears(heard, snapshot_of([A]))


def test_keys_that_only_look_alike(hands: EtcdHands) -> None:
    """RT-7.1: keys beside the release, above it and of another prefix are not its own."""
    hands.declare(ONE, A)
    with site(hands.url) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        for key in (
            f"{DEFAULT_PREFIX}2/{ONE}/i",
            f"{DEFAULT_PREFIX}/agent-one/1.0.0",
            f"{DEFAULT_PREFIX}/{ONE}-b/i",
            f"{DEFAULT_PREFIX}/{ONE}.b/i",
            f"{DEFAULT_PREFIX}//1.0.0/r-1/i",
            DEFAULT_PREFIX,
        ):
            hands.put(key, '{"endpoint": "http://127.0.0.1:9999"}')
        hands.register(ONE, "j", B)
        assert hears(heard, snapshot_of([A, B]))
        assert set(heard.events) == {snapshot_of([A]), snapshot_of([A, B])}
        assert there.provider.snapshot(ONE, WAIT) == snapshot_of([A, B])


def test_keys_of_others_are_counted(hands: EtcdHands) -> None:
    """RT-7.1, RT-10.6: those that are there at a listing, and those that come, are written again and go."""
    hands.declare(ONE, A)
    others = [f"{DEFAULT_PREFIX}/leader", f"{DEFAULT_PREFIX}/{ONE}/i/meta", f"{DEFAULT_PREFIX}/no release/1/r"]
    hands.put(others[0], "x")
    with site(hands.url) as there:
        counted = there.provider.counted
        assert hears(there.heard(ONE), snapshot_of([A]))
        assert counted() == Counted(ignored=1)
        for key in others:
            hands.put(key, "y")
        assert eventually(lambda: counted() == Counted(ignored=3))
        hands.delete(others[0])
        hands.delete(others[1])
        hands.put(others[1], "z")
        hands.put(hands.key(ONE, "bad"), "no endpoint")
        assert eventually(lambda: counted() == Counted(unreadable=1, ignored=2))
    other = EtcdProvider([hands.url], line=lambda *_: None, observe=False)
    assert other.counted() is None
    other.close()


def test_keys_of_others_take_no_place_in_a_snapshot(hands: EtcdHands) -> None:
    """RT-7.1, RT-5.9: an instance behind thousands of keys of others, and of records that are none, is found."""
    hands.put(hands.key(ONE), "{}")
    for some in range(0, 1_200, 100):
        numbers = range(some, some + 100)
        hands.put_all([(hands.key(ONE, f"a-{number:04}/meta"), "{}") for number in numbers])
        hands.put_all([(hands.key(ONE, f"b-{number:04}"), "{}") for number in numbers])
    hands.register(ONE, "z", A)
    with site(hands.url) as there:
        expected = snapshot_of([A], unreadable=1_200)
        assert there.provider.snapshot(ONE, WAIT) == expected
        assert hears(there.heard(ONE), expected)


def test_more_releases_than_are_held(hands: EtcdHands, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-7.5: they are malformed, and a line says what is counted; keys of others beside them are no reason."""
    monkeypatch.setattr(etcd_releases, "MOST_KEYS", 2)
    hands.declare(ONE, A)
    hands.put_all([(f"{DEFAULT_PREFIX}/other/{number}", "") for number in range(9)])
    with site(hands.url) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        hands.put(hands.key(TWO), "")
        assert hears(heard, Failed(Cause.MALFORMED))
        assert [line for line, _ in there.lines] == [
            "provider etcd: there are more than 2 releases and instances below the prefix, keys of others not counted",
            "provider etcd: malformed; its releases are unavailable; look at etcd",
        ]


def test_records_that_are_no_endpoint(hands: EtcdHands) -> None:
    """RT-7.5, RT-2.6: they are counted in the snapshot and told in one line without what stands there, never used."""
    hands.declare(ONE, A)
    with site(hands.url) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        for number, value in enumerate(("no-json-secret", '{"endpoint": "http://secret@h:1"}', "{}")):
            hands.put(hands.key(ONE, f"bad-{number}"), value)
        assert hears(heard, snapshot_of([A], unreadable=3))
        assert there.provider.snapshot(ONE, WAIT) == snapshot_of([A], unreadable=3)
        for number in range(3):
            hands.delete(hands.key(ONE, f"bad-{number}"))
        assert hears(heard, snapshot_of([A]))
        hands.put(hands.key(TWO, "bad"), "\0")
        assert eventually(lambda: len(there.lines) == 3)
    assert [level for _, level in there.lines] == [logging.WARNING, logging.INFO, logging.WARNING]
    assert "secret" not in str(there.lines) + repr(heard.events)


def test_a_prefix_of_its_own(hands: EtcdHands) -> None:
    """RT-7.1: what stands below another prefix is another router's."""
    hands.declare(ONE, A)
    other = EtcdProvider([hands.url], "/other", line=lambda *_: None)
    heard = Heard()
    other.observe(ONE, heard)
    assert hears(heard, NOT_DECLARED)
    other.close()


def test_more_keys_than_a_page(hands: EtcdHands) -> None:
    """RT-7.2: a listing is of one revision over all of its pages, and one connection serves all watches."""
    targets = [Target(f"agent-{number}", "1", "r") for number in range(1_250)]
    for some in range(0, len(targets), 60):
        puts = [(hands.key(each), "{}") for each in targets[some : some + 60]]
        puts += [(hands.key(each, "i"), '{"endpoint": "http://127.0.0.1:9001"}') for each in targets[some : some + 60]]
        hands.put_all(puts)
    with relay(hands.url) as between, site(between.url) as there:
        heard = [there.heard(target) for target in targets]
        assert all(hears(each, snapshot_of([A])) for each in heard)
        assert eventually(lambda: between.open_now() == 1)
        hands.register(targets[-1], "j", B)
        assert hears(heard[-1], snapshot_of([A, B]))
        assert between.open_now() == 1


def test_a_page_of_large_records(hands: EtcdHands) -> None:
    """RT-7.1, RT-7.5: records with further members, more than a lease's answer may have, are listed all the same."""
    hands.put(hands.key(ONE), "{}")
    found = [endpoint_of(f"http://127.0.0.1:{9001 + number}") for number in range(20)]
    for number, endpoint in enumerate(found):
        hands.put(hands.key(ONE, f"i-{number}"), json.dumps({"endpoint": endpoint.url, "more": "x" * 80_000}))
    with site(hands.url) as there:
        assert hears(there.heard(ONE), snapshot_of(found))
        assert there.provider.snapshot(ONE, WAIT) == snapshot_of(found)


def test_an_answer_over_its_bound(hands: EtcdHands, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-7.5: of an answer no more than its bound is taken: the watches fail, and so does a snapshot."""
    monkeypatch.setattr(module, "MAX_PAGE_BYTES", 64 * 1024)
    hands.declare(ONE, A)
    hands.put(hands.key(ONE, "large"), "x" * 100_000)
    with site(hands.url) as there:
        assert hears(there.heard(ONE), Failed(Cause.UNREADABLE))
        with pytest.raises(ProviderFailureError, match="unreadable"):
            there.provider.snapshot(ONE, WAIT)


def test_a_redirect_is_not_followed() -> None:
    """RT-7.5: who sends elsewhere has not answered, and nobody else is asked for it."""
    asked = set()

    class Elsewhere(answering({})):  # type: ignore[misc]  # made above
        def do_POST(self) -> None:
            asked.add(self.path)
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Elsewhere) as url, site(url) as there:
        assert hears(there.heard(ONE), Failed(Cause.UNREACHABLE))
    assert asked == {"/v3/kv/range"}


@pytest.mark.parametrize("keys", [["a/1/r"], ["b/1/r", "a/1/r"], []])
def test_a_page_that_goes_no_further(keys: list[str]) -> None:
    """RT-7.2, RT-5.4: pages that say again and again that more follows are no listing, and not asked for for ever."""
    page = {"header": {"revision": "5"}, "kvs": [{"key": b64(f"{DEFAULT_PREFIX}/{key}")} for key in keys], "more": True}
    with serving(answering(page)) as url, site(url) as there:
        assert hears(there.heard(ONE), Failed(Cause.UNREADABLE))


def test_a_fault_where_nothing_is_watched(hands: EtcdHands, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-5.6, RT-5.4: who asks now and then goes on asking, and what it found last does not stay true for ever."""
    monkeypatch.setattr(module, "ASK_SECONDS", 0.1)
    provider = EtcdProvider([hands.url], line=lambda *_: None, observe=False)

    def broken(*_: object) -> None:
        raise MemoryError

    try:
        assert eventually(lambda: provider.usable().usable)
        with monkeypatch.context() as patch:
            patch.setattr(Call, "ask", broken)
            assert eventually(lambda: provider.usable().cause is Cause.FAULT)
        assert eventually(lambda: provider.usable().usable)
    finally:
        provider.close()


# --- what may go wrong -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("patient")
def test_a_stream_that_is_cut(hands: EtcdHands) -> None:
    """RT-7.2, RT-7.3, RT-5.6, RT-10.6: a new listing tells what was missed; nothing fails, and it is counted."""
    hands.declare(ONE, A)
    with relay(hands.url) as between, site(between.url) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        between.passes = False
        between.cut()
        assert eventually(lambda: there.provider._follower.boundary.cause is not None)
        assert there.provider.usable().usable, "what is trusted is no failure, of the boundary neither"
        assert there.provider.counted() == Counted()
        hands.declare(ONE, B)
        hands.compact()
        between.passes = True
        assert hears(heard, snapshot_of([B]))
        assert there.provider.usable().usable
        assert there.provider.counted() == Counted(reconnects=1)
        assert heard.events == [snapshot_of([A]), snapshot_of([B])]


@pytest.mark.usefixtures("patient")
def test_a_stream_that_is_silent(hands: EtcdHands) -> None:
    """TOPO-07, RT-7.3: a connection on which nothing comes any more is found, though it is open and etcd is well."""
    hands.declare(ONE, A)
    with relay(hands.url) as between, site(between.url) as there:
        heard = there.heard(ONE)
        assert hears(heard, snapshot_of([A]))
        between.hush()
        hands.declare(ONE, B)
        assert hears(heard, snapshot_of([B]))
        assert heard.events == [snapshot_of([A]), snapshot_of([B])]


def test_a_quiet_etcd_is_not_silent(hands: EtcdHands) -> None:
    """RT-7.3: where nothing changes, etcd answers each question on the connection of the watch."""
    where = member_of(hands.url, "url")
    stream = open_stream(Members([where]), where, DEFAULT_PREFIX, 1_000_000, WAIT)
    said: list[WatchMessage] = []

    def messages(count: int) -> bool:
        said.extend(stream.receive())
        return len(said) == count

    try:
        assert eventually(lambda: messages(1))
        for number in (2, 3, 4):
            stream.ask(PROGRESS)
            assert eventually(lambda number=number: messages(number))  # type: ignore[misc]
    finally:
        stream.close()
    assert said == [WatchMessage(created=True), *[WatchMessage()] * 3]


def test_a_paused_etcd(one_etcd: Etcd, hands: EtcdHands) -> None:
    """RT-7.3, RT-13.3: unavailable within 5 s, nothing is selected from memory, and it is right again after it."""
    hands.declare(ONE, A)
    with site(hands.url) as there, selecting(there.provider) as selector:
        assert eventually(lambda: chosen(selector, ONE) == A.url)
        one_etcd.signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            assert eventually(lambda: chosen(selector, ONE) == "unavailable")
            assert time.monotonic() - began < LOSS_SECONDS + SLACK
            assert there.provider.usable().cause is Cause.SILENT
            assert not eventually(lambda: chosen(selector, ONE) != "unavailable", 2.0)
        finally:
            one_etcd.signal(signal.SIGCONT)
        hands.declare(ONE, B)
        assert eventually(lambda: chosen(selector, ONE) == B.url)
        *losses, back = there.lines
        assert {level for _, level in losses} == {logging.ERROR}
        assert back[1] == logging.INFO


def test_an_etcd_that_is_set_back(tmp_path: Path) -> None:
    """TOPO-08, RT-7.2, RT-13.3: restarted from older data, with a lower revision, it counts as it is."""
    member = Etcd(tmp_path)
    hands = EtcdHands(member.url, DEFAULT_PREFIX)
    try:
        hands.declare(ONE, A)
        member.kill()
        shutil.copytree(member.data, tmp_path / "older")
        member.start()
        for _ in range(5):
            hands.declare(ONE, B)
        hands.declare(TWO, B)
        with relay(member.url) as between, site(between.url) as there:
            first, second = there.heard(ONE), there.heard(TWO)
            assert hears(first, snapshot_of([B]))
            assert hears(second, snapshot_of([B]))
            member.kill()
            # Of what kind it is depends on how busy the machine is: no answer in time, or none at all.
            assert eventually(lambda: all(isinstance(sink.last(), Failed) for sink in (first, second)))
            shutil.rmtree(member.data)
            shutil.move(tmp_path / "older", member.data)
            member.start()
            assert eventually(lambda: there.provider.usable().usable)
            assert hears(there.heard(ONE), snapshot_of([A]))
            assert hears(there.heard(TWO), NOT_DECLARED)
            # It is followed from the older revision on, which it had told of others before.
            third = there.heard(TWO)
            hands.declare(TWO, A)
            assert hears(third, snapshot_of([A]))
    finally:
        member.kill()


def test_a_watch_from_what_was_compacted(hands: EtcdHands) -> None:
    """RT-7.2, RT-5.4: etcd says so, and it is a loss: never a gap that nobody notices."""
    hands.declare(ONE, A)
    hands.declare(ONE, B)
    hands.compact()
    where = member_of(hands.url, "url")
    stream = open_stream(Members([where]), where, DEFAULT_PREFIX, 1, WAIT)
    said: list[WatchMessage] = []

    def ended() -> bool:
        said.extend(stream.receive())
        return bool(said) and said[-1].over is not None

    try:
        assert eventually(ended)
    finally:
        stream.close()
    assert said[-1].over is Cause.LOST


def test_the_network_is_cut(tmp_path: Path, namespace: tuple[str, str, str]) -> None:
    """TOPO-07, RT-7.3, RT-13.3: a network that swallows everything and ends no connection: within 5 s, and back."""
    name, link, address = namespace
    member = Etcd(tmp_path, host=address, through=["ip", "netns", "exec", name])
    hands = EtcdHands(member.url, DEFAULT_PREFIX)
    try:
        hands.declare(ONE, A)
        with site(member.url) as there, selecting(there.provider) as selector:
            assert eventually(lambda: chosen(selector, ONE) == A.url)
            ip("-n", name, "link", "set", link, "down")
            began = time.monotonic()
            assert eventually(lambda: chosen(selector, ONE) == "unavailable")
            assert time.monotonic() - began < LOSS_SECONDS + SLACK
            ip("-n", name, "link", "set", link, "up")
            hands.declare(ONE, B)
            assert eventually(lambda: chosen(selector, ONE) == B.url)
    finally:
        member.kill()


@pytest.mark.usefixtures("patient")
def test_several_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-7.3, RT-7.6: the loss of one member fails no watch; one that has lost the others says nothing any more."""
    ports = free_ports(3)
    peers = {f"m{number}": f"http://127.0.0.1:{port}" for number, port in enumerate(ports)}
    members = [Etcd(tmp_path, name=name, peers=peers) for name in peers]
    try:
        for member in members:
            member.wait()
        hands = EtcdHands(members[2].url, DEFAULT_PREFIX)
        hands.declare(ONE, A)
        with site(members[0].url, members[2].url) as there:
            heard = there.heard(ONE)
            assert hears(heard, snapshot_of([A]))
            members[0].kill()
            hands.declare(ONE, B)
            assert hears(heard, snapshot_of([B]))
            assert not any(isinstance(event, Failed) for event in heard.events)
            monkeypatch.setattr(boundary, "TRUST_SECONDS", 0.5)
            members[1].kill()
            assert eventually(lambda: isinstance(heard.last(), Failed))
    finally:
        for member in members:
            member.kill()


@pytest.mark.parametrize("name", ["etcd-auth.example", "password.example", "certificate.example"])
def test_a_name_is_no_refusal(name: str) -> None:
    """RT-5.4: who does not answer has refused nothing, whatever the name of its host is."""
    assert cause_of(EtcdError(f"etcd did not answer (http://{name}:2379: timeout); look at it")) is Cause.UNREACHABLE


def test_tls_to_a_plain_etcd(hands: EtcdHands) -> None:
    """RT-5.4: a handshake that does not come about is no refusal of a credential, listing and watching alike."""
    url = hands.url.replace("http:", "https:")
    where = member_of(url, "url")
    with pytest.raises(EtcdError) as told:
        open_stream(Members([where]), where, DEFAULT_PREFIX, 1, WAIT)
    assert cause_of(told.value) is Cause.UNREACHABLE
    with site(url) as there:
        assert hears(there.heard(ONE), Failed(Cause.UNREACHABLE))


def test_a_right_that_is_missed_later(tmp_path: Path) -> None:
    """TOPO-07, RT-5.4: where a credential is wanted from the next call on, what is watched goes on until that call.

    Then it is refused, not unreachable: whoever reads it looks for a user, not for a network.
    """
    member = Etcd(tmp_path)
    hands = EtcdHands(member.url, DEFAULT_PREFIX)
    try:
        hands.declare(ONE, A)
        hands.ask("auth/user/add", {"name": "root", "password": "secret"})
        hands.ask("auth/role/add", {"name": "root"})
        hands.ask("auth/user/grant", {"user": "root", "role": "root"})
        with relay(member.url) as between, site(between.url) as there:
            heard = there.heard(ONE)
            assert hears(heard, snapshot_of([A]))
            hands.ask("auth/enable", {})
            with pytest.raises(ProviderFailureError, match=r"^refused$"):
                there.provider.snapshot(ONE, WAIT)
            assert heard.events == [snapshot_of([A])]
            between.cut()
            assert hears(heard, Failed(Cause.REFUSED))
            assert there.provider.usable().cause is Cause.REFUSED
    finally:
        member.kill()


def test_an_etcd_that_wants_a_user(tmp_path: Path) -> None:
    """RT-7.3, RT-5.4: it takes no credential of ours, and that is told."""
    member = Etcd(tmp_path)
    hands = EtcdHands(member.url, DEFAULT_PREFIX)
    try:
        hands.ask("auth/user/add", {"name": "root", "password": "secret"})
        hands.ask("auth/role/add", {"name": "root"})
        hands.ask("auth/user/grant", {"user": "root", "role": "root"})
        with site(member.url) as there:
            heard = there.heard(ONE)
            assert hears(heard, NOT_DECLARED)
            hands.ask("auth/enable", {})
            with pytest.raises(ProviderFailureError, match=r"^refused$"):
                there.provider.snapshot(ONE, WAIT)
            assert hears(there.heard(TWO), NOT_DECLARED)
        with site(member.url) as there:
            assert hears(there.heard(ONE), Failed(Cause.REFUSED))
            assert there.provider.usable().cause is Cause.REFUSED
    finally:
        member.kill()


def test_an_etcd_with_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-7.1: https is listed and watched, with its certificate checked in both."""
    member = Etcd(tmp_path, certificate=certificate())
    try:
        with site(member.url) as there:
            assert hears(there.heard(ONE), Failed(Cause.UNREACHABLE))
        authorities = tmp_path / "authorities.pem"
        authorities.write_bytes(authority_pem())
        monkeypatch.setattr(requests.adapters, "DEFAULT_CA_BUNDLE_PATH", str(authorities))
        monkeypatch.setattr(certifi, "where", lambda: str(authorities))
        hands = EtcdHands(member.url, DEFAULT_PREFIX)
        hands.declare(ONE, A)
        with site(member.url) as there:
            heard = there.heard(ONE)
            assert hears(heard, snapshot_of([A]))
            hands.declare(ONE, B)
            assert hears(heard, snapshot_of([B]))
    finally:
        member.kill()


# --- its making and its end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoints", "prefix", "line"),
    [
        ([], DEFAULT_PREFIX, r"provider\.etcd\.endpoints: none is named"),
        (["http://u:secret@h"], DEFAULT_PREFIX, r"provider\.etcd\.endpoints: a URL with a user in it must be"),
        (["http://h"], "idkmesh", r"provider\.etcd\.prefix: must be /NAME"),
        (["http://h"], "/idkmesh/", r"provider\.etcd\.prefix: must be /NAME"),
        (["http://h"], "", r"provider\.etcd\.prefix: must be /NAME"),
    ],
)
def test_what_it_is_not_made_of(endpoints: list[str], prefix: str, line: str) -> None:
    """RT-7.1: an endpoint or a prefix that is none is refused in one line that names the member, and begins nothing."""
    threads = threading.active_count()
    with pytest.raises(ValueError, match=line) as told:
        EtcdProvider(endpoints, prefix, line=lambda *_: None)
    assert "secret" not in str(told.value)
    assert threading.active_count() == threads


def test_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-8.4, CLI-07: the line says which extra brings it."""
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    with pytest.raises(
        MissingPackageError, match=r"^the provider etcd needs the package etcd3gw: pip install 'idkmesh\[etcd\]'$"
    ):
        EtcdProvider(["http://h"], line=lambda *_: None)


def test_an_end_while_nobody_answers(one_etcd: Etcd, hands: EtcdHands) -> None:
    """RT-5.7: it ends within 5 s also in the middle of a request that has no answer, and no thread is left."""
    before = set(threading.enumerate())
    one_etcd.signal(signal.SIGSTOP)
    try:
        made = Site(hands.url)
        heard = made.heard(ONE)
        assert hears(heard, Failed(Cause.SILENT))
        made.heard(ONE)
        made.provider.close()
        assert eventually(lambda: set(threading.enumerate()) <= before, LOSS_SECONDS)
    finally:
        one_etcd.signal(signal.SIGCONT)
