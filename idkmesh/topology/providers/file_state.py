"""What is known of a file of releases, and what a look at it makes of that (RT-6.2 to RT-6.4). Pure.

Laws of this module:

1. What counts is the content. The instants of a file only say when it is to be read again: an instant is as coarse as
   the file system keeps it, so for a while after one has changed they are not believed.
2. What cannot be read or understood counts once it has been so for :data:`SETTLE_SECONDS`: somebody may be writing.
   Then it counts until something else can be read: this has an end, and shows the truth after it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.topology.model import Cause
from idkmesh.topology.providers.releases import read_releases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.topology.model import Snapshot, Target

LOOK_SECONDS: Final = 0.2
"""How often the name is looked up."""

DOUBT_SECONDS: Final = 2.0
"""After another identity was seen, how long the content is read at each look. FAT keeps instants this coarsely."""

READ_SECONDS: Final = 5.0
"""How often the content is read in any case."""

SETTLE_SECONDS: Final = 1.0
"""How long a fault must last to count."""


class Identity(NamedTuple):
    """What the file system says of what stands under the name."""

    device: int
    inode: int
    size: int
    changed_ns: int
    written_ns: int


class Fault(NamedTuple):
    """Why a file says nothing: the cause, and the reason as one line, without anything of the content."""

    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What is known. Times are monotonic seconds.

    ``releases`` is what was understood last, ``fault`` what has counted since. While a fault is not settled, it is
    ``suspect`` since ``suspect_since``. ``digest`` is of the content that was read last.
    """

    identity: Identity | None = None
    identity_at: float = float("-inf")
    read_at: float = float("-inf")
    digest: bytes = b""
    releases: Mapping[Target, Snapshot] | None = None
    suspect: Fault | None = None
    suspect_since: float = 0.0
    fault: Fault | None = None

    @property
    def known(self) -> Mapping[Target, Snapshot] | None:
        """What counts, None while nothing does."""
        return None if self.fault is not None else self.releases


def is_to_read(state: FileState, identity: Identity | None, now: float) -> bool:
    """Say whether the content is to be read at this look (RT-6.3)."""
    return (
        identity != state.identity
        or state.suspect is not None
        or now - state.identity_at < DOUBT_SECONDS
        or now - state.read_at >= READ_SECONDS
    )


def after_look(state: FileState, identity: Identity | None, content: bytes | Fault | None, now: float) -> FileState:
    """Return what is known after a look. ``content`` is None where it was not read."""
    if identity != state.identity:
        state = replace(state, identity=identity, identity_at=now)
    if content is None:
        return state
    state = replace(state, read_at=now)
    if isinstance(content, Fault):
        return _suspected(state, content, b"", now)
    digest = hashlib.sha256(content).digest()
    if digest == state.digest and state.suspect is not None:  # judged before, and no better since
        return _suspected(state, state.suspect, digest, now)
    if digest == state.digest and state.releases is not None:
        return state
    try:
        releases = read_releases(content)
    except ValueError as error:
        return _suspected(state, Fault(Cause.MALFORMED, str(error)), digest, now)
    return replace(state, digest=digest, releases=releases, suspect=None, fault=None)


def _suspected(state: FileState, fault: Fault, digest: bytes, now: float) -> FileState:
    since = now if state.suspect is None else state.suspect_since
    # One that counts stays suspect from its beginning on, so it counts at each later look as well.
    settled = fault if now - since >= SETTLE_SECONDS else None
    return replace(state, digest=digest, suspect=fault, suspect_since=since, fault=settled)
