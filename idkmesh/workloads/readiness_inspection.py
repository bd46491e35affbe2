"""Judges a readiness command that a form has sent, and writes the YAML to paste (AR-7.5). Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from idkmesh.validation.findings import Findings
from idkmesh.validation.judging import judge
from idkmesh.validation.shapes import Record
from idkmesh.validation.value_nodes import node_of
from idkmesh.workloads.declaration_findings import named
from idkmesh.workloads.model import DEFAULT_TIMEOUT_SECS
from idkmesh.workloads.module_rules import MODULE, READINESS

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BODY_BYTES: Final = 32 * 1024
"""Of what a form sends. The longest command that is accepted takes 22 KiB as JSON, each character escaped."""

MAX_FINDINGS: Final = 100
"""That one answer tells."""

FORM: Final = Record(
    meaning="A readiness command, and the module that it is for.",
    members={"name": MODULE.members["name"], **READINESS.members},
    required=("name", "command"),
)
"""What a form sends: of the table that judges the file, so that both judge alike (AR-2.4)."""


def inspect_readiness(body: bytes) -> dict[str, Any]:
    """Return the verdict on a form as JSON: ``{"name", "command", "timeoutSecs"}`` (``readiness-inspection.json``).

    Whatever the bytes are: what is no JSON is refused with a finding.
    """
    try:
        value = json.loads(body, object_pairs_hook=_once_each)
    except (ValueError, RecursionError):  # ValueError: also what is no UTF-8
        what, mend = "the body is not JSON, or a key in it stands twice", "send an object with name and command"
        return _document([_finding("", "json-syntax", what, mend)])
    findings = Findings("")
    judged = judge(node_of(value, findings), FORM, "the form", findings)
    found = [
        _finding(each.field, each.rule.value, each.what, each.mend) for each in named(findings.all(), None, within=True)
    ]
    return _document(found[:MAX_FINDINGS], None if found else judged)


def snippet(name: str, command: Iterable[str], timeout_secs: int) -> str:
    """Return YAML for the list of modules: the module's name and its readiness command, each text in quotes."""
    program_and_arguments = ", ".join(quoted(text) for text in command)
    return (
        f"- name: {quoted(name)}\n"
        "  readiness:\n"
        f"    command: [{program_and_arguments}]\n"
        f"    timeoutSecs: {timeout_secs}\n"
    )


def quoted(text: str) -> str:
    """Return a text as YAML reads it back: in double quotes, what does not print escaped (YAML 1.2 section 5.7)."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key stands twice")
    return members


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character == " " or character.isprintable():
        return character
    return f"\\U{ord(character):08x}"


def _document(findings: list[dict[str, str]], judged: Any = None) -> dict[str, Any]:  # noqa: ANN401  JSON-like
    accepted = judged is not None
    return {
        "kind": "idkmesh-readiness-inspection",
        "schema_version": "0.1",
        "verdict": "accepted" if accepted else "refused",
        "findings": findings,
        "yaml": snippet(judged["name"], judged["command"], judged.get("timeoutSecs", DEFAULT_TIMEOUT_SECS))
        if accepted
        else None,
    }


def _finding(field: str, rule: str, what: str, mend: str) -> dict[str, str]:
    return {"field": field, "rule": rule, "what": what, "mend": mend}
