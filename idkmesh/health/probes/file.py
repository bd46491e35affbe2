"""``file``: a file exists and was changed lately (HL-4.10)."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    from idkmesh.health.model import File
    from idkmesh.health.probes.probe import Deadline


class FileProbe(DeadlineProbe):
    """Looks at a file without opening it. A network file system may hang, so the call can be abandoned."""

    def __init__(self, spec: File) -> None:
        self._spec = spec
        self._out = Abandonable("probe-file")
        super().__init__(self._out)

    def attempt(self, deadline: Deadline) -> str:
        """Look, and compare the time of the last change with the wall clock, which is what files are stamped with."""
        path = self._spec.path
        try:
            found = self._out.call(lambda: os.stat(path), deadline)  # noqa: PTH116  a text: a Path adds nothing
        except ValueError:  # a NUL
            raise could_not_run("no valid path") from None
        if stat.S_ISDIR(found.st_mode):
            raise failed("a directory")
        if self._spec.max_age_ms is not None:
            word = stale(deadline.clock.utc().timestamp() - found.st_mtime, self._spec.max_age_ms / 1000)
            if word is not None:
                raise failed(word)
        return "found"


def stale(age: float, max_age: float) -> str | None:
    """Return what is wrong with a file of that age, in seconds, if anything is.

    One from the future is held to the same bound: after the clock was set back it must not look fresh for years.
    """
    if age > max_age:
        return "too old"
    return "from the future" if age < -max_age else None
