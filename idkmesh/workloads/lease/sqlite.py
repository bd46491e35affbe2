"""A lease in a file, for the supervisors of one host (AR-6.1).

Laws of this module:

1. Each call opens the file anew and closes it: a file that was removed or replaced meanwhile is seen at the next call,
   and a forked child inherits nothing.
2. Each call is one transaction that has the write lock from its beginning, and reads the clock within it: nobody else
   acts on what it has read.
3. The boot clock decides, the wall clock is written down for people (:mod:`~idkmesh.workloads.lease.ages`).
4. A file that is not what was written is never put aside by itself: the claims in it are what keeps an instance from
   being restarted twice, so a person has to say that they may be lost.

A call may hang in the system, on a disk that stalls: :mod:`~idkmesh.workloads.lease.time_limited` gives it a deadline.

What SQLite cannot do: a supervisor that is stopped within a transaction keeps the lock until it goes on or is killed.
Everybody else gets an error meanwhile, and acts no more.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from idkmesh.events.connecting import close_quietly, connect, roll_back
from idkmesh.events.errors import Kind, StoreDamagedError, StoreError, told
from idkmesh.events.place import (
    CAREFULLY,
    absolute,
    make_folders,
    network_kind,
    refuse_long_name,
    refuse_other_kinds,
    refuse_other_kinds_beside,
    sync_folder,
)
from idkmesh.events.schema import made_new, marks
from idkmesh.workloads.boot_clock import boot_id, boot_seconds
from idkmesh.workloads.lease.ages import BootInstant, certain_age, of_another_boot
from idkmesh.workloads.lease.lease_times import CALL_SECONDS
from idkmesh.workloads.lease.sqlite_rows import granted_of_row, instant_of_row
from idkmesh.workloads.lease.store import Grant, LeaseStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from idkmesh.events.connecting import Connection

T = TypeVar("T")

LEASE_STORE: Final = Kind("lease store", "supervisor.lease.sqlite.path")

APPLICATION_ID: Final = int.from_bytes(b"idmL")
"""In the header of each lease store's file; ``file`` shows it."""

SCHEMA_VERSION: Final = 1

_MAKING: Final = threading.Lock()

KEPT_SECONDS: Final = 86_400.0
"""How long a claim is kept at least: the longest cooldown that can be declared (AR-5.1)."""

_TABLES: Final = (
    """
    CREATE TABLE lease (
        name TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        token TEXT NOT NULL,
        boot TEXT,
        seconds REAL NOT NULL,
        ttl REAL NOT NULL CHECK (ttl > 0)
    )""",
    """
    CREATE TABLE claim (
        name TEXT NOT NULL,
        instance TEXT NOT NULL,
        token TEXT NOT NULL,
        boot TEXT,
        seconds REAL NOT NULL,
        time TEXT NOT NULL,
        PRIMARY KEY (name, instance)
    )""",
)

_SETTINGS: Final = (
    # Within a call's time, so that a lock is told as one, and not as a store that does not come back.
    f"busy_timeout = {int(CALL_SECONDS * 950)}",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "fullfsync = ON",
    # Stronger than FULL: without it a commit could be undone by a power cut, and a claim with it.
    "synchronous = EXTRA",
)


class SqliteLeaseStore:
    """A :class:`~idkmesh.workloads.lease.store.LeaseStore` in the file at ``path``, made with mode 0600 if missing.

    ``name`` tells apart supervisors that do not belong together. Its folder is made too, unless ``make_folder`` is
    false: then a folder that is missing raises :class:`LeaseStoreError`, here and in each call. ``clock`` returns
    seconds since the machine started, ``boot`` is what tells this start from every other, and ``utc`` is for people.
    Any thread may call any method.
    """

    def __init__(  # noqa: PLR0913  where it is, and its clocks
        self,
        path: Path,
        name: str = "default",
        *,
        make_folder: bool = True,
        clock: Callable[[], float] = boot_seconds,
        boot: str | None = None,
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._make_folder = make_folder
        with _as_lease_error():
            self._path = absolute(path, LEASE_STORE)
            self._refuse_no_folder()
        self._name = name
        self._clock = clock
        self._boot = boot_id() if boot is None else boot
        self._utc = utc

    @property
    def name(self) -> str:
        """Its name (see :class:`LeaseStore`)."""
        return self._name

    @property
    def place(self) -> str:
        """The file."""
        return str(self._path)

    @property
    def claim_slack(self) -> float:
        """None: a claim's age is that of the transaction that wrote it (see :class:`LeaseStore`)."""
        return 0.0

    def acquire(self, holder: str, ttl: float) -> Grant | None:
        """Take the lease if nobody holds it (see :class:`LeaseStore`)."""
        with self._transaction() as (connection, now):
            if self._held_by(connection, now) is not None:
                return None
            grant = Grant(holder, secrets.token_hex(8))
            connection.execute(
                "INSERT OR REPLACE INTO lease (name, holder, token, boot, seconds, ttl) VALUES (?, ?, ?, ?, ?, ?)",
                (self._name, holder, grant.token, now.boot, now.seconds, ttl),
            )
            return grant

    def renew(self, grant: Grant, ttl: float) -> bool:
        """Hold it longer (see :class:`LeaseStore`)."""
        with self._transaction() as (connection, now):
            if self._held_by(connection, now) != grant:
                return False
            connection.execute(
                "UPDATE lease SET boot = ?, seconds = ?, ttl = ? WHERE name = ?",
                (now.boot, now.seconds, ttl, self._name),
            )
            return True

    def release(self, grant: Grant) -> None:
        """Give it back (see :class:`LeaseStore`)."""
        with self._transaction() as (connection, _):
            connection.execute("DELETE FROM lease WHERE name = ? AND token = ?", (self._name, grant.token))

    def holder(self) -> str | None:
        """Return who holds it."""
        with self._transaction() as (connection, now):
            held = self._held_by(connection, now)
            return None if held is None else held.holder

    def claim(self, grant: Grant, instance: str, cooldown: float) -> bool:
        """Claim the restart of an instance (see :class:`LeaseStore`)."""
        with self._transaction() as (connection, now):
            if self._held_by(connection, now) != grant:
                return False
            row = connection.execute(
                "SELECT boot, seconds FROM claim WHERE name = ? AND instance = ?", (self._name, instance)
            ).fetchone()
            age = None if row is None else certain_age(instant_of_row(row), now)
            if row is not None and age is None:  # of no instant that can have been: a whole cooldown from now, not more
                self._write_claim(connection, now, grant, instance)
                return False
            if age is not None and age < cooldown:
                return False
            self._write_claim(connection, now, grant, instance)
            self._drop_old_claims(connection, now)
            return True

    def close(self) -> None:
        """Do nothing: no call leaves anything open."""

    def _held_by(self, connection: Connection, now: BootInstant) -> Grant | None:
        row = connection.execute(
            "SELECT holder, token, boot, seconds, ttl FROM lease WHERE name = ?", (self._name,)
        ).fetchone()
        if row is None:
            return None
        grant, since, ttl = granted_of_row(row)
        if of_another_boot(since, now):  # its holder ended with its boot
            return None
        age = certain_age(since, now)
        if age is None:  # the same as with claims: whoever holds it holds it for one ttl from now, and not for ever
            connection.execute("UPDATE lease SET seconds = ? WHERE name = ?", (now.seconds, self._name))
            return grant
        return grant if age < ttl else None

    def _write_claim(self, connection: Connection, now: BootInstant, grant: Grant, instance: str) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO claim (name, instance, token, boot, seconds, time) VALUES (?, ?, ?, ?, ?, ?)",
            (self._name, instance, grant.token, now.boot, now.seconds, self._utc().isoformat()),
        )

    def _drop_old_claims(self, connection: Connection, now: BootInstant) -> None:
        rows = connection.execute("SELECT rowid, boot, seconds FROM claim").fetchall()
        old = [(rowid,) for rowid, *stamp in rows if (certain_age(instant_of_row(stamp), now) or 0) > KEPT_SECONDS]
        connection.executemany("DELETE FROM claim WHERE rowid = ?", old)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[tuple[Connection, BootInstant]]:
        """Give an open transaction and the instant of it. It is committed at the end, unless something raises."""
        with _as_lease_error(), told(self._path, LEASE_STORE):
            self._make_file()
            connection = connect(self._path, "rw", kind=LEASE_STORE)
            try:
                for setting in _SETTINGS:
                    connection.execute(f"PRAGMA {setting}")
                connection.execute("BEGIN IMMEDIATE")
                _bring_up(connection, self._path)
                yield connection, BootInstant(self._boot, self._clock())
                connection.execute("COMMIT")
            except UnicodeError:
                roll_back(connection)
                raise StoreError(f"a name that cannot be kept in the lease store {self._path}; give another") from None
            except ValueError as error:
                roll_back(connection)
                raise StoreDamagedError(f"the lease store {self._path} is damaged: it has {error}") from None
            except BaseException:
                roll_back(connection)
                raise
            finally:
                close_quietly(connection)

    def _refuse_no_folder(self) -> None:
        """Make no folder for a path that a person wrote: a mistake in it would be a lease that nobody else holds."""
        folder = self._path.parent
        if not self._make_folder and not folder.is_dir():
            raise StoreError(
                f"the lease store {self._path} has no folder: {folder} is missing; make it, or name another place with "
                f"{LEASE_STORE.option}"
            )

    def _make_file(self) -> None:
        refuse_long_name(self._path, LEASE_STORE)
        refuse_other_kinds(self._path, LEASE_STORE)
        refuse_other_kinds_beside(self._path, LEASE_STORE)
        if (kind := network_kind(self._path.parent)) is not None:
            raise StoreError(
                f"the lease store {self._path} lies on a network file system ({kind}), whose locks cannot be relied "
                "upon; name a local place, or use etcd for several hosts"
            )
        self._refuse_no_folder()
        make_folders(self._path.parent)
        # Closing a descriptor drops this process's locks on the file: no other thread gets to it before it is closed.
        with _MAKING, contextlib.suppress(FileExistsError):
            if self._path.exists():
                return
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CAREFULLY, 0o600))
            sync_folder(self._path.parent)


def _bring_up(connection: Connection, path: Path) -> None:
    """Make the tables in an empty file, and refuse what is no lease store. Within the transaction."""
    if made_new(connection, _TABLES, APPLICATION_ID, SCHEMA_VERSION):
        return
    application, version = marks(connection)
    if application != APPLICATION_ID:
        raise StoreError(
            f"{path} is another program's database and is left alone; name another with {LEASE_STORE.option}"
        )
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the lease store {path} has schema version {version}, this program knows {SCHEMA_VERSION} and leaves it "
            "alone; use the newer idkmesh everywhere"
        )
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreDamagedError(f"the lease store {path} is damaged: {' '.join(str(found).split())}")


@contextlib.contextmanager
def _as_lease_error() -> Iterator[None]:
    try:
        yield
    except StoreDamagedError as error:
        raise LeaseStoreError(
            f"{error}; nothing is written to it: end the supervisors that use it, wait for a cooldown, and remove it, "
            f"or name another place with {LEASE_STORE.option}"
        ) from None
    except StoreError as error:
        raise LeaseStoreError(str(error)) from None
