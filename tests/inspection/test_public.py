"""What a finding shows of what somebody wrote, and that no credential is among it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from idkmesh.inspection.commands import from_argv, from_script
from idkmesh.inspection.inspect import inspect_text
from idkmesh.inspection.public import shown_path
from tests.inspection.support import inspected

if TYPE_CHECKING:
    from idkmesh.inspection.findings import Finding

SECRET = "open5esame"

COMMANDS = [
    ["curl", f"http://u:{SECRET}@db/x"],
    ["curl", f"http://u:p@{SECRET}@db/x"],
    ["curl", f"u:{SECRET}@db:80/x"],
    ["curl", f"http://db:{SECRET}"],
    ["curl", f"http://db/?token={SECRET}"],
    ["curl", f"http://db/hooks/{SECRET}"],
    ["curl", "-u", f"u:{SECRET}", "http://db/"],
    ["curl", f"-uu:{SECRET}", "http://db/"],
    ["curl", f"--user=u:{SECRET}", "http://db/"],
    ["curl", "-H", f"Authorization: Bearer {SECRET}", "http://db/"],
    ["curl", f"--data-raw={SECRET}", "http://db/"],
    ["env", f"TOKEN={SECRET}", "curl", "http://db/"],
    [f"curl http://u:{SECRET}@db/"],
    [f"PGPASSWORD={SECRET} pg_isready"],
    ["psql", f"postgres://u:{SECRET}@$DB_HOST/"],
    ["python", "-c", f"connect('pg://u:{SECRET}@db')"],
    ["sh", "-c", f"PGPASSWORD={SECRET} pg_isready -h db"],
    ["sh", "-c", f"mysql -p{SECRET} -e 'select 1' | cat"],
    ["sh", "-c", f"redis-cli --pass '{SECRET}' ping"],
    ["sh", "-c", f"curl http://u:{SECRET}@localhost/ || exit 1"],
    ["sh", "-c", f"env TOKEN={SECRET}; cat /var/a.log"],
]
PATHS = [f"/db?token={SECRET}", f"/ready?token={SECRET}", f"//u:{SECRET}@db/migrate", f"/actuator/health?t={SECRET}"]


def told(findings: list[Finding]) -> str:
    return " ".join(f"{each.object} {each.reason} {each.mend}" for each in findings).lower()


@pytest.mark.parametrize("argv", COMMANDS)
def test_no_finding_repeats_a_credential_of_a_command(argv: list[str]) -> None:
    """HL-7.3: wherever in a command a credential stands, and whichever rule is met, it is not in what is told."""
    for which in ("livenessProbe", "readinessProbe"):
        findings, _ = inspected("container", f"{which}: {{exec: {{command: {json.dumps(argv)}}}}}\n")
        assert findings
        assert SECRET not in told(findings)
    both = f"readinessProbe: &p {{exec: {{command: {json.dumps(argv)}}}}}\nlivenessProbe: *p\n"
    assert SECRET not in told(inspected("container", both)[0])
    test = json.dumps(["CMD", *argv])
    assert SECRET not in told(inspect_text(f"services: {{a: {{healthcheck: {{test: {test}}}}}}}\n", "f"))
    test = json.dumps(argv)
    assert SECRET not in told(inspect_text(f"services: {{a: {{healthcheck: {{test: {test}}}}}}}\n", "f"))


@pytest.mark.parametrize("path", PATHS)
def test_no_finding_repeats_a_credential_of_a_path(path: str) -> None:
    """HL-7.3: nor one in the query of a path, before a host in it, or in the host itself."""
    probe = f'{{httpGet: {{path: "{path}", port: 80, host: "u:{SECRET}@db"}}}}'
    findings, _ = inspected("container", f"readinessProbe: {probe}\nlivenessProbe: {probe}\n")
    assert findings
    assert SECRET not in told(findings)


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("curl -fsS http://localhost:80/livez || exit 1", "curl -f... http://localhost:80/... || exit ..."),
        ("A=1 /bin/a -h b --x=c d e | grep -q f", "A=... /bin/a -h ... --x=... ... | grep -q ..."),
        ("curl http://u:p@[::1]:80/", "curl http://[::1]:80/"),
        ("curl http://a:b", "curl http://a/..."),
        ("a 'unended", "a ..."),
    ],
)
def test_a_command_is_shown_without_its_values(script: str, shown: str) -> None:
    """HL-7.3: what was seen is shown as far as it is no value: programs, options, variables, hosts."""
    assert from_script(script).text == shown
    assert from_argv(["sh", "-c", script]).text == shown


def test_a_path_is_shown_without_its_query() -> None:
    """HL-7.3: a path as it stands, but for what may be a credential."""
    assert [shown_path(path) for path in ("/a/b", "/a?b=c", "//u:p@h/x")] == ["/a/b", "/a?...", "...@h/x"]


def test_what_looks_at_the_status_is_found_at_the_end_of_a_long_command() -> None:
    """PB302: the whole command is looked at, not what is shown of it."""
    argv = ["curl", "-s", "-o", "/dev/null", "http://localhost/" + "a" * 100, "-w", "%{http_code}"]
    findings, _ = inspected("container", f"readinessProbe: {{exec: {{command: {json.dumps(argv)}}}}}\n")
    assert "PB302" not in {finding.rule.id for finding in findings}
