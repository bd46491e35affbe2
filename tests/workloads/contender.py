"""A supervisor in a few lines: it acts on one instance through a keeper and claims, and writes down each action.

Arguments: the store (``sqlite:PATH`` or ``etcd:URL``), its name, the file of actions, ttl and cooldown in seconds. An
action is one line, appended in one write: the boot clock before its claim and after it, and the name.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from idkmesh.workloads.boot_clock import boot_seconds
from idkmesh.workloads.lease.etcd import EtcdLeaseStore
from idkmesh.workloads.lease.keeper import LeaseKeeper
from idkmesh.workloads.lease.sqlite import SqliteLeaseStore
from idkmesh.workloads.lease.store import LeaseStoreError

if TYPE_CHECKING:
    from idkmesh.workloads.lease.store import LeaseStore

INSTANCE = "web-1"


def store_of(word: str) -> LeaseStore:
    kind, _, where = word.partition(":")
    return SqliteLeaseStore(Path(where)) if kind == "sqlite" else EtcdLeaseStore([where])


def main() -> None:
    where, name, actions, ttl, cooldown = sys.argv[1:]
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    store = store_of(where)
    keeper = LeaseKeeper(store, name, 5.0, changed=lambda change: None, log=lambda line, level: None)
    keeper._ttl = float(ttl)  # shorter than may be declared: a renewal may come too late, and nothing worse
    keeper.start()
    descriptor = os.open(actions, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    while not ending.wait(0.01):
        grant = keeper.held()
        if grant is None:
            continue
        before = boot_seconds()
        try:
            claimed = store.claim(grant, INSTANCE, float(cooldown))
        except LeaseStoreError:
            continue
        after = boot_seconds()
        if claimed and keeper.held() == grant:  # looked at again, right before the action (AR-5.4)
            os.write(descriptor, f"{before:.6f} {after:.6f} {name}\n".encode())
    keeper.stop(10)


if __name__ == "__main__":
    main()
