"""Findings for code scanning: SARIF 2.1.0 (OASIS), one run with the table of rules."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from idkmesh.inspection.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.inspection.findings import Finding, Rule

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_NUMBERS: Final = {rule_id: number for number, rule_id in enumerate(RULES)}


def sarif_report(findings: Sequence[Finding], files: Sequence[str], version: str) -> dict[str, Any]:
    """Return the log. ``version`` is that of this package; SARIF's own severities have the same three names."""
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "idkmesh inspect",
                        "version": version,
                        "rules": [_rule(r) for r in RULES.values()],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "artifacts": [{"location": {"uri": _uri(file)}} for file in files],
                "results": [_result(finding) for finding in findings],
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.mend} See {rule.anchor}, or idkmesh inspect --explain {rule.id}."},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _result(finding: Finding) -> dict[str, Any]:
    region = {"startLine": finding.place.line, "startColumn": finding.place.column}
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": _NUMBERS[finding.rule.id],
        "level": finding.severity.value,
        "message": {"text": f"{finding.object}: {finding.rule.title}. {finding.reason} {finding.mend}"},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": _uri(finding.file)}, "region": region},
                "logicalLocations": [{"fullyQualifiedName": finding.object}],
            }
        ],
    }


def _uri(file: str) -> str:
    path = PurePath(file)
    if path.is_absolute():
        return path.as_uri()
    # A colon in the first part of a relative reference would begin a scheme (RFC 3986 section 4.2).
    return quote(path.as_posix(), errors="surrogateescape")
