"""Which node this is, and which event store is its own: a small file beside the store (RA-5.2).

Laws:

1. A node that has an id gets no other: what cannot be read is refused, and never replaced.
2. The file gets its name when it is whole and on the disk, and whoever comes second takes what the first has made.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.adapter.observation import IDENTIFIER
from idkmesh.events.errors import StoreError
from idkmesh.events.place import CAREFULLY, absolute, beside, sync_folder

if TYPE_CHECKING:
    from pathlib import Path

KIND: Final = "idkmesh-node-record"
SCHEMA_VERSION: Final = "0.1"
ENDING: Final = "-node"
"""What follows the store's name."""

_MAX_BYTES: Final = 4096
_EPOCH: Final = re.compile(r"[0-9a-f]{16}")  # EV-1.2


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node's id, and the epoch of the store that it records in; None where its first store was put aside."""

    path: Path
    node_id: str
    epoch: str | None


def node_record(store: Path, epoch: str | None) -> NodeRecord:
    """Return the record beside a store; where there is none, make one for a node whose store has this epoch.

    Raises :class:`StoreError` for one that cannot be read, is damaged or of another kind, and where none can be made.
    """
    path = beside(absolute(store), ENDING)
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read(path)
        with contextlib.suppress(FileExistsError):  # another process was first
            _make(path, {"kind": KIND, "schema_version": SCHEMA_VERSION, "node_id": new_id(), "epoch": epoch})
        return _read(path)
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(
            f"the node's file {path} cannot be used: {reason}; mend that, or name another store with --store"
        ) from None


def new_id() -> str:
    """Return an id that no other node and no other start has."""
    return secrets.token_hex(16)


def _read(path: Path) -> NodeRecord:
    descriptor = os.open(path, os.O_RDONLY | CAREFULLY | getattr(os, "O_NONBLOCK", 0))
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        data = os.read(descriptor, _MAX_BYTES + 1) if regular else b""
    finally:
        os.close(descriptor)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and (document.get("kind"), document.get("schema_version")) == (KIND, SCHEMA_VERSION):
        node_id, epoch = document.get("node_id"), document.get("epoch")
        known = epoch is None or (isinstance(epoch, str) and _EPOCH.fullmatch(epoch))
        if isinstance(node_id, str) and re.fullmatch(IDENTIFIER, node_id) and known:
            return NodeRecord(path, node_id, epoch)
    raise StoreError(
        f"the node's file {path} is damaged or of another kind, so who this node is cannot be told; put the right one "
        "back, or remove it to begin as a new node"
    )


def _make(path: Path, document: dict[str, str | None]) -> None:
    """Write the file whole, under a name that nobody can guess, and give it its own. Raises ``FileExistsError``."""
    part = beside(path, f".{secrets.token_hex(8)}")
    try:
        with open(
            part, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags | CAREFULLY, 0o600)
        ) as file:
            file.write(json.dumps(document) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: of two at once the later wins, and both read it
            part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    sync_folder(path.parent)
