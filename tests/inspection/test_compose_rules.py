"""Each rule on Compose files: what meets it, and where; and what comes near and does not."""

from __future__ import annotations

import pytest

from tests.inspection.support import ids, inspected

DB = "db: {image: 'postgres:17', healthcheck: {test: [CMD, pg_isready]}}\n"

MET = [
    ("PB201", (
        "a: {image: a, depends_on: {db: {condition: service_healthy}}}\n"
        "db: {image: 'redis:7'}\n"
    ), "§db: {condition"),
    (
        "PB201",
        (
            "a: {image: a, depends_on: {db: {condition: service_healthy}}}\n"
            "db: {build: db, healthcheck: {disable: true}}\n"
        ),
        "§db: {condition",
    ),
    (
        "PB202",
        (
            "a: {image: a, depends_on: {db: {condition: service_healthy}}}\n"
            "db: {image: 'me/db:1', healthcheck: {interval: 5s}}\n"
        ),
        "§db: {condition",
    ),
    ("PB203", "a: {image: a, depends_on: [b]}\nb: {image: b, healthcheck: {test: [CMD, /b]}}\n", "§b]"),
    ("PB203", "a: {image: a, depends_on: {b: {restart: true}}}\nb: {image: 'jenkins/jenkins:lts'}\n", "§b: {restart"),
    ("PB204", "a: {image: a, depends_on: [b]}\nb: {image: b}\n", "§b: {image"),
    ("PB205", "a: {image: a, healthcheck: {test: NONE}}\n", "§healthcheck"),
    ("PB205", "a: {image: a, healthcheck: {test: [NONE]}}\n", "§healthcheck"),
    (
        "PB206",
        (
            "a: {environment: [SPRING_PROFILES_ACTIVE=x], healthcheck: {test: "
            "[CMD, /a], interval: 5s, start_period: 30s}}\n"
        ),
        "§start_period",
    ),
    ("PB207", "a: {image: a, healthcheck: {test: [CMD, /a], interval: 29s}}\n", "§interval"),
    ("PB207", "a: {image: a, healthcheck: {test: [CMD, /a], timeout: 1m0.5s}}\n", "§timeout"),
    (
        "PB208",
        ("a: {labels: {autoheal: 'true'}, healthcheck: {test: [CMD, /a]}}\n"
         "b: {depends_on: {a: {condition: service_healthy}}}\n"),
        "§test",
    ),
    ("PB209", "a: {image: a, healthcheck: {test: [CMD]}}\n", "§test"),
    ("PB209", "a: {image: a, healthcheck: {test: []}}\n", "§test"),
    ("PB210", "a: {image: a, healthcheck: {test: [CMD, /a], start-period: 5s}}\n", "§start-period"),
    ("PB211", "a: {image: a, healthcheck: {test: [CMD, /a], interval: '10'}}\n", "§interval"),
    ("PB212", "a: {image: a, command: [a, --graceful-timeout, '11']}\n", "§command"),
    ("PB212", "a: {environment: {IDKMESH_DRAIN_TIMEOUT: 20}, stop_grace_period: 15s}\n", "§IDKMESH"),
    ("PB309", "a: {image: a, healthcheck: {test: [CMD, pg_isready, -U, $$POSTGRES_USER]}}\n", "§test"),
    ("PB310", "a: {image: a, healthcheck: {test: [CMD, 'curl -f localhost']}}\n", "§test"),
]  # fmt: skip

NEAR = [
    ("PB201", "a: {depends_on: {db: {condition: service_healthy}}}\n" + DB),
    ("PB201", "a: {depends_on: {db: {condition: service_healthy}}}\ndb: {build: .}\n"),
    ("PB201", "a: {depends_on: {elsewhere: {condition: service_healthy}}}\n"),
    ("PB202", "a: {depends_on: {db: {condition: service_healthy}}}\ndb: {image: 'redis:7'}\n"),
    ("PB203", "a: {depends_on: {db: {condition: service_healthy}}}\n" + DB),
    ("PB203", "a: {depends_on: {job: {condition: service_completed_successfully}}}\njob: {image: 'postgres:17'}\n"),
    ("PB203", "a: {depends_on: [b]}\nb: {build: b}\n"),
    ("PB204", "a: {depends_on: {b: {condition: service_completed_successfully}}}\nb: {image: b}\n"),
    ("PB204", "a: {image: a}\n"),
    ("PB205", "a: {healthcheck: {disable: false, test: [CMD, /a]}}\n"),
    ("PB206", "a: {image: 'elasticsearch:8', healthcheck: {test: [CMD, /a], start_period: 1m}}\n"),
    ("PB206", "a: {image: 'elasticsearch:8', healthcheck: {interval: 1s}}\n"),
    ("PB206", "a: {image: 'elasticsearch:8', healthcheck: {test: NONE, interval: 1s}}\n"),
    ("PB207", "a: {healthcheck: {test: [CMD, /a], interval: 10s, timeout: 10s}}\n"),
    ("PB207", "a: {healthcheck: {test: [CMD, /a], interval: soon, timeout: ${T}}}\n"),
    ("PB208", "a: {labels: [autoheal=true], healthcheck: {test: [CMD, /a, --alive]}}\n"),
    ("PB208", "a: {labels: [autoheal=false], healthcheck: {test: [CMD, pg_isready, -h, db]}}\n"),
    ("PB209", "a: {healthcheck: {test: /a}}\n"),
    ("PB210", "a: {healthcheck: {test: /a, start_interval: 1s, x-why: y}}\n"),
    ("PB211", "a: {healthcheck: {test: /a, interval: 10s, start_period: 0, timeout: $T}}\n"),
    ("PB212", "a: {image: a, command: [a, --graceful-timeout, '10']}\n"),
    ("PB212", "a: {image: a, command: a --graceful-timeout 30, stop_grace_period: 31s}\n"),
    ("PB309", "a: {healthcheck: {test: [CMD, pg_isready, -U, $POSTGRES_USER]}}\n"),
    ("PB309", "a: {healthcheck: {test: [CMD-SHELL, 'curl -f localhost || exit 1']}}\n"),
    ("PB209", "a: {healthcheck: {interval: 5s}}\n"),
]  # fmt: skip


@pytest.mark.parametrize(("rule_id", "text", "place"), MET)
def test_met(rule_id: str, text: str, place: str) -> None:
    """HL-7.3: the rule is met once, where that text stands first."""
    findings, expected = inspected("services", text.replace(place[1:], place, 1))
    assert [finding.place for finding in findings if finding.rule.id == rule_id] == [expected]


@pytest.mark.parametrize(("rule_id", "text"), NEAR)
def test_near_miss(rule_id: str, text: str) -> None:
    """HL-7.2: what is right, or cannot be told, is no finding."""
    assert rule_id not in ids(inspected("services", text)[0])


def test_merged_and_aliased_parts() -> None:
    """Rule: YAML's merge keys are what Compose files are full of; what is merged counts, an own key wins."""
    text = (
        "x-check: &check {healthcheck: {disable: true}}\n"
        "services:\n"
        "  a:\n    <<: *check\n    image: a\n"
        "  b:\n    <<: [*check]\n    healthcheck: {test: [CMD, /b]}\n"
        "  c:\n    healthcheck: {test: [CMD, /c]}\n    <<: *check\n"
    )
    findings, _ = inspected("file", text)
    assert [(each.rule.id, each.object, each.place.line) for each in findings] == [("PB205", "service a", 1)]


def test_dollar_is_doubled_in_compose() -> None:
    """PB305: `$$` is a variable of the container's shell, no credential."""
    text = (
        "a: {image: 'mariadb:11', healthcheck: {test: 'mariadb-admin ping "
        "-p$$MARIADB_ROOT_PASSWORD', start_period: 1m}}\n"
    )
    assert "PB305" not in ids(inspected("services", text)[0])
