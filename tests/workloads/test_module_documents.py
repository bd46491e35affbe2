"""What is told of modules: documents with published schemas, Prometheus text that a parser takes, lines, one look."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families
from referencing import Registry, Resource

from idkmesh.changes import Change
from idkmesh.workloads import changes
from idkmesh.workloads.change_lines import line_of
from idkmesh.workloads.document import module_document, module_list_document, short_document
from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.metrics import exposition
from idkmesh.workloads.model import InstanceState, ModuleKind
from idkmesh.workloads.once import look_once
from idkmesh.workloads.record import Key
from idkmesh.workloads.snapshot import Role
from idkmesh.workloads.tracker import Health, HealthChange
from tests.events.support import ROOT
from tests.workloads.support import (
    COULD_NOT,
    FAILS,
    LEFT,
    PASSES,
    Game,
    Keeper,
    LeaseTable,
    ManualClock,
    Platform,
    declaration,
    module,
)

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = {
    name: json.loads((ROOT / "idkmesh" / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("module", "module-list")
}
REGISTRY: Registry[Any] = Registry().with_resources(
    [(schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()]
)
WEB = module(instances=("web-1", "web-2"), port=80)
DECLARED = declaration(WEB, module("db", ModuleKind.STATEFUL, class_name="postgresql"))


def check(document: object, name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMAS[name], registry=REGISTRY).validate(document)


@pytest.fixture
def game(tmp_path: Path) -> Game:
    return Game(tmp_path, DECLARED)


def listed(game: Game) -> dict[str, Any]:
    document = module_list_document(game.supervisor.snapshot(), game.clock.stamp())
    check(document, "module-list")
    return document


def one(game: Game, name: str = "web") -> dict[str, Any]:
    document = module_document(game.supervisor.snapshot(), name, game.clock.stamp())
    assert document is not None
    check(document, "module")
    return document


def test_documents_in_every_state(game: Game) -> None:
    """AR-7.2: the documents are what their schemas say, whatever is known."""
    assert listed(game)["lease"] == {"role": "starting", "held": False, "holder": None}
    game.platform["web/web-1"].port_health = True
    game.platform["web/web-2"].run = FAILS
    game.platform["db/db-1"].run = LEFT
    for _ in range(40):
        game.play(5)
        assert listed(game)["items"][0] == one(game)
    game.platform["db/db-1"].state = InstanceState.GONE
    game.platform.silent = DriverError("no daemon")
    game.play(30)
    assert listed(game)["page"] == {"next_cursor": None, "limit": 2}


def test_an_instance(game: Game) -> None:
    """AR-7.2: both checks with detail and age, state and since, progress, restarts, cooldown and lease."""
    game.platform["web/web-2"].run = FAILS
    game.play(15)
    first, second = one(game)["instances"]
    assert second["progress"] == {"outcome": "fails", "seconds": 10, "of_seconds": 20, "text": "10 of 20 s failing"}
    assert second["readiness_command"] == {
        "outcome": "fails",
        "reason": "exit status 1",
        "misdeclared": False,
        "took_seconds": 0.0,
        "age_seconds": 5.0,
    }
    assert first["port_check"]["outcome"] == "nothing"
    game.play(46)
    second = one(game)["instances"][1]
    assert (second["health"], second["since"]) == ("unhealthy", "2023-11-14T22:13:40.000Z")
    assert (second["detail"], second["restart_due_seconds"]) == ("readiness command failing", 15.0)
    game.play(31)
    document = one(game)
    second = document["instances"][1]
    assert document["restart_outstanding"] == "web-2"
    assert document["lease"] == {"role": "holder", "held": True, "holder": "one"}
    assert (second["restarts"], second["health"], second["cooldown_seconds"]) == (1, "unknown", 280.0)
    assert second["last_restart"]["outcome"] == "done"
    assert document["counts"] == {"unknown": 1, "healthy": 1, "unhealthy": 0}


def test_a_stateful_module_has_no_restart(game: Game) -> None:
    """AR-1.1, AR-7.2: of an instance that is never restarted no restart is announced."""
    game.play(50, FAILS)
    document = one(game, "db")
    assert (document["module_kind"], document["class"]) == ("stateful", "postgresql")
    assert document["instances"][0]["restart_due_seconds"] is None
    assert document["counts"]["unhealthy"] == 1


def test_arguments_are_not_shown(tmp_path: Path) -> None:
    """AR-7.2: of a command the program is shown, and no argument, which may be a password."""
    readiness = replace(WEB.readiness, command=("/bin/check", "--password", "secret"))  # type: ignore[type-var]
    game = Game(tmp_path, declaration(replace(WEB, readiness=readiness)))
    game.play(10)
    assert "secret" not in json.dumps(listed(game))


def test_old_evidence_is_shown_as_unknown(game: Game) -> None:
    """AR-1.3, AR-4.3: a supervisor that stands still does not keep an instance healthy."""
    game.play(30)
    assert one(game)["counts"]["healthy"] == 2
    game.clock.move(60)
    document = one(game)
    assert document["counts"] == {"unknown": 2, "healthy": 0, "unhealthy": 0}
    assert document["instances"][0]["progress"] is None


def test_an_unknown_name_has_no_document(game: Game) -> None:
    """AR-7.2: a module that is not declared has none."""
    assert module_document(game.supervisor.snapshot(), "other", game.clock.stamp()) is None


def test_standby_names_the_holder(tmp_path: Path) -> None:
    """AR-6.4, AR-7.2: on standby no instance is shown, and who holds the lease is."""
    clock = ManualClock()
    table = LeaseTable(clock)
    table.acquire("other", 100)
    game = Game(tmp_path, DECLARED, clock=clock, lease=Keeper(table))
    game.make_pass()
    assert listed(game)["lease"] == {"role": "standby", "held": False, "holder": "other"}
    assert one(game)["instances"] == []
    assert samples(game)["idkmesh_lease_held", ()] == 0


def test_an_unreachable_platform_is_told_everywhere(game: Game) -> None:
    """AR-7.2, AR-7.4, CT-5.8: list, counts, status, metrics: unknown from the first pass, with the platform's fault."""
    game.platform.silent = DriverError("no socket")
    game.make_pass()
    document = listed(game)
    assert document["platforms"] == [{"name": "sim", "fault": "no socket"}]
    assert [item["counts"]["unknown"] for item in document["items"]] == [2, 1]
    reason = "platform sim tells nothing of its instances: no socket"
    assert {item["reason"] for item in document["items"]} == {reason}
    (first, _) = one(game)["instances"]
    assert (first["state"], first["owned"], first["health"]) == (None, None, "unknown")
    short = short_document(game.supervisor.snapshot(), game.clock.stamp(), None)
    assert short["instances"] == {"unknown": 3, "healthy": 0, "unhealthy": 0}
    assert short["platforms"] == document["platforms"]
    found = samples(game)
    assert math.isnan(found["idkmesh_instance_healthy", ("web", "web-1")])
    assert found["idkmesh_platform_reachable", ("sim",)] == 0
    game.platform.silent = None
    game.play(5)
    assert samples(game)["idkmesh_platform_reachable", ("sim",)] == 1
    assert {item["reason"] for item in listed(game)["items"]} == {None}


def samples(game: Game) -> dict[tuple[str, tuple[str, ...]], float]:
    text = exposition(game.supervisor.snapshot(), game.clock.boot).decode()
    families = text_string_to_metric_families(text)
    order = ("module", "instance", "check", "outcome", "platform", "le")
    return {
        (each.name, tuple(each.labels[name] for name in order if name in each.labels)): each.value
        for family in families
        for each in family.samples
    }


def test_metrics(game: Game) -> None:
    """AR-7.4: healthy is 1, unhealthy 0, unknown no number; checks, restarts, the lease and passes are counted."""
    game.platform["web/web-2"].run = FAILS
    game.platform["db/db-1"].run = COULD_NOT
    game.play(50)
    found = samples(game)
    assert found["idkmesh_instance_healthy", ("web", "web-1")] == 1
    assert found["idkmesh_instance_healthy", ("web", "web-2")] == 0
    assert math.isnan(found["idkmesh_instance_healthy", ("db", "db-1")])
    assert found["idkmesh_check_outcomes_total", ("web", "command", "passes")] == 10
    assert found["idkmesh_check_outcomes_total", ("web", "command", "fails")] == 10
    assert found["idkmesh_check_outcomes_total", ("web", "port", "nothing")] == 20
    assert found["idkmesh_check_outcomes_total", ("db", "command", "nothing")] == 10
    assert found["idkmesh_check_seconds_count", ("web", "command")] == 20
    assert ("idkmesh_check_seconds_count", ("db", "command")) not in found
    assert found["idkmesh_lease_held", ()] == 1
    assert found["idkmesh_pass_seconds_count", ()] == 10
    game.play(40)
    assert samples(game)["idkmesh_instance_restarts_total", ("web", "web-2")] == 1


def test_metrics_of_a_module_that_is_gone(game: Game) -> None:
    """AR-7.4: a module that is no longer declared has no figures."""
    game.play(10)
    game.supervisor.reload(declaration(WEB))
    game.play(5)
    assert not [name for name, labels in samples(game) if "db" in labels]


READ_AGAIN, FROM_NEXT = "the declaration of modules was read again", "it counts from the next pass"
ENDS_WITH = "declare one that ends with all that it starts"
KEY = Key("web", "web-1")
HEALTHY = HealthChange(Health.UNKNOWN, Health.HEALTHY, "why")
UNHEALTHY = HealthChange(Health.HEALTHY, Health.UNHEALTHY, "port check failing")


@pytest.mark.parametrize(
    ("change", "line", "level"),
    [
        (changes.health_change(KEY, UNHEALTHY), "instance web/web-1 is unhealthy: port check failing", logging.WARNING),
        (
            changes.health_change(KEY, HealthChange(Health.UNHEALTHY, Health.HEALTHY, "why")),
            "instance web/web-1 is healthy again",
            logging.INFO,
        ),
        (
            changes.check_trouble(changes.COULD_NOT_RUN, KEY, "readiness command", "no daemon"),
            "readiness command of web/web-1 says nothing: no daemon; this is told once until it can",
            logging.WARNING,
        ),
        (
            changes.check_trouble(changes.MISDECLARED, KEY, "readiness command", "x"),
            "the readiness command of web/web-1 is misdeclared, it says nothing: x; " + ENDS_WITH,
            logging.WARNING,
        ),
        (
            changes.driver_trouble("lxd", "no daemon"),
            "platform lxd tells nothing of its instances: no daemon; this is told once until it can",
            logging.WARNING,
        ),
        (
            changes.restart_change(changes.RESTART_REQUESTED, KEY, detail="why", unhealthy_seconds=60.04),
            "instance web/web-1 is to be restarted: why, unhealthy for 60 s",
            logging.WARNING,
        ),
        (
            changes.restart_change(changes.RESTARTED, KEY, detail="why", unhealthy_seconds=60),
            "instance web/web-1 was restarted",
            logging.WARNING,
        ),
        (
            changes.restart_change(changes.RESTART_FAILED, KEY, detail="x", unhealthy_seconds=60, outcome="why"),
            "instance web/web-1 was not restarted: why",
            logging.ERROR,
        ),
        (
            Change(
                changes.MODULES_RELOADED,
                None,
                {"kept": 1, "changed": 2, "added": 3, "removed": 4, "platforms": ["lxd"]},
            ),
            f"{READ_AGAIN}: 1 kept, 2 changed, 3 added, 4 removed; platform lxd has changed; {FROM_NEXT}",
            logging.INFO,
        ),
    ],
)
def test_lines(change: Change, line: str, level: int) -> None:
    """AR-7.3, AR-1.2: what an operator wants to know stands in the log, one line each."""
    assert line_of(change) == (line, level)


def test_no_line_for_each_start() -> None:
    """AR-7.3: what becomes healthy for the first time is an event and no line; what becomes unknown is neither."""
    first = changes.health_change(KEY, HEALTHY)
    assert first is not None
    assert line_of(first) is None
    assert changes.health_change(KEY, HealthChange(Health.HEALTHY, Health.UNKNOWN, "")) is None


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        ((PASSES, PASSES), 0),
        ((PASSES, FAILS), 1),
        ((COULD_NOT, FAILS), 1),
        ((PASSES, COULD_NOT), 3),
        ((COULD_NOT, COULD_NOT), 3),
    ],
)
def test_one_look(runs: tuple[Any, Any], code: int) -> None:
    """AR-7.1: one pass that acts on nothing, and what it comes to: 0 all pass, 1 one fails, 3 one says nothing."""
    clock = ManualClock()
    declared = declaration(module(instances=("web-1", "web-2")))
    platform = Platform(clock, {"web": ["web-1", "web-2"]})
    platform["web/web-1"].run, platform["web/web-2"].run = runs
    snapshot, found = look_once(declared, {"sim": platform}, uid=65534, stamp=clock.stamp)
    assert found == code
    assert (snapshot.role, len(snapshot.records), platform.restarts) == (Role.OBSERVER, 2, [])
    check(module_list_document(snapshot, clock.stamp()), "module-list")


def test_one_look_at_nobody() -> None:
    """AR-7.1: a module of which nobody is seen says nothing, and so does one whose platform is not there."""
    clock = ManualClock()
    assert look_once(declaration(module()), {"sim": Platform(clock, {})}, uid=1, stamp=clock.stamp)[1] == 3
    assert look_once(declaration(module()), {}, uid=1, stamp=clock.stamp)[1] == 3
