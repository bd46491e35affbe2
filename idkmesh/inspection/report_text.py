"""Findings for people: by file and object, each with its place, and a last line that counts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from idkmesh.inspection.findings import PAGE, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from idkmesh.inspection.findings import Finding, Rule


def text_report(findings: Sequence[Finding], files: int) -> Iterator[str]:
    """Give the lines of the report. ``files`` is how many were inspected."""
    for file, of_file in itertools.groupby(findings, key=lambda finding: finding.file):
        yield file
        by_object: dict[str, list[Finding]] = {}
        for finding in of_file:
            by_object.setdefault(finding.object, []).append(finding)
        for name, ours in by_object.items():
            yield f"  {name}"
            for finding in ours:
                place = f"{finding.place.line}:{finding.place.column}"
                yield f"    {place} {finding.severity.value} {finding.rule.id}: {finding.rule.title}. {finding.reason}"
                yield f"      {finding.mend}"
        yield ""
    if findings:
        yield f"What a rule is about, for example: idkmesh inspect --explain {findings[0].rule.id}, or {PAGE}"
    yield summary(findings, files)


def explained(rule: Rule) -> Iterator[str]:
    """Give the lines that explain one rule: what it says, what goes wrong otherwise, what to do, and its page."""
    yield f"{rule.id} ({rule.severity.value}): {rule.title}"
    yield f"Why: {rule.why}"
    yield f"What to do: {rule.mend}"
    yield f"An example before and after: {rule.anchor}"


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """Return how many findings there are of each severity, by its name."""
    return {severity.value: sum(finding.severity is severity for finding in findings) for severity in Severity}


def summary(findings: Sequence[Finding], files: int) -> str:
    """Return the last line: ``3 findings in 2 files: 1 error, 1 warning, 1 note``."""
    told = ", ".join(_plural(number, name) for name, number in counts(findings).items())
    return f"{_plural(len(findings), 'finding')} in {_plural(files, 'file')}: {told}"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
