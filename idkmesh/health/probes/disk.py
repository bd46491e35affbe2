"""``disk``: room on the file system of a path (HL-4.10)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    from idkmesh.health.model import Disk
    from idkmesh.health.probes.probe import Deadline


class DiskProbe(DeadlineProbe):
    """Asks a file system how much of it is free. One behind a network may hang, so the call can be abandoned."""

    def __init__(self, spec: Disk) -> None:
        self._spec = spec
        self._out = Abandonable("probe-disk")
        super().__init__(self._out)

    def attempt(self, deadline: Deadline) -> str:
        """Ask, and hold the answer against both minima."""
        path = self._spec.path
        try:
            usage = self._out.call(lambda: shutil.disk_usage(path), deadline)
        except ValueError:  # a NUL
            raise could_not_run("no valid path") from None
        word = lacking(self._spec, usage.total, usage.free)
        if word is not None:
            raise failed(word)
        return "room enough"


def lacking(spec: Disk, total: int, free: int) -> str | None:
    """Return what is missing of a file system of ``total`` bytes, ``free`` of them for a common user, if anything is.

    The percentage is of the whole, as the kubelet and node_exporter count it. A file system of no size (``/proc``)
    has no percentage, and not the room either.
    """
    if spec.min_free_bytes is not None and free < spec.min_free_bytes:
        return "too few bytes free"
    if spec.min_free_percent is not None and free * 100 < spec.min_free_percent * total:
        return "too small a share free"
    return None if total else "a file system without a size"
