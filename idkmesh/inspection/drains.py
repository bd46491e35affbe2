"""How long a process takes to drain, as far as its arguments and variables say: gunicorn, uvicorn and their like."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.commands import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from idkmesh.inspection.commands import Simple

OPTIONS: Final = (
    "--graceful-timeout",  # gunicorn, hypercorn
    "--timeout-graceful-shutdown",  # uvicorn
    "--drain-timeout",  # idkmesh
    "--drain-time-s",  # Envoy
)
VARIABLES: Final = frozenset({"IDKMESH_DRAIN_TIMEOUT", "SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE"})
ARGUMENTS: Final = frozenset({"GUNICORN_CMD_ARGS"})
"""Variables that hold options."""

MAX_ARGUMENTS: Final = 2000

_TIME: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m)?")
_UNITS: Final[Mapping[str | None, float]] = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0}


def of_commands(commands: Iterable[Simple]) -> float | None:
    """Return the seconds that an option of a command says, or None. The program may be the image's own."""
    for simple in commands:
        found = _seconds(option((simple.program, *simple.words), *OPTIONS))
        if found is not None:
            return found
    return None


def of_variable(name: str, value: str) -> float | None:
    """Return the seconds that a variable says, or None."""
    if name in VARIABLES:
        return _seconds(value)
    return _seconds(option(_words(value), *OPTIONS)) if name in ARGUMENTS else None


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text[:MAX_ARGUMENTS])
    except ValueError:  # a quote that does not end
        return text[:MAX_ARGUMENTS].split()


def _seconds(text: str | None) -> float | None:
    found = _TIME.fullmatch(text or "")
    return float(found[1]) * _UNITS[found[2]] if found else None
