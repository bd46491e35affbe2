"""The alert rules, as Prometheus reads them: they parse, fire where they must, and are silent where they must be."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from idkmesh.health.metrics import Reading, exposition
from idkmesh.health.model import Outcome
from idkmesh.workloads import metrics
from tests.events.support import ROOT
from tests.health.support import Game, dependency
from tests.workloads.support import COULD_NOT, declaration, module
from tests.workloads.support import Game as Supervision

if TYPE_CHECKING:
    from pathlib import Path

RULES = ROOT / "deploy" / "prometheus" / "idkmesh.rules.yaml"
CASES = ROOT / "tests" / "health" / "alerts.yaml"
RUNBOOK = ROOT / "docs" / "ALERTS.md"
PROMTOOL = shutil.which("promtool")
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian package prometheus) is not installed")


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def cases() -> list[dict[str, Any]]:
    tests = yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]
    return [case for test in tests for case in test["alert_rule_test"]]


def promtool(*arguments: str | Path) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@with_promtool
def test_prometheus_accepts_the_rules() -> None:
    """HL-5.7: `promtool check rules` accepts the file, and finds every rule in it."""
    assert f"{len(alerts()) + 1} rules found" in promtool("check", "rules", RULES)


@with_promtool
def test_alerts_fire_where_they_must() -> None:
    """HL-5.7: liveness in an outage, churn beyond the profile, long outages, unknown verdicts, absent metrics."""
    assert "SUCCESS" in promtool("test", "rules", CASES)


@with_promtool
@pytest.mark.parametrize("name", alerts())
def test_a_case_notices_a_rule_that_is_gone(name: str, tmp_path: Path) -> None:
    """HL-5.7: the cases stand for each rule: without it they fail."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert") != name]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    text = CASES.read_text(encoding="utf-8").replace("../../deploy/prometheus/idkmesh.rules.yaml", "rules.yaml")
    (tmp_path / "cases.yaml").write_text(text)
    command = [str(PROMTOOL), "test", "rules", str(tmp_path / "cases.yaml")]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 1


@pytest.mark.parametrize("name", alerts())
def test_each_alert_is_tried_both_ways(name: str) -> None:
    """HL-5.7: there is a case in which an alert fires, and one in which it does not."""
    expected = [bool(case["exp_alerts"]) for case in cases() if case["alertname"] == name]
    assert set(expected) == {True, False}


@pytest.mark.parametrize("name", alerts())
def test_each_alert_says_what_to_do(name: str) -> None:
    """HL-5.7: a severity, a summary, a description, and a part of the runbook that is there."""
    rule = alerts()[name]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert ROOT / page == RUNBOOK
    headings = re.findall(r"^## (.+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert name in headings
    assert anchor == name.lower()


def test_the_metrics_are_there(tmp_path: Path) -> None:
    """HL-5.5, HL-5.7, AR-7.4: each name that a rule looks at is one of `/metrics`, with its labels."""
    game = Game(dependency("db"), dependency("cache", critical=False))
    game.clock.now += 1.0
    for run in game.turn():
        game.end(run, Outcome.FAILED)
    text = exposition(Reading(health=game.rounds.snapshot, now=game.clock.now, silences={"front": 0.1})).decode()
    supervision = Supervision(tmp_path, declaration(module("web")))
    supervision.platform["web/web-1"].run = COULD_NOT
    supervision.play(30)
    text += metrics.exposition(supervision.supervisor.snapshot(), supervision.clock.boot).decode()
    told = set(re.findall(r"^(idkmesh_\w+)", text, re.MULTILINE))
    named = {word for rule in alerts().values() for word in re.findall(r"\bidkmesh_\w+", rule["expr"])}
    assert named
    assert named - told == set()
    assert 'idkmesh_dependency_up{critical="true",dependency="db"} 0.0' in text
    assert 'idkmesh_dependency_up{critical="false",dependency="cache"} 0.0' in text
    assert 'idkmesh_check_outcomes_total{check="command",module="web",outcome="nothing"}' in text
    assert 'idkmesh_instance_healthy{instance="web-1",module="web"} NaN' in text
