"""Findings for programs: a document of the kind ``idkmesh-inspection``, published as ``inspection.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from idkmesh.inspection.report_text import counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.inspection.findings import Finding


def json_report(findings: Sequence[Finding], files: Sequence[str], most: int | None = None) -> dict[str, Any]:
    """Return the document. ``files`` are the names of all that were inspected, those without a finding too.

    With ``most`` it has no more findings than that; ``counts`` has them all, ``omitted`` says how many are left out.
    """
    told = findings if most is None else findings[:most]
    return {
        "kind": "idkmesh-inspection",
        "schema_version": "0.1",
        "files": list(files),
        "counts": counts(findings),
        "omitted": len(findings) - len(told),
        "findings": [
            {
                "rule": finding.rule.id,
                "severity": finding.severity.value,
                "title": finding.rule.title,
                "file": finding.file,
                "line": finding.place.line,
                "column": finding.place.column,
                "object": finding.object,
                "reason": finding.reason,
                "mend": finding.mend,
                "documentation": finding.rule.anchor,
            }
            for finding in told
        ],
    }
