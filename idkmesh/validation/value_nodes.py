"""A value of JSON or Python as the tree that a table judges, so that a made value is judged as a file is (AR-2.4)."""

from __future__ import annotations

from collections.abc import Mapping as Members
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.validation.findings import Mark, Rule
from idkmesh.validation.yaml_nodes import MAX_DEPTH, Kind, Mapping, Member, Refused, Scalar, Sequence

if TYPE_CHECKING:
    from idkmesh.validation.findings import Findings
    from idkmesh.validation.yaml_nodes import Node

NOWHERE: Final = Mark(0, 0)
"""The place of what stands in no file."""

_FAR: Final = 10**32
"""A number beyond it is in no range, and Python writes none of thousands of digits."""


@dataclass(frozen=True, slots=True)
class _Value(Scalar):
    """A scalar that knows its type."""

    value: object = None

    @property
    def kind(self) -> Kind:
        """What it is. True and false are no numbers; a number of another type than JSON's is nothing known."""
        match self.value:
            case None:
                return Kind.NULL
            case bool():
                return Kind.BOOLEAN
            case int():
                return Kind.INTEGER
            case float():
                return Kind.NUMBER
            case str():
                return Kind.TEXT
        return Kind.FOREIGN

    def number(self) -> float:
        """Return the number itself."""
        return self.value if isinstance(self.value, int | float) else float("nan")


def node_of(value: object, findings: Findings) -> Node:
    """Return a value as a tree without places: mappings, lists, tuples, and scalars.

    What is deeper than any file is refused, which goes to ``findings``, as do keys that are no text.
    """
    if not isinstance(value, Members | list | tuple):
        return _Value(NOWHERE, _written(value), plain=not isinstance(value, str), value=value)
    if len(findings.path) == MAX_DEPTH:
        what = f"more than {MAX_DEPTH} levels within each other"
        findings.add(NOWHERE, Rule.DEPTH, what, "nothing of this kind is so deep: compare it with an example")
        return Refused(NOWHERE)
    if isinstance(value, Members):
        return _mapping(value, findings)
    items: list[Node] = []
    for number, item in enumerate(value):
        findings.path.append(number)
        items.append(node_of(item, findings))
        findings.path.pop()
    return Sequence(NOWHERE, items)


def _mapping(value: Members[object, object], findings: Findings) -> Mapping:
    members: dict[str, Member] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            kind = _Value(NOWHERE, "", plain=True, value=key).kind.value
            findings.add(NOWHERE, Rule.TYPE, f"a key is {kind} where text is wanted", "write a name")
            continue
        findings.path.append(key)
        members[key] = Member(NOWHERE, node_of(item, findings))
        findings.path.pop()
    return Mapping(NOWHERE, members)


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "9" * 33 if abs(value) >= _FAR else str(value)  # "nan" is written
    return ""
