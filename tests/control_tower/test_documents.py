"""Documents, published schemas, OpenAPI, and the files of the page, without a socket."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import openapi_spec_validator
import pytest

from idkmesh.control_tower import assets
from idkmesh.control_tower.api import Lifetime, Records, status_document, utc_text
from idkmesh.control_tower.endpoints import control_tower_table
from idkmesh.control_tower.openapi import openapi_document
from idkmesh.control_tower.probes import ProbeState
from idkmesh.events.state import RecorderState
from idkmesh.health.answers import probe_document
from idkmesh.health.liveness import Liveness
from idkmesh.health.readiness import Readiness
from idkmesh.health.reloads import MatrixReading
from idkmesh.health.service import HealthReading
from idkmesh.health.snapshot import HealthSnapshot
from idkmesh.httpd.errors import ERROR_CODES
from idkmesh.httpd.inspection import inspect_request
from idkmesh.httpd.peaks import Levels, UsagePeaks
from idkmesh.httpd.request import HeadLimits, Refusal
from idkmesh.httpd.request_rules import read_head
from idkmesh.httpd.responses import Response, error_document, problem_document
from idkmesh.httpd.stream_hub import StreamStatistics
from idkmesh.httpd.streams import Beginning, Channel
from idkmesh.service_runtime import SETTINGS, ServiceIdentity, ServiceLimits, ServiceUsage
from idkmesh.topology.model import Cause
from idkmesh.workloads.reading import nothing_supervised

if TYPE_CHECKING:
    from idkmesh.httpd.request import Request
    from idkmesh.httpd.routes import RouteTable
    from idkmesh.workloads.reading import WorkloadReading

IDENTITY = ServiceIdentity(service="control-tower", service_version="9.9")
NOW = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)
USAGE = ServiceUsage(
    in_flight=1,
    connections=2,
    sse_clients=0,
    draining=False,
    admitted_total=3,
    overloaded_total=4,
    draining_total=5,
    refused_total=6,
    timed_out_total=7,
    evicted_total=8,
)


STORE = RecorderState(
    epoch="0123456789abcdef",
    floor=2,
    newest=9,
    failing=None,
    warning=None,
    refused_total=0,
    dropped_total=0,
    queued=0,
    wal_bytes=0,
)
HEALTH = HealthReading(
    now=100.0,
    snapshot=HealthSnapshot(records={}, started=True, readiness=Readiness("ready"), valid_until=200.0),
    liveness=Liveness(overdue=("probes",), failures_total=1),
    silences={"front": 0.25, "probes": 11.0},
    overdue=("probes",),
    budget=10.0,
    slots_held=1,
    matrix=MatrixReading(datetime(2026, 1, 2, tzinfo=UTC)),
)
RECORDS = Records(
    peaks=UsagePeaks(last_minute=Levels(in_flight=16, connections=40, sse_clients=2)),
    streams=StreamStatistics(open=1, opened_total=2, refused_total=3, dropped_total=4),
    refusals={"overloaded": 3, "not_found": 1},
    events=STORE,
    health=HEALTH,
    readiness=Readiness("not_ready", failing=("db",), warnings=("cache",)),
    workloads=nothing_supervised(),
)


def status() -> dict[str, Any]:
    lifetime = Lifetime(started_at=NOW, now=NOW, uptime=1.23456)
    return status_document(IDENTITY, ServiceLimits(), USAGE, lifetime, RECORDS)


class StoredHealth:
    """What a service's health says, as a test sets it. ``asked`` counts who asked for a refresh."""

    def __init__(self, readiness: Readiness) -> None:
        self.ready = readiness
        self.silent: tuple[str, ...] = ()
        self.noted: tuple[str, ...] = ()
        self.asked = 0

    def overdue(self) -> tuple[str, ...]:
        return self.silent

    def readiness(self) -> Readiness:
        return self.ready

    def warnings(self) -> tuple[str, ...]:
        return self.noted

    def refresh(self) -> None:
        self.asked += 1


def probes(*, draining: bool = False, health: StoredHealth | None = None, **changes: Any) -> ProbeState:
    state = dataclasses.replace(STORE, **changes)
    known = health or StoredHealth(Readiness("ready"))
    return ProbeState(IDENTITY, known, draining=lambda: draining, events=lambda: state, retry_after=7)


class OwnTower:
    """What a tower says of itself, without a server."""

    def status(self) -> dict[str, Any]:
        return status()

    def health_reading(self) -> HealthReading:
        return HEALTH

    def workload_reading(self) -> WorkloadReading:
        return nothing_supervised()

    def metrics(self) -> bytes:
        raise NotImplementedError

    def node(self) -> Response:
        raise NotImplementedError


class NoFeed:
    """Stands where a table is made and nobody asks for events."""

    channel = Channel(None, Beginning(0, str), b"")  # type: ignore[arg-type]  # nothing is read

    def list(self, request: Request, body: bytes) -> Response:
        raise NotImplementedError

    def subscribe(self, request: Request) -> Refusal:
        raise NotImplementedError


def table(*, draining: bool = False) -> RouteTable:
    feed: Any = NoFeed()
    return control_tower_table(IDENTITY, ServiceLimits(), probes(draining=draining), OwnTower(), feed)


def validate(document: dict[str, Any], name: str) -> None:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(assets.schema(name), format_checker=checker).validate(document)


def described(document: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Return the members of a document that its schema does not describe."""
    missing = []
    properties = schema.get("properties", {})
    for name, value in document.items():
        if name not in properties:
            missing.append(name)
        elif isinstance(value, dict):
            missing += described(value, properties[name])
    return missing


REFUSAL = Refusal(400, "invalid_request", "No.", reason="r", rfc="RFC 9112 1", offset=0)
LIMITS = HeadLimits()


@pytest.mark.parametrize(
    ("document", "schema"),
    [
        (status(), "control-tower-status.json"),
        (probe_document(IDENTITY, "ready"), "probe.json"),
        (probe_document(IDENTITY, "not_ready", ["a"], ["b"]), "probe.json"),
        (error_document(REFUSAL), "error.json"),
        (problem_document(REFUSAL), "problem.json"),
        (inspect_request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", LIMITS, 10), "http-request-inspection.json"),
        (inspect_request(b"GET / HTTP/1.1\r\n\r\n", LIMITS, 10), "http-request-inspection.json"),
        (inspect_request(b"GET /", LIMITS, 10), "http-request-inspection.json"),
        (
            inspect_request(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nabc", LIMITS, 10),
            "http-request-inspection.json",
        ),
    ],
)
def test_documents_are_what_their_schemas_say(document: dict[str, Any], schema: str) -> None:
    """CT-5.1, CT-6.2, CT-7.3: valid, and no member is left undescribed."""
    validate(document, schema)
    assert described(document, assets.schema(schema)) == []


def test_status_document() -> None:
    """CT-5.1: kind, version, times as labels, uptime in seconds."""
    document = status()
    assert document["kind"] == "idkmesh-control-tower-status"
    assert document["schema_version"] == "0.1"
    assert document["started_at"] == "2026-11-29T12:00:00.123Z"
    assert document["uptime_seconds"] == 1.235
    assert document["service"] == {"name": "control-tower", "version": "9.9", "mode": "local", "read_only": True}
    limits = document["operations"]["limits"]
    assert limits["request_timeout_seconds"] == 10
    assert limits["max_request_line_bytes"] == 65_536
    assert limits["keep_alive"] is False
    assert limits["rate_limiting"] == "not_implemented"
    assert document["operations"]["usage"]["evicted_total"] == 8


def test_peaks() -> None:
    """CT-5.10: the highest levels of the last second and of the last minute stand beside the usage."""
    assert status()["operations"]["peaks"] == {
        "last_second": {"in_flight": 0, "connections": 0, "sse_clients": 0},
        "last_minute": {"in_flight": 16, "connections": 40, "sse_clients": 2},
    }


def test_the_router_in_the_status() -> None:
    """CT-5.9: null without a router; with one these members, each described, and no others, so no address of more."""
    assert status()["router"] is None
    said = {
        "listen": "http://[::1]:8780",
        "provider": "etcd",
        "observes": True,
        "usable": False,
        "cause": "unreachable",
        "reconnects": 3,
        "unreadable": 0,
        "ignored": None,
    }
    lifetime = Lifetime(started_at=NOW, now=NOW, uptime=1.0)
    document = status_document(IDENTITY, ServiceLimits(), USAGE, lifetime, dataclasses.replace(RECORDS, router=said))
    validate(document, "control-tower-status.json")
    assert described(document, assets.schema("control-tower-status.json")) == []
    assert document["router"] == said
    schema = assets.schema("control-tower-status.json")["properties"]["router"]["properties"]
    assert schema.keys() == said.keys()
    assert set(schema["cause"]["enum"]) == {None, *(cause.value for cause in Cause)}


def test_operations_are_optional() -> None:
    """CT-5.4: an addition is no new version: limits, usage and the router may be missing, and more may come."""
    document = status()
    del document["router"]
    document["operations"] = {"something_new": 1}
    document["another"] = 2
    validate(document, "control-tower-status.json")


def test_refusals_say_what_to_do() -> None:
    """CT-5.5: each code that was answered, with its status, how often, and the words of the table of codes."""
    rows = status()["operations"]["refusals"]
    assert [(row["code"], row["status"], row["total"]) for row in rows] == [
        ("not_found", 404, 1),
        ("overloaded", 503, 3),
    ]
    for row in rows:
        assert (row["meaning"], row["remedy"]) == (ERROR_CODES[row["code"]].meaning, ERROR_CODES[row["code"]].remedy)


def test_streams_and_events_in_the_status() -> None:
    """CT-5.5, CT-5.6: the streams' figures and the event store's state."""
    operations = status()["operations"]
    assert operations["streams"] == {"open": 1, "opened_total": 2, "refused_total": 3, "dropped_total": 4}
    assert operations["events"] == {
        "epoch": "0123456789abcdef",
        "floor": 2,
        "newest": 9,
        "refused_total": 0,
        "dropped_total": 0,
        "failing": None,
        "warning": None,
    }


def answer_of(verdict: Any) -> tuple[int, str, list[str], list[str]]:
    document = json.loads(verdict.body)
    validate(document, "probe.json")
    return verdict.status, document["status"], document["failing"], document["warnings"]


def test_a_store_that_fails_is_not_ready() -> None:
    """CT-4.6, EV-2.8, RA-5.6, STORE-05: readiness is 503 with Retry-After and names it; startup and liveness hold."""
    state = probes(failing="the disk is full")
    assert answer_of(state.readiness()) == (503, "not_ready", ["event_store"], [])
    assert not state.activation_ready()
    assert dict(state.readiness().headers)["Retry-After"] == "7"
    assert answer_of(state.startup()) == (200, "started", [], [])
    assert state.liveness().status == 200


def test_a_store_that_was_replaced_is_a_warning() -> None:
    """CT-4.6, EV-2.7, RA-5.6: ready, with the store among the warnings; a drain stands before everything."""
    assert answer_of(probes(warning="put aside").readiness()) == (200, "ready", [], ["event_store"])
    assert probes(warning="put aside").activation_ready()
    drained = probes(warning="put aside", failing="full", draining=True).readiness()
    assert isinstance(drained, Refusal)
    assert drained.code == "shutting_down"


def test_limits_mean_the_same_in_the_table_and_in_the_schema() -> None:
    """CT-5.4, HS-2.1: a reader of the schema is told what a reader of the settings is."""
    operations = assets.schema("control-tower-status.json")["properties"]["operations"]["properties"]
    limits = operations["limits"]["properties"]
    for setting in SETTINGS:
        assert limits[setting.document_key]["description"] == setting.meaning


def test_times_are_rfc_3339() -> None:
    """CT-5.1: UTC with Z."""
    assert utc_text(NOW) == "2026-11-29T12:00:00.123Z"


def test_every_schema_is_published_and_valid() -> None:
    """CT-7.2: the list and the folder are the same, and each file is a JSON Schema."""
    carried = {entry.name for entry in (files("idkmesh") / "schemas").iterdir() if entry.name.endswith(".json")}
    assert carried == set(assets.SCHEMA_NAMES)
    for name in assets.SCHEMA_NAMES:
        jsonschema.Draft202012Validator.check_schema(assets.schema(name))


def test_openapi_document_is_valid_and_complete() -> None:
    """CT-3.1, CT-7.1: OpenAPI 3.1 from the table that serves, every row and method in it."""
    served = table()
    schemas = {name: assets.schema(name) for name in assets.SCHEMA_NAMES}
    document = openapi_document(served, "9.9", schemas)
    openapi_spec_validator.validate(document)
    assert document["openapi"] == "3.1.0"
    for route in served.routes:
        for method in route.methods():
            assert method.lower() in document["paths"][route.path]
    for probe in served.probes:
        assert {"get", "head"} <= document["paths"][probe.path].keys()
    operations = [
        row["operationId"] for path in document["paths"].values() for row in path.values() if "operationId" in row
    ]
    assert len(operations) == len(set(operations))


def test_openapi_says_which_paths_need_the_token() -> None:
    """CT-2.4: those under /api/, and the metrics."""
    document = openapi_document(table(), "9.9", {})
    for path, item in document["paths"].items():
        for operation in (item[method] for method in ("get", "head", "post") if method in item):
            assert bool(operation["security"]) is (path.startswith("/api/") or path == "/metrics")


def test_probes_hold_and_tell_of_a_drain() -> None:
    """CT-4.2 to CT-4.4: liveness holds; readiness and startup are 503 from the first moment."""
    ready, draining = table(), table(draining=True)
    for path in ("/healthz", "/livez"):
        for state in (ready, draining):
            probe = state.probe(path)
            assert probe is not None
            answer = probe.verdict()
            assert isinstance(answer, Response)
            assert (answer.status, answer.body, answer.content_type) == (200, b"ok", "text/plain; charset=utf-8")
    for path in ("/readyz", "/startupz"):
        probe = ready.probe(path)
        assert probe is not None
        answer = probe.verdict()
        assert isinstance(answer, Response)
        assert json.loads(answer.body)["status"] == ("ready" if path == "/readyz" else "started")
        probe = draining.probe(path)
        assert probe is not None
        answer = probe.verdict()
        assert isinstance(answer, Refusal)
        assert (answer.status, answer.code) == (503, "shutting_down")


def test_probe_document_has_these_members() -> None:
    """CT-4.3: status, names of what fails, and who answers; nothing else."""
    expected = {"service": "control-tower", "service_version": "9.9", "mode": "local", "api_version": "v1"}
    for word in ("ready", "not_ready", "starting"):
        document = probe_document(IDENTITY, word, ("a",), ("b", "c"))
        names = {"failing": ["a"], "failing_total": 1, "warnings": ["b", "c"], "warnings_total": 2}
        assert document == {"status": word, **names, **expected}


def test_no_route_changes_anything() -> None:
    """CT-1.2, HS-9.7, SEC-02: every method is safe but the inspections', which answer the same bytes alike."""
    served = table()
    changing = [route for route in served.routes if route.method not in {"GET", "HEAD"}]
    paths = [f"/api/v1/inspect/{what}" for what in ("http-request", "probes", "readiness-command")]
    assert [(route.method, route.path) for route in changing] == [("POST", path) for path in paths]
    before = status()
    for route in changing:
        head = read_head(f"POST {route.path} HTTP/1.1\r\nHost: a\r\n\r\n".encode(), LIMITS)
        assert isinstance(head, tuple)
        given = [route.endpoint(head[0], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(3)]
        answers = {answer.body for answer in given if isinstance(answer, Response)}
        assert len(answers) == 1
    assert status() == before


def test_no_answer_is_429() -> None:
    """CT-1.3, HS-2.7: no code has that status, and the limits say that no rate is limited."""
    assert 429 not in {row.status for row in ERROR_CODES.values()}
    assert "429" not in json.dumps(openapi_document(table(), "9.9", {}))
    assert status()["operations"]["limits"]["rate_limiting"] == "not_implemented"


def test_the_page_names_only_files_that_are_served() -> None:
    """CT-8.1: whatever the page names is served, each file of the folder is, and nothing comes from elsewhere."""
    page = assets.static_bytes(assets.PAGE).decode()
    named = re.findall(r'(?:src|href)="/([^"]+)"', page)
    assert {name.removeprefix("static/") for name in named} <= set(assets.STATIC_TYPES)
    root = Path(assets.__file__).parent / "static"
    carried = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert carried == {*assets.STATIC_TYPES, assets.PAGE}
    for name in (assets.PAGE, *assets.STATIC_TYPES):
        text = assets.static_bytes(name).decode()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), f"{name} names another origin"


def test_the_page_has_nothing_inline_and_no_markup_from_strings() -> None:
    """CT-2.8, CT-8.1: what the policy forbids does not stand in the files."""
    page = assets.static_bytes(assets.PAGE).decode()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\bsrc=)", page)
    scripts = [assets.static_bytes(name).decode() for name in assets.STATIC_TYPES if name.endswith(".js")]
    assert scripts
    for script in scripts:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)
