"""Reads a secret that stands in a file, which nobody else may read: a token (RT-9.2), or a password (RT-8.1)."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from idkmesh.open_file import open_file

if TYPE_CHECKING:
    from pathlib import Path

TOKEN_FORM: Final = re.compile(r"[A-Za-z0-9\-._~]{32,4096}")  # the unreserved characters of RFC 3986 §2.3
MAX_BYTES: Final = 4096 + 2
"""A token, and a line end after it."""

MAX_PASSWORD_BYTES: Final = 1024

_MOUNTED: Final = 0o440
"""The mode of a secret that is mounted for a group of this process."""


class TokenFileError(ValueError):
    """A file gives no token. ``what`` is wrong, ``mend`` what to do; neither shows anything of its content."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(f"{what}; {mend}")
        self.what = what
        self.mend = mend


def read_token(path: Path | str) -> str:
    """Return the token in a file, without a line end after it. Raises :class:`TokenFileError`."""
    text = _without_line_end(_read(path, MAX_BYTES).decode("ascii", "replace"))
    if not TOKEN_FORM.fullmatch(text):
        raise TokenFileError(
            "holds no token", "write 32 to 4096 characters of A-Z a-z 0-9 - . _ ~ into it, as openssl rand -hex 32 does"
        )
    return text


def read_password(path: Path | str) -> str:
    """Return the password in a file, without a line end after it. Raises :class:`TokenFileError`."""
    try:
        text = _without_line_end(_read(path, MAX_PASSWORD_BYTES + len("\r\n")).decode("utf-8"))
    except UnicodeDecodeError:  # its words show a byte of the password
        raise TokenFileError("holds no UTF-8", "write the password into it as UTF-8") from None
    if not text.isprintable() or not 0 < len(text.encode()) <= MAX_PASSWORD_BYTES:
        raise TokenFileError("holds no password", f"write one line of up to {MAX_PASSWORD_BYTES:,} bytes into it")
    return text


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _read(path: Path | str, most: int) -> bytes:
    """Return up to ``most`` bytes, all of a file that nobody else may read. Raises :class:`TokenFileError`."""
    try:
        descriptor = open_file(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else "it is no name of a file"
        raise TokenFileError(f"cannot be read: {reason}", "name a file that this user may read") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise TokenFileError("is no regular file", "name a file")
        if _others_may(found):
            mode = stat.S_IMODE(found.st_mode)
            raise TokenFileError(f"has mode {mode:04o}, so that others can read or write it", "make it 0600")
        content = os.read(descriptor, most + 1)
    except OSError as error:
        raise TokenFileError(f"cannot be read: {error.strerror}", "name a file that this user may read") from None
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise TokenFileError(f"is larger than {most:,} bytes", "keep the secret alone in it")
    return content


def _others_may(found: os.stat_result) -> bool:
    """Say whether somebody beside the owner has a right; one's own group may read a mounted secret."""
    if os.name != "posix":  # there the mode says nothing
        return False
    mode = stat.S_IMODE(found.st_mode)
    ours = found.st_gid == os.getegid() or found.st_gid in os.getgroups()
    return bool(mode & 0o077) and not (mode == _MOUNTED and ours)
