"""The folder of a demo: made, held while the demo lives, and removed; also one that a killed demo has left (DM-5.2).

A demo holds a lock in its folder, which the kernel gives back however the demo ends. A folder whose lock is free, and
in which nothing runs any more, is nobody's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh import console
from idkmesh.console import CommandError
from idkmesh.demo import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.demo.settings import Site

PREFIX: Final = "idkmesh-demo-"
LOCK: Final = "demo.lock"


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Make a folder for this user alone, and remove it at the end (DM-1.4). Raises :class:`CommandError`."""
    try:
        made = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    except OSError as error:
        raise CommandError(f"cannot make a folder in {tempfile.gettempdir()}: {console.reason(error)}") from None
    lock = None
    try:
        lock = _hold(made)
        yield made
    except OSError as error:
        raise CommandError(f"cannot write into {made}: {console.reason(error)}") from None
    finally:
        try:
            shutil.rmtree(made)
        except OSError as error:
            console.complain(f"idkmesh: {made} is not removed: {console.reason(error)}")
        if lock is not None:
            os.close(lock)


def remove_left() -> list[Path]:
    """Remove the folders of demos that were killed, and return them. What cannot be removed stays."""
    removed = []
    # Resolved, as a demo's own name for its folder is: what runs there is known by it.
    for found in sorted(Path(tempfile.gettempdir()).resolve().glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):  # somebody else's, in use, or gone by now
            if _is_left(found):
                shutil.rmtree(found)
                removed.append(found)
    return removed


def processes_of(folder: Path, *, naming: bool = True) -> list[int]:
    """Return the numbers of the processes that run in it: the shop's, and their readiness commands.

    With ``naming`` also of those that name it: tower and adapter, and whoever reads a file of it.
    """
    name, found = os.fsencode(folder), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # somebody else's, or it has ended
            if (naming and name in (process / "cmdline").read_bytes()) or (process / "cwd").readlink() == folder:
                found.append(int(process.name))
    return found


def written(site: Site) -> tuple[str, str]:
    """Write all files, and return the tokens of tower and router. Raises :class:`CommandError`."""
    tokens = {files.TOWER_TOKEN: secrets.token_urlsafe(32), files.ROUTER_TOKEN: secrets.token_urlsafe(32)}
    try:
        for name, text in files.all_files(site).items():
            (site.folder / name).write_text(text, encoding="utf-8")
        for name, token in tokens.items():
            with open(site.folder / name, "x", encoding="ascii", opener=_for_us_alone) as file:
                file.write(f"{token}\n")
    except (OSError, UnicodeError) as error:
        raise CommandError(f"cannot write into {site.folder}: {console.reason(error)}") from None
    return tokens[files.TOWER_TOKEN], tokens[files.ROUTER_TOKEN]


def _hold(made: Path) -> int:
    """Return the descriptor of its lock. It gets its name once it is held: until then nobody looks for it."""
    part = made / f"{LOCK}.part"
    lock = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    part.rename(made / LOCK)
    return lock


def _is_left(found: Path) -> bool:
    """Say whether its demo is gone, and all that it has started. Raises ``OSError``, also where the lock is held."""
    status = found.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    lock = os.open(found / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return not processes_of(found)
    finally:
        os.close(lock)


def _for_us_alone(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
