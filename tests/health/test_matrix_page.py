"""The examples of the page on how to write a matrix, held against the loader."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from idkmesh.health.matrix_file import MatrixError, load_matrix
from idkmesh.health.matrix_rules import DEPENDENCY, MATRIX, PROBES
from idkmesh.health.model import KINDS
from scripts.lib.matrix_page import EXAMPLES, EXTRA, matrix_page

RELATIONS = {row["rule"]: row for row in EXAMPLES["relations"]}


def matrix(**changed: Any) -> str:
    """Return the page's whole matrix as text, with members of its dependency replaced."""
    document = yaml.safe_load(EXAMPLES["whole"])
    document["dependencies"][0] |= changed
    return yaml.safe_dump(document)


def test_the_whole_example_is_a_matrix() -> None:
    """HL-3.1: what the page tells a reader to begin with is loaded as it stands."""
    loaded = load_matrix(EXAMPLES["whole"], "the page")
    assert [row.name for row in loaded.dependencies] == ["orders-db"]


def test_each_kind_has_an_example() -> None:
    """HL-4.1: the page has one example for each kind, and no other."""
    assert EXAMPLES["kinds"].keys() == PROBES.keys() == KINDS.keys()
    assert EXTRA.keys() <= PROBES.keys()


@pytest.mark.parametrize("kind", PROBES)
def test_the_example_of_a_kind_is_taken(kind: str) -> None:
    """HL-4.1: the loader accepts it, and reads it as that kind."""
    loaded = load_matrix(matrix(probe=yaml.safe_load(EXAMPLES["kinds"][kind])), "the page")
    assert isinstance(loaded.dependencies[0].probe, KINDS[kind])


@pytest.mark.parametrize("rule", RELATIONS)
def test_what_breaks_a_relation_is_refused(rule: str) -> None:
    """HL-3.3: each rule between figures that the page names is one that the loader has, under that word."""
    row = RELATIONS[rule]
    document = yaml.safe_load(matrix(**row.get("row", {})))
    document["orchestrator"] |= row.get("orchestrator", {})
    with pytest.raises(MatrixError) as refused:
        load_matrix(yaml.safe_dump(document), "the page")
    assert [finding.rule.value for finding in refused.value.findings] == [rule]


def test_what_is_asked_for_has_to_last_a_period_more() -> None:
    """HL-3.3: with ``refresh: request`` the page's rule of ``cache_ms`` is the loader's, to the millisecond."""
    assert "by readiness's `period_ms` more" in RELATIONS["cache"]["says"]
    least = 2000 + 500 + 3000
    load_matrix(matrix(refresh="request", cache_ms=least), "the page")
    with pytest.raises(MatrixError) as refused:
        load_matrix(matrix(refresh="request", cache_ms=least - 1), "the page")
    assert [finding.rule.value for finding in refused.value.findings] == ["cache"]


def test_every_key_stands_on_the_page() -> None:
    """HL-3.1: whatever the table knows is explained, and the extra that a kind needs is named."""
    page = matrix_page()
    records = (MATRIX, DEPENDENCY, *PROBES.values())
    assert [name for record in records for name in record.members if f"`{name}`" not in page] == []
    assert "pip install 'idkmesh[grpc]'" in page
