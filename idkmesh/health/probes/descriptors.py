"""Whether the process has descriptors to lend to a call that may keep them (HL-4.11)."""

from __future__ import annotations

import errno
import os
from typing import Final

MOST_SPARED: Final = 64
"""What is left to those who answer and to the other probes, and the same as a share of a low limit."""

SHARE_SPARED: Final = 1 / 4


def want_descriptors() -> None:
    """Raise OSError where too few are left.

    A lookup that is abandoned keeps its socket, and somebody's code its connections. A name server that hangs for
    hundreds of dependencies would else take all there are: nobody could ask for liveness any more (HL-1.1).
    """
    try:
        import resource  # noqa: PLC0415  (not on Windows)

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = len(os.listdir("/dev/fd"))  # noqa: PTH208  a number: the paths add nothing
    except (ImportError, FileNotFoundError):  # a system that does not tell
        return
    if limit != resource.RLIM_INFINITY and limit - used < min(MOST_SPARED, limit * SHARE_SPARED):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
