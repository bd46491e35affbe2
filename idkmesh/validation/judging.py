"""The judgement of a node by its shape (HL-3.2, AR-2.4). It recurses as deep as the table does, never as the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from idkmesh.validation.findings import Rule, shown
from idkmesh.validation.shapes import Case, Choice, Figure, Flag, ListOf, MapOf, OneOf, Record, Text
from idkmesh.validation.yaml_nodes import Kind, Mapping, Refused, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Collection

    from idkmesh.validation.findings import Findings
    from idkmesh.validation.shapes import Shape
    from idkmesh.validation.yaml_nodes import Node


_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_WITH_UNIT: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?[ _]?[A-Za-z]{1,12}")


def judge(node: Node, shape: Shape, name: str, findings: Findings) -> Any:  # noqa: ANN401, PLR0911  JSON-like; a table
    """Return the value of ``node``, or None where it is not of its ``shape``: then ``findings`` has the reasons.

    A record or list is returned as far as it could be judged, so that what holds between its parts can be judged too:
    a record lacks the members that are wrong, a list has None in the place of a wrong item. ``name`` is how messages
    call the node.
    """
    if isinstance(node, Refused):
        return None
    match shape, node:
        case ((Text() | Choice() | Flag() | Figure()), Scalar()):
            return _scalar(node, shape, name, findings)
        case ListOf(), Sequence():
            return _list(node, shape, name, findings)
        case MapOf(), Mapping():
            return _map(node, shape, name, findings)
        case Record(), Mapping():
            return _record(node, shape, name, findings)
        case OneOf(), Mapping():
            return _one_of(node, shape, name, findings)
    _wrong_type(node, shape, name, findings)
    return None


def _wrong_type(node: Scalar | Sequence | Mapping, shape: Shape, name: str, findings: Findings) -> None:
    what = f"{name} is {node.kind.value} where {shape.wanted} is wanted"
    findings.add(node.mark, Rule.TYPE, what, _type_mend(node, shape))


def _type_mend(node: Scalar | Sequence | Mapping, shape: Shape) -> str:
    """Say what to write. What is wanted stands in the line already: a range is not said twice."""
    text = node.text if isinstance(node, Scalar) and node.kind is Kind.TEXT else ""
    plain = isinstance(node, Scalar) and node.plain
    if isinstance(shape, Figure):
        if not plain and _NUMBER.fullmatch(text):
            return "write it without quotes"
        return "write the number alone, without its unit" if _WITH_UNIT.fullmatch(text) else "write such a number"
    if isinstance(shape, ListOf) and shape.example and text:
        return f"write each word as an item of a list, such as {shape.example}"
    if isinstance(shape, Text | Choice) and isinstance(node, Scalar) and node.kind is not Kind.NULL:
        return "put it in quotes"
    quoted = isinstance(shape, Flag) and isinstance(node, Scalar) and not plain
    return f"write {shape.wanted}{', without quotes' if quoted else ''}"


def _scalar(
    node: Scalar, shape: Text | Choice | Flag | Figure, name: str, findings: Findings
) -> str | bool | float | None:
    kind = node.kind
    if isinstance(shape, Text | Choice) and kind is Kind.TEXT:
        return _text(node, shape, name, findings)
    if isinstance(shape, Flag) and kind is Kind.BOOLEAN:
        return node.text.lower() == "true"
    if isinstance(shape, Figure) and kind in {Kind.INTEGER, Kind.NUMBER}:
        return _figure(node, shape, name, findings)
    _wrong_type(node, shape, name, findings)
    return None


def _text(node: Scalar, shape: Text | Choice, name: str, findings: Findings) -> str | None:
    text = node.text
    if isinstance(shape, Choice):
        if text in shape.words:
            return text
        what = f"{name} is{shown(text) or ' something'}, which is not known"
        near = findings.nearest(text, shape.words) if len(shape.words) > 1 else None
        mend = f"write {shape.wanted}" if near is None else f"did you mean {near}?"
        findings.add(node.mark, Rule.FORM, what, mend)
    elif not shape.least <= len(text) <= shape.most:
        what = f"{name} has {len(text):,} characters"
        mend = f"write {shape.wanted}, of {shape.least} to {shape.most:,} characters"
        findings.add(node.mark, Rule.RANGE, what, mend)
    elif shape.never is not None and re.fullmatch(shape.never.pattern, text):
        findings.add(node.mark, shape.never.rule, f"{name} {shape.never.what}", shape.never.mend)
    elif not re.fullmatch(shape.pattern, text):
        findings.add(node.mark, Rule.FORM, *_wrong_form(text, shape, name))
    else:
        return text
    return None


def _wrong_form(text: str, shape: Text, name: str) -> tuple[str, str]:
    """Return what is wrong with a text, and what to write: of the first character that may not stand in it, if one."""
    if shape.sign:
        for place, sign in enumerate(text, 1):
            if not re.fullmatch(shape.sign, sign):
                what = f"{name} has {_shown_sign(sign)} as character {place}, and is not {shape.wanted}"
                return what, shape.mends.get(sign, "write another character there")
    return f"{name} is not {shape.wanted}", f"write {shape.wanted}"


def _shown_sign(sign: str) -> str:
    if sign == " ":
        return "a space"
    return f"'{sign}'" if sign.isprintable() else f"U+{ord(sign):04X}"


def _figure(node: Scalar, shape: Figure, name: str, findings: Findings) -> float | None:
    value = node.number()
    if not shape.least <= value <= shape.most:
        written = node.text if len(node.text) <= 32 else "a number without end"  # noqa: PLR2004  a line's worth
        findings.add(node.mark, Rule.RANGE, f"{name} is {written}", f"write {shape.wanted}")
        return None
    if shape.fraction:
        return value
    if value != int(value):
        findings.add(node.mark, Rule.TYPE, f"{name} is {node.text}, which is not whole", f"write {shape.wanted}")
        return None
    return int(value)  # 5432.0 is a whole number in JSON too


def _list(node: Sequence, shape: ListOf, name: str, findings: Findings) -> list[Any]:
    size = len(node.items)
    if not shape.least <= size <= shape.most:
        findings.add(node.mark, Rule.RANGE, f"{name} has {size:,} items", f"write {shape.wanted}")
    values = []
    path = findings.path
    for number, item in enumerate(node.items[: shape.most]):
        item_shape = shape.first if number == 0 and shape.first is not None else shape.item
        path.append(number)
        values.append(judge(item, item_shape, f"item {number + 1} of {name}", findings))
        path.pop()
    return values


def _map(node: Mapping, shape: MapOf, name: str, findings: Findings) -> dict[str, Any]:
    size = len(node.members)
    if not shape.least <= size <= shape.most:
        mend = f"write {shape.most} at most" if size > shape.most else f"write {shape.least} at least"
        findings.add(node.mark, Rule.RANGE, f"{name} has {size:,} keys", mend)
        return {}
    values: dict[str, Any] = {}
    for key, member in node.members.items():
        findings.path.append(key)
        key_text = _text(Scalar(member.mark, key, plain=False), shape.key, f"a key of {name}", findings)
        value = judge(member.value, shape.value, f"the value{shown(key)} of {name}", findings)
        findings.path.pop()
        if key_text is not None and value is not None:
            values[key_text] = value
    return values


def _record(node: Mapping, shape: Record, name: str, findings: Findings) -> dict[str, Any]:
    values: dict[str, Any] = {}
    path = findings.path
    for key, member in node.members.items():
        path.append(key)
        member_shape = shape.members.get(key)
        if member_shape is None:
            mend = findings.suggestion(key, shape.members)
            findings.add(member.mark, Rule.UNKNOWN_KEY, f"{name} has an unknown key{shown(key)}", mend)
        elif (value := judge(member.value, member_shape, key, findings)) is not None:
            values[key] = value
        path.pop()
    _judge_required(node, shape, shape.required, name, findings)
    if shape.any_of and not any(key in node.members for key in shape.any_of):
        wanted = " or ".join(shape.any_of)
        findings.add(node.mark, Rule.MISSING_KEY, f"{name} has no {wanted}", f"add {wanted}")
    if shape.one_of:
        _judge_one_of(node, shape.one_of, name, findings)
    for case in shape.cases:
        if case.key in node.members and (case.word is None or case.word == values.get(case.key)):
            _judge_case(node, shape, case, name, findings)
    return values


def _judge_required(node: Mapping, shape: Record, keys: Collection[str], name: str, findings: Findings) -> None:
    for key in keys:
        if key not in node.members:
            mend = f"add {key}: {shape.members[key].wanted}"
            findings.add(node.mark, Rule.MISSING_KEY, f"{name} has no {key}", mend)


def _judge_one_of(node: Mapping, keys: Collection[str], name: str, findings: Findings) -> None:
    there = [key for key in node.members if key in keys]
    wanted = " or ".join(keys)
    if not there:
        findings.add(node.mark, Rule.MISSING_KEY, f"{name} has no {wanted}", f"add {wanted}")
    for key in there[1:]:
        what = f"{name} has {there[0]} and {key}"
        findings.add(node.members[key].mark, Rule.ONE_OF, what, "keep one of them", (*findings.path, key))


def _judge_case(node: Mapping, shape: Record, case: Case, name: str, findings: Findings) -> None:
    told = case.key if case.word is None else f"{case.key}: {case.word}"
    _judge_required(node, shape, case.required, f"{name} with {told}", findings)
    if case.one_of:
        _judge_one_of(node, case.one_of, f"{name} with {told}", findings)
    for key in case.foreign:
        if key in node.members:
            what = f"{key} does not go with {told}"
            findings.add(node.members[key].mark, Rule.MISPLACED_KEY, what, "leave it out", (*findings.path, key))


def _one_of(node: Mapping, shape: OneOf, name: str, findings: Findings) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, member in node.members.items():
        findings.path.append(key)
        if (member_shape := shape.members.get(key)) is None:
            mend = findings.suggestion(key, shape.members)
            findings.add(member.mark, Rule.UNKNOWN_KEY, f"{name} has an unknown kind{shown(key)}", mend)
        else:
            values[key] = judge(member.value, member_shape, key, findings)
        findings.path.pop()
    if len(node.members) != 1:
        count = len(node.members) or "no"
        known = ", ".join(shape.members)
        what = f"{name} has {count} {shape.noun}{'' if len(node.members) == 1 else 's'}"
        findings.add(node.mark, Rule.ONE_PROBE, what, f"write one of {known}")
    return values
