"""YAML as a tree that knows where everything stands, in time and memory that grow with the text alone.

Laws of this module:

1. The tree is composed from the parser's events without recursion, so depth costs no stack.
2. An alias is the node it names, never a copy; what all aliases together stand for is bounded, long texts by their
   length: a rule reads a text again wherever an alias puts it.
3. Asking a node for what it does not have gives :data:`ABSENT`, which has nothing either: no rule has to look first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from idkmesh.inspection.findings import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHARACTERS: Final = 8 * 1024 * 1024
"""A longer text is not read."""

MAX_DEPTH: Final = 100
"""Kubernetes and Compose need about twenty."""

MAX_ALIASED_NODES: Final = 200_000
"""Values that all aliases of a text stand for together. Nine lines of nested aliases stand for a thousand million."""

CHARACTERS_A_VALUE: Final = 8
"""A scalar weighs one value, and one more for so many characters: aliases of a long script cost what its copies do."""

# libyaml is several times as fast; PyYAML has it only where it was built with it.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_QUOTED: Final = re.compile(r"'(?!<)[^']{2,}'")
"""What a parser quotes of the text, a tag for one: a password that is not in quotes may be read as such."""

_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,9}")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})


# Most nodes are scalars: two empty containers each would double the time that a text takes. Nobody writes to these.
_NO_ITEMS: Final[list[Node]] = []
_NO_ENTRIES: Final[dict[str, tuple[Node, Node]]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A scalar (``text``), a sequence (``items``) or a mapping (``entries``: key, then the key's node and the value's).

    ``plain`` says that a scalar stood without quotes.
    """

    kind: str
    place: Place
    text: str = ""
    plain: bool = False
    items: list[Node] = field(default_factory=lambda: _NO_ITEMS)
    entries: dict[str, tuple[Node, Node]] = field(default_factory=lambda: _NO_ENTRIES)

    def __bool__(self) -> bool:
        return self.kind != "absent" and not self.null

    @property
    def null(self) -> bool:
        """Whether it is YAML's null."""
        return self.kind == "scalar" and self.plain and self.text in _NULLS

    def at(self, *path: str) -> Node:
        """Return what stands under the keys, one after the other, or :data:`ABSENT`."""
        node = self
        for key in path:
            node = node.entries.get(key, _NOTHING)[1]
        return node

    def where(self, *path: str) -> Place:
        """Return where the last key of the path stands that is there, else where this node begins."""
        node, place = self, self.place
        for key in path:
            if key not in node.entries:
                break
            place = node.entries[key][0].place
            node = node.entries[key][1]
        return place

    def values(self) -> Iterator[tuple[str, Node]]:
        """Give each key of a mapping with its value."""
        return ((key, value) for key, (_, value) in self.entries.items())

    def integer(self, default: int) -> int:
        """Return a whole number, or ``default`` where there is none: for other types, expressions and templates."""
        return int(self.text) if self.plain and _INTEGER.fullmatch(self.text) else default

    @property
    def is_true(self) -> bool:
        """Whether it is YAML's true."""
        return self.kind == "scalar" and self.plain and self.text in _TRUE

    def words(self) -> tuple[str, ...]:
        """Return the texts of a sequence's scalars."""
        return tuple(item.text for item in self.items if item.kind == "scalar")


ABSENT: Final = Node("absent", Place(1, 1))
_NOTHING: Final = (ABSENT, ABSENT)


class DocumentError(Exception):
    """A text is no YAML that is read here. ``template`` says that it is a text that makes YAML."""

    def __init__(self, place: Place, what: str, *, template: bool = False) -> None:
        super().__init__(what)
        self.place = place
        self.template = template


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text holds: documents (empty ones left out), keys that stand twice, and what ended it before its end."""

    documents: list[Node]
    repeated: list[Node]
    error: DocumentError | None = None


def read_documents(text: str) -> Reading:
    """Return what a text holds, up to its first fault. Raises nothing."""
    if len(text) > MAX_CHARACTERS:
        return Reading([], [], DocumentError(Place(1, 1), f"it is longer than {MAX_CHARACTERS:,} characters"))
    composer = _Composer(text)
    error: DocumentError | None = None
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
    except DocumentError as fault:
        error = fault
    except yaml.YAMLError as fault:
        error = _parse_error(text, fault)
    except UnicodeEncodeError as fault:
        error = DocumentError(_place_of(text, fault.start), "a character is half of a surrogate pair")
    return Reading(composer.documents, composer.repeated, error)


def _parse_error(text: str, error: yaml.YAMLError) -> DocumentError:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        place = Place(mark.line + 1, mark.column + 1)
    else:
        place = _place_of(text, getattr(error, "position", 0))
    # "context" is filled in place of "problem" by some of libyaml's errors.
    parts = [getattr(error, name, None) for name in ("context", "problem", "reason")]
    what = ", ".join(" ".join(str(part).split()) for part in parts if part) or "it does not parse"
    what = _QUOTED.sub("what stands there", what)
    return DocumentError(place, what, template="{{" in text)


def _place_of(text: str, position: int) -> Place:
    line = text.count("\n", 0, position)
    return Place(line + 1, position - (text.rfind("\n", 0, position) + 1) + 1)


class _Composer:
    """Builds the tree, one event after the other."""

    def __init__(self, text: str) -> None:
        self.documents: list[Node] = []
        self.repeated: list[Node] = []
        self._text = text
        self._open: list[Node] = []
        self._keys: list[Node | None] = []
        self._anchors: dict[str, Node] = {}
        self._sizes: dict[int, int] = {}
        self._merged: dict[int, set[str]] = {}
        """By the id of an open mapping the keys that came by ``<<``: an own one wins, and repeats nothing."""
        self._aliased = 0

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        if isinstance(event, yaml.ScalarEvent):
            node = Node("scalar", _place(event), event.value, event.implicit[0] and not event.style)
            self._sizes[id(node)] = 1 + len(node.text) // CHARACTERS_A_VALUE
            self._anchor(event.anchor, node)
            self._add(node)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if isinstance(event, yaml.MappingStartEvent):
                self._begin(event, Node("mapping", _place(event), entries={}))
            else:
                self._begin(event, Node("sequence", _place(event), items=[]))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            node = self._open.pop()
            self._merged.pop(id(node), None)
            self._keys.pop()
            self._add(node)
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._named(event))
        elif isinstance(event, yaml.DocumentEndEvent):
            self._anchors.clear()

    def _begin(self, event: Any, node: Node) -> None:  # noqa: ANN401  the stubs give the two events no common anchor
        if len(self._open) >= MAX_DEPTH:
            raise DocumentError(node.place, f"it is nested deeper than {MAX_DEPTH}")
        if node.kind == "mapping" and self._text.startswith("{{", event.start_mark.index):
            raise DocumentError(node.place, "a mapping is the key of a mapping", template=True)
        self._sizes[id(node)] = 1
        self._anchor(event.anchor, node)
        self._open.append(node)
        self._keys.append(None)

    def _anchor(self, name: str | None, node: Node) -> None:
        if name is not None:
            self._anchors[name] = node

    def _named(self, event: yaml.AliasEvent) -> Node:
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise DocumentError(_place(event), "an alias names nothing: put a text that begins with * in quotes")
        if any(node is outer for outer in self._open):
            raise DocumentError(_place(event), "an alias stands within what it names")
        self._aliased += self._sizes[id(node)]
        if self._aliased > MAX_ALIASED_NODES:
            raise DocumentError(_place(event), f"its aliases stand for more than {MAX_ALIASED_NODES:,} values")
        return node

    def _add(self, node: Node) -> None:
        if not self._open:
            if node:
                self.documents.append(node)
            return
        parent = self._open[-1]
        self._sizes[id(parent)] += self._sizes[id(node)]
        if parent.kind == "sequence":
            parent.items.append(node)
        elif self._keys[-1] is None:
            self._keys[-1] = node
        else:
            self._enter(parent, self._keys[-1], node)
            self._keys[-1] = None

    def _enter(self, mapping: Node, key: Node, value: Node) -> None:
        """Put a value into a mapping. A key that is no scalar names nothing that a rule asks for."""
        if key.kind != "scalar":
            return
        if key.text == "<<" and key.plain:
            self._merge(mapping, value)
            return
        if key.text in mapping.entries and key.text not in self._merged.get(id(mapping), ()):
            self.repeated.append(key)
        elif id(mapping) in self._merged:
            self._merged[id(mapping)].discard(key.text)
        mapping.entries[key.text] = (key, value)

    def _merge(self, mapping: Node, value: Node) -> None:
        merged = self._merged.setdefault(id(mapping), set())
        for source in value.items if value.kind == "sequence" else [value]:
            for name, entry in source.entries.items():
                if name not in mapping.entries:
                    mapping.entries[name] = entry
                    merged.add(name)


def _place(event: yaml.Event) -> Place:
    mark: Any = event.start_mark  # the stubs allow None, which is for events that no parser made
    return Place(mark.line + 1, mark.column + 1)
