"""The router as a process: what it passes on, what it refuses, what it proves and what it never tells."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import openapi_spec_validator
import pytest
from prometheus_client.parser import text_string_to_metric_families

from idkmesh import BoundedWSGIServer
from idkmesh.control_tower import assets
from idkmesh.service_runtime import ServiceLimits
from idkmesh.topology.projection import PATH
from tests.functional.health_support import TOKEN as SESSION
from tests.functional.health_support import refused
from tests.functional.router_support import (
    INVOCATIONS,
    RELEASE,
    TARGET,
    TOKEN,
    Site,
    agent,
    ask,
    routing,
)
from tests.functional.supervise_support import PATIENCE, until
from tests.router.agents import OK, answering

if TYPE_CHECKING:
    from collections.abc import Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

    from tests.functional.router_support import Routing

STATUS = jsonschema.Draft202012Validator(
    assets.schema("router-topology-status.v1.json"), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routing]:
    """One for the tests that only ask."""
    with routing(Site(tmp_path_factory.mktemp("router"))) as service:
        yield service
        assert service.end() == 0


def ledger(service: Routing) -> list[dict[str, Any]]:
    return [event["data"] for event in service.told("agent.invoked")]


# --- the proof, on the provider file ---------------------------------------------------------------------------------


def test_what_the_router_consumed_is_proved_by_the_projection_alone(site: Site) -> None:
    """RT-4.1, RT-9.4, RT-9.8, RT-10.1, RT-11.1, RT-12.4: populated, emptied, awaited, refused, recorded."""
    with agent() as echo, routing(site) as service:
        site.declare({RELEASE: [echo.url]})
        assert service.invoke({"n": 1}).json() == {"echo": {"n": 1}}
        code, out, errors = service.topology("wait", f"--release={RELEASE}", "--state=populated", "--timeout=20")
        assert (code, errors) == (0, "")
        revision = service.observation()["localRevision"]
        assert out == f"{RELEASE}: populated at revision {revision}\n"

        site.declare({RELEASE: []})
        waited = service.topology(
            "wait", "--release=r1", "--state=empty", f"--after-revision={revision}", "--timeout=20"
        )
        assert waited == (0, f"{RELEASE}: empty at revision {revision + 1}\n", "")
        answer = service.invoke({"n": 2})
        assert (answer.status, answer.code) == (503, "AGENT_UNAVAILABLE")
        assert answer.error["details"] == {"state": "empty"}
        assert dict(answer.fields)["Retry-After"] == "1"
        assert service.observation()["localRevision"] == revision + 1

        first, last = ledger(service)
        assert first["outcome"] == "answered"
        assert (first["state"], first["localRevision"], first["status"]) == ("populated", revision, 200)
        assert last | {"seconds": 0} == TARGET | {
            "credential": "acceptance", "outcome": "AGENT_UNAVAILABLE", "state": "empty",
            "localRevision": revision + 1, "status": 503, "seconds": 0,
        }  # fmt: skip
        assert service.end() == 0
    assert f"release {RELEASE}: empty, was populated, local revision {revision + 1}\n" in service.lines  # RT-10.5
    changes = [(event["data"]["from"], event["data"]["to"]) for event in service.told("topology.changed")]
    assert changes == [("initializing", "populated"), ("populated", "empty")]
    assert {event["subject"] for event in (*service.told("topology.changed"), *service.told("agent.invoked"))} == {
        RELEASE
    }


def test_a_dead_endpoint_is_a_failed_transport_and_no_change(site: Site) -> None:
    """RT-9.7, RT-9.8, RT-10.1, RT-11.2: the process is gone, its registration is not: 502, and the revision stays."""
    with agent() as echo, routing(site) as service:
        site.declare({RELEASE: [echo.url]})
        assert service.invoke(1).status == 200
        before = service.status()
        assert before["observations"][0]["state"] == "populated"
        echo.kill()
        answer = service.invoke(2)
        assert (answer.status, answer.code) == (502, "AGENT_TRANSPORT_FAILED")
        assert (answer.error["details"], answer.error["retryable"]) == ({"reason": "connect"}, False)
        assert service.status() == before
        last = ledger(service)[-1]
        assert (last["outcome"], last["reason"], last["status"]) == ("AGENT_TRANSPORT_FAILED", "connect", 502)
        revision = before["observations"][0]["localRevision"]
        assert (last["state"], last["localRevision"]) == ("populated", revision)
        code, _, errors = service.topology(
            "wait", "--release=r1", "--state=empty", f"--after-revision={revision}", "--timeout=0.5"
        )
        assert code == 1
        assert errors == f"idkmesh: timed out after 0.5 s: {RELEASE}: populated at revision {revision}\n"


def test_a_session_that_was_renewed_is_told_as_such(site: Site) -> None:
    """RT-3.4, RT-12.4, RT-9.3: the file is gone and comes again: its revision orders nothing any more."""
    with routing(site) as service:
        site.declare({RELEASE: ["http://127.0.0.1:1"]})
        service.invoke(1)
        site.declare({RELEASE: ["http://127.0.0.1:1", "http://127.0.0.1:2"]})
        assert service.topology("wait", "--release=r1", "--state=populated", "--after-revision=1")[0] == 0
        assert service.ask("GET", "/readyz", token=None).status == 200
        site.releases.unlink()
        assert service.topology("wait", "--release=r1", "--state=unavailable")[0] == 0
        assert json.loads(service.wait_for("/readyz", 503).body)["failing"] == ["provider"]
        assert service.ask("GET", "/startupz", token=None).status == 200
        assert service.ask("GET", "/livez", token=None).body == b"ok"
        assert service.invoke(1).error["details"] == {"state": "unavailable"}
        assert service.observation()["localRevision"] == 2
        site.declare({RELEASE: []})
        code, out, errors = service.topology("wait", "--release=r1", "--state=empty", "--after-revision=2")
        assert (code, out) == (3, "")
        assert "the session of the revision that counts is over" in errors
        assert service.wait_for("/readyz", 200)
        until(lambda: service.observation()["state"] == "empty", "renewed")
        assert service.observation()["localRevision"] == 1


# --- what is passed on -----------------------------------------------------------------------------------------------


def test_an_answer_is_passed_on_as_it_is(router: Routing) -> None:
    """RT-9.5, HS-12.2: status, content and end-to-end fields; the router's own fields once, and hop-by-hop ones not."""
    reply = (
        b"HTTP/1.1 299 Fine\r\nContent-Type: text/x; a=b\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Hop: h\r\n"
        b"Connection: close, x-hop\r\nKeep-Alive: 5\r\nCache-Control: public\r\nX-IDKMesh-Service: me\r\n"
        b"X-Request-ID: theirs\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\x00ab\r\n0\r\nTrail: x\r\n\r\n"
    )
    with answering(reply) as one:
        router.site.declare({"pass/1/r1": [one.url]})
        answer = router.invoke([1, 2.50], "pass/1/r1", X_Mine="m", Cookie="c=1", X_Request_ID="mine-1")
        (request,) = one.requests
    assert (answer.status, answer.body) == (299, b"\x00ab")
    fields = [(name.lower(), value) for name, value in answer.fields]
    assert len({name for name, _ in fields}) == len(fields) - 1, "only Set-Cookie stands twice"
    assert [value for name, value in fields if name == "set-cookie"] == ["a=1", "b=2"]
    known = dict(fields)
    assert (known["content-type"], known["content-length"]) == ("text/x; a=b", "3")
    assert (known["cache-control"], known["x-idkmesh-service"]) == ("no-store", "idkmesh-router")
    assert known["x-request-id"] == "mine-1"
    assert known.keys().isdisjoint({"keep-alive", "x-hop", "trail", "transfer-encoding"})
    head, _, content = request.decode().partition("\r\n\r\n")
    assert content == "[1, 2.5]"
    assert "X-Mine: m" in head
    assert "X-Request-ID: mine-1" in head
    assert TOKEN not in head
    assert "ookie" not in head


@contextlib.contextmanager
def busy_agent() -> Iterator[str]:
    """Run an agent with one place, which is taken until the block ends."""
    gate = threading.Event()

    def hold(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        gate.wait(PATIENCE)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"{}"]

    limits = ServiceLimits(max_concurrent_requests=1, retry_after=7)
    with BoundedWSGIServer(("127.0.0.1", 0), hold, limits=limits) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            with socket.create_connection(("127.0.0.1", server.server_port), PATIENCE) as first:
                first.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                until(lambda: server.usage().in_flight == 1, "its place is taken")
                yield f"http://127.0.0.1:{server.server_port}"
        finally:
            gate.set()
            server.shutdown()
            serving.join(PATIENCE)


def test_an_overloaded_agent_is_told_apart_from_an_overloaded_router(site: Site) -> None:
    """RT-9.5, RT-10.1, RT-10.6: the agent's 503, its Retry-After and its words come through, marked as an answer."""
    gate = threading.Event()

    def slow(connection: socket.socket) -> None:
        gate.wait(PATIENCE)
        connection.sendall(OK)

    with busy_agent() as busy, answering(slow) as other, routing(site, "--max-concurrent-requests=1") as service:
        site.declare({RELEASE: [busy], "slow/1/r1": [other.url]})
        theirs = service.invoke(1)
        entry = ledger(service)[-1]
        asking = threading.Thread(target=service.invoke, args=(1, "slow/1/r1"))
        asking.start()
        until(lambda: other.requests, "the router's place is taken")
        ours = service.invoke(2)
        gate.set()
        asking.join(PATIENCE)
        assert "idkmesh_router_usage_overloaded_total 1.0\n" in service.ask("GET", "/metrics").body.decode()
    assert (theirs.status, theirs.body) == (503, ours.body)
    assert (ours.status, ours.code) == (503, "overloaded")
    assert (entry["outcome"], entry["status"]) == ("answered", 503)
    assert (dict(theirs.fields)["Retry-After"], dict(ours.fields)["Retry-After"]) == ("7", "1")
    assert dict(theirs.fields)["Proxy-Status"] == "idkmesh-router; received-status=503"
    assert "Proxy-Status" not in dict(ours.fields)


def test_an_answer_without_a_type_or_a_body(router: Routing) -> None:
    """RT-9.5: nothing is made up: no type where none was said, no content in a 204."""
    for number, (reply, status) in enumerate(((b"HTTP/1.1 200 OK\r\n\r\nraw", 200), (b"HTTP/1.1 204 No\r\n\r\n", 204))):
        with answering(reply) as one:
            release = f"bare/{number}/r1"
            router.site.declare({release: [one.url]})
            answer = router.invoke(1, release)
            assert answer.status == status
            assert "content-type" not in {name.lower() for name, _ in answer.fields}


@pytest.mark.parametrize(
    ("path", "method", "options", "status", "code"),
    [
        (INVOCATIONS, "POST", {"token": None}, 401, "unauthorized"),
        (INVOCATIONS, "POST", {"token": "x" * 40}, 403, "forbidden"),
        (INVOCATIONS, "POST", {"Content_Type": "text/plain"}, 415, "unsupported_media_type"),
        (INVOCATIONS, "POST", {"body": b"{}"}, 400, "invalid_request"),
        (INVOCATIONS, "POST", {"body": b"[" * 100}, 400, "invalid_request"),
        (INVOCATIONS, "POST", {"body": b" " * (2 * 1024 * 1024 + 1)}, 413, "payload_too_large"),
        (INVOCATIONS, "GET", {"body": None}, 405, "method_not_allowed"),
        (INVOCATIONS + "/", "POST", {}, 404, "not_found"),
        (PATH, "GET", {"token": None, "body": None}, 401, "unauthorized"),
        (PATH, "GET", {"token": "x" * 40, "body": None}, 403, "forbidden"),
        (PATH, "HEAD", {"token": "x" * 40, "body": None}, 403, None),
        (PATH, "POST", {}, 405, "method_not_allowed"),
        ("/metrics", "GET", {"token": None, "body": None}, 401, "unauthorized"),
        ("/metrics", "GET", {"token": SESSION, "body": None}, 403, "forbidden"),
        ("/api/v1/topology", "GET", {"body": None}, 404, "not_found"),
        ("/", "GET", {"body": None}, 404, "not_found"),
    ],
)
def test_who_may_ask_for_what(  # noqa: PLR0913, PLR0917  a row of the table
    router: Routing, path: str, method: str, options: dict[str, Any], status: int, code: str | None
) -> None:
    """RT-9.4, RT-11.3, RT-10.6: each refusal with its own code, and no-store; none is an invocation."""
    before = len(ledger(router))
    answer = router.ask(method, path, **({"body": b"{}"} | options))
    assert answer.status == status
    assert dict(answer.fields)["Cache-Control"] == "no-store"
    if status == 401:
        assert dict(answer.fields)["WWW-Authenticate"] == 'Bearer realm="idkmesh-router"'
    if code is None:
        assert answer.body == b""
    else:
        assert answer.code == code
    assert len(ledger(router)) == before


def test_a_projection_is_exact_and_reading_it_changes_nothing(site: Site) -> None:
    """RT-11.1, RT-11.2, RT-11.3: by its schema, in the order of opening, HEAD too; a reading opens nothing."""
    with routing(site) as service:
        for _ in range(3):
            assert service.status() == {"schemaVersion": "1", "provider": "file", "observations": []}
        site.declare({"a/1/r1": [], "b/1/r1": ["http://127.0.0.1:1"]})
        for release in ("b/1/r1", "a/1/r1", "none/1/r1"):
            service.invoke(1, release)
        document = service.status()
        STATUS.validate(document)
        rows = [(row["agentId"], row["state"], row["localRevision"]) for row in document["observations"]]
        assert rows == [("b", "populated", 1), ("a", "empty", 1), ("none", "missing", 1)]
        for _ in range(3):
            assert service.status() == document
        head = service.ask("HEAD", PATH)
        assert (head.status, head.body) == (200, b"")
        assert dict(head.fields)["Content-Length"] == str(len(service.ask("GET", PATH).body))
        assert len(service.told("topology.opened")) == 3


def test_agents_that_hold_every_slot_do_not_hide_the_projection(site: Site) -> None:
    """RT-11.7, RT-11.3: with no slot left, and in a drain, it is answered, and still only to who may ask."""
    gate = threading.Event()

    def slow(connection: socket.socket) -> None:
        gate.wait(PATIENCE)
        connection.sendall(OK)

    flags = ("--max-concurrent-requests=1", "--drain-timeout=20")
    with answering(slow) as one, routing(site, *flags) as service:
        site.declare({RELEASE: [one.url]})
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(service.invoke(1)))
        asking.start()
        until(lambda: one.requests, "the agent is asked")
        assert service.ask("GET", "/metrics").code == "overloaded"
        assert service.observation()["state"] == "populated"
        assert service.topology("wait", f"--release={RELEASE}", "--state=populated")[0] == 0
        assert service.ask("GET", PATH, token=None).status == 401
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_for("/readyz", 503).code == "shutting_down"
        assert service.observation()["state"] == "populated"
        gate.set()
        asking.join(PATIENCE)
        assert answers[0].status == 200
        assert service.process.wait(PATIENCE) == 0


def test_its_openapi_document(router: Routing) -> None:
    """RT-9.10, RT-11.4: a valid document of what is served, behind a credential, as all but the probes is."""
    answer = router.ask("GET", "/openapi.json")
    document = answer.json()
    openapi_spec_validator.validate(document)
    assert document["info"]["title"] == "IDKMesh router"
    probes = {"/healthz", "/livez", "/readyz", "/startupz"}
    assert document["paths"].keys() == {INVOCATIONS, PATH, "/metrics", "/openapi.json"} | probes
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["security"] == ([] if path in probes else [{"bearer": []}])
            assert router.ask(method.upper(), path, token=None).status == (200 if path in probes else 401)
            if method != "post":
                assert router.ask(method.upper(), path).status == 200
    schemas = document["components"]["schemas"]
    assert schemas.keys() == {"agent-invocation", "error", "probe", "problem", "router-topology-status.v1"}
    body = document["paths"][INVOCATIONS]["post"]["requestBody"]["content"]["application/json"]
    assert body == {"schema": {"$ref": "#/components/schemas/agent-invocation"}}
    head = router.ask("HEAD", "/openapi.json")
    assert dict(head.fields)["Content-Length"] == str(len(answer.body))


@pytest.mark.parametrize(
    "provider",
    [
        "file: {path: releases.json}, observe: false",
        "direct: {releases: [{agentId: echo, agentCardVersion: 1.0.0, releaseId: r1, endpoints: ['%s']}]}",
    ],
    ids=["snapshots", "direct"],
)
def test_without_continuous_observation_there_is_no_projection(tmp_path: Path, provider: str) -> None:
    """RT-11.4, RT-4.5, RT-5.8, RT-5.9, RT-10.1: 404 and no empty list; what is asked for is routed all the same."""
    with answering(OK) as one:
        site = Site(tmp_path, provider % one.url if "%s" in provider else provider)
        site.declare({RELEASE: [one.url]})
        with routing(site) as service:
            assert service.invoke(1).status == 200
            assert service.invoke(1, "other/1/r1").error["details"] == {"state": "missing"}
            answer = service.ask("GET", PATH)
            assert (answer.status, answer.code) == (404, "not_found")
            assert service.ask("GET", PATH, token=None).code == "not_found"
            assert PATH not in service.ask("GET", "/openapi.json").json()["paths"]
            assert service.ask("GET", "/readyz", token=None).status == 200
            code, _, errors = service.topology("status")
            assert (code, "observes nothing continuously" in errors) == (3, True)
            assert [(row["outcome"], row["state"], row["localRevision"]) for row in ledger(service)] == [
                ("answered", "populated", None), ("AGENT_UNAVAILABLE", "missing", None),
            ]  # fmt: skip
            assert "idkmesh_topology" not in service.ask("GET", "/metrics").body.decode()


def test_too_many_observations(tmp_path: Path) -> None:
    """RT-3.2, RT-9.8, RT-10.1, RT-10.6: refused as such, with Retry-After; those that are observed go on."""
    site = Site(tmp_path, more="max_observations: 2\n")
    with routing(site) as service:
        for name in ("a", "b"):
            assert service.invoke(1, f"{name}/1/r1").code == "AGENT_UNAVAILABLE"
        answer = service.invoke(1, "c/1/r1")
        assert (answer.status, answer.code, answer.error["retryable"]) == (503, "too_many_observations", True)
        assert dict(answer.fields)["Retry-After"] == "1"
        assert service.invoke(1, "a/1/r1").code == "AGENT_UNAVAILABLE"
        assert [row["outcome"] for row in ledger(service)][2] == "too_many_observations"
        assert ledger(service)[2]["state"] is None
        text = service.ask("GET", "/metrics").body.decode()
        assert 'idkmesh_router_invocations_total{outcome="too_many_observations"} 1.0' in text
        assert 'idkmesh_router_invocations_total{outcome="AGENT_UNAVAILABLE"} 3.0' in text
        assert 'idkmesh_router_invocations_total{outcome="answered"} 0.0' in text
        assert 'idkmesh_topology_observations{state="missing"} 2.0' in text
        assert "idkmesh_router_provider_usable 1.0" in text
        assert "idkmesh_router_usage_overloaded_total 0.0" in text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        samples = families["idkmesh_router_invocation_seconds"].samples
        counts = {each.labels["outcome"]: each.value for each in samples if each.name.endswith("_count")}
        assert counts == {
            "answered": 0, "AGENT_UNAVAILABLE": 3, "AGENT_TRANSPORT_FAILED": 0, "too_many_observations": 1,
            "abandoned": 0, "fault": 0,
        }  # fmt: skip
        assert {name for each in samples for name in each.labels} == {"outcome", "le"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_pages_invocation(site: Site) -> None:
    """Rule: what the page says to send is an invocation, and its answer the agent's."""
    page = (Path(__file__).parents[2] / "docs" / "howto" / "router.md").read_text(encoding="utf-8")
    (command,) = (block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if INVOCATIONS in block)
    with agent() as echo, routing(site) as service:
        site.declare({RELEASE: [echo.url]})
        line = command.replace("examples/", f"{site.folder}/").replace("127.0.0.1:8780", f"127.0.0.1:{service.port}")
        done = subprocess.run(["sh", "-c", line], check=True, capture_output=True, timeout=PATIENCE)
        assert json.loads(done.stdout) == {"echo": {"hello": "world"}}


# --- its life --------------------------------------------------------------------------------------------------------


def test_a_drain_answers_what_was_taken(site: Site) -> None:
    """RT-9.3, HS-9.2: what is out is answered and in the ledger; the next is 503, as is readiness."""
    gate = threading.Event()

    def slow(connection: socket.socket) -> None:
        gate.wait(PATIENCE)
        connection.sendall(OK)

    with answering(slow) as one, routing(site, "--drain-timeout=20") as service:
        site.declare({RELEASE: [one.url]})
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(service.invoke(1)))
        asking.start()
        until(lambda: one.requests, "the agent is asked")
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_for("/readyz", 503).code == "shutting_down"
        assert service.invoke(2).code == "shutting_down"
        gate.set()
        asking.join(PATIENCE)
        assert answers[0].status == 200
        assert service.process.wait(PATIENCE) == 0
        assert [row["outcome"] for row in ledger(service)] == ["answered"]
        assert [len(service.told(what)) for what in ("drain.started", "drain.ended")] == [1, 1]


def test_what_a_drain_abandons_is_in_the_ledger(site: Site) -> None:
    """RT-10.1: an agent that does not answer within drain_timeout: the caller hears nothing, the ledger says so."""
    with answering(hold) as one, routing(site, "--drain-timeout=0.2") as service:
        site.declare({RELEASE: [one.url]})
        with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as client:
            body = json.dumps(TARGET | {"input": 1}).encode()
            client.sendall(
                f"POST {INVOCATIONS} HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            until(lambda: one.requests, "the agent is asked")
            assert service.end() == 0
        (row,) = ledger(service)
        assert (row["outcome"], row["status"], row["state"], row["localRevision"]) == (
            "abandoned",
            None,
            "populated",
            1,
        )


def test_systemd_is_told(site: Site, tmp_path: Path) -> None:
    """RT-9.3, HL-2.4: ready once it listens, stopping when it drains."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE)
        with routing(site, NOTIFY_SOCKET=str(tmp_path / "notify")) as service:
            assert b"READY=1" in listener.recv(1000)
            assert service.end() == 0
            assert b"STOPPING=1" in listener.recv(1000)


def test_it_has_a_probe_listener_too(site: Site) -> None:
    """RT-9.3, HL-5.6: the same verdicts on another port, and nothing else there."""
    with routing(site, "--probe-listen=127.0.0.1:0") as service:
        assert service.probe("/readyz")[0] == 200
        assert service.probe(PATH)[0] == 404
        site.releases.unlink()
        until(lambda: service.probe("/readyz")[0] == 503, "not ready")
        assert json.loads(service.probe("/readyz")[1])["failing"] == ["provider"]


def test_an_address_that_others_reach_is_warned_of(site: Site) -> None:
    """RT-9.3: allowed, and said."""
    site.config.write_text(site.config.read_text().replace("127.0.0.1:0", "0.0.0.0:0"))
    with routing(site) as service:
        assert "can be reached from other machines" in service.wait_for_line("warning")


def hold(connection: socket.socket) -> None:
    """Answer nothing until the router has given up."""
    connection.recv(1)


def cut_off(service: Routing) -> None:
    """Invoke where no answer will come: the end of the router cuts it off."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        service.invoke(1)


@pytest.mark.parametrize("tower", [False, True], ids=["alone", "tower"])
def test_its_own_events(site: Site, tower: bool) -> None:
    """RT-10.7, RT-10.6: start, overload and drain of the router's own server, with its source, in a tower too."""
    with answering(hold) as one:
        with routing(site, "--max-concurrent-requests=1", "--drain-timeout=0.2", tower=tower) as service:
            site.declare({RELEASE: [one.url]})
            asking = threading.Thread(target=cut_off, args=(service,))
            asking.start()
            until(lambda: one.requests, "the agent is asked")
            assert service.invoke(2).code == "overloaded"
            if tower:
                metrics = ask(service.tower_port(), "GET", "/metrics", token=SESSION).body.decode()
                assert "idkmesh_router_usage_overloaded_total 1.0" in metrics
                assert "\nidkmesh_usage_overloaded_total 0.0" in metrics
            assert service.end() == 0
            asking.join(PATIENCE)
        events = service.events()
        assert {event["source"] for event in events} == ({"/router", "/control-tower"} if tower else {"/router"})
        own = [event for event in events if event["source"] == "/router"]
        servers = [event for event in own if event["type"].startswith(("idkmesh.server", "idkmesh.drain"))]
        assert [event["type"].removeprefix("idkmesh.") for event in servers] == [
            "server.started", "drain.started", "drain.ended",
        ]  # fmt: skip
        assert servers[0]["data"]["port"] == service.port
        crossings = [event for event in own if event["type"] == "idkmesh.overload.began"]
        assert [event["subject"] for event in crossings] == ["max_concurrent_requests"]
        if tower:
            assert {event["type"] for event in events if event["source"] == "/router"} == {
                "idkmesh.server.started", "idkmesh.overload.began", "idkmesh.drain.started", "idkmesh.drain.ended",
            }  # fmt: skip


@pytest.mark.parametrize("tower", [False, True], ids=["alone", "tower"])
def test_a_provider_that_is_lost_and_back_is_told(site: Site, tower: bool) -> None:
    """RT-10.2, RT-9.3: where nothing is observed too: once each, by the provider's name, from the topology's source."""

    def told() -> list[tuple[str, str, str, dict[str, str]]]:
        events = [event for event in service.events() if event["type"].startswith("idkmesh.topology.")]
        return [(event["type"], event["source"], event["subject"], event["data"]) for event in events]

    source = "/control-tower" if tower else "/router"
    lost = ("idkmesh.topology.provider_lost", source, "file", {"cause": "unreadable"})
    back: tuple[str, str, str, dict[str, str]] = ("idkmesh.topology.provider_back", source, "file", {})
    with routing(site, tower=tower) as service:
        service.wait_for("/readyz", 200)
        site.releases.unlink()
        service.wait_for("/readyz", 503)
        until(lambda: told() == [lost], told)
        site.declare({})
        service.wait_for("/readyz", 200)
        until(lambda: told() == [lost, back], told)
        assert service.end() == 0
    assert told() == [lost, back]


# --- beside a tower --------------------------------------------------------------------------------------------------


def routed(tower: int) -> dict[str, Any]:
    """Return what a tower's status says of its router, as its schema has it."""
    document = ask(tower, "GET", "/api/v1/status", token=SESSION).json()
    jsonschema.validate(document, assets.schema("control-tower-status.json"))
    found: dict[str, Any] = document["router"]
    return found


def test_a_tower_says_that_its_router_has_no_provider(tmp_path: Path) -> None:
    """CT-5.9, RT-12.1, RT-10.2, RT-11.5: from the start on, by name and cause, and nothing of where it would be."""
    site = Site(tmp_path, "etcd: {endpoints: ['http://127.0.0.1:1'], prefix: /s3cret}")
    with routing(site, tower=True) as service:
        tower = service.tower_port()
        until(lambda: routed(tower)["cause"] is not None, "etcd is asked")
        listen = f"http://127.0.0.1:{service.port}"
        assert routed(tower) == {
            "listen": listen, "provider": "etcd", "observes": True, "usable": False, "cause": "unreachable",
            "reconnects": 0, "unreadable": 0, "ignored": 0,
        }  # fmt: skip
        metrics = ask(tower, "GET", "/metrics", token=SESSION).body.decode()
        assert "\nidkmesh_router_provider_reconnects_total 0.0\n" in metrics
        assert "\nidkmesh_router_provider_unreadable_records 0.0\n" in metrics
        assert "\nidkmesh_router_provider_ignored_keys 0.0\n" in metrics
        assert service.ask("GET", "/readyz", token=None).status == 503
        assert ask(tower, "GET", "/readyz", token=None).status == 200
        assert ask(tower, "GET", "/api/v1/topology", token=SESSION).json()["observations"] == []
        until(lambda: service.told("topology.provider_lost"), "the event")
        assert service.end() == 0
    (event,) = service.told("topology.provider_lost")
    assert (event["source"], event["subject"]) == ("/control-tower", "etcd")
    assert event["data"] == {"cause": "unreachable"}


def test_a_tower_routes_besides(site: Site) -> None:
    """RT-12.1, RT-10.6, CT-7.1: its own address and probes; the projection behind the token; one store, one end."""
    with agent() as echo, routing(site, tower=True) as service:
        site.declare({RELEASE: [echo.url]})
        tower = service.tower_port()
        assert service.invoke({"a": 1}).json() == {"echo": {"a": 1}}
        document = ask(tower, "GET", "/api/v1/topology", token=SESSION)
        assert document.body == service.ask("GET", PATH).body
        STATUS.validate(document.json())
        assert document.json()["observations"][0]["state"] == "populated"
        assert ask(tower, "GET", "/api/v1/topology", token=TOKEN).status == 401
        assert ask(tower, "GET", PATH, token=SESSION).status == 404
        assert service.ask("GET", PATH, token=SESSION).status == 403
        metrics = ask(tower, "GET", "/metrics", token=SESSION).body.decode()
        assert 'idkmesh_router_invocations_total{outcome="answered"} 1.0' in metrics
        assert metrics.count("# TYPE idkmesh_router_provider_usable") == 1
        described = ask(tower, "GET", "/api/v1/openapi.json", token=SESSION).json()
        openapi_spec_validator.validate(described)
        assert described["paths"]["/api/v1/topology"].keys() == {"get", "head"}
        token_file = site.folder / "session.token"
        token_file.write_text(SESSION)
        token_file.chmod(0o600)
        where = (f"--url=http://127.0.0.1:{tower}/api/v1/topology", f"--token-file={token_file}")
        assert refused("topology", "wait", "--release=r1", "--state=populated", *where)[0] == 0
        assert service.ask("GET", "/readyz", token=None).json()["service"] == "idkmesh-router"
        assert service.end() == 0
    assert [row["outcome"] for row in ledger(service)] == ["answered"]
    assert {event["source"] for event in service.told("topology.opened")} == {"/control-tower"}


def test_a_tower_without_a_router_has_no_topology(tmp_path: Path) -> None:
    """RT-12.1, RT-11.4, CT-5.9: 404, with a router that observes nothing too, and the status says which it is."""
    with answering(OK) as one:
        site = Site(tmp_path, "file: {path: releases.json}, observe: false")
        site.declare({RELEASE: [one.url]})
        with routing(site, tower=True) as service:
            tower = service.tower_port()
            answer = ask(tower, "GET", "/api/v1/topology", token=SESSION)
            assert (answer.status, answer.code) == (404, "not_found")
            assert "/api/v1/topology" not in ask(tower, "GET", "/api/v1/openapi.json", token=SESSION).json()["paths"]
            known = routed(tower)
            assert (known["provider"], known["observes"], known["usable"], known["cause"]) == (
                "file",
                False,
                True,
                None,
            )
            assert service.invoke(1).status == 200
            assert service.end() == 0


def test_both_drain_together(site: Site) -> None:
    """RT-12.1: the router says so as soon as the tower does, and answers what it has taken."""
    gate = threading.Event()

    def slow(connection: socket.socket) -> None:
        gate.wait(PATIENCE)
        connection.sendall(OK)

    with answering(slow) as one, routing(site, "--drain-timeout=20", tower=True) as service:
        site.declare({RELEASE: [one.url]})
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(service.invoke(1)))
        asking.start()
        until(lambda: one.requests, "the agent is asked")
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_for("/readyz", 503).code == "shutting_down"
        gate.set()
        asking.join(PATIENCE)
        assert answers[0].status == 200
        assert service.process.wait(PATIENCE) == 0
        assert [row["outcome"] for row in ledger(service)] == ["answered"]


# --- the commands ----------------------------------------------------------------------------------------------------


def test_check_says_what_there_is(site: Site) -> None:
    """RT-9.1: one line and 0, with nothing opened; or all that is wrong, a line each, and 2."""
    code, out, errors = refused("router", "--config=router.yaml", "--check", cwd=site.folder)
    assert (code, errors) == (0, "")
    assert out == "router.yaml: ok, listens on 127.0.0.1:0, 1 credential, provider file, observed continuously\n"
    assert sorted(path.name for path in site.folder.iterdir()) == ["releases.json", "router.token", "router.yaml"]
    site.config.write_text(site.config.read_text() + "lisen: 1\nmax_observations: 0\n")
    site.token_file.chmod(0o644)
    expected = ["has mode 0644", "unknown key lisen", "max_observations is 0"]
    for arguments in (("router", "--config=router.yaml", "--check"), ("router", "--config=router.yaml")):
        code, out, errors = refused(*arguments, cwd=site.folder)
        assert (code, out) == (2, "")
        lines = errors.splitlines()
        assert len(lines) == len(expected)
        for line, text in zip(lines, expected, strict=True):
            assert text in line
            assert line.removeprefix("idkmesh: ").startswith("router.yaml:")
    code, out, errors = refused("control-tower", "--port=0", "--router=router.yaml", cwd=site.folder)
    assert (code, out, len(errors.splitlines())) == (2, "", 3)


@pytest.mark.parametrize(
    ("provider", "line"),
    [
        ("file: {path: nothing.json}", "nothing.json: cannot be opened: No such file or directory"),
        ("file: {path: releases.json}", "releases.json: line 1, column 1: is no JSON; it may be half of a file"),
        ("etcd: {endpoints: ['http://e:1']}", "the provider etcd needs the package etcd3gw: pip install"),
        ("nacos: {servers: ['n:1']}", "the provider nacos needs the package nacos-sdk-python: pip install"),
    ],
)
def test_check_says_what_lacks(tmp_path: Path, provider: str, line: str) -> None:
    """RT-9.1, RT-8.4: a file of releases, or a package of the provider: one line and 1, and nobody is asked."""
    site = Site(tmp_path, provider)
    site.releases.write_text("x")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util as u\nreal = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name in ('etcd3gw', 'v2.nacos') else real(name, *more)\n"
    )
    path = os.pathsep.join((str(hidden), str(Path(__file__).parents[2])))
    code, out, errors = refused("router", "--config=router.yaml", "--check", cwd=tmp_path, PYTHONPATH=path)
    assert (code, out) == (1, "")
    assert line in errors
    assert errors.count("\n") == 1


def test_what_keeps_it_from_starting(site: Site) -> None:
    """RT-9.1, RT-9.3, CLI-01: a busy port, no such file, an empty name: one line, and the exit code."""
    store = f"--store={site.folder / 'e.sqlite3'}"
    with socket.create_server(("127.0.0.1", 0)) as busy:
        site.config.write_text(site.config.read_text().replace(":0", f":{busy.getsockname()[1]}"))
        for arguments in (("router", "--config=router.yaml"), ("control-tower", "--port=0", "--router=router.yaml")):
            code, _, errors = refused(*arguments, store, cwd=site.folder)
            assert code == 1
            assert "the port is in use; choose another with listen in router.yaml" in errors
            assert len(errors.splitlines()) == 1
            assert not (site.folder / "e.sqlite3").exists()
    for wrong in (["--config=nothing.yaml"], ["--config="], []):
        assert refused("router", *wrong, store, cwd=site.folder)[0] == 2


def test_without_its_package(site: Site) -> None:
    """RT-9.9: one line that says which extra brings it; a tower without a router does not miss it."""
    hidden = site.folder / "hidden"
    hidden.mkdir()
    (hidden / "httpcore.py").write_text("raise ModuleNotFoundError('no', name='httpcore')\n")
    path = os.pathsep.join((str(hidden), str(Path(__file__).parents[2])))
    code, out, errors = refused("router", "--config=router.yaml", cwd=site.folder, PYTHONPATH=path)
    assert (code, out) == (1, "")
    assert errors == "idkmesh: a router needs the package httpcore: pip install 'idkmesh[router]'\n"


def test_topology_status(router: Routing, tmp_path: Path) -> None:
    """RT-12.3: a table or the document; 2 for a token file that others may read; 3 where nothing comes."""
    router.site.declare({"shown/1/r1": []})
    router.invoke(1, "shown/1/r1")
    code, out, _ = router.topology("status")
    assert code == 0
    assert out.splitlines()[0].split() == ["RELEASE", "STATE", "REVISION", "OBSERVED"]
    assert any(line.split()[:3] == ["shown/1/r1", "empty", "1"] for line in out.splitlines())
    code, out, _ = router.topology("status", "--json")
    assert (code, json.loads(out)) == (0, router.status())
    other = tmp_path / "token"
    other.write_text("x" * 40)
    for mode, code, text in ((0o600, 3, "of no credential there"), (0o644, 2, "make it 0600")):
        other.chmod(mode)
        assert stat.S_IMODE(other.stat().st_mode) == mode
        told = refused("topology", "status", f"--url=http://127.0.0.1:{router.port}", f"--token-file={other}")
        assert (told[0], text in told[2]) == (code, True)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"--url=http://127.0.0.1:{nobody.getsockname()[1]}"
        assert refused("topology", "status", url, f"--token-file={router.site.token_file}")[0] == 3
        began = time.monotonic()
        waiting = ("wait", "--release=r1", "--state=empty", "--timeout=0.5")
        assert refused("topology", *waiting, url, f"--token-file={router.site.token_file}")[0] == 3
        assert time.monotonic() - began > 0.4, "it is asked until the end"


@pytest.mark.parametrize(
    "arguments",
    [
        ("wait", "--state=empty"),
        ("wait", "--release=r1"),
        ("wait", "--release=r1", "--state=full"),
        ("wait", "--release=a/b", "--state=empty"),
        ("wait", "--release=", "--state=empty"),
        ("wait", "--release=a/1/r1/x", "--state=empty"),
        ("wait", "--release=r1", "--state=empty", "--after-revision=-1"),
        ("wait", "--release=r1", "--state=empty", "--timeout=0"),
        ("status", "--url=ftp://a"),
        ("status", "--url=http://u:p@a"),
        ("status", "--url=http://a:0"),
        ("status", "--url=http://[::1:2:3:4:5:6:7:8780]"),
        ("status", "--url=http://[127.0.0.1]:8780"),
        ("status", "--url=http://a:8780/api/v1/topology?x=1"),
        ("status", "--token-file=nothing"),
        (),
    ],
)
def test_topology_usage(router: Routing, arguments: tuple[str, ...]) -> None:
    """RT-12.3, RT-12.4: exit code 2 and one line."""
    code, out, errors = refused("topology", *arguments[:1], f"--token-file={router.site.token_file}", *arguments[1:])
    assert (code, out, errors.count("\n")) == (2, "", 1)


def test_a_release_id_of_several(router: Routing) -> None:
    """RT-12.4: written whole, or refused; and what nobody has asked for is not observed."""
    for agent_id in ("one", "two"):
        router.invoke(1, f"{agent_id}/1/same")
    code, _, errors = router.topology("wait", "--release=same", "--state=missing")
    assert (code, "write AGENT/VERSION/RELEASE" in errors) == (2, True)
    assert router.topology("wait", "--release=one/1/same", "--state=missing")[0] == 0
    code, _, errors = router.topology("wait", "--release=never/1/r1", "--state=missing", "--timeout=0.3")
    assert (code, "not observed, since nobody has asked for it" in errors) == (1, True)
