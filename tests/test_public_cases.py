"""The table of public cases is complete and true."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.public_cases import CASES, NUMBERS

TESTS = Path(__file__).parent
IDS = [f"{area}-{number:02}" for area, numbers in NUMBERS.items() for number in numbers]
CASE = re.compile(rf"\b(?:{'|'.join(NUMBERS)})-\d\d\b")
CLAUSE = re.compile(r"\b(?:HS|CT|EV|HL|AR|RA|RT|DM)-\d+\.\d+\b")


@functools.cache
def named() -> dict[str, frozenset[str]]:
    """Return, for each test, the cases that its docstring names."""
    found: dict[str, frozenset[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                name = f"{path.relative_to(TESTS).as_posix()}::{node.name}"
                found[name] = frozenset(CASE.findall(ast.get_docstring(node) or ""))
    return found


def test_every_case_has_its_row() -> None:
    """Rule: each id has one row, in the order of the ids, and no row is for what is no case."""
    assert list(CASES) == IDS


@pytest.mark.parametrize("case", IDS)
def test_the_row_is_what_the_tests_say(case: str) -> None:
    """Rule: the tests of a row are those that name the case, all of them, and there is one at least."""
    assert sorted(CASES[case].tests) == sorted(test for test, cases in named().items() if case in cases)
    assert CASES[case].tests


def test_each_row_says_what_the_fault_is() -> None:
    """Rule: a row can be read without another list: what went wrong; and, behind the semicolon, what is right."""
    said = {case: row.fault for case, row in CASES.items()}
    one = re.compile(r"[A-Z](?:(?!\. |;).){29,};(?:(?!\. |;).){14,}\.")
    assert [case for case, text in said.items() if not (one.fullmatch(text) and 60 <= len(text) <= 160)] == []
    assert len(set(said.values())) == len(said)


def test_what_is_done_otherwise_is_a_clause() -> None:
    """Rule: what is decided otherwise says by which clause, or which section says that it is not claimed."""
    said = {case: row.otherwise for case, row in CASES.items() if row.otherwise}
    assert [case for case, text in said.items() if not CLAUSE.search(text) and "What is not claimed" not in text] == []


def test_no_test_names_what_is_no_case() -> None:
    """Rule: a slip in an id of a docstring is found."""
    assert set().union(*named().values()) == set(IDS)
