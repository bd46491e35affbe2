"""What a part of a file may be, as values (HL-3.2, AR-2.4).

A shape says what a JSON Schema says, with the same patterns: the published schema is made from the same table, and a
test holds the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping as Members

    from idkmesh.validation.findings import Rule


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

    ``sign`` is the pattern of each character that may stand in it, if it is told of the first that may not; ``mends``
    say what to write instead, by character.

    Patterns are what Python and ECMA 262 read the same way, and take linear time: they are for bounded texts, but a
    thousand of them are judged at once.
    """

    meaning: str
    wanted: str
    pattern: str
    most: int
    least: int = 1
    never: Never | None = None
    sign: str = ""
    mends: Members[str, str] = field(default_factory=dict)


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
    """A list of ``least`` to ``most`` items, each of one shape but the first, if ``first`` says so.

    ``example`` is one as YAML, for who has written a line in its place.
    """

    meaning: str
    item: Shape
    least: int
    most: int
    first: Shape | None = None
    example: str = ""

    @property
    def wanted(self) -> str:
        """The size in words."""
        return f"a list of {self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A mapping of ``least`` to ``most`` values of one shape; its keys are the file's own."""

    meaning: str
    key: Text
    value: Shape
    most: int
    least: int = 0
    wanted: str = "a mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What else holds for a mapping that has ``key``, or has it with the value ``word``.

    Then ``required`` are there, ``foreign`` are not, and of ``one_of``, if it names any, exactly one is.
    """

    key: str
    word: str | None = None
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A mapping with known keys.

    Of ``any_of`` one at least is there, of ``one_of`` exactly one; ``cases`` hold besides.
    """

    meaning: str
    members: Members[str, Shape]
    required: tuple[str, ...]
    any_of: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    wanted: str = "a mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """A mapping with one key, which says what kind of thing its value is."""

    meaning: str
    members: Members[str, Record]
    noun: str
    wanted: str = "a mapping"


Shape = Text | Choice | Flag | Figure | ListOf | MapOf | Record | OneOf
