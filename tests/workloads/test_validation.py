"""Modules and commands that were made elsewhere are judged by the table of the file."""

from __future__ import annotations

import dataclasses
import decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.validation.findings import Rule
from idkmesh.workloads.declaration import load_declaration, read_declaration
from idkmesh.workloads.model import DesiredModule, ModuleKind, Readiness
from idkmesh.workloads.validation import row_of, validate_declaration, validate_module, validate_readiness
from tests.health.test_matrix_schema import yaml_text
from tests.workloads.declarations import EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Mapping

WEB = DesiredModule(
    name="web",
    kind=ModuleKind.STATELESS,
    driver="lxd",
    instances=("web-1",),
    readiness=Readiness(("check", "--fast")),
)
WORKER = DesiredModule(
    name="worker", kind=ModuleKind.SINGLETON, driver="process", replicas=1, argv=("a",), cwd="/", port=80
)


def test_what_was_read_is_right() -> None:
    """AR-2.4: each module of a file is right as a value too, and its row says the same again."""
    declared = read_declaration(EXAMPLE)
    for module in (*declared.modules, WEB, WORKER):
        assert module.validate() == ()
        row = {name: value for name, value in row_of(module).items() if name != "class"}
        text = {"schema_version": "0.1", "kind": "idkmesh-modules", "platforms": {"lxd": {"socket": "/a"}}}
        (again,) = load_declaration(yaml_text(text | {"modules": [plain(row)]}), "m.yaml").modules
        assert again == dataclasses.replace(module, class_name=None)


def plain(value: Any) -> Any:
    """Return a value as JSON would."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, tuple | list) else value


@pytest.mark.parametrize(
    ("module", "members", "rule", "field"),
    [
        (WEB, {"name": "Web"}, Rule.FORM, "name"),
        (WEB, {"name": None}, Rule.MISSING_KEY, ""),
        (WEB, {"name": 5}, Rule.TYPE, "name"),
        (WEB, {"kind": "stateles"}, Rule.FORM, "kind"),
        (WEB, {"driver": "docker"}, Rule.FORM, "driver"),
        (WEB, {"readiness": None}, Rule.MISSING_KEY, ""),
        (WEB, {"readiness": ("check",)}, Rule.TYPE, "readiness"),
        (WEB, {"readiness": Readiness(())}, Rule.RANGE, "readiness.command"),
        (WEB, {"readiness": Readiness(("a",) * 10)}, Rule.RANGE, "readiness.command"),
        (WEB, {"readiness": Readiness("check")}, Rule.TYPE, "readiness.command"),  # type: ignore[arg-type]
        (WEB, {"readiness": Readiness(("/bin/sh", "-c"))}, Rule.SHELL, "readiness.command[0]"),
        (WEB, {"readiness": Readiness(("a b",))}, Rule.FORM, "readiness.command[0]"),
        (WEB, {"readiness": Readiness(("a", "b\n"))}, Rule.FORM, "readiness.command[1]"),
        (WEB, {"readiness": Readiness(("a", "\ud800"))}, Rule.FORM, "readiness.command[1]"),
        (WEB, {"readiness": Readiness(("a", b"b"))}, Rule.TYPE, "readiness.command[1]"),  # type: ignore[arg-type]
        (WEB, {"readiness": Readiness(("a", "b" * 201))}, Rule.RANGE, "readiness.command[1]"),
        (WEB, {"port": 0}, Rule.RANGE, "port"),
        (WEB, {"port": True}, Rule.TYPE, "port"),
        (WEB, {"instances": ()}, Rule.MISSING_KEY, ""),
        (WEB, {"instances": []}, Rule.RANGE, "instances"),
        (WEB, {"instances": "web-1"}, Rule.TYPE, "instances"),
        (WEB, {"instances": ("a", "b", "a")}, Rule.INSTANCE_TWICE, "instances[2]"),
        (WEB, {"selector": {"a": "b"}}, Rule.ONE_OF, "selector"),
        (WEB, {"instances": (), "selector": {5: "b"}}, Rule.TYPE, "selector"),
        (
            WEB,
            {"instances": (), "selector": {"user.idkmesh.module": "db"}},
            Rule.SELECTOR_OWNER,
            "selector.user.idkmesh.module",
        ),
        (WEB, {"replicas": 1}, Rule.MISPLACED_KEY, "replicas"),
        (WEB, {"replicas": False}, Rule.MISPLACED_KEY, "replicas"),
        (WEB, {"argv": ("a",)}, Rule.MISPLACED_KEY, "process"),
        (WORKER, {"replicas": 0}, Rule.MISSING_KEY, ""),
        (WORKER, {"replicas": 65}, Rule.RANGE, "replicas"),
        (WORKER, {"replicas": 2}, Rule.SHARED_PORT, "port"),
        (WORKER, {"argv": ()}, Rule.RANGE, "process.argv"),
        (WORKER, {"argv": (), "cwd": None}, Rule.MISSING_KEY, ""),
        (WORKER, {"cwd": "a"}, Rule.FORM, "process.cwd"),
        (WORKER, {"instances": ("a",)}, Rule.MISPLACED_KEY, "instances"),
    ],
)
def test_a_value_that_is_wrong(module: DesiredModule, members: Mapping[str, Any], rule: Rule, field: str) -> None:
    """AR-2.2, AR-2.3, AR-2.4, AR-2.5: what the file may not say a value may not either, of whatever type it is."""
    wrong = dataclasses.replace(module, **members)
    found = wrong.validate()
    assert (rule, field) in {(finding.rule, finding.field) for finding in found}
    for finding in found:
        told = f"module {module.name}" if finding.module else ""
        assert str(finding).startswith(told)
        assert (finding.file, finding.line, finding.column) == ("", 0, 0)
        assert str(finding).endswith(f"{finding.what}; {finding.mend} [{finding.rule.value}]")


@pytest.mark.parametrize("seconds", [1, 5, 15, 5.0])
def test_time_limits_that_are_right(seconds: float) -> None:
    """AR-2.3, AR-2.4: whole numbers, also where JSON has them with a point."""
    assert validate_readiness({"command": ["a"], "timeoutSecs": seconds}) == ()


@pytest.mark.parametrize(
    "seconds",
    [
        0,
        16,
        -1,
        1.5,
        True,
        False,
        "5",
        None,
        float("nan"),
        float("inf"),
        pytest.param(10**5000, id="huge"),
        decimal.Decimal(5),
        [5],
    ],
)
def test_time_limits_that_are_wrong(seconds: Any) -> None:
    """AR-2.3, AR-2.4: no boolean, text, NaN, infinity or number of another type, and none of thousands of digits."""
    (finding,) = validate_readiness({"command": ["a"], "timeoutSecs": seconds})
    assert (finding.field, finding.rule in {Rule.TYPE, Rule.RANGE}) == ("timeoutSecs", True)
    assert str(finding).isprintable()
    assert len(str(finding)) < 200
    (same,) = validate_readiness(Readiness(("a",), seconds)) if seconds is not None else (finding,)
    assert same == finding


def test_what_is_deeper_than_any_file() -> None:
    """AR-2.4: a value within itself, and one of a thousand levels, is refused in no time."""
    endless: list[Any] = []
    endless.append(endless)
    deep: Any = 5
    for _ in range(900):
        deep = {"a": deep}
    for value in (endless, deep):
        rules = [finding.rule for finding in validate_declaration({"modules": [value]})]
        assert rules.count(Rule.DEPTH) == 1
    assert [finding.rule for finding in validate_module(object())] == [Rule.TYPE]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_any_value_is_judged(value: Any) -> None:
    """AR-2.4: whatever an API is sent, it is judged and its findings are lines."""
    for judge in (validate_declaration, validate_module, validate_readiness):
        found = judge(value)
        assert found
        assert all(str(finding).isprintable() for finding in found)
