"""Each rule on a probe matrix, by its values; and manifests beside one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from idkmesh.health.model import Command, Dns, Grpc, Http, Tcp
from idkmesh.inspection.findings import Place
from idkmesh.inspection.inspect import inspect_text
from idkmesh.inspection.rules_matrix import MATRIX_CHECKS, Placed, known_stores, lacking_store, probe_commands
from tests.inspection.support import base_matrix, ids, inspected, whole

MATRIX = base_matrix()
ROW = MATRIX.dependencies[0]


def met(rule_id: str, **row: Any) -> list[Place]:
    """Return where a rule is met by the one dependency of a matrix."""
    matrix = dataclasses.replace(MATRIX, dependencies=(dataclasses.replace(ROW, **row),))
    placed = Placed(matrix, {("dependencies",): Place(7, 1), ("dependencies", 0): Place(8, 3)})
    (check,) = (check for rule, check in MATRIX_CHECKS if rule.id == rule_id)
    return [each.place for each in check(placed)]


@pytest.mark.parametrize(
    ("rule_id", "row"),
    [
        ("PB402", {"critical": False, "failure_threshold": 7, "interval_ms": 10_000}),
        ("PB406", {"interval_ms": 6000}),
        ("PB409", {"success_threshold": 1}),
        ("PB413", {}),
        ("PB413", {"probe": Tcp(host="cache", port=6379)}),
    ],
)
def test_met(rule_id: str, row: dict[str, Any]) -> None:
    """HL-7.3: the rule is met once, at the nearest place that is known."""
    assert met(rule_id, **row) == [Place(8, 3)]


@pytest.mark.parametrize(
    ("rule_id", "row"),
    [
        ("PB402", {"critical": False, "failure_threshold": 6, "interval_ms": 10_000}),
        ("PB402", {"critical": False, "interval_ms": 90_000}),
        ("PB404", {}),
        ("PB405", {}),
        ("PB406", {"interval_ms": 5500}),
        ("PB406", {"interval_ms": 60_000, "critical": False}),
        ("PB407", {}),
        ("PB408", {}),
        ("PB409", {"success_threshold": 1, "interval_ms": 5000}),
        ("PB413", {"critical": False}),
        ("PB413", {"probe": Tcp(host="orders", port=8080)}),
        ("PB413", {"probe": Command(argv=("pg_isready",))}),
    ],
)
def test_near_miss(rule_id: str, row: dict[str, Any]) -> None:
    """Rule: what does what it seems to is no finding."""
    assert met(rule_id, **row) == []


@pytest.mark.parametrize(("critical", "count", "met"), [(False, 12, False), (False, 13, True), (True, 13, False)])
def test_places_of_noncritical_probes(critical: bool, count: int, met: bool) -> None:
    """PB404, HL-4.4: noncritical probes have 12 of 16 places."""
    row = dataclasses.replace(ROW, critical=critical, timeout_ms=900, interval_ms=900)
    rows = tuple(dataclasses.replace(row, name=f"a{number}") for number in range(count))
    (check,) = (check for rule, check in MATRIX_CHECKS if rule.id == "PB404")
    assert bool(list(check(Placed(dataclasses.replace(MATRIX, dependencies=rows), {})))) is met


def test_place_is_the_nearest_that_is_known() -> None:
    """Rule: a key that is left out is told of where it would stand, else at the beginning of the file."""
    placed = Placed(MATRIX, {("watchdog",): Place(3, 1)})
    assert placed.where("watchdog", "interval_ms") == Place(3, 1)
    assert placed.where("orchestrator") == Place(1, 1)


@pytest.mark.usefixtures("loader")
def test_a_refused_matrix_is_told_with_the_loaders_place_and_mend() -> None:
    """HL-7.1: what the loader refuses is an error each."""
    row = "{name: a, critical: true, probe: {dns: {name: a}}, timeout_ms: 1500, interval_ms: 2000, cache_ms: 5000}"
    (finding,) = inspect_text(whole("matrix", f"dependencies: [{row}]\n"), "probe-matrix.yaml")
    assert (finding.rule.id, finding.place, finding.object) == ("PB401", Place(3, 5), "matrix")
    assert (finding.reason, finding.mend) == ("timeout_ms 1500 is not below 1000.", "Lower it.")


@pytest.mark.usefixtures("loader")
def test_places_come_from_the_file() -> None:
    """Rule: a finding on a value stands at its key."""
    findings, place = inspected(
        "matrix", "watchdog:\n  interval_ms: 10000\n  max_missed_ticks: 5\n".replace("watchdog", "§watchdog")
    )
    assert [each.place for each in findings if each.rule.id == "PB405"] == [place]


@pytest.mark.usefixtures("loader")
def test_commands_of_the_matrix_are_judged() -> None:
    """HL-7.1: the rules on commands hold for those of the matrix."""
    row = (
        "{name: m, critical: false, probe: {command: {argv: [alembic, "
        "upgrade]}}, timeout_ms: 500, interval_ms: 5000, cache_ms: 9000}"
    )
    findings, _ = inspected("matrix", f"dependencies: [{row}]\n")
    assert [(each.rule.id, each.object) for each in findings] == [("PB301", "matrix, dependency m")]
    matrix = dataclasses.replace(MATRIX, dependencies=(dataclasses.replace(ROW, probe=Command(argv=("a",))),))
    assert [name for name, _ in probe_commands(Placed(matrix, {}))] == ["orders-db"]


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (Tcp(host="Redis-0.redis.svc", port=1), {"redis-0", "redis-0.redis.svc"}),
        (Http(url="http://minio:9000/live"), {"minio"}),
        (Dns(name="kafka.example"), {"kafka"}),
        (Grpc(target="ledger:50051"), {"ledger"}),
        (Command(argv=("redis-cli", "ping")), {"redis"}),
    ],
)
def test_known_stores(probe: Any, words: set[str]) -> None:
    """Rule: the matrix knows a store by its name, its host or its client."""
    matrix = dataclasses.replace(MATRIX, dependencies=(dataclasses.replace(ROW, probe=probe),))
    assert words | {"orders-db"} <= known_stores(matrix)


@pytest.mark.parametrize(
    ("text", "store"),
    [
        ("REDIS_ADDR sessions:6379", "Redis"),
        ("postgres://u@orders-db:5432/x", None),
        ("postgres://u@ledger:5432/x", "PostgreSQL"),
        ("CART_SERVICE_ADDR cartservice:7070", None),
    ],
)
def test_lacking_store(text: str, store: str | None) -> None:
    """PB410: a store that the matrix has by host or by kind is not lacking."""
    assert lacking_store(text.replace(" ", "/"), known_stores(MATRIX)) == store
    assert lacking_store(text, known_stores(MATRIX) | {"redis", "postgres"}) is None


@pytest.mark.parametrize("name", ["DATABASE_URL", "ORDERS_DB_HOST"])
def test_a_database_whose_address_is_a_secret(name: str) -> None:
    """PB410: the variable's name says that there is one; any database of the matrix may be it."""
    text = f"/{name}/"
    assert lacking_store(text, frozenset({"cache", "redis"})) == "a database"
    assert lacking_store(text, frozenset({"orders-db"})) is None
    assert lacking_store(text, frozenset({"postgres"})) is None
    assert lacking_store(f"ledger:5432/{name}/ledger:5432", frozenset({"ledger"})) is None
    assert lacking_store("/DB_NAME/orders", frozenset({"redis"})) is None


def test_compose_services_beside_a_matrix() -> None:
    """HL-7.4: PB410, the environment, and a store that is waited for; a store itself needs no matrix."""
    text = (
        "a: {environment: {CACHE: 'redis://cache/0'}, depends_on: [queue, orders-db]}\n"
        "queue: {image: 'rabbitmq:4'}\n"
        "orders-db: {image: 'postgres:17', environment: {MYSQL_HOST: x}}\n"
    )
    findings, _ = inspected("services", text, MATRIX)
    assert [(each.object, each.reason) for each in findings if each.rule.id == "PB410"] == [
        ("service a", "CACHE speaks of Redis."),
        ("service a", "rabbitmq:4 speaks of RabbitMQ."),
    ]


def test_figures_are_compared_for_our_paths_alone() -> None:
    """HL-7.4: PB411, a probe of another path is another program's."""
    probe = "readinessProbe: {httpGet: {path: /%s, port: 8080}, failureThreshold: 2}\n"
    findings, _ = inspected("container", probe % "readyz", MATRIX)
    assert [each.reason for each in findings if each.rule.id == "PB411"] == [
        "periodSeconds is 10000 ms here, 3000 ms in the matrix."
    ]
    assert "PB411" not in ids(inspected("container", probe % "ready", MATRIX)[0])
    assert "PB411" not in ids(inspected("container", probe % "livez", MATRIX)[0])


def test_startup_is_long_enough_for_a_first_round_that_hangs() -> None:
    """HL-1.3, HL-4.4: critical probes have 16 places, noncritical ones 12; at the bound there is no finding."""
    startup = MATRIX.orchestrator.startup
    budget = startup.period_ms * startup.failure_threshold
    rows = budget // 1000 - 1  # each takes 1 s; the last may begin when all others have ended
    for critical, places in ((True, 16), (False, 12)):
        for more, found in ((0, 0), (1, 1)):
            row = dataclasses.replace(ROW, critical=critical, timeout_ms=1000)
            matrix = dataclasses.replace(MATRIX, dependencies=(row,) * (rows * places + more))
            (check,) = (check for rule, check in MATRIX_CHECKS if rule.id == "PB412")
            assert len(list(check(Placed(matrix, {})))) == found
