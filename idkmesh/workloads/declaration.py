"""Reads a declaration of modules, or says all that is wrong with it (AR-2).

Three steps, each over the file once: YAML to nodes, nodes to values by the table, and what holds between the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from idkmesh.validation.findings import Findings, Rule
from idkmesh.validation.judging import judge
from idkmesh.validation.text_file import read_text
from idkmesh.validation.yaml_nodes import parse
from idkmesh.workloads.catalog import CATALOG
from idkmesh.workloads.declaration_findings import DeclarationError, DeclarationFinding, named
from idkmesh.workloads.model import (
    DEFAULT_LEASE_NAME,
    DEFAULT_TIMEOUT_SECS,
    DEFAULT_TTL_S,
    Declaration,
    DesiredModule,
    LeaseSpec,
    LxdPlatform,
    ModuleKind,
    Readiness,
    SupervisorSpec,
)
from idkmesh.workloads.module_relations import judge_relations
from idkmesh.workloads.module_rules import DECLARATION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "MAX_FILE_BYTES",
    "DeclarationError",
    "DeclarationFinding",
    "Rule",
    "load_declaration",
    "read_declaration",
]

MAX_FILE_BYTES: Final = 1024 * 1024
"""A thousand modules of two instances take a fifth of it."""


def read_declaration(path: Path | str, *, again: bool = False) -> Declaration:
    """Read a file. Raises :class:`DeclarationError`, also where it cannot be read, is over 1 MiB or is not UTF-8.

    ``again`` says that it was read before: then a FIFO is refused.
    """
    findings = Findings(str(path))
    too_large = "name a declaration of modules; a thousand take less"
    text = read_text(path, MAX_FILE_BYTES, too_large, findings, again=again)
    if text is None:
        raise DeclarationError(tuple(named(findings.all(), None)))
    return load_declaration(text, str(path))


def load_declaration(text: str, source: str) -> Declaration:
    """Return what ``text`` says. Raises :class:`DeclarationError` with all findings, which call the file ``source``.

    Takes time in proportion to the text, whatever it is; nothing in it makes the loader recurse or fetch anything.
    """
    findings = Findings(source)
    root = parse(text, findings)
    values = None if root is None else judge(root, DECLARATION, "the file", findings)
    if root is not None and values is not None:
        judge_relations(values, root, findings)
    if findings or values is None:
        raise DeclarationError(tuple(named(findings.all(), values)))
    return _declaration(values)


# --- values to the model ---------------------------------------------------------------------------------------------


def _declaration(values: dict[str, Any]) -> Declaration:
    declared = values.get("classes", {})
    classes = {name: _readiness(each["runtime"]["readiness"]) for name, each in declared.items()}
    lxd = values.get("platforms", {}).get("lxd")
    return Declaration(
        modules=tuple(_module(row, classes) for row in values["modules"]),
        supervisor=_supervisor(values.get("supervisor", {})),
        lxd=None if lxd is None else LxdPlatform(**lxd),
    )


def _readiness(spec: dict[str, Any]) -> Readiness:
    return Readiness(tuple(spec["command"]), spec.get("timeoutSecs", DEFAULT_TIMEOUT_SECS))


def _command(row: dict[str, Any], classes: Mapping[str, Readiness]) -> Readiness | None:
    """Return a module's own command, else that of its class: the file's, else the catalog's."""
    if "readiness" in row:
        return _readiness(row["readiness"])
    if (name := row.get("class")) is None:
        return None
    return classes[name] if name in classes else CATALOG[name].readiness(row.get("port"))


def _module(row: dict[str, Any], classes: Mapping[str, Readiness]) -> DesiredModule:
    process = row.get("process", {})
    return DesiredModule(
        name=row["name"],
        kind=ModuleKind(row["kind"]),
        driver=row["driver"],
        readiness=_command(row, classes),
        port=row.get("port"),
        class_name=row.get("class"),
        instances=tuple(row.get("instances", ())),
        selector=row.get("selector", {}),
        replicas=row.get("replicas", 0),
        argv=tuple(process.get("argv", ())),
        cwd=process.get("cwd"),
    )


def _supervisor(values: dict[str, Any]) -> SupervisorSpec:
    lease = values.get("lease", {})
    spec = LeaseSpec(
        kind="etcd" if "etcd" in lease else "sqlite",
        ttl_s=lease.get("ttl_s", DEFAULT_TTL_S),
        path=lease.get("sqlite", {}).get("path"),
        endpoints=tuple(lease.get("etcd", {}).get("endpoints", ())),
        name=lease.get("name", DEFAULT_LEASE_NAME),
    )
    figures = {name: values[name] for name in ("interval_s", "cooldown_s") if name in values}
    return SupervisorSpec(lease=spec, **figures)
