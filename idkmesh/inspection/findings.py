"""What a rule is, and what it finds."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

PAGE: Final = "docs/reference/inspection.md"
"""Where all rules are explained, relative to the repository."""

MAX_NAME_CHARACTERS: Final = 100
"""Of a name that is shown. One of Kubernetes has 253 at the most, and nearly all have fewer than this."""

MAX_REASON_CHARACTERS: Final = 400
"""Of a reason. Its parts are bounded where they are many; this holds for all that come after."""


class Severity(enum.Enum):
    """How much a finding weighs. Only an error decides the exit code."""

    ERROR = "error"
    """It does harm, or the platform refuses it."""
    WARNING = "warning"
    """It does harm under load, at a start or in an outage."""
    NOTE = "note"
    """It works, and there is a better way."""


class Place(NamedTuple):
    """Where something stands: line and column, both counted from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table of rules. The texts are whole sentences; ``why`` says what goes wrong otherwise."""

    id: str
    severity: Severity
    title: str
    why: str
    mend: str

    @property
    def anchor(self) -> str:
        """Where the rule's documentation stands, relative to the repository."""
        return f"{PAGE}#{self.id.lower()}"


@dataclass(frozen=True, slots=True)
class Met:
    """A rule is met: where, and what was seen there. ``mend`` replaces the rule's own where it can say more."""

    place: Place
    reason: str
    mend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one rule says of one place. ``object`` is for people: ``Deployment/cart, container server``."""

    rule: Rule
    file: str
    place: Place
    object: str
    reason: str
    mend: str

    @property
    def severity(self) -> Severity:
        """The rule's severity."""
        return self.rule.severity


def clipped(text: str, most: int = MAX_NAME_CHARACTERS) -> str:
    """Return a text of a file, or its beginning where it is long: thousands of findings may repeat one name."""
    return text if len(text) <= most else f"{text[:most]}..."


def found(rule: Rule, file: str, subject: str, met: Met) -> Finding:
    """Return the finding that a rule that is met makes in a file. ``subject`` is the object's name."""
    reason = clipped(met.reason, MAX_REASON_CHARACTERS)
    return Finding(rule=rule, file=file, place=met.place, object=subject, reason=reason, mend=met.mend or rule.mend)
