"""How far a part is, and what it has found: a value that each step makes anew, and a file that keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SHOWN: Final = 20
"""Wrong outcomes that are kept in full; all are counted."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step of a part has brought: units done, figures to add up, figures of which the highest counts."""

    count: int = 0
    sums: Mapping[str, int] = field(default_factory=dict)
    highs: Mapping[str, float] = field(default_factory=dict)
    wrong: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class State:
    """A part so far. ``goal`` is how many units were asked for; ``seconds`` is the time that its steps took."""

    part: str
    goal: int
    done: int = 0
    seconds: float = 0.0
    sittings: int = 0
    sums: Mapping[str, int] = field(default_factory=dict)
    highs: Mapping[str, float] = field(default_factory=dict)
    wrong_total: int = 0
    wrong: Sequence[str] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)

    def after(self, step: Step, seconds: float) -> State:
        """Return how it stands after a step that took so long."""
        sums = {**self.sums}
        for name, value in step.sums.items():
            sums[name] = sums.get(name, 0) + value
        highs = {**self.highs}
        for name, high in step.highs.items():
            highs[name] = max(highs.get(name, high), high)
        return replace(
            self,
            done=self.done + step.count,
            seconds=self.seconds + seconds,
            sums=sums,
            highs=highs,
            wrong_total=self.wrong_total + len(step.wrong),
            wrong=[*self.wrong, *step.wrong][:SHOWN],
        )


class StateFileError(RuntimeError):
    """A file of state cannot be read; the text says what to do."""


def load(path: Path, part: str, goal: int) -> State:
    """Return the state that a file has of a part, with another goal perhaps; a new one where there is no file."""
    if not path.exists():
        return State(part=part, goal=goal)
    try:
        found = State(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise StateFileError(f"{path}: no state of a soak ({error}); remove it to begin anew") from error
    if found.part != part:
        raise StateFileError(f"{path}: the state of {found.part}, not of {part}; remove it to begin anew")
    return replace(found, goal=goal)


def save(path: Path, state: State) -> None:
    """Write a state in the place of the last one: whoever is killed meanwhile leaves one of both."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(state), indent=1) + "\n", encoding="utf-8")
    new.replace(path)
