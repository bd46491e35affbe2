"""What is wrong in a file that somebody wrote: where, by which rule, and what to do (HL-3.2, AR-2.4).

No finding repeats a text of the file, but for names of keys, words of a choice and names of dependencies that are
written in letters, digits and a few signs, and for one character that may not stand where it does: what stands in the
wrong place may be a credential.
"""

from __future__ import annotations

import difflib
import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

Path = tuple[str | int, ...]
AnyFinding = TypeVar("AnyFinding", bound="Finding")

_SHOWN: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_SUGGESTIONS: Final = 100
"""Unknown words of one file for which the nearest known one is sought: that costs more than the rest of a finding."""


class Rule(enum.Enum):
    """What a finding is about; the value is stable."""

    UNREADABLE = "unreadable"
    """The file cannot be read, is too large, is not UTF-8, or has a character that YAML does not allow."""
    SYNTAX = "yaml-syntax"
    """No YAML, or more or less than one document."""
    DEPTH = "yaml-depth"
    """Nested deeper than any file of this kind."""
    ALIAS = "yaml-alias"
    """An alias, an anchor or a merge key."""
    TAG = "yaml-tag"
    """A tag."""
    DUPLICATE_KEY = "duplicate-key"
    UNKNOWN_KEY = "unknown-key"
    MISSING_KEY = "missing-key"
    TYPE = "wrong-type"
    RANGE = "out-of-range"
    """A figure, a length or a number of items."""
    FORM = "wrong-form"
    """A text that is not written as it must be, or is none of the words that are allowed."""
    ADDRESS = "address"
    """An IPv6 address that is none."""
    ONE_PROBE = "one-probe"
    """A dependency has one probe: not none, not two."""
    DUPLICATE_NAME = "duplicate-name"
    SHELL = "shell"
    """A command runs without a shell (HL-4.8)."""
    CREDENTIALS = "credentials"
    """Credentials are named by environment variable (HL-4.9)."""
    TIMEOUT_READINESS = "timeout-readiness"
    """A dependency's timeout below the one of readiness (HL-3.3)."""
    TIMEOUT_INTERVAL = "timeout-interval"
    """A timeout that is not over the interval (HL-3.3)."""
    CACHE = "cache"
    """A result lives until the next one is there (HL-3.3)."""
    CRITICAL_THRESHOLD = "critical-threshold"
    """A critical dependency fails readiness at its first failure (HL-3.3)."""
    TIMEOUT_PERIOD = "timeout-period"
    """An orchestrator's timeout that is not over its period (HL-3.3)."""
    ONE_OF = "one-of"
    """Of some keys one is there: not two (AR-2.2)."""
    MISPLACED_KEY = "misplaced-key"
    """A key that does not go with another one, or with its value (AR-2.2)."""
    UNKNOWN_CLASS = "unknown-class"
    """A class that neither the file nor the catalog has (AR-2.6)."""
    INSTANCE_TWICE = "instance-twice"
    """An instance belongs to one module, and is named once (AR-2.5)."""
    SELECTOR_OWNER = "selector-owner"
    """A selector for instances that belong to another module (AR-3.1)."""
    SHARED_PORT = "shared-port"
    """Replicas that have one address, and one port (AR-2.2)."""
    PLATFORM = "platform"
    """A driver whose platform is not declared (AR-2.2)."""
    LEASE_TIME = "lease-time"
    """A lease that leaves no time for a pass (AR-6.2)."""
    TOKEN = "token"  # noqa: S105  the name of a rule, no token
    """A token file that gives no token, or a token of two credentials (RT-9.2)."""


class Mark(NamedTuple):
    """A place in a file: line and column in characters, both from 1."""

    line: int
    column: int


BEGINNING: Final = Mark(1, 1)
"""Where a finding stands that is about the file as a whole."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. As text it is one line: ``file:line:column: what; mend [rule]``."""

    file: str
    line: int
    column: int
    rule: Rule
    what: str
    mend: str
    path: Path = field(default=(), compare=False)
    """The keys, and the places in lists from 0, that lead to it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.what}; {self.mend} [{self.rule.value}]"


class RefusedError(ValueError, Generic[AnyFinding]):
    """A file is refused. ``findings`` are all that are wrong, in the order of the file, at least one.

    As text it is one line, the first finding and how many more there are; :meth:`lines` has all.
    """

    def __init__(self, findings: tuple[AnyFinding, ...]) -> None:
        super().__init__(findings)
        self.findings = findings

    def __str__(self) -> str:
        more = len(self.findings) - 1
        return f"{self.findings[0]}" + (f" (and {more} more)" if more else "")

    def lines(self) -> list[str]:
        """Return every finding, a line each."""
        return [str(finding) for finding in self.findings]


class MatrixError(RefusedError[Finding]):
    """A probe matrix is refused."""


class Findings:
    """Gathers what is wrong in one file. ``source`` is how the file is called in the lines."""

    def __init__(self, source: str) -> None:
        self._source = source if source.isprintable() else ascii(source)
        self._found: list[Finding] = []
        self._sought = 0
        self.path: list[str | int] = []
        """Leads to what is being judged; whoever goes into a part of it says so."""

    def __len__(self) -> int:
        return len(self._found)

    def add(self, mark: Mark, rule: Rule, what: str, mend: str, path: Path | None = None) -> None:
        """Note one finding, about what stands at ``path``, by default :attr:`path`."""
        whole = tuple(self.path) if path is None else path
        self._found.append(Finding(self._source, mark.line, mark.column, rule, what, mend, whole))

    def suggestion(self, word: str, known: Collection[str]) -> str:
        """Return what to do about a word that is none of ``known``: the nearest of them, or all."""
        near = self.nearest(word, known)
        return f"known are {', '.join(known)}" if near is None else f"did you mean {near}?"

    def nearest(self, word: str, known: Collection[str]) -> str | None:
        """Return the word of ``known`` that is the most like a wrong one, None where none is."""
        if not shown(word) or self._sought >= _SUGGESTIONS:
            return None
        self._sought += 1
        return next(iter(difflib.get_close_matches(word, known, n=1)), None)

    def all(self) -> tuple[Finding, ...]:
        """Return all findings in the order of the file."""
        return tuple(sorted(self._found, key=lambda finding: (finding.line, finding.column)))

    def error(self) -> MatrixError:
        """Return all findings as the error of a probe matrix."""
        return MatrixError(self.all())


def shown(word: str) -> str:
    """Return a word with a space before it, for a message, or nothing if it could be more than a name."""
    return f" {word}" if _SHOWN.fullmatch(word) else ""
