"""Judges made values, of an API's JSON or built in Python, by the table that judges the file (AR-2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from idkmesh.validation.findings import Findings
from idkmesh.validation.judging import judge
from idkmesh.validation.value_nodes import node_of
from idkmesh.workloads.declaration_findings import DeclarationFinding, named
from idkmesh.workloads.model import DesiredModule, ModuleKind, Readiness
from idkmesh.workloads.module_relations import judge_module, judge_relations
from idkmesh.workloads.module_rules import DECLARATION, MODULE, READINESS

if TYPE_CHECKING:
    from idkmesh.validation.shapes import Record


def validate_declaration(document: object) -> tuple[DeclarationFinding, ...]:
    """Judge a whole declaration as JSON, relations included. Return what is wrong, nothing if nothing is."""
    findings = Findings("")
    values, node = _judged(document, DECLARATION, "the declaration", findings)
    if values is not None:
        judge_relations(values, node, findings)
    return tuple(named(findings.all(), values))


def validate_module(module: DesiredModule | object) -> tuple[DeclarationFinding, ...]:
    """Judge one module, a :class:`DesiredModule` or a row of the file as JSON. Return what is wrong.

    Whether its class is known, its instances are other modules' too, and its platform is declared, only the whole
    declaration tells.
    """
    row = row_of(module) if isinstance(module, DesiredModule) else module
    findings = Findings("")
    values, node = _judged(row, MODULE, "the module", findings)
    if values is not None:
        judge_module(values, node, findings)
    return tuple(named(findings.all(), values, within=True))


def validate_readiness(readiness: Readiness | object) -> tuple[DeclarationFinding, ...]:
    """Judge a readiness command alone, a :class:`Readiness` or its JSON, for a form. Return what is wrong."""
    value = _readiness_row(readiness) if isinstance(readiness, Readiness) else readiness
    findings = Findings("")
    _judged(value, READINESS, "readiness", findings)
    return tuple(named(findings.all(), None, within=True))


def _judged(value: object, shape: Record, name: str, findings: Findings) -> tuple[Any, Any]:
    node = node_of(value, findings)
    return judge(node, shape, name, findings), node


def row_of(module: DesiredModule) -> dict[str, Any]:
    """Return a module as a row of the file, its class applied. What is as if absent is left out.

    Nothing is taken to be of its type: a value that was built in Python can be anything.
    """
    kind: object = module.kind
    row: dict[str, Any] = {
        "name": module.name,
        "kind": kind.value if isinstance(kind, ModuleKind) else kind,
        "driver": module.driver,
        "class": module.class_name,
        "readiness": _readiness_row(module.readiness),
        "port": module.port,
        "instances": _unless(module.instances, ()),
        "selector": _unless(module.selector, {}),
        "replicas": _unless(module.replicas, 0),
    }
    if module.argv != () or module.cwd is not None:
        row["process"] = {"argv": module.argv} | ({} if module.cwd is None else {"cwd": module.cwd})
    return {name: value for name, value in row.items() if value is not None}


def _unless(value: object, absent: object) -> object:
    """Return None for what says that there is nothing, by value and type."""
    return None if type(value) is type(absent) and value == absent else value


def _readiness_row(readiness: object) -> object:
    if not isinstance(readiness, Readiness):
        return readiness
    return {"command": readiness.command, "timeoutSecs": readiness.timeout_secs}
