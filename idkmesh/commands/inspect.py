"""``idkmesh inspect``: read the files, have them judged, print the findings, and tell by the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh import __version__, console
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.inspection.catalogue import RULES
from idkmesh.inspection.documents import MAX_CHARACTERS, read_documents
from idkmesh.inspection.findings import PAGE, Severity
from idkmesh.inspection.inspect import BAD_FILE, NO_ANSWER, Source, inspect_sources
from idkmesh.inspection.matrix import KIND, MatrixRefused, read_matrix
from idkmesh.inspection.report_json import json_report
from idkmesh.inspection.report_sarif import sarif_report
from idkmesh.inspection.report_text import explained, text_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.health.model import ProbeMatrix
    from idkmesh.inspection.findings import Finding

EXIT_UNKNOWN: Final = 3
_MAX_BYTES: Final = MAX_CHARACTERS
"""A character is a byte at the least, so a longer file has too many characters or is no plain text."""


def inspect_files(files: Sequence[str], matrix: str | None, output: str) -> int:
    """Print what the rules find in the files, and return the exit code.

    2 where a file could not be read to its end, else 1 where there is an error, else 3 where nothing could be told of a
    file, else 0.
    """
    beside = _matrix(matrix) if matrix is not None else None
    sources: list[Source] = []
    for file in dict.fromkeys(files):
        try:
            sources.append(_source(file))
        except CommandError as error:  # the others are inspected all the same
            console.complain(f"idkmesh: {error}")
    findings = inspect_sources(sources, beside)
    _print(findings, [source.name for source in sources], output)
    if len(sources) < len(set(files)) or any(finding.rule.id in BAD_FILE for finding in findings):
        return EXIT_USAGE
    if any(finding.severity is Severity.ERROR for finding in findings):
        return EXIT_FAILED
    return EXIT_UNKNOWN if any(finding.rule.id in NO_ANSWER for finding in findings) else 0


def explain(rule_id: str) -> int:
    """Print what a rule is about, and return the exit code. Raises :class:`CommandError` for one that there is not."""
    rule = RULES.get(rule_id.upper())
    if rule is None:
        raise CommandError(f"{rule_id} is no rule: {PAGE} has them all, PB101 for example", EXIT_USAGE)
    for line in explained(rule):
        console.say(line)
    return 0


def _print(findings: Sequence[Finding], names: Sequence[str], output: str) -> None:
    if output == "text":
        if not names:  # what could not be read is told already
            return
        for line in text_report(findings, len(names)):
            console.say(console.fitted(line))
    elif output == "json":
        console.say(json.dumps(json_report(findings, names), indent=2))
    else:
        console.say(json.dumps(sarif_report(findings, names, __version__), indent=2))


def _source(file: str) -> Source:
    """Read a file, ``-`` for standard input. Raises :class:`CommandError` for one that cannot be read."""
    name = "standard input" if file == "-" else file
    if file == "-" and sys.stdin is None:
        raise CommandError("cannot read standard input: it is closed", EXIT_USAGE)
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CommandError(f"cannot read {name}: {console.reason(error)}", EXIT_USAGE) from None
    if len(data) > _MAX_BYTES:
        raise CommandError(f"{name} is longer than {_MAX_BYTES:,} bytes: split it", EXIT_USAGE)
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{name}:{line}: it is not UTF-8: save it as UTF-8", EXIT_USAGE) from None


def _matrix(file: str) -> ProbeMatrix:
    """Read the matrix that manifests are held against. Raises :class:`CommandError` where that is none."""
    source = _source(file)
    documents = read_documents(source.text).documents
    if len(documents) != 1 or documents[0].at("kind").text != KIND:
        raise CommandError(f"--matrix: {source.name} is no probe matrix: it needs kind: {KIND}", EXIT_USAGE)
    try:
        return read_matrix(source.text, source.name, documents[0]).matrix
    except MatrixRefused as refused:
        place, what, mend = refused.told[0]
        raise CommandError(f"--matrix: {source.name}:{place.line}:{place.column}: {what} {mend}", EXIT_USAGE) from None
