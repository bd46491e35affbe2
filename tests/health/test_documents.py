"""What is told of dependencies: documents with published schemas, and Prometheus text that a parser takes."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from referencing import Registry, Resource

from idkmesh.health.document import dependency_list, one_dependency_document
from idkmesh.health.history import BUCKETS, KEPT, Entry, History
from idkmesh.health.liveness import Liveness
from idkmesh.health.metrics import Reading, exposition
from idkmesh.health.model import KINDS, Outcome, Refresh
from idkmesh.health.reloads import MatrixReading, RefusedMatrix
from tests.events.support import ROOT
from tests.health.support import COULD_NOT_RUN, FAILED, NOW, OK, Game, dependency, result

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMAS = {
    name: json.loads((ROOT / "idkmesh" / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("dependency", "dependency-list")
}
REGISTRY: Registry[Any] = Registry().with_resources(
    [(schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()]
)
LABEL = NOW.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check(document: object, name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMAS[name], registry=REGISTRY).validate(document)


def all_kinds_of_states() -> Game:
    """Return dependencies that are ok, failing, not run, not to be run, stuck, stale, and below a threshold."""
    declared = [
        dependency("ok", cache_ms=60_000),
        dependency("failing", critical=False, failure_threshold=3),
        dependency("could_not_run"),
        dependency("stuck", interval_ms=60_000),
        dependency("stale", refresh=Refresh.REQUEST, cache_ms=100),
        dependency("below", refresh=Refresh.REQUEST, cache_ms=1000, failure_threshold=3),
    ]
    game = Game(*declared)
    ends = {"ok": OK, "failing": FAILED, "could_not_run": COULD_NOT_RUN, "stale": OK, "below": OK}
    game.clock.now += 0.9
    for run in game.turn():
        if run.name in ends:
            game.end(run, ends[run.name], latency=0.012, detail="refused" if run.name == "failing" else "a word")
    game.clock.now += 1.6
    game.rounds.ask("below", game.clock.moment())
    for run in game.turn():
        if run.name in {"below", "failing", "could_not_run"}:
            game.end(run, COULD_NOT_RUN if run.name == "could_not_run" else FAILED, latency=0.0)
    game.reload(*declared, dependency("waiting", critical=False))
    return game


def list_of(game: Game) -> dict[str, Any]:
    head, items = dependency_list(game.rounds.snapshot, MatrixReading(NOW), game.clock.now)
    return {**head, "items": list(items)}


def test_the_list_says_all_of_each() -> None:
    """HL-5.3: every member, in the matrix's order, by the published schema, with why a verdict is unknown."""
    game = all_kinds_of_states()
    document = list_of(game)
    check(document, "dependency-list")
    told = {item["name"]: (item["verdict"], item["reason"]) for item in document["items"]}
    assert told == {
        "ok": ("ok", None),
        "failing": ("failing", None),
        "could_not_run": ("unknown", "could_not_run"),
        "stuck": ("failing", None),
        "stale": ("unknown", "stale"),
        "below": ("unknown", "below_threshold"),
        "waiting": ("unknown", "not_run"),
    }
    assert document["readiness"]["status"] == "not_ready"
    assert list(told) == list(game.rounds.snapshot.records)
    assert document["page"] == {"next_cursor": None, "limit": 7}
    game.turn(60.0)
    stuck = one_dependency_document(game.rounds.snapshot, "stuck", game.clock.now)
    assert stuck is not None
    assert (stuck["verdict"], stuck["reason"], stuck["stuck"]) == ("unknown", "stuck", True)


def test_one_dependency() -> None:
    """HL-5.3: the same document as in the list, with its figures; and none for a name that is not there."""
    game = Game(dependency(failure_threshold=2, success_threshold=3), dependency("other"))
    assert one_dependency_document(game.rounds.snapshot, "nobody", game.clock.now) is None
    (run,) = game.turn()
    game.clock.now += 0.25
    game.end(run, FAILED, detail="status 503")
    game.turn(0.5)
    document = one_dependency_document(game.rounds.snapshot, "db", game.clock.now)
    assert document == list_of(game)["items"][0]
    assert document == {
        "kind": "idkmesh-dependency",
        "schema_version": "0.1",
        "name": "db",
        "critical": True,
        "probe": "tcp",
        "verdict": "failing",
        "reason": None,
        "detail": "status 503",
        "age_seconds": 0.5,
        "since": LABEL.replace("05.678", "05.928"),
        "successes": 0,
        "failures": 1,
        "success_threshold": 3,
        "failure_threshold": 2,
        "timeout_ms": 500,
        "interval_ms": 1000,
        "cache_ms": 2500,
        "refresh": "schedule",
        "running": False,
        "stuck": False,
        "next_run_seconds": 0.23,  # each second, and 2 % earlier at least
        "readiness_without": "starting",
        "results": [{"time": LABEL, "outcome": "failed", "latency_ms": 250.0, "detail": "status 503"}],
    }
    check(document, "dependency")


def test_readiness_without_the_one_that_fails() -> None:
    """HL-5.3: it is what stands against readiness, so without it the instance would be ready."""
    game = Game(dependency("a"), dependency("b"))
    game.clock.now += 1
    for run in game.turn():
        game.end(run, FAILED if run.name == "a" else OK)
    items = list_of(game)["items"]
    assert [item["readiness_without"] for item in items] == ["ready", "not_ready"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_say_what_each_member_is(name: str) -> None:
    """HL-5.3: each member is required, and is described."""
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["required"] == list(schema["properties"])
    assert [key for key, member in schema["properties"].items() if not member.get("description")] == []


def test_the_schema_knows_every_kind() -> None:
    """HL-4.1, HL-5.3: kinds of probes, outcomes and verdicts of the schema are those that there are."""
    members = SCHEMAS["dependency"]["properties"]
    assert members["probe"]["enum"] == list(KINDS)
    assert members["results"]["items"]["properties"]["outcome"]["enum"] == [outcome.value for outcome in Outcome]
    assert members["results"]["maxItems"] == KEPT == 60


# --- history -------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(list(Outcome)), st.floats(0, 20)), max_size=150))
def test_history_is_bounded(given_: list[tuple[Outcome, float]]) -> None:
    """HL-5.3, HL-5.5: the last sixty are kept, the oldest first; all are counted, and timed if they could be made."""
    entries = [Entry(result(outcome, latency=latency), NOW) for outcome, latency in given_]
    history = History()
    for entry in entries:
        history = history.with_entry(entry)
    assert list(history.entries) == entries[-60:]
    assert history.outcome_counts() == {each.value: [outcome for outcome, _ in given_].count(each) for each in Outcome}
    timed = [latency for outcome, latency in given_ if outcome is not COULD_NOT_RUN]
    assert history.seconds == pytest.approx(sum(timed))
    below = 0
    for bound, count in zip(BUCKETS, history.buckets, strict=False):
        below += count
        assert below == sum(latency <= bound for latency in timed)
    assert sum(history.buckets) == len(timed)


def test_the_sixty_first_goes() -> None:
    """HL-5.3: of more than sixty results the oldest is given up."""
    history = History()
    for number in range(61):
        history = history.with_entry(Entry(result(detail=str(number)), NOW))
    assert [entry["detail"] for entry in history.documents()] == [str(number) for number in range(1, 61)]


# --- metrics -------------------------------------------------------------------------------------------------------


def samples(text: bytes) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def value(text: bytes, name: str, **labels: str) -> float:
    (found,) = [each for sample, has, each in samples(text) if sample == name and labels.items() <= has.items()]
    return found


def test_a_refused_matrix_is_in_the_list() -> None:
    """HL-3.5, HL-5.3: when the running one was taken, and, once another was refused, when and why."""
    game = all_kinds_of_states()
    for matrix, refused in (
        (MatrixReading(NOW), None),
        (
            MatrixReading(NOW, RefusedMatrix(NOW + dt.timedelta(minutes=1), "m.yaml:1:1: is empty")),
            {"at": "2026-01-02T03:05:05.678Z", "what": "m.yaml:1:1: is empty"},
        ),
    ):
        head, items = dependency_list(game.rounds.snapshot, matrix, game.clock.now)
        check(head | {"items": list(items)}, "dependency-list")
        assert head["matrix"] == {"read_at": "2026-01-02T03:04:05.678Z", "refused": refused}


def test_exposition() -> None:
    """HL-5.5: a parser takes it, and finds each name of the clause with what the documents say."""
    game = all_kinds_of_states()
    reading = Reading(
        health=game.rounds.snapshot,
        now=game.clock.now,
        silences={"front": 0.25},
        liveness=Liveness(overdue=("probes",), dependency_only=True, failures_total=3),
        slots_held=2,
        matrix_refused=True,
        limits={"max_connections": 1000, "drain_timeout_seconds": 5.0, "keep_alive": False, "rate_limiting": "no"},
        usage={"in_flight": 4, "admitted_total": 9, "draining": True},
    )
    text = exposition(reading)
    up = "idkmesh_dependency_up"
    assert value(text, up, dependency="ok", critical="true") == 1.0
    assert value(text, up, dependency="failing", critical="false") == 0.0
    assert math.isnan(value(text, up, dependency="stale"))
    assert math.isnan(value(text, up, dependency="waiting"))
    assert value(text, "idkmesh_dependency_age_seconds", dependency="ok") == pytest.approx(1.588)
    aged = {labels["dependency"] for name, labels, _ in samples(text) if name == "idkmesh_dependency_age_seconds"}
    assert "waiting" not in aged
    outcomes = "idkmesh_dependency_probe_outcomes_total"
    assert value(text, outcomes, dependency="failing", outcome="failed") == 2
    assert value(text, outcomes, dependency="could_not_run", outcome="could_not_run") == 2
    assert value(text, outcomes, dependency="ok", outcome="could_not_run") == 0
    seconds = "idkmesh_dependency_probe_seconds"
    assert value(text, f"{seconds}_count", dependency="failing") == 2
    assert value(text, f"{seconds}_sum", dependency="failing") == pytest.approx(0.012)
    assert value(text, f"{seconds}_bucket", dependency="failing", le="0.01") == 1
    assert value(text, f"{seconds}_bucket", dependency="failing", le="+Inf") == 2
    assert value(text, "idkmesh_ready") == 0
    assert value(text, "idkmesh_ready_transitions_total") == 0
    assert value(text, "idkmesh_liveness_failures_total") == 3
    assert value(text, "idkmesh_liveness_during_dependency_outage") == 1
    assert value(text, "idkmesh_watchdog_silence_seconds", component="front") == 0.25
    assert value(text, "idkmesh_slots_held") == 2
    assert value(text, "idkmesh_matrix_refused") == 1
    assert value(text, "idkmesh_probes_stuck") == value(text, "idkmesh_probes_abandoned_total") == 1
    assert value(text, "idkmesh_limit_max_connections") == 1000
    assert value(text, "idkmesh_limit_keep_alive") == 0
    assert value(text, "idkmesh_usage_admitted_total") == 9
    assert value(text, "idkmesh_usage_draining") == 1
    assert "rate_limiting" not in text.decode()


def test_exposition_of_nothing() -> None:
    """HL-5.5: without dependencies too it is text that a parser takes, and each family says what it is."""
    game = Game()
    game.turn()
    text = exposition(Reading(health=game.rounds.snapshot, now=game.clock.now))
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.documentation and family.type in {"gauge", "counter", "histogram"} for family in families)
    assert value(text, "idkmesh_ready") == 1
    assert text.endswith(b"\n")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30))
def test_any_name_comes_through(name: str) -> None:
    """HL-5.5: quotes, backslashes and letters of any script in a name are read back as they were."""
    game = Game(dependency(name))
    text = exposition(Reading(health=game.rounds.snapshot, now=game.clock.now))
    assert math.isnan(value(text, "idkmesh_dependency_up", dependency=name))


def test_a_secret_of_a_declaration_is_told_nowhere() -> None:
    """HL-4.12, HL-5.3, HL-5.5: how a dependency is reached stands in the matrix alone."""
    probe = KINDS["http"](url="http://user:secret-word@10.1.2.3/", headers={"X": "secret-word"})  # type: ignore[call-arg]
    game = Game(dependency(probe=probe))
    for run in game.turn():
        game.end(run, FAILED)
    told = json.dumps(list_of(game)) + json.dumps([dict(change.facts) for change in game.told])
    told += exposition(Reading(health=game.rounds.snapshot, now=game.clock.now)).decode()
    assert "secret-word" not in told
    assert "10.1.2.3" not in told
