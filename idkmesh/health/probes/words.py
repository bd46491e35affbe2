"""How a probe says what went wrong: whose fault it is, and words of this project for it (HL-4.2, HL-4.12)."""

from __future__ import annotations

import errno
from typing import Final

from idkmesh.health.model import Outcome


class ProbeError(Exception):
    """A run that ends without a success. The dependency's fault is ``failed``, ours or the file's ``could_not_run``."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


def failed(detail: str) -> ProbeError:
    """Return the error of a dependency that is not well."""
    return ProbeError(Outcome.FAILED, detail)


def could_not_run(detail: str) -> ProbeError:
    """Return the error of a probe that says nothing of its dependency."""
    return ProbeError(Outcome.COULD_NOT_RUN, detail)


FAILURES: Final = {
    "refused": (errno.ECONNREFUSED,),
    "timeout": (errno.ETIMEDOUT,),
    # The last two are what a machine without IPv6 says of an IPv6 address.
    "unreachable": (
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENETDOWN,
        errno.EHOSTDOWN,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
    ),
    "reset": (errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE),
    "missing": (errno.ENOENT, errno.ENOTDIR),
    "input or output error": (errno.EIO, errno.ESTALE),
}
"""What the system says of a dependency, and our word for it."""

NOT_RUN: Final = {
    "the machine is full": (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN),
    "permission denied": (errno.EACCES, errno.EPERM),
    "no valid path": (errno.ENAMETOOLONG, errno.ELOOP),
}
"""What the system says of us or of the declaration."""


def word_of(error: OSError) -> ProbeError:
    """Return an error of the system in our words. Its text may hold a path or an address, so it is dropped."""
    for words, make in ((FAILURES, failed), (NOT_RUN, could_not_run)):
        for word, numbers in words.items():
            if error.errno in numbers:
                return make(word)
    if isinstance(error, TimeoutError):  # of Python's own, without a number
        return failed("timeout")
    return failed(f"error {errno.errorcode.get(error.errno or 0, 'unknown')}")
