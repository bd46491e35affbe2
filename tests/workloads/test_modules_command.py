"""``idkmesh modules check``: what it prints and returns."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from idkmesh import console
from idkmesh.cli import main
from idkmesh.control_tower import assets
from idkmesh.workloads.declaration import load_declaration
from tests.workloads.declarations import BASE, EXAMPLE, HEAD, findings, with_command

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = BASE.replace("port: 80", "port: 0") + "supervisor: {interval_s: 0}\n"


COUNTED = "3 named instances, 1 selector, 1 process, 4 commands, 2 classes"


def check(document: Any) -> None:
    """Hold a document against its published schema."""
    schemas = [assets.schema(name) for name in ("modules-check.json", "readiness.json")]
    registry: Any = Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in schemas)
    jsonschema.Draft202012Validator(schemas[0], registry=registry).validate(document)


def test_a_right_file(capsys: pytest.CaptureFixture[str]) -> None:
    """AR-2.7: a line for each module with its class applied, then ok and how much there is of what, and 0."""
    assert main(["modules", "check", str(EXAMPLE)]) == 0
    out, errors = capsys.readouterr()
    assert errors == ""
    asked = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["modules"][3]["readiness"]["command"]
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "NAME KIND DRIVER INSTANCES PORT CLASS LIMIT COMMAND",
        "web stateless lxd 2 8080 - 3 s /usr/local/bin/check --fast",
        "db stateful lxd 1 - postgres 5 s /usr/bin/pg_isready -q",
        "cache singleton lxd selected 6380 redis 5 s redis-cli -e -p 6380 ping",
        f"docs stateless process 1 8089 - 5 s {shlex.join(asked)}",
        f"{EXAMPLE}: ok, 4 modules (2 stateless, 1 stateful, 1 singleton), {COUNTED}",
    ]


def test_a_right_file_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """AR-2.7: a document with a published schema."""
    assert main(["modules", "check", "--json", str(EXAMPLE)]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert (document["ok"], document["findings"]) == (True, [])
    assert document["counts"] == {
        "modules": 4,
        "instances": 3,
        "selectors": 1,
        "processes": 1,
        "commands": 4,
        "classes": 2,
    }
    assert [module["name"] for module in document["modules"]] == ["web", "db", "cache", "docs"]
    assert document["modules"][1]["readiness"] == {"command": ["/usr/bin/pg_isready", "-q"], "timeoutSecs": 5}


def test_an_empty_declaration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AR-2.7: no modules are told as such, without a table; a module without a command has none."""
    file = tmp_path / "m.yaml"
    file.write_text(HEAD.replace("modules:", "modules: []"), encoding="utf-8")
    assert main(["modules", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok, 0 modules, 0 named instances, 0 commands\n"
    file.write_text(BASE, encoding="utf-8")
    assert main(["modules", "check", str(file)]) == 0
    assert " ".join(capsys.readouterr().out.splitlines()[1].split()) == "web stateless lxd 1 80 - - -"
    assert main(["modules", "check", "--json", str(file)]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["modules"][0]["readiness"] is None


def test_a_wrong_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AR-2.7: every finding, a line each on standard error, nothing on standard output, and 2."""
    file = tmp_path / "m.yaml"
    file.write_text(BROKEN, encoding="utf-8")
    assert main(["modules", "check", str(file)]) == console.EXIT_USAGE
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.splitlines() == [str(finding).replace("m.yaml", str(file)) for finding in findings(BROKEN)]
    assert len(errors.splitlines()) == 2


def test_a_wrong_file_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AR-2.7: the same as a document: place, module, field, rule, what and mend of each."""
    file = tmp_path / "m.yaml"
    file.write_text(BROKEN, encoding="utf-8")
    assert main(["modules", "check", "--json", str(file)]) == console.EXIT_USAGE
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert (document["ok"], document["modules"], document["counts"]["modules"]) == (False, [], 0)
    first, second = document["findings"]
    assert (first["line"], first["module"], first["field"], first["rule"]) == (5, "web", "port", "out-of-range")
    assert (second["line"], second["module"], second["field"]) == (6, None, "supervisor.interval_s")


@pytest.mark.parametrize("arguments", [["modules"], ["modules", "check"], ["modules", "check", "none.yaml"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """AR-2.7: one line and 2, for a file that is not there too."""
    assert main(arguments) == console.EXIT_USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_does_not_print_is_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AR-2.7: an argument sends the terminal nothing and turns no text round."""
    file = tmp_path / "m.yaml"
    text = with_command('[check, "\\u202Ea", "a b"]')
    assert load_declaration(text, "m.yaml").modules
    file.write_text(text, encoding="utf-8")
    assert main(["modules", "check", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert "check '\\u202ea' 'a b'" in out
