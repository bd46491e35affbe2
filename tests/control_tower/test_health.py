"""The control tower's probes, dependencies and metrics, over sockets, with sockets as the dependencies."""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from idkmesh.control_tower import assets
from idkmesh.control_tower.health_routes import METRICS_TYPE, NAME_FORM
from idkmesh.health import metrics
from idkmesh.health.matrix_rules import DEPENDENCY
from idkmesh.health.model import Dependency, File, Http, ProbeMatrix, Refresh, Tcp, WatchdogFigures
from idkmesh.health.readiness import Readiness
from idkmesh.health.self_watch import DISK_RESERVE, DISK_ROOM, nothing_but_itself
from idkmesh.httpd.routes import Access, Route, RouteTable
from idkmesh.service_runtime import ServiceLimits
from scripts.bench.benchlib.processes import free_port
from tests.control_tower.conftest import TOKEN, until
from tests.control_tower.test_documents import StoredHealth, probes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.health.model import ProbeSpec
    from tests.control_tower.conftest import Tower


def row(name: str, probe: ProbeSpec, **more: Any) -> Dependency:
    given: dict[str, Any] = {"critical": True, "timeout_ms": 2000, "interval_ms": 200, "cache_ms": 3000}
    return Dependency(name=name, probe=probe, **(given | more))


def matrix(*rows: Dependency, budget_ms: int = 3_000) -> ProbeMatrix:
    figures = WatchdogFigures(interval_ms=budget_ms // 2, max_missed_ticks=2)
    return ProbeMatrix(orchestrator=nothing_but_itself().orchestrator, watchdog=figures, dependencies=rows)


@contextlib.contextmanager
def listening(port: int = 0) -> Iterator[int]:
    """Accept in the kernel alone: whoever connects succeeds, and hears nothing."""
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
        yield listener.getsockname()[1]


def readiness(tower: Tower) -> tuple[int, str, list[str], list[str]]:
    answer = tower.ask("GET /readyz", host="pod")
    document = answer.json()
    jsonschema.Draft202012Validator(assets.schema("probe.json")).validate(document)
    return answer.status, document["status"], document["failing"], document["warnings"]


def events(tower: Tower, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tower.api(f"GET /api/v1/events?type=idkmesh.{kind}").json()["items"]
    return found


# --- dependencies -----------------------------------------------------------------------------------------------------


def test_a_database_that_is_down_at_boot(start: Any) -> None:
    """HL-1.1 to HL-1.3, HL-5.1, HL-5.2, HL-5.4: started, alive, not ready; and ready as soon as it is up."""
    port = free_port()
    with start(matrix=matrix(row("db", Tcp(host="127.0.0.1", port=port)))) as tower:
        assert readiness(tower) == (503, "not_ready", ["db"], [])
        assert tower.ask("GET /readyz").fields["retry-after"] == "1"
        assert tower.ask("GET /startupz").json()["status"] == "started"
        assert tower.ask("GET /startupz").status == 200
        for path in ("/livez", "/healthz"):
            assert (tower.ask(f"GET {path}").status, tower.ask(f"GET {path}").body) == (200, b"ok")
        with listening(port):
            until(lambda: readiness(tower) == (200, "ready", [], []))
            until(lambda: len(events(tower, "readiness.changed")) == 2)
        (succeeded,) = events(tower, "startup.succeeded")
        down, up = events(tower, "dependency.changed")
        assert succeeded["data"]["seconds"] < 5
        assert down["data"] == {"from": "unknown", "to": "failing", "detail": "refused", "critical": True}
        assert (down["subject"], up["subject"], up["data"]["to"]) == ("db", "db", "ok")
        assert [event["data"]["to"] for event in events(tower, "readiness.changed")] == ["not_ready", "ready"]
        assert events(tower, "liveness.failed") == []


def test_a_noncritical_dependency_is_a_warning(start: Any) -> None:
    """HL-1.2, HL-5.1: ready, with a warning that names it."""
    rows = [row("cache", Tcp(host="127.0.0.1", port=free_port()), critical=False), row("disk", File(path=__file__))]
    with start(matrix=matrix(*rows)) as tower:
        assert readiness(tower) == (200, "ready", [], ["cache"])


def test_ten_hung_dependencies_hold_nobody_up(start: Any) -> None:
    """HL-1.1, HL-1.5, HL-4.1, PROBE-01, PROBE-04: no request waits for one that never answers."""
    with listening() as port:
        hung = [row(f"hung-{n}", Http(url=f"http://127.0.0.1:{port}/"), timeout_ms=1500) for n in range(10)]
        slow = [Dependency(**{**fields(each), "interval_ms": 2000, "cache_ms": 5000}) for each in hung]
        with start(matrix=matrix(*slow), limits=ServiceLimits(max_concurrent_requests=2)) as tower:
            took = []
            for path in ("/readyz", "/livez", "/startupz") * 20:
                began = time.monotonic()
                tower.ask(f"GET {path}")
                took.append(time.monotonic() - began)
            assert statistics.median(took) < 0.5
            assert tower.ask("GET /livez").body == b"ok"
            assert readiness(tower)[:2] == (503, "not_ready")
            assert tower.api("GET /api/v1/status").status == 200
            listed = tower.api("GET /api/v1/dependencies").json()["items"]
            assert {item["detail"] for item in listed} == {"timeout"}


def fields(dependency: Dependency) -> dict[str, Any]:
    return {name: getattr(dependency, name) for name in Dependency.__dataclass_fields__}


def rate(tower: Tower, seconds: float) -> float:
    """Return answers of /readyz a second, of one client after the other."""
    count, began = 0, time.monotonic()
    while time.monotonic() < began + seconds:
        assert tower.ask("GET /readyz").status == 200
        count += 1
    return count / (time.monotonic() - began)


def test_readiness_takes_no_longer_for_a_thousand(start: Any) -> None:
    """HL-1.5, HL-5.1: beside a tower without any, in one run; the benchmark ``readyz`` tells the ratio more exactly."""
    many = [row(f"file-{n}", File(path=__file__), interval_ms=60_000, cache_ms=120_000) for n in range(1000)]
    with start(matrix=matrix()) as none, start(matrix=matrix(*many)) as thousand:
        ratios = [rate(thousand, 0.2) / rate(none, 0.2) for _ in range(5)]
        assert statistics.median(ratios) > 0.6


def test_what_is_too_old_is_not_ok(start: Any) -> None:
    """HL-1.4, HL-4.5, CT-4.3, PROBE-02: a scheduler that has ended tells nothing, and readiness knows by itself."""
    with start(matrix=matrix(row("disk", File(path=__file__), cache_ms=500))) as tower:
        assert readiness(tower) == (200, "ready", [], [])
        assert tower.server.health._runner.stop(5)
        until(lambda: readiness(tower) == (503, "not_ready", ["disk"], []))
        item = tower.api("GET /api/v1/dependencies/disk").json()
        assert (item["verdict"], item["reason"]) == ("unknown", "stale")


def test_a_request_asks_for_a_result_that_has_expired(start: Any) -> None:
    """HL-4.6: one run for all who ask, and none while nobody does."""
    asked = row("on-request", File(path=__file__), refresh=Refresh.REQUEST, cache_ms=300)
    with start(matrix=matrix(asked)) as tower:

        def runs() -> int:
            return len(tower.server.health.snapshot().records["on-request"].history.entries)

        until(lambda: tower.server.health.readiness().status == "not_ready")
        assert runs() == 1
        assert readiness(tower)[0] == 503
        until(lambda: runs() == 2)
        until(lambda: readiness(tower)[0] == 200)


def test_dependencies_are_what_their_schemas_say(start: Any) -> None:
    """HL-5.3: the list and each of them, with what readiness would be without it."""
    rows = [row("db", Tcp(host="127.0.0.1", port=free_port())), row("disk.root", File(path=__file__))]
    with start(matrix=matrix(*rows)) as tower:
        document = tower.api("GET /api/v1/dependencies").json()
        validate(document, "dependency-list.json")
        assert [(item["name"], item["readiness_without"]) for item in document["items"]] == [
            ("db", "ready"),
            ("disk.root", "not_ready"),
        ]
        one = tower.api("GET /api/v1/dependencies/disk.root").json()
        validate(one, "dependency.json")
        assert (one["verdict"], one["probe"]) == ("ok", "file")
        assert tower.api("HEAD /api/v1/dependencies/db").body == b""


def validate(document: Any, name: str) -> None:
    from referencing import Registry, Resource  # noqa: PLC0415  as the other tests of documents

    schemas = [assets.schema(other) for other in assets.SCHEMA_NAMES]
    registry: Any = Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in schemas)
    jsonschema.Draft202012Validator(assets.schema(name), registry=registry).validate(document)


@pytest.mark.parametrize(
    "name", ["nobody", "DB", "db/", "/db", "d%62", "db%00", "db?x", "..", "../status", "db.", "-db", "a" * 64, ""]
)
def test_names_match_byte_for_byte(start: Any, name: str) -> None:
    """CT-3.2, HL-5.3: what is not the name of a dependency is 404; a query is none of the name."""
    with start(matrix=matrix(row("db", File(path=__file__)))) as tower:
        answer = tower.api(f"GET /api/v1/dependencies/{name}")
        assert answer.status == (200 if name == "db?x" else 404)


def test_names_are_told_to_nobody_without_a_token(tower: Any) -> None:
    """CT-2.4, CT-3.2: a name that is there and one that is not are the same 401."""
    for name in (DISK_ROOM, "nobody"):
        answer = tower.ask(f"GET /api/v1/dependencies/{name}")
        assert (answer.status, answer.code) == (401, "unauthorized")
    assert tower.ask("GET /api/v1/dependencies").status == 401
    assert tower.ask("GET /metrics").status == 401
    assert tower.api("POST /api/v1/dependencies/nobody", body=b"").code == "method_not_allowed"


def test_the_form_of_a_name_is_that_of_the_matrix() -> None:
    """HL-3.1, CT-3.2: whatever a matrix may call a dependency has a path."""
    shape: Any = DEPENDENCY.members["name"]
    assert shape.pattern.replace("*", f"{{0,{shape.most - 2}}}") == NAME_FORM


def test_forms_are_the_last_part_of_a_path_of_their_own() -> None:
    """CT-3.2: a table refuses a form that could match a slash, or that is not the end of a path."""

    def table(path: str, form: str) -> RouteTable:
        endpoint: Any = None
        route = Route(
            method="GET",
            path=path,
            access=Access.API,
            endpoint=endpoint,
            operation="o",
            summary="s",
            answers=(),
            name_form=form,
        )
        return RouteTable((route,))

    assert table("/a/{name}", "[a-z]+").resource("/a/bc") is not None
    for path in ("/a/", "/a/b/c", "/a", "/a/B", "a/bc", "//a/bc", ""):
        assert table("/a/{name}", "[a-z]+").resource(path) is None
    for path, form in (("/a/{name}/b", "x"), ("/a{name}", "x"), ("/a/", "x"), ("/a/{name}", ".")):
        with pytest.raises(ValueError, match="last part of a path"):
            table(path, form)


# --- the tower itself -------------------------------------------------------------------------------------------------


def test_without_a_matrix_it_watches_its_disk(tower: Any) -> None:
    """HL-3.4: two dependencies, on the file system of its store."""
    found = {item["name"]: item["critical"] for item in tower.api("GET /api/v1/dependencies").json()["items"]}
    assert found == {DISK_ROOM: True, DISK_RESERVE: False}
    probe = tower.server.health.snapshot().records[DISK_ROOM].dependency.probe
    assert probe.path == str(tower.server.events.path.parent)


def test_a_component_that_is_silent_stalls_liveness(start: Any) -> None:
    """HL-1.2, HL-2.1, HL-2.2, HL-5.4: 503 stalled while it is overdue; who is not alive is not ready."""
    with start(matrix=matrix(row("disk", File(path=__file__)))) as tower:
        silent = tower.server.health.watchdog.register("silent", 0.05)
        for path in ("/livez", "/healthz"):
            until(lambda path=path: tower.ask(f"GET {path}").status == 503)  # type: ignore[misc]
            assert tower.ask(f"GET {path}").body == b"stalled"
        assert tower.ask("GET /livez").fields["content-type"] == "text/plain; charset=utf-8"
        until(lambda: events(tower, "liveness.failed"))
        assert readiness(tower)[:3] == (503, "not_ready", ["process_watchdog"])
        status = tower.api("GET /api/v1/status").json()["operations"]["health"]
        assert status["watchdog"]["overdue"] == ["silent"]
        assert [each["name"] for each in status["watchdog"]["components"]] == ["probes", "front", "silent"]
        silent.close()
        assert tower.ask("GET /livez").body == b"ok"
        assert readiness(tower)[0] == 200
        until(lambda: events(tower, "liveness.recovered"))
        (failed,) = events(tower, "liveness.failed")
        assert (failed["data"]["components"], failed["data"]["dependency_only"]) == (["silent"], False)


def test_a_stall_in_an_outage_is_told_as_that(start: Any) -> None:
    """HL-5.4, HL-5.5: liveness that fails while a dependency is down and the process beats is what must not be."""
    with start(matrix=matrix(row("db", Tcp(host="127.0.0.1", port=free_port())))) as tower:
        tower.server.health.watchdog.register("silent", 0.05)
        until(lambda: events(tower, "liveness.failed"))
        assert events(tower, "liveness.failed")[0]["data"]["dependency_only"] is True
        assert samples(tower)["idkmesh_liveness_during_dependency_outage"] == 1


def test_the_front_beats_while_it_idles_and_is_forgotten_when_it_ends(start: Any) -> None:
    """HL-2.2, HL-2.5: a loop with nothing to do beats within half its budget; one that was shut down is not overdue."""
    with start(matrix=matrix(budget_ms=200)) as tower:
        health = tower.server.health
        worst = 0.0
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            worst = max(worst, health.reading().silences["front"])
            time.sleep(0.01)
        assert 0 < worst < 1.0
        tower.server.shutdown()
        until(lambda: "front" not in health.reading().silences)
        assert health.overdue() == ()


def test_a_front_that_is_stuck_is_overdue(start: Any) -> None:
    """HL-1.1, HL-2.1: a loop that does not come round is silent, and nothing else is."""
    with start(matrix=matrix(budget_ms=200)) as tower:
        stuck, go_on = threading.Event(), threading.Event()

        def hang() -> None:
            stuck.set()
            go_on.wait(10)

        tower.server.service_actions = hang
        try:
            assert stuck.wait(10)
            until(lambda: tower.server.health.overdue() == ("front",))
            until(lambda: tower.server.health.reading().liveness.failures_total)
        finally:
            del tower.server.service_actions
            go_on.set()
        until(lambda: tower.server.health.overdue() == ())
        until(lambda: events(tower, "liveness.recovered"))


def test_the_serial_profile_is_not_watched(start: Any) -> None:
    """HL-2.3: there a handler runs in the loop, and may wait for a downstream."""
    with start(matrix=matrix(), limits=ServiceLimits(serial=True)) as tower:
        assert set(tower.server.health.reading().silences) == {"probes"}
        assert tower.ask("GET /livez").body == b"ok"


def test_a_slot_that_is_held_is_told(start: Any) -> None:
    """HL-2.3, HL-5.4, HL-5.5: a warning in readiness, one event a holder, a figure; liveness holds."""
    with start(matrix=matrix(budget_ms=2000)) as tower:  # which a question of this test's own does not take
        held = tower.server.limiter.admit("a handler that waits")
        until(lambda: readiness(tower)[3] == ["worker_slot"])
        assert readiness(tower) == (200, "ready", [], ["worker_slot"])
        assert tower.ask("GET /livez").body == b"ok"
        assert samples(tower)["idkmesh_slots_held"] == 1
        held.release()
        until(lambda: readiness(tower)[3] == [])
        until(lambda: events(tower, "slot.held"))
        (event,) = events(tower, "slot.held")
        assert event["data"]["slots"] == 1
        assert event["data"]["seconds"] > 2


def test_a_drain_stands_before_every_verdict(start: Any) -> None:
    """HL-1.2, CT-4.4: readiness and startup are 503 from the first moment; liveness holds, whatever is down."""
    with start(matrix=matrix(row("db", Tcp(host="127.0.0.1", port=free_port())))) as tower:
        tower.server.begin_drain()
        for path in ("/readyz", "/startupz"):
            assert tower.ask(f"GET {path}").code == "shutting_down"
        assert tower.ask("GET /livez").body == b"ok"


def test_a_tower_whose_address_is_taken_leaves_nothing(start: Any) -> None:
    """CT-9.3: its probes run before the port opens, and end where it cannot be opened."""
    before = threading.active_count()
    with listening() as port, pytest.raises(OSError, match="in use"), start(("127.0.0.1", port)):
        pass
    until(lambda: threading.active_count() <= before)


# --- what is answered -------------------------------------------------------------------------------------------------


def test_an_answer_is_made_when_something_has_changed() -> None:
    """HL-1.5, HL-5.1: who asks gets the answer that is there; another warning or another verdict makes another."""
    health = StoredHealth(Readiness("ready"))
    state = probes(health=health)
    first = state.readiness()
    assert state.readiness() is first
    health.noted = ("worker_slot",)
    second = state.readiness()
    assert second is not first
    health.ready = Readiness("not_ready", failing=("db",))
    third: Any = state.readiness()
    assert (third.status, json.loads(third.body)["warnings"]) == (503, ["worker_slot"])
    assert health.asked == 4


def test_a_starting_service_says_so() -> None:
    """CT-4.3, HL-5.2: readiness and startup are 503 starting, also where the event store fails."""
    for failing in (None, "the disk is full"):
        state = probes(health=StoredHealth(Readiness("starting", failing=("db",), pending=("db",))), failing=failing)
        for verdict in (state.readiness(), state.startup()):
            answer: Any = verdict
            assert (answer.status, json.loads(answer.body)["status"]) == (503, "starting")
            assert dict(answer.headers)["Retry-After"] == "7"


def test_names_in_an_answer_have_a_bound() -> None:
    """CT-4.3: the first fifty of a thousand, and how many there are: nothing is left out without a word."""
    names = tuple(f"db-{n}" for n in range(1000))
    state = probes(health=StoredHealth(Readiness("not_ready", failing=names, warnings=names)))
    answer: Any = state.readiness()
    document = json.loads(answer.body)
    assert document["failing"] == list(names[:50])
    assert (document["failing_total"], document["warnings_total"]) == (1000, 1000)
    assert len(answer.body) < 2000


def samples(tower: Tower) -> dict[str, float]:
    """Return the samples without labels."""
    text = tower.api("GET /metrics").body.decode()
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def test_metrics_are_prometheus_text(start: Any) -> None:
    """HL-5.5: type, token, the dependencies by name, silences by component, limits and usage of the status document."""
    with start(matrix=matrix(row("db", Tcp(host="127.0.0.1", port=free_port())))) as tower:
        answer = tower.api("GET /metrics")
        assert answer.fields["content-type"] == METRICS_TYPE == metrics.CONTENT_TYPE
        assert b'idkmesh_dependency_up{critical="true",dependency="db"} 0.0' in answer.body
        assert b'idkmesh_watchdog_silence_seconds{component="front"}' in answer.body
        found = samples(tower)
        operations = tower.api("GET /api/v1/status").json()["operations"]
        assert found["idkmesh_ready"] == 0
        assert found["idkmesh_limit_max_concurrent_requests"] == operations["limits"]["max_concurrent_requests"]
        assert found["idkmesh_usage_in_flight"] == 1
        assert TOKEN.encode() not in answer.body


def test_health_stands_in_the_status(tower: Any) -> None:
    """CT-5.7: in short, and by the words of readiness."""
    health = tower.api("GET /api/v1/status").json()["operations"]["health"]
    assert health["readiness"]["status"] == "ready"
    assert (health["started"], health["dependencies"], health["slots_held"]) == (True, 2, 0)
    assert health["watchdog"]["budget_seconds"] == 10.0
    assert health["watchdog"]["liveness_failures_total"] == 0
