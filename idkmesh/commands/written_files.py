"""The files that a control tower keeps while it serves: its port's, and its client's."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from idkmesh import console
from idkmesh.adapter.node_get import CLIENT_KIND, SCHEMA_VERSION
from idkmesh.console import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def port_written(file: str | None, port: int) -> Iterator[None]:
    """Keep the port in ``file`` for a while (CT-9.1). Its reader sees the whole line or no file."""
    with _written(file, "port file", f"{port}\n", 0o644):
        yield


@contextlib.contextmanager
def client_written(file: str | None, address: str, token: str) -> Iterator[None]:
    """Keep address and token in ``file`` for a while, for this user alone (RA-4.1, RA-4.3)."""
    client = {"kind": CLIENT_KIND, "schema_version": SCHEMA_VERSION, "address": address, "token": token}
    with _written(file, "client file", json.dumps(client) + "\n", 0o600):
        yield


@contextlib.contextmanager
def _written(file: str | None, what: str, text: str, mode: int) -> Iterator[None]:
    if file is None:
        yield
        return
    path = Path(file)
    try:
        if path.exists() and not path.is_file():  # behind a link too: /dev/stdout is one
            raise CommandError(f"cannot write the {what} {file}: what is there is no regular file", EXIT_USAGE)
        _write_whole(path, text, mode)
        written = path.lstat()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise CommandError(f"cannot write the {what} {file}: {console.reason(error)}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # somebody has removed it, or closed the folder: the end is no less an end
            # While this service drained, the next one may have written its own.
            if os.path.samestat(path.lstat(), written):
                path.unlink()


def _write_whole(path: Path, text: str, mode: int) -> None:
    """Write a file so that nobody sees half of it. Raises ``OSError`` and leaves nothing beside it.

    The folder may be shared: nobody can guess the temporary name, and a file or symbolic link that has it is refused
    (``x``, which is O_EXCL), never written through.
    """
    part = path.parent / f".idkmesh-{secrets.token_hex(8)}"
    try:
        with open(part, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(text)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            part.unlink()
        raise
