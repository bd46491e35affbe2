"""The reference pages are what the code says. A setting, error code, metric, path or schema without its row fails."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from idkmesh.control_tower import assets
from idkmesh.httpd.errors import ERROR_CODES
from idkmesh.httpd.head_faults import FAULTS
from idkmesh.service_runtime import SETTINGS
from idkmesh.settings import TABLE
from scripts.lib.api_page import documents
from scripts.lib.metrics_page import families
from scripts.lib.reference import DIRECTORY, PAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from idkmesh.settings import CommandSetting

PACKAGE = Path(__file__).parents[1] / "idkmesh"


def page_of(name: str) -> str:
    return (DIRECTORY / name).read_text(encoding="utf-8")


def nodes() -> Iterator[ast.AST]:
    """Return every node of every module of the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES)
def test_reference_pages(page: str) -> None:
    """HS-2.1, HS-12.3, CT-9.11: the pages are what `scripts/reference` makes of the tables."""
    assert (DIRECTORY / page).read_text(encoding="utf-8") == PAGES[page](), "run scripts/reference"


def test_every_page_is_made_or_is_an_example() -> None:
    """Rule: a page of the reference that nobody makes is one that nobody holds against the code."""
    assert {path.name for path in DIRECTORY.glob("*.md")} == set(PAGES)


# --- settings --------------------------------------------------------------------------------------------------------


def undocumented_settings(rows: Iterable[CommandSetting], page: str) -> list[str]:
    """Return the names of settings that a page has no section of, or not with flag, variable, commands and default."""
    sections = {part.partition("\n")[0]: part for part in re.split(r"^### ", page, flags=re.MULTILINE)[1:]}
    return [
        row.name
        for row in rows
        if not all(
            re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", sections.get(row.name, ""))
            for word in (row.flag, row.variable, *row.commands, *([row.default_words] if row.default else []))
            if word is not None
        )
    ]


def test_every_setting_is_documented() -> None:
    """HS-2.1, CT-9.11: flag, variable, commands and default of each stand in its section; what is missing is told."""
    page = (DIRECTORY / "settings.md").read_text(encoding="utf-8")
    assert undocumented_settings(TABLE, page) == []
    for setting in SETTINGS:
        assert f"`{setting.document_key}`" in page
    strange = [replace(TABLE[0], name="strange"), replace(TABLE[0], own_variable="IDKMESH_STRANGE")]
    strange += [replace(TABLE[0], own_flag="--strange"), replace(TABLE[0], default="9.9.9.9")]
    assert undocumented_settings(strange, page) == ["strange", "host", "host", "host"]


# --- error codes -----------------------------------------------------------------------------------------------------


def undocumented_codes(codes: Iterable[str], page: str) -> set[str]:
    """Return the codes that a page has no section of."""
    return set(codes) - set(re.findall(r"^## (\S+)$", page, re.MULTILINE))


def answered_codes() -> set[str]:
    """Return every code that the package writes down where it refuses: in a call, a default or a class."""
    found: set[str] = set()
    for node in nodes():
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Refusal":
            found |= _texts([*node.args[1:2], *(word.value for word in node.keywords if word.arg == "code")])
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Fault":
            found |= _texts([*node.args[3:4], *(word.value for word in node.keywords if word.arg == "code")])
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "code" for target in targets):
                found |= _texts([node.value])
    return found


def _texts(values: Iterable[ast.expr]) -> set[str]:
    return {value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)}


def test_every_code_is_documented() -> None:
    """HS-12.3, RT-9.8: what is answered anywhere is a row of the table, and has its section; one without is told."""
    page = page_of("errors.md")
    assert answered_codes() == set(ERROR_CODES)
    assert undocumented_codes(ERROR_CODES, page) == set()
    assert undocumented_codes([*ERROR_CODES, "strange"], page) == {"strange"}
    for row in ERROR_CODES.values():
        assert f"Status {row.status}." in page.partition(f"\n## {row.code}\n")[2].partition("\n## ")[0]


def test_every_reason_is_documented() -> None:
    """HS-3.4, HS-12.3: each reason of ``invalid_request`` and its kin stands on the page, with its clause."""
    page = page_of("errors.md")
    for reason, fault in FAULTS.items():
        assert f"| `{reason}` | {fault.status} `{fault.code}` | {fault.rfc} |" in page


# --- metrics ---------------------------------------------------------------------------------------------------------


def undocumented_metrics(known: Iterable[Metric], page: str) -> list[str]:
    """Return the metrics that a page has no row of, with their type and labels."""
    rows = set(re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", page, re.MULTILINE))
    missing = []
    for family in known:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in getattr(family, "_labelnames", ()))
        if (name, family.type, labels) not in rows:
            missing.append(name)
    return missing


def test_every_metric_is_documented() -> None:
    """HL-5.5, AR-7.4, RT-10.6: name, type and labels of what is registered have a row; one without is told."""
    page = page_of("metrics.md")
    assert undocumented_metrics(families(), page) == []
    strange = [
        GaugeMetricFamily("idkmesh_strange", "Nothing."),
        CounterMetricFamily("idkmesh_ready", "Another type."),
        GaugeMetricFamily("idkmesh_dependency_up", "Other labels.", labels=("dependency",)),
    ]
    assert undocumented_metrics(strange, page) == ["idkmesh_strange", "idkmesh_ready_total", "idkmesh_dependency_up"]


def test_every_metric_that_the_code_names_is_registered() -> None:
    """HL-5.5, AR-7.4, RT-10.6: a metric of a collector that the page does not ask is found by its name in the code."""
    named = {node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    named = {text for text in named if re.fullmatch(r"idkmesh_[a-z_]+", text)}
    known = {family.name for family in families()}
    assert len(named) > 20
    assert [text for text in named if not any(name == text or name.startswith(f"{text}") for name in known)] == []


@pytest.mark.parametrize("name", ["docs/ALERTS.md", "deploy/prometheus/idkmesh.rules.yaml"])
def test_what_alerts_name_there_is(name: str) -> None:
    """HL-5.7: an alert on a metric that nobody exposes never fires."""
    text = (PACKAGE.parent / name).read_text(encoding="utf-8")
    page = page_of("metrics.md")
    samples = {re.sub(r"_(bucket|sum|count)$", "", found) for found in re.findall(r"\bidkmesh_[a-z_]+\b", text)}
    assert [sample for sample in samples if f"`{sample}`" not in page] == []


# --- paths and schemas -----------------------------------------------------------------------------------------------


def test_every_path_is_documented() -> None:
    """CT-3.1, CT-7.1, RT-9.4: each operation of the OpenAPI documents has its section, with its statuses."""
    page = page_of("api.md")
    for document in documents().values():
        for path, item in document["paths"].items():
            for method in item.keys() - {"head", "parameters"}:
                section = page.partition(f"\n### {method.upper()} {path}\n")[2].partition("\n### ")[0]
                statuses = item[method]["responses"]
                assert [status for status in statuses if f"| {status} |" not in section] == ["default"]
    stated = (PACKAGE.parent / "docs" / "specifications" / "CONTROL_TOWER_LOCAL_API_V0_1.md").read_text(
        encoding="utf-8"
    )
    rows = re.findall(r"^  \| (`/.*?) \| (GET|POST)", stated, re.MULTILINE)
    paths = [(method, path) for cell, method in rows for path in re.findall(r"`(.+?)`", cell)]
    assert len(paths) > 15
    assert [path for method, path in paths if f"\n### {method} {path.replace('NAME', '{name}')}\n" not in page] == []


@pytest.mark.parametrize("name", assets.SCHEMA_NAMES)
def test_every_member_of_a_schema_is_documented(name: str) -> None:
    """CT-7.2: a published schema has its section, and each member below it a row."""
    section = page_of("schemas.md").partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \**`(.+?)`", section, re.MULTILINE)
    schema = assets.schema(name)
    assert set(schema["properties"]) <= set(rows)
    assert {row.rpartition(".")[2].removesuffix("[]") for row in rows} == properties_of(schema)


def properties_of(schema: Any) -> set[str]:
    """Return the name of every member that a schema describes anywhere, but for what a condition asks."""
    if isinstance(schema, list):
        return set().union(*map(properties_of, schema))
    if not isinstance(schema, dict):
        return set()
    found = {name for name, member in schema.get("properties", {}).items() if isinstance(member, dict)}
    for key in ("oneOf", "anyOf", "allOf", "then", "else", "items", "additionalProperties"):
        found |= properties_of(schema.get(key))
    for part in ("properties", "$defs"):
        found |= properties_of(list(schema.get(part, {}).values()))
    return found
