"""Findings as text, as a document and as SARIF."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from idkmesh.control_tower import assets
from idkmesh.inspection.catalogue import RULES
from idkmesh.inspection.findings import Finding, Place
from idkmesh.inspection.report_json import json_report
from idkmesh.inspection.report_sarif import sarif_report
from idkmesh.inspection.report_text import text_report


def finding(rule_id: str = "PB103", file: str = "shop/cart.yaml", line: int = 12) -> Finding:
    return Finding(
        rule=RULES[rule_id],
        file=file,
        place=Place(line, 9),
        object="Deployment/cart, container server",
        reason="/health/db names db.",
        mend="Ask in readiness.",
    )


def test_text() -> None:
    """HL-7.5: by file and object, with line and column; the last line counts."""
    findings = [finding(), finding("PB303", line=20), finding("PB101", file="b.yaml")]
    assert list(text_report(findings, 3)) == [
        "shop/cart.yaml",
        "  Deployment/cart, container server",
        "    12:9 error PB103: Liveness names a dependency or readiness. /health/db names db.",
        "      Ask in readiness.",
        "    20:9 note PB303: A shell that is not needed. /health/db names db.",
        "      Ask in readiness.",
        "",
        "b.yaml",
        "  Deployment/cart, container server",
        "    12:9 warning PB101: Liveness asks the same as readiness. /health/db names db.",
        "      Ask in readiness.",
        "",
        "What a rule is about, for example: idkmesh inspect --explain PB103, or docs/reference/inspection.md",
        "3 findings in 3 files: 1 error, 1 warning, 1 note",
    ]
    assert list(text_report([], 1)) == ["0 findings in 1 file: 0 errors, 0 warnings, 0 notes"]


@pytest.mark.parametrize("findings", [[], [finding()], [finding(rule_id) for rule_id in RULES]])
def test_document(findings: list[Finding]) -> None:
    """HL-7.5: the document is what its published schema says, and has nothing besides."""
    document = json_report(findings, ["shop/cart.yaml", "other.yaml"])
    schema = assets.schema("inspection.json")
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document.keys() == schema["properties"].keys()
    assert [each.keys() for each in document["findings"]] == [
        schema["properties"]["findings"]["items"]["properties"].keys()
    ] * len(findings)
    assert sum(document["counts"].values()) == len(findings)


TEXT = {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}, "required": ["text"]}
ARTIFACT = {"type": "object", "properties": {"uri": {"type": "string", "pattern": "^[^ ]+$"}}, "required": ["uri"]}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
SARIF: dict[str, Any] = {
    "type": "object",
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "tool": {
                        "properties": {
                            "driver": {
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "uniqueItems": True,
                                        "items": {
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": TEXT,
                                                "fullDescription": TEXT,
                                                "help": TEXT,
                                                "defaultConfiguration": {"properties": {"level": LEVEL}},
                                            },
                                            "required": ["id"],
                                            "additionalProperties": False,
                                        },
                                    },
                                },
                                "required": ["name"],
                            }
                        },
                        "required": ["driver"],
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "artifacts": {"items": {"properties": {"location": ARTIFACT}}, "uniqueItems": True},
                    "results": {
                        "type": "array",
                        "items": {
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": LEVEL,
                                "message": TEXT,
                                "locations": {
                                    "items": {
                                        "properties": {
                                            "physicalLocation": {
                                                "properties": {
                                                    "artifactLocation": ARTIFACT,
                                                    "region": {
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                        },
                                                        "required": ["startLine"],
                                                    },
                                                }
                                            },
                                            "logicalLocations": {"type": "array"},
                                        },
                                        "additionalProperties": False,
                                    }
                                },
                            },
                            "required": ["message"],
                            "additionalProperties": False,
                        },
                    },
                },
                "required": ["tool"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["version", "runs"],
}
"""What SARIF 2.1.0 (OASIS) says of the parts that are used: sections 3.13, 3.14, 3.19, 3.27, 3.30 and 3.49."""


@pytest.mark.parametrize("findings", [[], [finding()], [finding(rule_id) for rule_id in RULES]])
def test_sarif(findings: list[Finding]) -> None:
    """HL-7.5: SARIF 2.1.0; a result's index leads to its rule."""
    log = json.loads(json.dumps(sarif_report(findings, ["shop/cart.yaml"], "9.9")))
    jsonschema.Draft202012Validator(SARIF).validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(RULES)
    assert all(f"inspection.md#{rule['id'].lower()}" in rule["help"]["text"] for rule in rules)
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [each.rule.id for each in findings]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a b/c#.yaml", "a%20b/c%23.yaml"),
        ("/etc/x.yaml", "file:///etc/x.yaml"),
        ("standard input", "standard%20input"),
        ("c:d.yaml", "c%3Ad.yaml"),
    ],
)
def test_sarif_names_files_by_uri(file: str, uri: str) -> None:
    """Rule: a file's name is a URI reference (SARIF section 3.4, RFC 3986)."""
    (result,) = sarif_report([finding(file=file)], [file], "9.9")["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
