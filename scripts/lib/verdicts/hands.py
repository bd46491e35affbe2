"""Brings each fault about, and undoes it (FT-4.3): a row's name to what does so."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.rehearsal.faults import How
from scripts.lib.verdicts import figures
from scripts.lib.verdicts.site import DISK, LXD, STORE, TARGET, TOKEN, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Hand = contextlib.AbstractContextManager[None]

HOUR: Final = 3600
BODY: Final = 1024 * 1024
"""Of a request that stays unfinished: it may take 26 s (HS-4.3), which is longer than the fault."""
WAITING: Final = 24
"""Clients beyond what is free: what the tower closes meanwhile is theirs, and the queue for accept is full."""
SLEEP_SECONDS: Final = 10.0
"""By when a front waits once: it does, most of the time."""
PTRACE_DETACH: Final = 17
PTRACE_SEIZE: Final = 0x4206
PTRACE_INTERRUPT: Final = 0x4207


def _word(name: str, word: str) -> Callable[[Site], Hand]:
    @contextlib.contextmanager
    def hand(site: Site) -> Iterator[None]:
        site.word(name, word)
        yield
        site.word(name, "ok")

    return hand


def _killed(name: str) -> Callable[[Site], Hand]:
    @contextlib.contextmanager
    def hand(site: Site) -> Iterator[None]:
        site.kill(name)
        yield
        if name == "adapter":
            site.start_adapter()
        else:
            site.start_dependency(name)

    return hand


@contextlib.contextmanager
def _wedged(site: Site) -> Iterator[None]:
    """Stop one thread of the tower: its main one, which is the front's loop."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    pid = site.running["tower"].pid
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        _wait_until_it_sleeps(pid)
        if libc.ptrace(request, pid, None, None):
            raise OSError(ctypes.get_errno(), "ptrace")
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    yield
    if libc.ptrace(PTRACE_DETACH, pid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")


def _wait_until_it_sleeps(pid: int) -> None:
    """Wait for an instant at which a main thread waits: one that runs holds the interpreter, and stops all others."""
    until = time.monotonic() + SLEEP_SECONDS
    while Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "S":
        if time.monotonic() > until:
            raise TimeoutError("the front is never idle")


def _stepped(seconds: int) -> Callable[[Site], Hand]:
    @contextlib.contextmanager
    def hand(site: Site) -> Iterator[None]:
        site.step(seconds)
        yield
        site.step(0)

    return hand


@contextlib.contextmanager
def _paused(site: Site) -> Iterator[None]:
    site.running["tower"].send_signal(signal.SIGSTOP)
    yield
    site.running["tower"].send_signal(signal.SIGCONT)


@contextlib.contextmanager
def _replaced(site: Site) -> Iterator[None]:
    site.kill("tower")
    site.start_tower()
    yield
    site.kill("tower")
    site.start_tower()


@contextlib.contextmanager
def _swapped(site: Site) -> Iterator[None]:
    file = site.state / f"{STORE}-node"
    kept = site.folder / "kept-node"
    site.kill("tower")
    shutil.move(file, kept)
    site.start_tower()
    yield
    site.kill("tower")
    shutil.move(kept, file)
    site.start_tower()


@contextlib.contextmanager
def _damaged(site: Site) -> Iterator[None]:
    site.end("tower")
    kept = site.folder / "kept-state"
    shutil.copytree(site.state, kept, ignore=lambda folder, names: [n for n in names if _is_fifo(folder, n)])
    file = site.state / STORE
    half = file.stat().st_size // 2
    with file.open("r+b") as store:
        store.write(os.urandom(half))
    site.start_tower()
    yield
    site.end("tower")
    for each in site.state.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    shutil.copytree(kept, site.state, dirs_exist_ok=True)
    shutil.rmtree(kept)
    site.start_tower()


def _is_fifo(folder: str, name: str) -> bool:
    return (Path(folder) / name).is_fifo()


@contextlib.contextmanager
def _registry_empty(site: Site) -> Iterator[None]:
    site.hands.declare(TARGET)
    yield
    site.register()


@contextlib.contextmanager
def _registry_stale(site: Site) -> Iterator[None]:
    site.etcd.signal(signal.SIGSTOP)
    yield
    site.etcd.signal(signal.SIGCONT)


@contextlib.contextmanager
def _registry_cut(site: Site) -> Iterator[None]:
    site.proxies.set("etcd", How.REFUSE)
    yield
    site.proxies.set("etcd", None)


@contextlib.contextmanager
def _registry_compacted(site: Site) -> Iterator[None]:
    with _registry_cut(site):
        for number in range(100):
            site.hands.put("elsewhere", str(number))
        site.hands.compact()
        yield


def _inside(word: str) -> Callable[[Site], Hand]:
    @contextlib.contextmanager
    def hand(site: Site) -> Iterator[None]:
        site.word_inside(word)
        yield
        site.word_inside("ok")

    return hand


@contextlib.contextmanager
def _lxd_gone(site: Site) -> Iterator[None]:
    site.lxd.signal_daemon(signal.SIGKILL)
    site.lxd.wait_for_daemons_end()
    yield
    site.lxd.start_daemon()


@contextlib.contextmanager
def _full(site: Site) -> Iterator[None]:
    """Fill the tower's own file system, seen through its namespace."""
    file = Path(f"/proc/{site.running['tower'].pid}/root{site.state}/filling")
    with file.open("wb", buffering=0) as filling:
        for size in (65536, 1):
            try:
                while True:
                    filling.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    yield
    file.unlink()


@contextlib.contextmanager
def _no_descriptors(site: Site) -> Iterator[None]:
    """Lower the tower's limit to what it has, and have clients take what is free below, by bodies that do not come."""
    pid = site.running["tower"].pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    numbers = [int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()]
    most = max(numbers) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, before[1]))
    request = _head(
        site, "POST /api/v1/inspect/probes", f"Content-Type: application/yaml\r\nContent-Length: {BODY}\r\n"
    )
    with contextlib.ExitStack() as clients:
        for _ in range(most - len(numbers) + WAITING):
            with contextlib.suppress(TimeoutError):  # the queue of those who wait for accept is full
                client = clients.enter_context(socket.create_connection(("127.0.0.1", site.ports["page"]), 0.2))
                client.sendall(request)
        yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _head(site: Site, line: str, more: str = "") -> bytes:
    return (
        f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{site.ports['page']}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n{more}\r\n"
    ).encode()


@contextlib.contextmanager
def _flooded(site: Site) -> Iterator[None]:
    ended = threading.Event()
    request = _head(site, "GET /api/v1/status")

    def client() -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", site.ports["page"]), 2) as link:
                link.sendall(request)
                while link.recv(65536):
                    pass

    threads = [threading.Thread(target=client) for _ in range(4 * figures.PLACES)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:  # also where it is interrupted: these threads would keep the program from ending
        ended.set()
        for thread in threads:
            thread.join()


HANDS: Final[dict[str, Callable[[Site], Hand]]] = {
    "dependency down": _killed("db"),
    "dependency slow": _word("db", "slow"),
    "dependency flapping": _word("db", "flap"),
    "dependency answering rubbish": _word("db", "rubbish"),
    "noncritical dependency down": _killed("cache"),
    "sampler dead": _killed("adapter"),
    "watchdog wedged": _wedged,
    "wall clock stepped back": _stepped(-HOUR),
    "wall clock stepped forward": _stepped(figures.FORWARD_SECONDS),
    "node paused": _paused,
    "node replaced": _replaced,
    "identity swapped": _swapped,
    "registry empty": _registry_empty,
    "registry stale": _registry_stale,
    "registry cut off": _registry_cut,
    "registry compacted": _registry_compacted,
    "LXD restarting": _lxd_gone,
    "instance's command hung": _inside("hang"),
    "instance's command flooding": _inside("flood"),
    "instance's command leaving children": _inside("leave"),
    "command hung": _word("check", "hang"),
    "command flooding": _word("check", "flood"),
    "command leaving children": _word("check", "leave"),
    "sampler's command hung": _word("look", "hang"),
    "sampler's command flooding": _word("look", "flood"),
    "sampler's command leaving children": _word("look", "leave"),
    "store full": _full,
    "store damaged": _damaged,
    "descriptors exhausted": _no_descriptors,
    "flood": _flooded,
}
MORE: Final = {
    "store full": DISK,
    "LXD restarting": LXD,
    "instance's command hung": LXD,
    "instance's command flooding": LXD,
    "instance's command leaving children": LXD,
}
"""What a row's site has besides."""
