"""The explanations claim nothing that no test proves, and keep nothing back that is unproved."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

import pytest

from idkmesh.events.retention import RETENTION_SETTINGS
from idkmesh.service_runtime import SETTINGS
from scripts.lib.document_links import moved
from scripts.lib.explanations import DIRECTORY, PAGES, ROOT, admissions
from tests.test_repository import clauses, proved_clauses, stated_clauses

if TYPE_CHECKING:
    from pathlib import Path

MODEL: Final = (DIRECTORY / "threat-model.md").read_text(encoding="utf-8")
ROWS: Final = re.findall(r"^\| (?!claim |-)(.*?) \| (.*?) \| (.*?) \|$", MODEL, re.MULTILINE)
CONTRACTS: Final = sorted((ROOT / "docs" / "specifications").glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_pages_that_are_made(page: str) -> None:
    """Rule: the pages are what `scripts/reference` makes of their sources."""
    assert (DIRECTORY / page).read_text(encoding="utf-8") == PAGES[page](), "run scripts/reference"


@pytest.mark.parametrize(("claim", "clause", "proof"), ROWS, ids=[row[0] for row in ROWS])
def test_each_claim_is_proved(claim: str, clause: str, proof: str) -> None:
    """Rule: a claim of the threat model has a clause, and a test that is there and says that it proves this clause."""
    assert claim.endswith(".")
    assert clauses(clause) == {clause} <= stated_clauses()
    file, _, name = proof.strip("`").partition("::")
    nodes = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    (test,) = (node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name)
    assert clause in proved_clauses(ast.get_docstring(test) or "")


def test_the_model_is_a_table_of_claims() -> None:
    """Rule: each attacker that is named has a section, with claims."""
    named = re.findall(r"^\d\. \[[^]]+\]\(#", MODEL, re.MULTILINE)
    sections = MODEL.partition("## A client of the server")[2].split("\n## ")
    assert len(sections) == len(named) >= 7
    assert [section.partition("\n")[0] for section in sections if "tests/" not in section] == []
    assert len({claim for claim, _, _ in ROWS}) == len(ROWS) >= 60


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.name)
def test_each_contract_says_what_it_does_not_claim(path: Path) -> None:
    """Rule: a contract that claims all it has been asked for has not been asked enough."""
    found = admissions(path)
    assert found
    assert all(text for _, text in found)


def test_every_limit_says_what_it_does_not_cover() -> None:
    """HS-2.1: each limit stands on the page, with its edge."""
    page = (DIRECTORY / "limits.md").read_text(encoding="utf-8")
    for setting in (*SETTINGS, *RETENTION_SETTINGS):
        assert f"| `{setting.name}` |" in page
        assert setting.not_covered in page


def test_links_of_a_text_that_is_moved() -> None:
    """Rule: what is quoted from another folder leads where it led; code stays as it is."""
    text = "[a](../reference/a.md#b) [c](OTHER.md) [d](https://example.org)\n```\n[e](f.md)\n```\n"
    assert moved(text, "docs/specifications/X.md", "docs/explanation/y.md") == (
        "[a](../reference/a.md#b) [c](../specifications/OTHER.md) [d](https://example.org)\n```\n[e](f.md)\n```\n"
    )
