from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.workloads.drivers.lxd import chosen
from idkmesh.workloads.drivers.lxd_answers import (
    LxdError,
    LxdMissingError,
    Operation,
    instance_of,
    instances_of,
    is_mapped,
    left_out_of,
    metadata_of,
    operation_of,
    shown,
)
from idkmesh.workloads.drivers.lxd_exec import run_of
from idkmesh.workloads.model import DesiredModule, InstanceState, ModuleKind, RunEnd
from tests.workloads.recorded import metadata, recorded, response

IDENTIFIER = "f2b0c6a4-0b3e-4f0e-9d7e-0d5a3c1f7a11"


def operation(name: str) -> Operation:
    return operation_of(metadata_of(recorded(name)))


@pytest.mark.parametrize(
    ("name", "code", "error"),
    [
        ("exit0.2-wait", 0, ""),
        ("exit3.2-wait", 3, ""),
        ("exit126.2-wait", 126, "Command not executable"),
        ("exit127.2-wait", 127, "Command not found"),
        ("exit255.2-wait", 255, ""),
        ("killed-by-signal.2-wait", 137, ""),
        ("empty-command.2-wait", None, "Failed to retrieve PID of executing child process"),
    ],
)
def test_the_end_of_a_command(name: str, code: int | None, error: str) -> None:
    """AR-3.3, AR-8.3: the exit status is the inner one, and 126 and 127 come as failures with it."""
    ended = operation(name)
    assert (ended.running, ended.code, ended.error) == (False, code, error)


def test_a_wait_that_times_out_is_no_success() -> None:
    """AR-8.3: the response says 200, the operation inside it says 103."""
    going = operation("still-running.2-wait")
    assert (going.running, going.succeeded, going.code) == (True, False, None)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (200, 0, RunEnd.EXITED),
        (200, 1, RunEnd.EXITED),
        (400, 127, RunEnd.EXITED),
        (400, 0, None),
        (401, 0, None),
        (400, None, None),
        (200, None, None),
        (200, -1, None),
        (103, 0, None),
    ],
)
def test_what_an_end_says(status: int, code: int | None, said: RunEnd | None) -> None:
    """EXEC-10, AR-3.3, AR-8.3: an end that contradicts itself, or has no exit status, says nothing: none passes."""
    body = {"id": IDENTIFIER, "status_code": status, "err": "", "metadata": {"return": code}}
    if said is None:
        with pytest.raises(LxdError):
            run_of(operation_of(body))
    else:
        run = run_of(operation_of(body))
        assert (run.end, run.code) == (said, code)


def test_the_websockets_of_a_command() -> None:
    """AR-8.3: an exec that began names its operation and the secrets of its four websockets."""
    began = operation("websocket-delete.1-exec")
    assert began.path == "/1.0/operations/b0553ea9-2fab-447e-b0ef-ee889bc83e5d"
    assert sorted(began.secrets) == ["0", "1", "2", "control"]
    assert began.secrets["0"].startswith("3dffabda")


@pytest.mark.parametrize(
    ("name", "succeeded", "word"),
    [
        ("restart.2-wait", True, ""),
        ("restart-graceful-timeout.2-wait", False, "Failed shutting down"),
        ("restart-stopped.2-wait", False, "already stopped"),
    ],
)
def test_the_end_of_a_restart(name: str, succeeded: bool, word: str) -> None:
    """AR-5.6: a restart that failed is answered with 200, and says so inside."""
    ended = operation(name)
    assert ended.succeeded is succeeded
    assert word in ended.error


@pytest.mark.parametrize(
    ("name", "kind", "word"),
    [
        ("stopped-instance.1-exec", LxdError, "Instance is not running"),
        ("exec-frozen.1-exec", LxdError, "Instance is frozen"),
        ("unknown-instance.1-exec", LxdMissingError, "Instance not found"),
        ("still-running.10-wait-6s-after-end", LxdMissingError, "Operation not found"),
        ("exec-while-daemon-shutting-down", LxdError, "LXD is shutting down"),
        ("bad-user-type", LxdError, "cannot unmarshal"),
    ],
)
def test_refusals(name: str, kind: type[LxdError], word: str) -> None:
    """AR-8.4: a refusal is told in the daemon's words; what is not there (404) is told apart."""
    with pytest.raises(LxdError, match=word) as told:
        metadata_of(recorded(name))
    assert type(told.value) is kind


def test_a_listing() -> None:
    """AR-8.2: state, identity, address, and the configuration with the profiles' part, of a whole listing."""
    found = instances_of(metadata_of(recorded("listing-recursion2")))
    assert {name: each.state for name, each in found.items()} == {
        "web-1": InstanceState.RUNNING,
        "web-2": InstanceState.FROZEN,
        "web-3": InstanceState.STOPPED,
    }
    assert found["web-1"].config["user.idkmesh.module"] == "web"
    assert found["web-1"].identity.endswith("@2026-11-30T04:23:18.897109315Z")
    assert len({each.identity for each in found.values()}) == 3
    assert (found["web-1"].address or "").endswith(".10")
    assert (found["web-3"].address, found["web-3"].location) == (None, None)


BAD_NAMES = ("\ud800", "a\n\x1b[31m\u202e<b>", "a" * 64, "1a", "a-", "-a", "a.b", "\xe9", "", 7, None, ["a"])


def test_names_that_lxd_has_not() -> None:
    """AR-2.5: an instance with such a name is left out of a listing and counted, and costs no other its place."""
    good = metadata("instance-get")
    listing = [*({**good, "name": name} for name in BAD_NAMES), good, {**good, "name": "A" * 63}]
    assert sorted(instances_of(listing)) == ["A" * 63, good["name"]]
    assert left_out_of(listing) == len(BAD_NAMES)
    assert left_out_of(metadata("listing-recursion2")) == 0
    for name in BAD_NAMES:
        with pytest.raises(LxdError):
            instance_of({**good, "name": name})


def test_choosing() -> None:
    """AR-2.2, AR-3.1: by name in the file's order, by selector in the alphabet's; ours is what says so."""
    found = instances_of(metadata("listing-recursion2"))

    def told(**fields: Any) -> list[tuple[str, InstanceState, bool]]:
        module = DesiredModule(name="web", kind=ModuleKind.STATELESS, driver="lxd", **fields)
        return [(each.name, each.state, each.owned) for each in chosen(module, found, {})]

    assert told(instances=("web-3", "none", "web-1")) == [
        ("web-3", InstanceState.STOPPED, False),
        ("none", InstanceState.GONE, False),
        ("web-1", InstanceState.RUNNING, True),
    ]
    assert told(selector={"image.os": "busybox"}) == [
        ("web-1", InstanceState.RUNNING, True),
        ("web-2", InstanceState.FROZEN, True),
        ("web-3", InstanceState.STOPPED, False),
    ]
    assert told(selector={"user.idkmesh.module": "none"}) == []


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (103, InstanceState.RUNNING),
        (113, InstanceState.RUNNING),
        (102, InstanceState.STOPPED),
        (106, InstanceState.STOPPED),
        (107, InstanceState.STOPPED),
        (109, InstanceState.FROZEN),
        (110, InstanceState.FROZEN),
        (112, InstanceState.UNREACHABLE),
        (400, InstanceState.UNREACHABLE),
        ("Running", InstanceState.UNREACHABLE),
        (None, InstanceState.UNREACHABLE),
        (True, InstanceState.UNREACHABLE),
    ],
)
def test_states(code: object, state: InstanceState) -> None:
    """AR-8.2: every status code of the documented list has its state; what is not in it says nothing is known."""
    assert instance_of({**metadata("instance-get"), "status_code": code}).state is state


def test_a_member_of_a_cluster() -> None:
    """AR-8.2: the location is the cluster member, and none where there is no cluster."""
    assert instance_of({**metadata("instance-get"), "location": "member-2"}).location == "member-2"
    assert instance_of(metadata("instance-get")).location is None


def test_an_identity() -> None:
    """AR-4.4: made anew or started anew is another life; an instance without an identifier has its making for one."""
    seen = metadata("instance-get")
    again = {**seen, "last_used_at": "2026-11-29T20:00:00Z"}
    anew = {**seen, "config": {**seen["config"], "volatile.uuid": "7d0f2a4e-3bd1-4a6c-8a35-94b0a6b0a111"}}
    old = {**seen, "config": {}}
    identities = [instance_of(each).identity for each in (seen, again, anew, old)]
    assert len(set(identities)) == 4
    assert identities[3].startswith(seen["created_at"])


@pytest.mark.parametrize("value", [None, 7, ["x"], {"x": "y"}, "", "a\n\x1b[31m", "\ud800", "x" * 100])
def test_an_identity_that_is_none(value: object) -> None:
    """AR-4.4: of an instance whose life cannot be told from another one nothing is known, so nothing is done to it."""
    good = metadata("instance-get")
    for changes in ({"last_used_at": value}, {"created_at": value, "config": {}}):
        found = instance_of({**good, **changes})
        assert (found.identity, found.state) == ("", InstanceState.UNREACHABLE)
    other = instance_of({**good, "config": {**good["config"], "volatile.uuid": value}})
    assert other.identity == instance_of({**good, "config": {}}).identity


def test_a_location_is_fit_to_be_shown() -> None:
    """AR-8.2: a member's name is told in documents: one printable line of bounded length."""
    good = metadata("instance-get")
    assert instance_of({**good, "location": "member\n\x1b[31m\u202e\ud800"}).location == "member [31m"
    assert len(instance_of({**good, "location": "x" * 1000}).location or "") == 63
    assert instance_of({**good, "location": ["x"]}).location is None


def nic(address: str, hardware: object = "", *, scope: str = "global", kind: str = "broadcast") -> dict[str, Any]:
    return {"type": kind, "hwaddr": hardware, "addresses": [{"family": "any", "address": address, "scope": scope}]}


@pytest.mark.parametrize(
    ("network", "address"),
    [
        (None, None),
        ({}, None),
        ({"eth0": None, "eth1": {"addresses": None}}, None),
        ({"lo": nic("127.0.0.1", kind="loopback")}, None),
        ({"eth0": nic("fe80::1", scope="link")}, None),
        ({"eth0": nic("not an address")}, None),
        ({"eth0": nic("10.0.0.5")}, "10.0.0.5"),
        ({"eth1": nic("10.0.0.6"), "eth0": nic("10.0.0.5")}, "10.0.0.5"),
        ({"docker0": nic("172.17.0.1"), "eth0": nic("10.0.0.5", "00:16:3e:00:00:01")}, "10.0.0.5"),
        ({"docker0": nic("172.17.0.1"), "eth0": nic("fd00::5", "00:16:3e:00:00:01")}, "fd00::5"),
        ({"eth0": nic("fd00::5"), "eth1": nic("10.0.0.6")}, "10.0.0.6"),
        ({"eth0": nic("10.0.0.5", [1])}, "10.0.0.5"),
        ({"eth0": nic("fe80::1%\x1b[31m")}, None),
    ],
)
def test_addresses(network: object, address: str | None) -> None:
    """AR-3.5: of the instance's own devices first, IPv4 first, by name; no loopback, no link's, no noise."""
    config = {"volatile.eth0.hwaddr": "00:16:3e:00:00:01"}
    described = {**metadata("instance-get"), "config": config, "state": {"network": network}}
    assert instance_of(described).address == address


BOTH = '[{"Isuid":true,"Isgid":true,"Hostid":100000,"Nsid":0,"Maprange":65536}]'
HUGE = f'[{{"Isuid":true,"Isgid":true,"Nsid":1e308,"Maprange":{"9" * 400}}}]'
SPLIT = (
    '[{"Isuid":true,"Isgid":false,"Hostid":1,"Nsid":0,"Maprange":70000},'
    '{"Isuid":false,"Isgid":true,"Hostid":1,"Nsid":0,"Maprange":1000}]'
)


@pytest.mark.parametrize(
    ("idmap", "number", "mapped"),
    [
        (BOTH, 65_534, True),
        (BOTH, 65_535, True),
        (BOTH, 65_536, False),
        (SPLIT, 999, True),
        (SPLIT, 1000, False),
        ('[{"Isuid":false,"Isgid":false,"Nsid":0,"Maprange":70000}]', 1, False),
        ("[]", 4_000_000_000, True),
        (None, 65_534, True),
    ],
)
def test_maps_of_users(idmap: str | None, number: int, mapped: bool) -> None:
    """AR-3.3: user and group both have to be in the map; without one every number is the instance's own."""
    assert is_mapped({} if idmap is None else {"volatile.idmap.current": idmap}, number) is mapped


def test_a_recorded_map() -> None:
    """AR-3.3: the map of a real instance has nobody, and not the number beyond it."""
    config = instance_of(metadata("instance-get")).config
    assert [is_mapped(config, number) for number in (0, 65_534, 10_000_000, 10_000_001)] == [True, True, True, False]


@pytest.mark.parametrize(
    "idmap", ["{", "{}x", '""', "{}", HUGE, '[{"Isuid":true}]', '["x"]', "7", '[{"Isuid":true,"Isgid":true,"Nsid":""}]']
)
def test_a_map_that_is_none(idmap: str) -> None:
    """AR-3.3: where the map cannot be read nothing is run."""
    with pytest.raises(LxdError, match="map of users"):
        is_mapped({"volatile.idmap.current": idmap}, 0)


EMPTY = {"type": "sync", "metadata": []}
BAD_LENGTHS = ("9" * 30, "9" * 5000, "-5", "+5", "1_0", "", "\xb2")
BAD_HEADS = [f"HTTP/1.1 200 OK\r\nContent-Length: {length}".encode("latin-1") for length in BAD_LENGTHS]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}",
        response(200, b""),
        response(200, b"[]"),
        response(200, b"\xff\xfe"),
        response(200, b"[" * 100_000),
        response(502, b"<html>Bad Gateway</html>"),
        response(500, {"type": "error", "error": None}),
        response(200, {"type": "error", "error": "no\nway\x1b[31m"}),
        response(302, EMPTY),
        response(101, EMPTY),
        *(head + b"\r\n\r\n" + json.dumps(EMPTY).encode() for head in BAD_HEADS),
        CHUNKED + b"f" * 30 + b"\r\nabc",
        CHUNKED + b"-5\r\nabc",
    ],
)
def test_answers_that_are_none(raw: bytes) -> None:
    """AR-8.4: whatever comes is one line of an error, fit to be shown."""
    with pytest.raises(LxdError) as told:
        metadata_of(raw)
    assert str(told.value).isprintable()


@pytest.mark.parametrize(
    "changes",
    [{"id": None}, {"id": "../instances/x"}, {"id": ""}, {"id": "é"}, {"status_code": "200"}, {"status_code": True}],
)
def test_operations_that_are_none(changes: dict[str, object]) -> None:
    """AR-8.4: an operation whose identifier would lead elsewhere, or without a status, is refused."""
    with pytest.raises(LxdError):
        operation_of({"id": IDENTIFIER, "status_code": 200, **changes})


@pytest.mark.parametrize("code", [-1, 256, "0", True, 0.0, None, [0]])
def test_an_exit_status_that_is_none(code: object) -> None:
    """AR-8.3: what no process returns is no exit status: above all nothing passes by it."""
    assert operation_of({"id": IDENTIFIER, "status_code": 200, "metadata": {"return": code}}).code is None


def test_a_secret_that_would_lead_elsewhere() -> None:
    """AR-8.4: a secret is part of a request's target, so it is what one looks like, or not there."""
    fds = {"0": "abc", "1": "a b", "2": "a\r\nHost: x", "control": 7}
    assert dict(operation_of({"id": IDENTIFIER, "status_code": 103, "metadata": {"fds": fds}}).secrets) == {"0": "abc"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*metadata("instance-get"), "state"]), json_values, json_values)
def test_hostile_instances(field: str, value: object, network: object) -> None:
    """AR-8.4: whatever a field holds, an instance is read or refused, and nothing else is raised."""
    described = {**metadata("instance-get"), "state": {"network": network}, field: value}
    try:
        found = instance_of(json.loads(json.dumps(described)))
    except LxdError:
        return
    assert isinstance(found.identity, str)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Command not found: /opt/probe", "Command not found: …"),
        ('[/opt/probe --password s3cret\\t"x -U a] failed', "[… …  … … …] failed"),
        ('bad: {"command": ["--password", "s3cret\\\\t\\"x"]}', 'bad: {"command": ["…", "…"]}'),
        ('xs3cret\\t"xy', "x…y"),
        ("a bad answer", "… bad answer"),
        ("/opt/probe" * 100 + 's3cret\\t"x', "…" * 101),
        ("Instance is frozen", "Instance is frozen"),
    ],
)
def test_a_commands_words_are_not_told(said: str, told: str) -> None:
    """AR-8.3: program and arguments are blanked out of what the daemon says, as they are or quoted."""
    command = ("/opt/probe", "--password", 's3cret\\t"x', "-U", "a", "")
    assert shown(said, command) == " ".join(told.split())


@given(st.text(max_size=400))
def test_texts_of_the_daemon(text: str) -> None:
    """Rule: what the daemon says is printable, one line, and not long before anybody is shown it."""
    assert shown(text).isprintable()
    assert len(shown(text)) <= 200
