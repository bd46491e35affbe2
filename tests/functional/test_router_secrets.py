"""What a router knows and nobody is to hear: a mark in every field of each provider, and every byte that is said.

A mark is a text that looks like a secret, with the name of its field. What a router and a tower answer, write to their
outputs and keep in their event store is searched for it, as it stands and as a base64 or hexadecimal text of it, and
for where things are: addresses of instances and registries, leases, digests.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.topology.model import endpoint_of, target_of
from idkmesh.topology.projection import PATH
from idkmesh.topology.providers.releases import read_releases
from tests.functional.health_support import TOKEN as SESSION
from tests.functional.health_support import refused
from tests.functional.router_support import INVOCATIONS, RELEASE, TARGET, TOKEN, Site, ask, routing
from tests.functional.supervise_support import PATIENCE, until
from tests.router.agents import OK, answering
from tests.topology import nacos_hands
from tests.topology.etcd_hands import EtcdHands
from tests.topology.nacos_hands import Nacos, host
from tests.workloads import etcd_support
from tests.workloads.etcd_support import Etcd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.functional.router_support import Routing
    from tests.router.agents import Agent

SECRET = "s3cr3t"
DEAD = f"http://{SECRET}-host.invalid:4711"
"""Where nobody answers: its name is looked up, and is not to be told."""
OTHER = "other/1.0.0/r1"
NEVER = "never/1.0.0/r1"

with_etcd = pytest.mark.skipif(bool(etcd_support.WHY_NOT), reason=etcd_support.WHY_NOT)
with_nacos = pytest.mark.skipif(bool(nacos_hands.WHY_NOT), reason=nacos_hands.WHY_NOT)
in_a_tower = pytest.mark.parametrize("tower", [False, True], ids=["alone", "tower"])


def mark(field: str) -> str:
    return f"{SECRET}-{field}"


def forms(text: str) -> set[bytes]:
    """Return how a text may stand in bytes: as it is, in base64 wherever it begins, in hexadecimal digits."""
    raw = text.encode()
    packed = [
        base64.b64encode(b"\0" * before + raw)[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        for before in range(3)
    ]
    return {raw, raw.hex().encode(), *packed}


# --- listening -------------------------------------------------------------------------------------------------------


class Ears:
    """Asks a router, and the tower that it is in, whatever there is to ask, and keeps every byte."""

    def __init__(self, service: Routing, *, tower: bool) -> None:
        self.service = service
        self.said: list[bytes] = []
        self.tower = 0
        if tower:
            self.tower = service.tower_port()
            paths = ask(self.tower, "GET", "/api/v1/openapi.json", token=SESSION).json()["paths"]
            self.paths = [path for path in paths if "{" not in path and not path.endswith("/stream")]

    def ask(self, method: str, path: str, body: bytes = b"", *, token: str | None = TOKEN, port: int = 0) -> bytes:
        """Send one request, with marks in what a caller may write, and return the whole answer, head and all."""
        fields = {
            "Host": f"127.0.0.1:{port}",
            "Connection": "close",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Cookie": f"session={mark('cookie')}",
            "User-Agent": mark("user-agent"),
            "Referer": f"http://{mark('referer')}/",
            "X-Api-Key": mark("field"),
        }
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body, port)

    def send(self, request: bytes, port: int = 0) -> bytes:
        answer = b""
        with socket.create_connection(("127.0.0.1", port or self.service.port), PATIENCE) as client:
            client.sendall(request)
            with contextlib.suppress(ConnectionResetError):
                while part := client.recv(65_536):
                    answer += part
        assert answer.startswith(b"HTTP/1."), answer
        self.said.append(answer)
        return answer

    def invoke(self, release: str = RELEASE) -> tuple[int, str]:
        """Invoke, and return status and code; the agents of these tests answer nothing of their own."""
        names = zip(TARGET, release.split("/"), strict=True)
        body = json.dumps(dict(names) | {"input": {mark("input"): mark("input")}}).encode()
        answer = self.ask("POST", INVOCATIONS, body)
        code = re.search(rb'"code":"(\w+)"', answer)
        return int(answer.split()[1]), "" if code is None else code[1].decode()

    def listen(self) -> None:
        """Ask for everything once."""
        for release in (RELEASE, OTHER, NEVER):
            self.invoke(release)
        for method in ("GET", "HEAD"):
            for path in (PATH, "/metrics", "/readyz", "/livez", "/startupz", "/healthz", "/openapi.json", "/nothing"):
                self.ask(method, f"{path}?token={mark('query')}")
                self.ask(method, path, token=None)
                self.ask(method, path, token=mark("bearer") * 8)
        for method, path in (("POST", PATH), ("GET", INVOCATIONS), ("DELETE", f"/?{mark('query')}")):
            self.ask(method, path)
        wrong = {"agentId": [mark("agent")], mark("member"): 1, "input": mark("input")}
        for body in (mark("body").encode(), json.dumps(wrong).encode(), json.dumps(TARGET | wrong).encode()):
            self.ask("POST", INVOCATIONS, body)
        self.send(f"GET {PATH} HTTP/1.1\r\nHost: r\r\n{mark('field')} : {mark('field')}\r\n\r\n".encode())
        self.send(f"{mark('method')} /{mark('path')} HTTP/1.1\r\n\r\n".encode())
        if self.tower:
            for path in self.paths:
                self.ask("GET", path, token=SESSION, port=self.tower)

    def heard(self, unsaid: Iterable[str]) -> None:
        """End the router, and search all that it has said, and kept, for what is not to be there."""
        assert self.service.end() == 0
        commands = refused("events", "list", "--json", "--limit=1000", f"--store={self.service.store}")
        said = {
            "an answer": b"\n".join(self.said),
            # A tower prints its own link, with the session token (CT-2.6).
            "standard output": "".join(self.service.announced).replace(SESSION, "").encode(),
            "the log": "".join(self.service.lines).encode(),
            "the events": repr(commands).encode(),
        }
        for file in self.service.store.parent.glob(f"{self.service.store.name}*"):
            if file.is_file():
                said[file.name] = file.read_bytes()
        assert b"agent.invoked" in said[self.service.store.name], "the store has been written"
        for where, data in said.items():
            for text in (SECRET, TOKEN, SESSION, *unsaid):
                for form in forms(text):
                    at = data.lower().find(form) if form == text.encode() else data.find(form)
                    assert at < 0, (where, text, data[max(0, at - 200) : at + 100])


@contextlib.contextmanager
def listening(site: Site, *, tower: bool) -> Iterator[Ears]:
    """Run a router of a site, with a folder of its own for what libraries may write for their user."""
    home = site.folder / "home"
    home.mkdir()
    with routing(site, tower=tower, IDKMESH_HTTP_ACCESS_LOG="1", HOME=str(home)) as service:
        yield Ears(service, tower=tower)
    for file in home.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def state(ears: Ears, release: str = RELEASE) -> str:
    found: str = ears.service.observation(release)["state"]
    return found


def wrote(ears: Ears, line: str) -> bool:
    """Say whether the log has a line, while the router is asked for what it makes of that."""
    ears.invoke()
    return line in ears.service.lines


def known(ears: Ears, *wanted: str, release: str = RELEASE) -> None:
    """Invoke until a release has one of these states."""

    def is_known() -> bool:
        ears.invoke(release)
        return state(ears, release) in wanted

    until(is_known, wanted)


def test_the_search_finds_a_mark_as_it_may_stand() -> None:
    """Rule: the proof below is none unless a text is found in base64 wherever it begins there, and in digits."""
    for before in ("", "a", "ab", "abc"):
        packed = base64.b64encode(f"{before}{mark('key')}...".encode())
        assert any(form in packed for form in forms(SECRET)), packed
    assert any(form in f"x{SECRET}x".encode().hex().encode() for form in forms(SECRET))


# --- file ------------------------------------------------------------------------------------------------------------


def row(**more: Any) -> dict[str, Any]:
    return TARGET | {"endpoints": [DEAD]} | more


def document(*rows: Any, **more: Any) -> str:
    return json.dumps({"schema_version": "0.1", "kind": "idkmesh-releases", "releases": rows} | more)


def malformed() -> list[bytes]:
    """Return documents with a mark in each place where something can be wrong."""
    endpoints = [
        f"http://{SECRET}:{SECRET}@127.0.0.1:1",
        f"http://127.0.0.1:1/{SECRET}",
        f"http://127.0.0.1:1/?{SECRET}",
        f"http://127.0.0.1:1/#{SECRET}",
        f"http://127.0.0.1:{SECRET}",
        f"http://[fe80::1%{SECRET}]:1",
        f"{SECRET}://127.0.0.1:1",
        f"http://{SECRET * 100}:1",
        f"http://{SECRET}\u0000:1",
        SECRET,
        {SECRET: SECRET},
    ]
    rows: list[Any] = [row(endpoints=[endpoint]) for endpoint in endpoints]
    rows += [row(**{name: value}) for name in TARGET for value in (f"{SECRET}/", f"-{SECRET}", [SECRET], SECRET * 99)]
    rows += [row(endpoints=SECRET), row(endpoints=[DEAD] * 1001), row(metadata={SECRET: SECRET}), {SECRET: SECRET}]
    rows += [SECRET, [SECRET]]
    # Each after another number of rows: so each is another line in the log, which can be waited for.
    fine = [row(agentId=f"fine-{number}") for number in range(len(rows))]
    texts = [document(*fine[:number], each) for number, each in enumerate(rows)]
    texts += [
        document(row(), row()),
        document(kind=SECRET),
        document(releases=SECRET),
        document(**{SECRET: SECRET}),
        document(row())[:-3],
        "[" * 100_000 + f'"{SECRET}"',
        document(row(agentId=float("nan"))),
        document(row()).replace('"agentId"', f'"endpoints": "{SECRET}", "agentId"'),
        f'"{SECRET}"',
        SECRET,
    ]
    return [*(text.encode() for text in texts), b"\xff" + SECRET.encode(), b'{"\xff":"' + SECRET.encode()]


def reason_of(content: bytes) -> str:
    with pytest.raises(ValueError) as refusal:
        read_releases(content)
    return str(refusal.value)


@in_a_tower
def test_the_provider_file(tmp_path: Path, tower: bool) -> None:
    """RT-13.5, RT-11.5, RT-6.5, RT-10.1: whatever stands in the file, right or wrong, whole or half, or was there."""
    site = Site(tmp_path)
    with answering(OK) as one, answering(spoilt) as other, listening(site, tower=tower) as ears:
        where = f"provider file: {site.releases}: "
        site.releases.write_text(document(row(), row(agentId="other", endpoints=[other.url])))
        known(ears, "populated")
        assert ears.invoke() == (502, "AGENT_TRANSPORT_FAILED")
        for _ in SPOILT:
            assert ears.invoke(OTHER) == (502, "AGENT_TRANSPORT_FAILED")
        ears.listen()
        contents = malformed()
        for content in contents:
            site.releases.write_bytes(content)
            line = f"{where}{reason_of(content)}; its releases are unavailable\n"
            until(functools.partial(wrote, ears, line), line)
        ears.listen()
        assert state(ears) == "unavailable"
        site.releases.unlink()
        site.releases.mkdir()
        ears.service.wait_for_line("is no regular file")
        site.releases.rmdir()
        site.declare({RELEASE: [one.url]})
        ears.service.wait_for_line("it can be read again")
        until(lambda: ears.invoke() == (200, ""), "an agent that lives")
        assert SECRET.encode() in one.requests[-1], "the agent is sent what the caller wrote"
        ears.listen()
        ears.said += [text.encode() for text in ears.service.topology("status")[1:]]
        digests = [hashlib.sha256(each).hexdigest() for each in (site.releases.read_bytes(), *contents)]
        ears.heard([f":{one.port}", f":{other.port}", "invalid:4711", *digests])


SPOILT = (
    f"{SECRET}\r\n\r\n",
    f"HTTP/1.1 200 {SECRET}\r\n{SECRET} : {SECRET}\r\n\r\n",
    f"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{SECRET}",
    f"HTTP/1.1 777 {SECRET}\r\nX: {SECRET}\r\n\r\n{SECRET}",
    f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n",
    f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: {SECRET}\x01\r\n\r\n",
)
_spoilt = iter(SPOILT * 100)


def spoilt(connection: socket.socket) -> None:
    """Answer what is no HTTP, another one each time: then nothing of it is the agent's own answer."""
    connection.sendall(next(_spoilt).encode())


# --- direct ----------------------------------------------------------------------------------------------------------


@in_a_tower
def test_the_provider_direct(tmp_path: Path, tower: bool) -> None:
    """RT-13.5, RT-11.5, RT-5.8: releases of the configuration, with an instance that lives and one that does not."""
    with answering(OK) as one:
        rows = [row(), row(agentId="other", endpoints=[one.url])]
        site = Site(tmp_path, f"direct: {{releases: {json.dumps(rows)}}}")
        with listening(site, tower=tower) as ears:
            assert ears.invoke() == (502, "AGENT_TRANSPORT_FAILED")
            assert ears.invoke(OTHER) == (200, "")
            assert ears.invoke(NEVER) == (503, "AGENT_UNAVAILABLE")
            ears.listen()
            ears.heard([f":{one.port}", "invalid:4711"])


@pytest.mark.parametrize(
    "endpoint",
    [f"http://{SECRET}:{SECRET}@h:1", f"https://{SECRET}@h:1", f"//u:{SECRET}@h:1", f"http://a/b@{SECRET}:x@h:1"],
)
@pytest.mark.parametrize("place", ["direct: {releases: [%s]}", "etcd: {endpoints: ['%s']}"])
def test_a_refused_configuration_shows_no_credential(tmp_path: Path, place: str, endpoint: str) -> None:
    """RT-13.5, RT-9.1: a password in an endpoint of the configuration is refused, and not repeated."""
    site = Site(tmp_path, place % (json.dumps(row(endpoints=[endpoint])) if "direct" in place else endpoint))
    code, out, errors = refused("router", "--config=router.yaml", cwd=site.folder)
    assert (code, out) == (2, "")
    assert "router.yaml:" in errors
    assert SECRET not in errors


# --- etcd ------------------------------------------------------------------------------------------------------------

PREFIX = f"/{SECRET}-prefix/agents"


def answer(body: str | bytes, status: str = "200 OK", *fields: str) -> bytes:
    content = body if isinstance(body, bytes) else body.encode()
    head = "".join(f"{field}\r\n" for field in (*fields, "Content-Type: application/json"))
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def chunked(*lines: str) -> bytes:
    parts = b"".join(f"{len(line) + 1:x}\r\n{line}\n\r\n".encode() for line in lines)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts


def kv(key: str, value: str) -> dict[str, str]:
    return {name: base64.b64encode(text.encode()).decode() for name, text in (("key", key), ("value", value))}


HEADER = {"cluster_id": "471147114711", "member_id": "815815815815", "revision": "7", SECRET: SECRET}
RECORD = kv(f"{PREFIX}/{RELEASE}/{mark('instance')}", json.dumps({"endpoint": DEAD, SECRET: SECRET}))
LISTED = answer(json.dumps({"header": HEADER, "kvs": [RECORD], SECRET: SECRET}))
FAULT = dict.fromkeys(("error", "message", "details"), SECRET)
CREATED = json.dumps({"result": {"header": HEADER, "created": True}})

LISTINGS = (
    answer(json.dumps(FAULT | {"code": 16}), f"401 {SECRET}", f"WWW-Authenticate: Basic realm={SECRET}"),
    answer(json.dumps({"error": f"permission denied: {SECRET}"}), "403 Forbidden"),
    answer(SECRET, f"500 {SECRET}", f"X: {SECRET}"),
    answer(SECRET, "302 Found", f"Location: http://{SECRET}.invalid/"),
    f"{SECRET}\r\n\r\n".encode(),
    answer(SECRET),
    answer(json.dumps({SECRET: SECRET})),
    answer(json.dumps({"header": HEADER | {"revision": SECRET}, "kvs": []})),
    answer(json.dumps({"header": HEADER, "kvs": [{"key": SECRET, "value": SECRET}]})),
)
"""What a listing is answered by who is no etcd, or means ill."""

WATCHES = (
    f"HTTP/1.1 403 {SECRET}\r\nX: {SECRET}\r\n\r\n{SECRET}".encode(),
    chunked(json.dumps({"error": FAULT})),
    chunked(json.dumps({"result": {"canceled": True, "cancel_reason": SECRET, "compact_revision": SECRET}})),
    chunked(SECRET),
    f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n".encode(),
    chunked(CREATED, json.dumps({"result": {"events": [{"kv": RECORD}]}}), json.dumps({"error": FAULT})),
)
"""What a watch is answered after a listing that can be read."""


ANSWERS = 3
"""Of a hostile member, before it only fails: who answers is asked first from then on, and the others are to be too."""


def hostile(listing: bytes, watch: bytes) -> Callable[[Agent], Callable[[socket.socket], None]]:
    """Return what answers as a member of etcd does that means ill. It lets itself be watched once."""

    def made(member: Agent) -> Callable[[socket.socket], None]:
        def script(connection: socket.socket) -> None:
            watched = any(b"/watch" in request for request in member.requests)
            if b"/watch" in member.requests[-1]:
                connection.sendall(watch)
            else:
                connection.sendall(LISTINGS[2] if watched or len(member.requests) > ANSWERS else listing)

        return script

    return made


@contextlib.contextmanager
def hostile_members() -> Iterator[list[Agent]]:
    """Run one for each thing that such a member may say."""
    with contextlib.ExitStack() as stack:
        members: list[Agent] = []
        for listing, watch in (*((each, b"") for each in LISTINGS), *((LISTED, each) for each in WATCHES)):
            scripts: list[Callable[[socket.socket], None]] = []
            member = stack.enter_context(
                answering(lambda connection, scripts=scripts: scripts[0](connection))  # type: ignore[misc]
            )
            scripts.append(hostile(listing, watch)(member))
            members.append(member)
        yield members


def register_marks(hands: EtcdHands, live: str) -> int:
    """Have releases with a mark in each field of a key and a record, and return the lease of the one that lives."""
    lease = hands.lease()
    target = target_of(RELEASE)
    hands.put(hands.key(target), json.dumps({mark("release"): mark("release")}))
    hands.put(hands.key(target, mark("instance")), json.dumps({"endpoint": live, mark("member"): mark("value")}), lease)
    records: list[str | bytes] = [
        SECRET,
        json.dumps({"endpoint": f"http://u:{SECRET}@h:1"}),
        json.dumps({"endpoint": [SECRET]}),
        json.dumps({SECRET: SECRET}),
        f'{{"endpoint":"{DEAD}","endpoint":"{DEAD}"}}',
        b"\xff" + SECRET.encode(),
    ]
    for number, record in enumerate(records):
        hands.put(hands.key(target, f"{mark('instance')}/{number}"), record)
    for key in (mark("key"), f"{mark('a')}/{mark('b')}", f"{mark('a')}/{mark('b')}/{mark('c')}/{mark('d')}", "//"):
        hands.put(f"{hands.prefix}/{key}", mark("value"))
    other = target_of(OTHER)
    hands.put(hands.key(other), mark("value"))
    hands.register(other, mark("instance"), endpoint_of(DEAD))
    return lease


@with_etcd
@pytest.mark.parametrize("observe", ["", ", observe: false"], ids=["watched", "asked"])
def test_the_provider_etcd(tmp_path: Path, observe: str) -> None:
    """RT-13.5, RT-11.5, RT-7.5: keys, records, leases and names of a real one, and whatever a hostile one may say."""
    (tmp_path / "etcd").mkdir()
    etcd = Etcd(tmp_path / "etcd", name=mark("member"))
    try:
        with answering(OK) as one, hostile_members() as members:
            # Watched, the hostile ones come first; asked, last: there who answers is asked first from then on.
            urls = [member.url for member in members]
            urls.insert(0 if observe else len(urls), etcd.url)
            site = Site(tmp_path, f"etcd: {{endpoints: {json.dumps(urls)}, prefix: {PREFIX}}}{observe}")
            lease = register_marks(EtcdHands(etcd.url, PREFIX), one.url)
            with listening(site, tower=not observe) as ears:
                until(lambda: ears.invoke() == (200, ""), "the real one is heard", 2 * PATIENCE)
                # Asked, each use has a second of its own to be told, which a busy machine may take for something else.
                until(lambda: ears.invoke(OTHER) == (502, "AGENT_TRANSPORT_FAILED"), "and of the other release")
                ears.listen()
                if not observe:
                    for member in members[len(LISTINGS) :]:
                        assert any(b"/watch" in request for request in member.requests)
                    ears.service.wait_for_line("records of instances are no endpoint")
                etcd.kill()
                until(lambda: ears.invoke() == (503, "AGENT_UNAVAILABLE"), "the real one is lost")
                until(lambda: ears.invoke()[0] == 503 and all(member.requests for member in members), "all were asked")
                until(lambda: b'"failing":["provider"]' in ears.ask("GET", "/readyz"), "it is not ready")
                ears.listen()
                ports = [f":{url.rpartition(':')[2]}" for url in (*urls, one.url)]
                ears.heard([*ports, str(lease), f"{lease:x}", HEADER["cluster_id"], HEADER["member_id"]])
    finally:
        etcd.kill()


# --- nacos -----------------------------------------------------------------------------------------------------------

MARKED = {
    name: mark(name)
    for name in ("instanceId", "serviceName", "instanceIdGenerator", "ipDeleteTimeout", "instanceHeartBeatTimeOut")
}
METADATA = {mark("key"): mark("value"), "preserved.register.source": mark("source"), "token": mark("token")}
SERVICE = {
    name: mark(name) for name in ("clusters", "checksum", "cacheMillis", "allIPs", "reachLocalSiteCallThreshold")
}


def marked_hosts(port: int) -> list[Any]:
    """Return instances with a mark in each field: one that lives, and those of another form."""
    fields = MARKED | {"metadata": METADATA, "clusterName": mark("cluster")}
    lives = host("127.0.0.1", port, **fields)
    wrong: list[dict[str, Any]] = [
        {name: SECRET} for name in ("ip", "port", "healthy", "enabled", "weight", "metadata")
    ]
    wrong += [{"metadata": {"scheme": SECRET}}, {"ip": f"{SECRET}@h"}, {SECRET: SECRET}]
    return [lives, *(lives | each for each in wrong[:-1]), wrong[-1], SECRET, [SECRET]]


def goes_away(connection: socket.socket) -> None:
    """Send a client of HTTP/2 away with an error, and a mark in its words (RFC 9113, section 6.8)."""
    settings, goaway = b"", bytes(4) + (2).to_bytes(4, "big") + mark("debug-data").encode()
    for kind, payload in ((4, settings), (7, goaway)):
        connection.sendall(len(payload).to_bytes(3, "big") + bytes([kind]) + bytes(5) + payload)
    connection.recv(65_536)


def nacos_site(folder: Path, nacos: Nacos, hostile: int, more: str = "") -> Site:
    password = folder / "nacos.password"
    password.write_text(mark("password"))
    password.chmod(0o600)
    words = f"namespace: {mark('namespace')}, group: {mark('group')}, clusters: [{mark('cluster')}]"
    who = f"username: {mark('user')}, password_file: nacos.password"
    servers = f"servers: ['{nacos.address}', '127.0.0.1:{hostile - 1000}']"
    return Site(folder, f"nacos: {{{servers}, {words}, {who}}}{more}")


@with_nacos
@pytest.mark.parametrize("observe", ["", ", observe: false"], ids=["watched", "asked"])
def test_the_provider_nacos(tmp_path: Path, observe: str) -> None:
    """RT-13.5, RT-11.5, RT-8.6, RT-8.8: fields of services and instances, the login, what servers say of errors."""
    nacos = Nacos()
    try:
        nacos.do("be", password=mark("password"), token=mark("token"), says=mark("error"))
        where = {"namespace": mark("namespace"), "group": mark("group")}
        name, other = (release.replace("/", ":") for release in (RELEASE, OTHER))
        with contextlib.ExitStack() as stack:
            one, hostile = (stack.enter_context(answering(reply)) for reply in (OK, goes_away))
            site = nacos_site(tmp_path, nacos, hostile.port, observe)
            ears = stack.enter_context(listening(site, tower=not observe))
            ears.listen()
            nacos.put(name, *marked_hosts(one.port), **where, **SERVICE)
            dead = host(f"{SECRET}-host.invalid", 4711, metadata=METADATA, clusterName=mark("cluster"))
            nacos.put(other, dead, **where, **SERVICE)
            until(lambda: ears.invoke() == (200, ""), "the one that lives")
            until(lambda: ears.invoke(OTHER)[1] == "AGENT_TRANSPORT_FAILED", "the one that does not")
            ears.listen()
            logins = nacos.told()["logins"]
            assert logins[0]["password"] == [mark("password")]
            if not observe:
                ears.service.wait_for_line("instances are no endpoint")
                spoil(nacos, ears, name, where)
            nacos.do("be", refuses={name: 500, other: 403})
            ears.listen()
            nacos.do("be", password="another", token=mark("other-token"))
            nacos.do("stop")
            until(lambda: b'"failing":["provider"]' in ears.ask("GET", "/readyz"), "it is lost")
            nacos.do("start")
            ears.listen()
            nacos.end()
            until(lambda: ears.invoke() == (503, "AGENT_UNAVAILABLE"), "nobody is there")
            ears.listen()
            until(lambda: hostile.requests, "the hostile one is asked too")
            ports = (one.port, nacos.port, nacos.port + 1000, hostile.port, hostile.port - 1000)
            ears.heard([*(f":{port}" for port in ports), "invalid:4711"])
    finally:
        nacos.end()


def spoil(nacos: Nacos, ears: Ears, name: str, where: dict[str, str]) -> None:
    """Have the server push what nobody can read, or leave its clients; each time the release is known again."""
    fault = nacos_hands.host(SECRET, 1)
    for pushed in (
        ("NotifySubscriberRequest", SECRET),
        ("NotifySubscriberRequest", json.dumps({"serviceInfo": SECRET, "requestId": mark("request")})),
        (mark("type"), json.dumps({"requestId": mark("request"), SECRET: SECRET})),
        ("ClientDetectionRequest", json.dumps({"requestId": mark("request")})),
    ):
        nacos.do("push_as", *pushed)
        ears.invoke()
    nacos.do("reset")
    until(lambda: ears.invoke() == (200, ""), "it is subscribed to anew")
    nacos.put(name, fault | {"ip": f"{SECRET}/"}, **where, reachProtectionThreshold=True)
    until(lambda: state(ears) == "unavailable", "none can be told from another")
