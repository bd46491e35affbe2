"""What a part of a file may be, as values, and the judgement of a node by its shape (HL-3.2).

A shape says what a JSON Schema says, with the same patterns: the published schema is made from the same table, and a
test holds the two against each other. Judging recurses as deep as the table does, never as deep as the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from idkmesh.health.findings import Rule, shown
from idkmesh.health.yaml_nodes import Kind, Mapping, Refused, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Mapping as Members

    from idkmesh.health.findings import Findings
    from idkmesh.health.yaml_nodes import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Texts that are refused for a reason of their own. ``pattern`` is for the whole text."""

    pattern: str
    rule: Rule
    what: str
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that ``pattern`` describes whole, of ``least`` to ``most`` characters; ``wanted`` says it in words.

    Patterns are what Python and ECMA 262 read the same way, and take linear time: they are for bounded texts, but a
    thousand of them are judged at once.
    """

    meaning: str
    wanted: str
    pattern: str
    most: int
    least: int = 1
    never: Never | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of some words."""

    meaning: str
    words: tuple[str, ...]

    @property
    def wanted(self) -> str:
        """The words."""
        return " or ".join(f'"{word}"' if word[0].isdigit() else word for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """True or false."""

    meaning: str
    wanted: str = "true or false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number from ``least`` to ``most``, both allowed; a whole one unless ``fraction``."""

    meaning: str
    least: float
    most: float
    unit: str = ""
    fraction: bool = False

    @property
    def wanted(self) -> str:
        """The range in words."""
        noun = "a number" if self.fraction else "a whole number"
        unit = f" of {self.unit}" if self.unit else ""
        return f"{noun}{unit} from {self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list of ``least`` to ``most`` items, each of one shape but the first, if ``first`` says so."""

    meaning: str
    item: Shape
    least: int
    most: int
    first: Shape | None = None

    @property
    def wanted(self) -> str:
        """The size in words."""
        return f"a list of {self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMap:
    """A mapping of at most ``most`` texts; its keys are the file's own."""

    meaning: str
    key: Text
    value: Text
    most: int
    wanted: str = "a mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A mapping with known keys. ``any_of`` are keys of which one at least is there."""

    meaning: str
    members: Members[str, Shape]
    required: tuple[str, ...]
    any_of: tuple[str, ...] = ()
    wanted: str = "a mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """A mapping with one key, which says what kind of thing its value is."""

    meaning: str
    members: Members[str, Record]
    noun: str
    wanted: str = "a mapping"


Shape = Text | Choice | Flag | Figure | ListOf | TextMap | Record | OneOf


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
        case TextMap(), Mapping():
            return _text_map(node, shape, name, findings)
        case Record(), Mapping():
            return _record(node, shape, name, findings)
        case OneOf(), Mapping():
            return _one_of(node, shape, name, findings)
    _wrong_type(node, shape, name, findings)
    return None


def _wrong_type(node: Scalar | Sequence | Mapping, shape: Shape, name: str, findings: Findings) -> None:
    what = f"{name} is {node.kind.value} where {shape.wanted} is wanted"
    mend = f"write {shape.wanted}"
    if isinstance(node, Scalar):
        if isinstance(shape, Text | Choice) and node.kind is not Kind.NULL:
            mend = "put it in quotes"
        elif not node.plain and isinstance(shape, Flag | Figure):
            mend += ", without quotes"
    findings.add(node.mark, Rule.TYPE, what, mend)


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
        findings.add(node.mark, Rule.FORM, what, f"write {shape.wanted}")
    elif not shape.least <= len(text) <= shape.most:
        what = f"{name} has {len(text):,} characters"
        mend = f"write {shape.wanted}, of {shape.least} to {shape.most:,} characters"
        findings.add(node.mark, Rule.RANGE, what, mend)
    elif shape.never is not None and re.fullmatch(shape.never.pattern, text):
        findings.add(node.mark, shape.never.rule, f"{name} {shape.never.what}", shape.never.mend)
    elif not re.fullmatch(shape.pattern, text):
        findings.add(node.mark, Rule.FORM, f"{name} is not {shape.wanted}", f"write {shape.wanted}")
    else:
        return text
    return None


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
    for number, item in enumerate(node.items[: shape.most]):
        item_shape = shape.first if number == 0 and shape.first is not None else shape.item
        values.append(judge(item, item_shape, f"item {number + 1} of {name}", findings))
    return values


def _text_map(node: Mapping, shape: TextMap, name: str, findings: Findings) -> dict[str, str]:
    if len(node.members) > shape.most:
        what = f"{name} has {len(node.members):,} keys"
        findings.add(node.mark, Rule.RANGE, what, f"write {shape.most} at most")
        return {}
    values: dict[str, str] = {}
    for key, member in node.members.items():
        key_text = _text(Scalar(member.mark, key, plain=False), shape.key, f"a key of {name}", findings)
        value = judge(member.value, shape.value, f"the value{shown(key)} of {name}", findings)
        if key_text is not None and value is not None:
            values[key_text] = value
    return values


def _record(node: Mapping, shape: Record, name: str, findings: Findings) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, member in node.members.items():
        member_shape = shape.members.get(key)
        if member_shape is None:
            mend = findings.suggestion(key, shape.members)
            findings.add(member.mark, Rule.UNKNOWN_KEY, f"{name} has an unknown key{shown(key)}", mend)
        elif (value := judge(member.value, member_shape, key, findings)) is not None:
            values[key] = value
    for key in shape.required:
        if key not in node.members:
            mend = f"add {key}: {shape.members[key].wanted}"
            findings.add(node.mark, Rule.MISSING_KEY, f"{name} has no {key}", mend)
    if shape.any_of and not any(key in node.members for key in shape.any_of):
        wanted = " or ".join(shape.any_of)
        findings.add(node.mark, Rule.MISSING_KEY, f"{name} has no {wanted}", f"add {wanted}")
    return values


def _one_of(node: Mapping, shape: OneOf, name: str, findings: Findings) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, member in node.members.items():
        if (member_shape := shape.members.get(key)) is None:
            mend = findings.suggestion(key, shape.members)
            findings.add(member.mark, Rule.UNKNOWN_KEY, f"{name} has an unknown kind{shown(key)}", mend)
        else:
            values[key] = judge(member.value, member_shape, key, findings)
    if len(node.members) != 1:
        count = len(node.members) or "no"
        known = ", ".join(shape.members)
        what = f"{name} has {count} {shape.noun}{'' if len(node.members) == 1 else 's'}"
        findings.add(node.mark, Rule.ONE_PROBE, what, f"write one of {known}")
    return values
