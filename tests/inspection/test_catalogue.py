"""The table of rules, and the examples of its reference page."""

from __future__ import annotations

import re

import pytest

from idkmesh.inspection.catalogue import FAMILIES, RULES
from tests.inspection.support import EXAMPLES, base_matrix, ids, inspected

BESIDE_MATRIX = {"PB410", "PB411"}


def found_in(rule_id: str, text: str) -> set[str]:
    matrix = base_matrix() if rule_id in BESIDE_MATRIX else None
    return ids(inspected(EXAMPLES[rule_id]["in"], text, matrix)[0])


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("rule_id", RULES)
def test_example_before_meets_the_rule(rule_id: str) -> None:
    """Rule: what the reference page shows as wrong is found by that rule."""
    assert rule_id in found_in(rule_id, EXAMPLES[rule_id]["before"])


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("rule_id", RULES)
def test_example_after_does_not(rule_id: str) -> None:
    """Rule: what the reference page shows as mended is not, and no error is left in it."""
    found = found_in(rule_id, EXAMPLES[rule_id]["after"])
    assert rule_id not in found
    assert [each for each in found if RULES[each].severity.value == "error"] == []


def test_every_rule_has_its_example_and_none_is_left_over() -> None:
    """Rule: the examples are those of the table."""
    assert list(EXAMPLES) == list(RULES)


def test_ids_are_unique_and_keep_their_form() -> None:
    """HL-7.2: a rule is named by an id of its own, which never changes its form."""
    rules = [rule for family in FAMILIES.values() for rule in family]
    assert len({rule.id for rule in rules}) == len(rules) >= 20
    assert all(re.fullmatch(r"PB[0-9]{3}", rule.id) for rule in rules)


@pytest.mark.parametrize("rule_id", RULES)
def test_texts_are_sentences(rule_id: str) -> None:
    """Rule: a title is a phrase without a stop; why and mend are whole sentences."""
    rule = RULES[rule_id]
    assert not rule.title.endswith(".")
    assert rule.why.endswith(".")
    assert rule.why[0].isupper() or rule.why.startswith(("curl",))
    assert rule.mend[0].isupper()
    assert rule.anchor == f"docs/reference/inspection.md#{rule_id.lower()}"
