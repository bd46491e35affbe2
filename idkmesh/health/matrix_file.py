"""Reads a probe matrix, or says all that is wrong with it (HL-3.1 to HL-3.3).

Three steps, each over the file once: YAML to nodes, nodes to values by the table, and what holds between the values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from idkmesh.addresses import is_ipv6
from idkmesh.health.matrix_rules import MATRIX
from idkmesh.health.model import (
    KINDS,
    Dependency,
    Figures,
    Orchestrator,
    ProbeMatrix,
    ProbeSpec,
    Refresh,
    WatchdogFigures,
)
from idkmesh.validation.findings import Finding, Findings, MatrixError, Rule
from idkmesh.validation.judging import judge
from idkmesh.validation.text_file import read_text
from idkmesh.validation.yaml_nodes import Mapping, Sequence, parse

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.validation.yaml_nodes import Node

__all__ = ["MAX_FILE_BYTES", "Finding", "MatrixError", "Rule", "load_matrix", "read_matrix"]

MAX_FILE_BYTES: Final = 1024 * 1024
"""A thousand dependencies take a quarter of it."""

_BRACKETS: Final = re.compile(r"(?:[A-Za-z]+://)?\[([^\]]*)\]")
"""An IPv6 address at the beginning of a target, or where the host of a URL stands."""


def read_matrix(path: Path | str, *, again: bool = False) -> ProbeMatrix:
    """Read a file. Raises :class:`MatrixError`, also where it cannot be read, is over 1 MiB or is not UTF-8.

    ``again`` says that it was read before: then a FIFO is refused.
    """
    findings = Findings(str(path))
    too_large = "name a probe matrix; a thousand dependencies take less"
    text = read_text(path, MAX_FILE_BYTES, too_large, findings, again=again)
    if text is None:
        raise findings.error()
    return load_matrix(text, str(path))


def load_matrix(text: str, source: str) -> ProbeMatrix:
    """Return what ``text`` says. Raises :class:`MatrixError` with all findings; ``source`` is how they call the file.

    Takes time in proportion to the text, whatever it is; nothing in it makes the loader recurse or fetch anything.
    """
    findings = Findings(source)
    root = parse(text, findings)
    if root is not None:
        values = judge(root, MATRIX, "the file", findings)
        if values is not None:
            _judge_relations(values, cast("Mapping", root), findings)
        if not findings:
            return _matrix(values)
    raise findings.error()


# --- what holds between values (HL-3.3): each is judged where all that it needs is there -----------------------------


def _judge_relations(values: dict[str, Any], root: Mapping, findings: Findings) -> None:
    orchestrator = values.get("orchestrator", {})
    for name, figures in orchestrator.items():
        node = _at(_at(root, "orchestrator"), name)
        if figures.keys() >= {"timeout_ms", "period_ms"} and figures["timeout_ms"] > figures["period_ms"]:
            what = f"{name} has a timeout_ms of {figures['timeout_ms']}, over its period_ms of {figures['period_ms']}"
            mend = f"write at most {figures['period_ms']}, or a longer period"
            findings.add(_at(node, "timeout_ms").mark, Rule.TIMEOUT_PERIOD, what, mend)
    readiness = orchestrator.get("readiness", {})
    first: dict[str, int] = {}
    rows = cast("Sequence", _at(root, "dependencies")).items if "dependencies" in values else []
    for row, node in zip(values.get("dependencies", ()), rows, strict=False):  # rows beyond the bound have no values
        if row is not None:
            _judge_name(row, node, first, findings)
            _judge_timing(row, node, readiness.get("timeout_ms"), findings)
            _judge_cache(row, node, readiness.get("period_ms"), findings)
            _judge_probe(row.get("probe", {}), _at(node, "probe"), findings)


def _at(node: Node, key: str) -> Node:
    """Return a member's value, or the node itself where it has none."""
    return node.members[key].value if isinstance(node, Mapping) and key in node.members else node


def _judge_name(row: dict[str, Any], node: Node, first: dict[str, int], findings: Findings) -> None:
    if (name := row.get("name")) is None:
        return
    mark = _at(node, "name").mark
    if name in first:
        what = f"the name {name} stands here again, first in line {first[name]}"
        findings.add(mark, Rule.DUPLICATE_NAME, what, "give each dependency a name of its own")
    first.setdefault(name, mark.line)


def _judge_timing(row: dict[str, Any], node: Node, limit: int | None, findings: Findings) -> None:
    """Refuse what cannot come about. ``limit`` is the orchestrator's timeout of readiness, None if it is not known."""
    timeout, interval = row.get("timeout_ms"), row.get("interval_ms")
    if timeout is not None and limit is not None and timeout >= limit:
        what = f"timeout_ms {timeout} is not below the orchestrator's timeout_ms of readiness, {limit}"
        mend = f"write less than {limit}, or give readiness longer"
        findings.add(_at(node, "timeout_ms").mark, Rule.TIMEOUT_READINESS, what, mend)
    if timeout is not None and interval is not None and timeout > interval:
        what = f"timeout_ms {timeout} is over interval_ms {interval}, so a run would meet the next"
        findings.add(_at(node, "timeout_ms").mark, Rule.TIMEOUT_INTERVAL, what, f"write at most {interval}")
    threshold = row.get("failure_threshold", 1)
    if row.get("critical") and threshold > 1:
        what = f"failure_threshold {threshold} on a critical dependency would send traffic into its failure"
        mend = "leave it out, or say critical: false"
        findings.add(_at(node, "failure_threshold").mark, Rule.CRITICAL_THRESHOLD, what, mend)


def _judge_cache(row: dict[str, Any], node: Node, period: int | None, findings: Findings) -> None:
    """Refuse a result that cannot live until the next one is there, also where a dependency is well all the time.

    ``period`` is the orchestrator's, of readiness; None if it is not known. A run that is asked for begins at the first
    question an interval after the last run, which comes a period later at the latest.
    """
    timeout, interval, cache = (row.get(name) for name in ("timeout_ms", "interval_ms", "cache_ms"))
    if timeout is None or interval is None or cache is None:
        return
    refresh = row.get("refresh", "schedule" if _at(node, "refresh") is node else None)
    asked = refresh == "request" and period is not None
    if refresh != "schedule" and not asked:
        return
    least = interval + timeout + (period if asked and period is not None else 0)
    if cache < least:
        figures = f"interval_ms {interval}, timeout_ms {timeout}"
        if asked:
            figures += f", and with refresh: request the orchestrator's period_ms of readiness, {period}"
        what = f"cache_ms {cache} ends before the next result is there: {figures}"
        findings.add(_at(node, "cache_ms").mark, Rule.CACHE, what, f"write at least {least}")


def _judge_probe(probe: dict[str, Any], node: Node, findings: Findings) -> None:
    """Judge what patterns cannot: whether an address is one, and whether a field is sent twice."""
    for kind, spec in probe.items():
        if spec is None:
            continue
        place = _at(node, kind)
        for key in ("host", "url", "target") if kind != "python" else ():
            if key in spec and not _is_address(spec[key], bare=key == "host"):
                findings.add(_at(place, key).mark, Rule.ADDRESS, f"{key} has no valid IPv6 address", "correct it")
        seen: set[str] = set()
        for key in ("headers", "headers_from_env"):
            fields = _at(place, key)
            for name in spec.get(key, {}):
                if name.lower() in seen:
                    what = f"the field {name} is there already; capitals make no difference"
                    mark = fields.members[name].mark if isinstance(fields, Mapping) else fields.mark
                    findings.add(mark, Rule.DUPLICATE_KEY, what, "keep one of them")
                seen.add(name.lower())


def _is_address(text: str, *, bare: bool) -> bool:
    """Say whether the IPv6 address in a text of the right form is one; true where there is none."""
    found = _BRACKETS.match(text)
    if found is None and not (bare and ":" in text):
        return True
    return is_ipv6(text if found is None else found[1])


# --- values to the model: the table has the names of the model ---------------------------------------------------


def _matrix(values: dict[str, Any]) -> ProbeMatrix:
    orchestrator = {name: Figures(**figures) for name, figures in values["orchestrator"].items()}
    return ProbeMatrix(
        orchestrator=Orchestrator(**orchestrator),
        watchdog=WatchdogFigures(**values["watchdog"]),
        dependencies=tuple(_dependency(row) for row in values["dependencies"]),
    )


def _dependency(row: dict[str, Any]) -> Dependency:
    ((kind, spec),) = row["probe"].items()
    lists_as_tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()}
    # Any of the classes, so no type checker can hold the members against it; a test does.
    make = cast("Any", KINDS[kind])
    probe: ProbeSpec = make(**lists_as_tuples)
    return Dependency(**row | {"probe": probe, "refresh": Refresh(row.get("refresh", "schedule"))})
