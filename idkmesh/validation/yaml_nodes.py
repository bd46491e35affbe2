"""YAML as a tree in which every node knows its place, and nothing beyond plain YAML (HL-3.2, AR-2.1).

Laws of this module:

1. The tree is built from the parser's events, with a stack of its own: no input makes it recurse, and the depth has a
   bound. Composing with PyYAML recurses, and resolves aliases before anybody can refuse them.
2. A plain scalar is what YAML 1.1 and YAML 1.2 both say it is. Where they differ (``no``, ``012``, ``1:30``, ``1e3``)
   it is :attr:`Kind.AMBIGUOUS`, which is never what a file of this project may have.
3. What is refused here is told here, once: a :class:`Refused` node is judged no further.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.resolver import Resolver

from idkmesh.validation.findings import BEGINNING, Mark, Rule, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.validation.findings import Findings

MAX_DEPTH: Final = 16
"""Collections within each other. The deepest of a probe matrix is the seventh."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser of libyaml where PyYAML was built with it. The other gives the same events, ten times slower."""

_FORBIDDEN: Final = re.compile(r"[^\t\n\r\x20-\x7E\x85\xA0-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
"""What is no printable character of YAML 1.1 (section 5.1)."""

_LINE: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""What ends a line (YAML 1.1, section 5.4)."""

_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?")
_ONLY_1_2: Final = re.compile(r"0[ox][0-9A-Fa-f]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
"""Numbers of the core schema of YAML 1.2 (section 10.3.2)."""
_ONLY_1_1: Final = frozenset({"y", "Y", "n", "N"})
"""Booleans of YAML 1.1 that PyYAML leaves as they are."""

_MAX_DIGITS: Final = 32
"""Characters of a number. A longer one is out of every range, and ``int`` would take quadratic time."""

_IMPLICIT: Final = Resolver()


class Kind(enum.Enum):
    """What a node is; the value is how a message calls it."""

    TEXT = "text"
    INTEGER = "a number"
    NUMBER = "a number with a fraction"
    BOOLEAN = "true or false"
    NULL = "empty"
    AMBIGUOUS = "a word that YAML may read as something else than text"
    LIST = "a list"
    MAPPING = "a mapping"
    FOREIGN = "of a type that JSON does not have"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text as it stands in the file, without its quotes; ``plain`` is one that had none."""

    mark: Mark
    text: str
    plain: bool

    @property
    def kind(self) -> Kind:
        """What both versions of YAML say it is."""
        return _plain_kind(self.text) if self.plain else Kind.TEXT

    def number(self) -> float:
        """Return the value of an integer or a number. What is too long for any range is infinite."""
        if len(self.text) > _MAX_DIGITS:
            return float("-inf") if self.text.startswith("-") else float("inf")
        return int(self.text) if self.kind is Kind.INTEGER else float(self.text)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    mark: Mark
    items: list[Node]
    kind: Kind = Kind.LIST


@dataclass(frozen=True, slots=True)
class Member:
    """A key's place and its value."""

    mark: Mark
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys, which are text, with their values. Of a key that stood twice this is the first."""

    mark: Mark
    members: dict[str, Member]
    kind: Kind = Kind.MAPPING


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that has its finding already."""

    mark: Mark


Node = Scalar | Sequence | Mapping | Refused


@dataclass(frozen=True, slots=True)
class _Open:
    """A collection whose end is still to come; of a mapping keys and values in turn."""

    mark: Mark
    mapping: bool
    nodes: list[Node] = field(default_factory=list)


def parse(text: str, findings: Findings) -> Node | None:
    """Return the one document of ``text``, or None where it is none; what is wrong goes to ``findings``."""
    text = text.removeprefix("\ufeff")  # a byte order mark; YAML allows it
    if (bad := _FORBIDDEN.search(text)) is not None:
        what = f"the character U+{ord(bad[0]):04X} is none that YAML allows"
        findings.add(place(text, bad.start()), Rule.UNREADABLE, what, "take it out, or write it escaped in quotes")
        return None
    builder = _Builder(findings)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if not builder.take(event):
                return None
    except yaml.YAMLError as error:
        _add_syntax(error, findings)
        return None
    if builder.root is None:
        findings.add(BEGINNING, Rule.SYNTAX, "the file is empty", "write what it is to say")
    return builder.root


def place(text: str, index: int) -> Mark:
    """Return where a character of ``text`` stands, by YAML's own line ends."""
    line, start = 1, 0
    for end in _LINE.finditer(text, 0, index):
        line, start = line + 1, end.end()
    return Mark(line, index - start + 1)


class _Builder:
    """Makes a tree of events."""

    def __init__(self, findings: Findings) -> None:
        self.root: Node | None = None
        self._findings = findings
        self._open: list[_Open] = []
        self._documents = 0

    def take(self, event: yaml.Event) -> bool:
        """Take the next event; say whether the next one may come."""
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent | yaml.AliasEvent):
            return self._take_node(event, _mark(event.start_mark))
        if isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            self._add(self._mapping(done) if done.mapping else Sequence(done.mark, done.nodes))
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                mend = "keep one document in the file"
                self._findings.add(_mark(event.start_mark), Rule.SYNTAX, "a second document begins here", mend)
                return False
        return True

    def _take_node(self, event: yaml.NodeEvent, mark: Mark) -> bool:
        if isinstance(event, yaml.AliasEvent):
            self._note(mark, Rule.ALIAS, "an alias stands here", "write out what it stands for")
            self._add(Refused(mark))
            return True
        if event.anchor is not None:
            self._note(mark, Rule.ALIAS, "an anchor stands here", "leave it out")
        tagged = isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None
        if tagged:
            self._note(mark, Rule.TAG, "a tag stands here", "leave it out")
        if isinstance(event, yaml.ScalarEvent):
            # Its type is what the tag says, which is not looked at: one finding is enough.
            self._add(Refused(mark) if tagged else Scalar(mark, event.value, bool(event.implicit[0])))
            return True
        if len(self._open) == MAX_DEPTH:
            what = f"more than {MAX_DEPTH} levels within each other"
            self._note(mark, Rule.DEPTH, what, "no file of this kind is so deep: compare it with an example")
            return False
        self._open.append(_Open(mark, isinstance(event, yaml.MappingStartEvent)))
        return True

    def _note(self, mark: Mark, rule: Rule, what: str, mend: str, *more: str) -> None:
        """Note a finding, with the path of what is being built; ``more`` leads on from there."""
        path: list[str | int] = []
        for collection in self._open:
            if not collection.mapping:
                path.append(len(collection.nodes))
            elif len(collection.nodes) % 2:  # a key waits for its value
                key = collection.nodes[-1]
                path.append(key.text if isinstance(key, Scalar) else "")
        self._findings.add(mark, rule, what, mend, (*path, *more))

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].nodes.append(node)
        else:
            self.root = node

    def _mapping(self, done: _Open) -> Mapping:
        members: dict[str, Member] = {}
        for key, value in zip(done.nodes[::2], done.nodes[1::2], strict=True):
            text = self._key_text(key)
            if text is not None and (first := members.setdefault(text, Member(key.mark, value))).mark != key.mark:
                what = f"the key{shown(text)} stands here again, first in line {first.mark.line}"
                self._note(key.mark, Rule.DUPLICATE_KEY, what, "keep one of them", text)
        return Mapping(done.mark, members)

    def _key_text(self, key: Node) -> str | None:
        if isinstance(key, Refused):
            return None
        if isinstance(key, Scalar):
            if key.kind is Kind.TEXT:
                return key.text
            if key.text == "<<":
                self._note(key.mark, Rule.ALIAS, "a merge key stands here", "write out what is to be merged")
                return None
        mend = "put it in quotes" if isinstance(key, Scalar) else "write a name"
        self._note(key.mark, Rule.TYPE, f"a key is {key.kind.value} where text is wanted", mend)
        return None


def _plain_kind(text: str) -> Kind:
    """Say what a plain scalar is (law 2)."""
    resolve: Callable[..., str] = _IMPLICIT.resolve  # the stubs have no types for it
    by_1_1 = resolve(yaml.ScalarNode, text, (True, False)).rpartition(":")[2]
    if by_1_1 == "str":
        return Kind.AMBIGUOUS if text in _ONLY_1_1 or _ONLY_1_2.fullmatch(text) else Kind.TEXT
    if by_1_1 == "null":
        return Kind.NULL
    if by_1_1 == "bool" and text.lower() in {"true", "false"}:
        return Kind.BOOLEAN
    if _INTEGER.fullmatch(text):
        return Kind.INTEGER
    return Kind.NUMBER if _NUMBER.fullmatch(text) else Kind.AMBIGUOUS


def _mark(mark: Any) -> Mark:  # noqa: ANN401  one of two classes, by parser; a parser's event always has one
    return Mark(mark.line + 1, mark.column + 1)


def _add_syntax(error: yaml.YAMLError, findings: Findings) -> None:
    """Note what the parser says. Its words are about signs of YAML, never about what stands between them."""
    mark, what = BEGINNING, "this is no YAML"
    if isinstance(error, yaml.MarkedYAMLError):
        where = error.problem_mark or error.context_mark
        mark = BEGINNING if where is None else _mark(where)
        what += ": " + ", ".join(filter(None, (error.context, error.problem)))
    mend = "check indentation, quotes and brackets here and in the line above"
    findings.add(mark, Rule.SYNTAX, what, mend)
