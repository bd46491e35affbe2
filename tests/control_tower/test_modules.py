"""Modules in the control tower: what it says of them, what it judges, and what its own health makes of them."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families
from referencing import Registry, Resource

from idkmesh.control_tower import assets
from idkmesh.control_tower.module_routes import NAME_FORM
from idkmesh.control_tower_ui import ControlTowerServer
from idkmesh.health.model import ProbeMatrix, WatchdogFigures
from idkmesh.health.self_watch import nothing_but_itself
from idkmesh.workloads.declaration import load_declaration
from idkmesh.workloads.model import Declaration, LeaseSpec, Readiness, SupervisorSpec
from idkmesh.workloads.module_rules import MODULE
from idkmesh.workloads.parts import SupervisionError
from idkmesh.workloads.readiness_inspection import MAX_BODY_BYTES, MAX_FINDINGS, inspect_readiness, quoted
from idkmesh.workloads.service import COMPONENT, Supervised
from tests.control_tower.conftest import PATIENCE, TOKEN, until
from tests.workloads.process_support import alive, module, pid_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.control_tower.conftest import Tower

FORM = "POST /api/v1/inspect/readiness-command"
AS_JSON = "Content-Type: application/json"
HEALTHY, FAILING = Readiness(("true",)), Readiness(("false",))


def supervised(tmp_path: Path, *modules: Any, lease: LeaseSpec | None = None) -> Supervised:
    figures = SupervisorSpec(interval_s=1, lease=lease or LeaseSpec(ttl_s=5))
    return Supervised(Declaration(modules=modules, supervisor=figures), 65534, tmp_path / "m.yaml")


def two(tmp_path: Path) -> Supervised:
    return supervised(tmp_path, module("web", readiness=HEALTHY), module("worker", readiness=FAILING, replicas=2))


def valid(document: dict[str, Any], name: str) -> dict[str, Any]:
    schemas = [assets.schema(other) for other in assets.SCHEMA_NAMES]
    registry: Registry[Any] = Registry().with_resources(
        [(schema["$id"], Resource.from_contents(schema)) for schema in schemas]
    )
    jsonschema.Draft202012Validator(assets.schema(name), registry=registry).validate(document)
    return document


def listed(tower: Tower) -> dict[str, Any]:
    return valid(tower.api("GET /api/v1/modules").json(), "module-list.json")


def checked(tower: Tower) -> bool:
    """Say whether each instance has been asked."""
    items = listed(tower)["items"]
    seen = [each["readiness_command"] for item in items for each in item["instances"]]
    return len(seen) == 3 and all(each is not None for each in seen)


# --- what is known ----------------------------------------------------------------------------------------------------


def test_without_a_declaration(tower: Tower) -> None:
    """AR-7.2, CT-5.8: the list is empty, and its role says why; nothing of it is among the metrics."""
    document = listed(tower)
    assert (document["items"], document["lease"]) == ([], {"role": "none", "held": False, "holder": None})
    assert tower.api("GET /api/v1/modules/web").code == "not_found"
    assert tower.api("GET /api/v1/status").json()["operations"]["workloads"]["lease"]["role"] == "none"
    assert b"idkmesh_lease_held" not in tower.api("GET /metrics").body


@pytest.mark.parametrize("path", ["/api/v1/modules", "/api/v1/modules/web"])
def test_nobody_is_told_without_the_token(tower: Tower, path: str) -> None:
    """CT-3.1, CT-3.2: whether there is such a module is judged after the token."""
    assert tower.ask(f"GET {path}").status == 401


def test_names_have_the_form_of_the_declaration() -> None:
    """AR-2.5, CT-3.2: what a path may name is what a file may."""
    name = MODULE.members["name"]
    assert name.pattern.replace("*", "{0,61}") == NAME_FORM  # type: ignore[union-attr]
    assert name.most == 63  # type: ignore[union-attr]


def test_modules_of_a_tower(start: Any, tmp_path: Path) -> None:
    """AR-7.1 to AR-7.4, AR-7.9, CT-5.8: in documents, events, metrics and the status; processes end with the tower."""
    with start(store=tmp_path / "e.sqlite3", supervised=two(tmp_path)) as tower:
        until(lambda: checked(tower))
        document = listed(tower)
        assert document["lease"]["held"] is True
        words = {
            item["name"]: [each["readiness_command"]["outcome"] for each in item["instances"]]
            for item in document["items"]
        }
        assert words == {"web": ["passes"], "worker": ["fails", "fails"]}
        one = valid(tower.api("GET /api/v1/modules/worker").json(), "module.json")
        assert [each["name"] for each in one["instances"]] == ["worker-1", "worker-2"]
        assert one["instances"][0]["detail"] == "readiness command failing"
        assert tower.api("GET /api/v1/modules/other").code == "not_found"
        status = valid(tower.api("GET /api/v1/status").json(), "control-tower-status.json")
        short = status["operations"]["workloads"]
        assert (short["modules"], short["instances"]["unknown"], short["lease"]["fault"]) == (2, 3, None)
        until(lambda: tower.api("GET /api/v1/events?type=idkmesh.lease.acquired").json()["items"])
        text = tower.api("GET /metrics").body.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert families["idkmesh_lease_held"].samples[0].value == 1
        outcomes = [sample.labels for sample in families["idkmesh_check_outcomes"].samples]
        assert {(labels["module"], labels["outcome"]) for labels in outcomes} == {
            ("web", "passes"),
            ("worker", "fails"),
        }
        assert "idkmesh_ready" in families, "health and limits are there too"
        workloads = tower.server.workloads
        assert workloads is not None
        records = workloads.reading().snapshot.records.values()
        pids = [pid_of(record.instance) for record in records if record.instance is not None]
    assert not any(map(alive, pids))
    assert (tmp_path / "lease.sqlite3").exists()


def test_a_tower_is_ready_whatever_its_workloads_are(start: Any, tmp_path: Path) -> None:
    """AR-7.8: a failing instance is nothing that the tower depends on."""
    with start(store=tmp_path / "e.sqlite3", supervised=two(tmp_path)) as tower:
        until(lambda: checked(tower))
        answer = tower.ask("GET /readyz").json()
        assert (answer["status"], answer["failing"], answer["warnings"]) == ("ready", [], [])


def test_a_supervisor_that_is_stuck_is_a_stalled_tower(start: Any, tmp_path: Path) -> None:
    """AR-7.8, HL-2.1, HL-2.2: its thread is a component of the watchdog; the end of it is no silence."""
    figures = WatchdogFigures(interval_ms=1500, max_missed_ticks=2)
    budget = ProbeMatrix(orchestrator=nothing_but_itself().orchestrator, watchdog=figures, dependencies=())
    with start(store=tmp_path / "e.sqlite3", supervised=two(tmp_path), matrix=budget) as tower:
        until(lambda: checked(tower))
        reading = tower.server.health_reading()
        assert COMPONENT in reading.silences
        assert tower.ask("GET /livez").status == 200
        # A pass that never comes back from the thing that it asks: the beat is the only sign of it.
        stuck = tower.server.workloads
        assert stuck is not None
        go_on = threading.Event()

        def hang() -> None:
            go_on.wait(PATIENCE)

        stuck._supervisor._alive = hang
        until(lambda: tower.ask("GET /livez").status == 503)
        assert COMPONENT in tower.server.health.overdue()
        go_on.set()


def test_a_part_that_cannot_be_had_starts_no_tower(tmp_path: Path) -> None:
    """AR-7.1: nothing is left half started."""
    bad = supervised(tmp_path, lease=LeaseSpec(kind="etcd", endpoints=("ftp://nowhere",)))
    with pytest.raises(SupervisionError, match="ftp://nowhere"):
        ControlTowerServer(("127.0.0.1", 0), TOKEN, store=tmp_path / "e.sqlite3", supervised=bad)


def test_no_restart_without_its_record(start: Any, tmp_path: Path) -> None:
    """AR-5.5, EV-2.8: the event before is committed, or the answer is no, also where the store is gone."""
    with start(store=tmp_path / "e.sqlite3") as tower:
        facts = {"module": "web", "instance": "web-1"}
        assert tower.server.events.commit("instance.restart_requested", facts, "web/web-1")
        (item,) = tower.api("GET /api/v1/events?type=idkmesh.instance.restart_requested").json()["items"]
        assert (item["subject"], item["data"]) == ("web/web-1", facts)
    assert not tower.server.events.commit("instance.restart_requested", facts, "web/web-1")


# --- the form's judge -------------------------------------------------------------------------------------------------


def judged(tower: Tower, value: object) -> dict[str, Any]:
    answer = tower.api(FORM, AS_JSON, body=json.dumps(value).encode())
    assert answer.status == 200
    return valid(answer.json(), "readiness-inspection.json")


def test_a_command_that_is_accepted(tower: Tower) -> None:
    """AR-7.5, CT-6.6, AR-2.3: no findings, and YAML to paste; the limit is 5 s where none is given."""
    form = {"name": "web", "command": ["/usr/bin/check", "--fast"], "timeoutSecs": 3}
    assert judged(tower, form) == {
        "kind": "idkmesh-readiness-inspection",
        "schema_version": "0.1",
        "verdict": "accepted",
        "findings": [],
        "yaml": '- name: "web"\n  readiness:\n    command: ["/usr/bin/check", "--fast"]\n    timeoutSecs: 3\n',
    }
    assert "timeoutSecs: 5\n" in judged(tower, {"name": "web", "command": ["true"]})["yaml"]
    assert "timeoutSecs: 4\n" in judged(tower, {"name": "web", "command": ["true"], "timeoutSecs": 4.0})["yaml"]


@pytest.mark.parametrize(
    ("form", "field", "rule"),
    [
        ({"command": ["true"]}, "", "missing-key"),
        ({"name": "web"}, "", "missing-key"),
        ({"name": "Web", "command": ["true"]}, "name", "wrong-form"),
        ({"name": "web", "command": []}, "command", "out-of-range"),
        ({"name": "web", "command": ["/bin/sh", "-c", "x"]}, "command[0]", "shell"),
        ({"name": "web", "command": ["true", "a\nb"]}, "command[1]", "wrong-form"),
        ({"name": "web", "command": ["true"] * 10}, "command", "out-of-range"),
        ({"name": "web", "command": ["true"], "timeoutSecs": 16}, "timeoutSecs", "out-of-range"),
        ({"name": "web", "command": ["true"], "timeoutSecs": "5"}, "timeoutSecs", "wrong-type"),
        ({"name": "web", "command": ["true"], "more": 1}, "more", "unknown-key"),
        ([], "", "wrong-type"),
        ("web", "", "wrong-type"),
    ],
)
def test_a_command_that_is_refused(tower: Tower, form: object, field: str, rule: str) -> None:
    """CT-6.6, AR-2.3, AR-2.4: the finding names the field of the form and the rule of the table; there is no YAML."""
    document = judged(tower, form)
    assert (document["verdict"], document["yaml"]) == ("refused", None)
    assert (field, rule) in [(each["field"], each["rule"]) for each in document["findings"]]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 30_000, b'{"name": "a", "name": "b"}', b"1" * 30_000])
def test_what_is_no_json(tower: Tower, body: bytes) -> None:
    """CT-6.6: whatever the bytes are, the answer is a verdict."""
    answer = tower.api(FORM, AS_JSON, body=body)
    document = valid(answer.json(), "readiness-inspection.json")
    assert (answer.status, document["verdict"]) == (200, "refused")
    assert document["findings"]


def test_bounds_of_the_form(tower: Tower) -> None:
    """CT-6.6: a body of the bound is judged, one more byte is not; findings have an end; another type is refused."""
    longest = {"name": "a" * 63, "command": ["x" * 200, *["\U0001f600" * 200] * 8], "timeoutSecs": 15}
    body = json.dumps(longest).encode()
    assert len(body) < MAX_BODY_BYTES
    assert judged(tower, longest)["verdict"] == "accepted"
    assert tower.api(FORM, AS_JSON, body=body.ljust(MAX_BODY_BYTES)).json()["verdict"] == "accepted"
    assert tower.api(FORM, AS_JSON, body=body.ljust(MAX_BODY_BYTES + 1)).code == "payload_too_large"
    many = json.dumps({"name": "web", "command": ["x"], **{f"k{number}": 0 for number in range(500)}}).encode()
    assert len(inspect_readiness(many)["findings"]) == MAX_FINDINGS
    assert tower.api(FORM, "Content-Type: text/plain", body=body).status == 415
    assert tower.ask(FORM, AS_JSON, body=body).status == 401


@pytest.mark.parametrize(
    "argument",
    [
        "",
        " ",
        "a b",
        '"',
        "\\",
        "{x: y}",
        "#no",
        "*",
        "yes",
        "1e3",
        "ä",
        "\u2028",
        "\ufeff",
        "\U0001f600",
        "\u200b",
        "%d",
    ],
)
def test_the_yaml_says_the_same(argument: str) -> None:
    """CT-6.6, AR-2.4: what is pasted is read back as the same command, whatever characters are in it."""
    form = {"name": "web", "command": ["/usr/bin/check", argument], "timeoutSecs": 7}
    text = inspect_readiness(json.dumps(form).encode())["yaml"]
    more = "  kind: stateless\n  driver: process\n  replicas: 1\n  process: {argv: [a]}\n"
    head = 'schema_version: "0.1"\nkind: idkmesh-modules\nmodules:\n'
    (module,) = load_declaration(head + text + more, "pasted").modules
    assert (module.name, module.readiness) == ("web", Readiness(("/usr/bin/check", argument), 7))


def test_what_does_not_print_is_escaped() -> None:
    """CT-6.6: nobody pastes what cannot be seen."""
    assert quoted('a\u200b"\\') == '"a\\U0000200b\\"\\\\"'
