"""``idkmesh modules``: judge a declaration of modules, and say what is in it (AR-2.7)."""

from __future__ import annotations

import collections
import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from idkmesh import console
from idkmesh.console import EXIT_USAGE
from idkmesh.workloads.declaration import DeclarationError, read_declaration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from idkmesh.workloads.declaration import DeclarationFinding
    from idkmesh.workloads.model import DesiredModule

_COLUMNS: Final = ("NAME", "KIND", "DRIVER", "INSTANCES", "PORT", "CLASS", "LIMIT", "COMMAND")


def check_modules(file: str, *, as_json: bool) -> int:
    """Print what a declaration has, or all that is wrong with it, a line each. Return 0, or 2 where it is refused."""
    modules: tuple[DesiredModule, ...] = ()
    findings: tuple[DeclarationFinding, ...] = ()
    try:
        modules = read_declaration(file).modules
    except DeclarationError as error:
        findings = error.findings
    if as_json:
        console.say(json.dumps(check_document(file, modules, findings), indent=2))
    else:
        for finding in findings:
            console.complain(str(finding))
        for line in () if findings else (*table(modules), f"{file}: ok, {summary(modules)}"):
            console.say(console.fitted(line))
    return EXIT_USAGE if findings else 0


def table(modules: Sequence[DesiredModule]) -> list[str]:
    """Return a line for each module, its class applied, the head first; nothing where there is no module."""
    return console.aligned([_COLUMNS, *map(_row, modules)]) if modules else []


def summary(modules: Sequence[DesiredModule]) -> str:
    """Return in a line how much there is of what."""
    counts = _counts(modules)
    kinds = collections.Counter(module.kind.value for module in modules)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    parts = [
        _many(counts["modules"], "module") + (f" ({told})" if told else ""),
        _many(counts["instances"], "named instance"),
        _many(counts["selectors"], "selector") if counts["selectors"] else "",
        _many(counts["processes"], "process", "es") if counts["processes"] else "",
        _many(counts["commands"], "command"),
        _many(counts["classes"], "class", "es") if counts["classes"] else "",
    ]
    return ", ".join(filter(None, parts))


def check_document(
    file: str, modules: Sequence[DesiredModule], findings: Iterable[DeclarationFinding]
) -> dict[str, Any]:
    """Return the document of ``--json`` (``modules-check.json``)."""
    found = [_finding(each) for each in findings]
    return {
        "kind": "idkmesh-modules-check",
        "schema_version": "0.1",
        "file": file,
        "ok": not found,
        "findings": found,
        "counts": _counts(modules),
        "modules": [_module(module) for module in modules],
    }


def _counts(modules: Sequence[DesiredModule]) -> dict[str, int]:
    return {
        "modules": len(modules),
        "instances": sum(len(module.instances) for module in modules),
        "selectors": sum(bool(module.selector) for module in modules),
        "processes": sum(module.replicas for module in modules),
        "commands": sum(module.readiness is not None for module in modules),
        "classes": len({module.class_name for module in modules} - {None}),
    }


def _finding(each: DeclarationFinding) -> dict[str, Any]:
    place = {"line": each.line, "column": each.column}
    about = {"module": each.module, "field": each.field, "rule": each.rule.value}
    return place | about | {"what": each.what, "mend": each.mend}


def _module(module: DesiredModule) -> dict[str, Any]:
    readiness = module.readiness
    spec = None if readiness is None else {"command": readiness.command, "timeoutSecs": readiness.timeout_secs}
    return {
        "name": module.name,
        "kind": module.kind.value,
        "driver": module.driver,
        "class": module.class_name,
        "port": module.port,
        "instances": module.instances,
        "selector": module.selector,
        "replicas": module.replicas,
        "readiness": spec,
    }


def _row(module: DesiredModule) -> tuple[str, ...]:
    readiness = module.readiness
    many = "selected" if module.selector else str(len(module.instances) or module.replicas)
    limit = "-" if readiness is None else f"{readiness.timeout_secs} s"
    command = "-" if readiness is None else shlex.join(readiness.command)
    port = "-" if module.port is None else str(module.port)
    return (module.name, module.kind.value, module.driver, many, port, module.class_name or "-", limit, command)


def _many(count: int, noun: str, ending: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else ending}"
