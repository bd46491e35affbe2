"""The two children of the demo, and the guard that ends them when it is killed (DM-1.2, DM-5).

The guard is the process driver's (:mod:`~idkmesh.workloads.drivers.process_guard`): the end of its input is the end of
the demo, whatever ended it. The tower has one of its own for the shop's processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import idkmesh
from idkmesh import console
from idkmesh.child_process import Child, SpawnError, environment, hear_signals, spawn
from idkmesh.console import CommandError
from idkmesh.demo import files
from idkmesh.demo.folder import processes_of
from idkmesh.workloads.drivers import process_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.demo.settings import Site

END_SECONDS: Final = 20.0
"""Until what was asked to end is killed (DM-5.1): a replica that hangs takes its supervisor 10 s."""

POLL_SECONDS: Final = 0.05
SHOP: Final = b"idkmesh.demo.shop."


class Children:
    """Control tower and readiness adapter. For the main thread. Raises :class:`CommandError` without a guard."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._running: dict[str, Child] = {}
        hear_signals()
        try:
            self._guard = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-I", "-S", process_guard.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise CommandError(f"cannot start {sys.executable}: {console.reason(error)}") from None

    def start_tower(self) -> Child:
        """Start the control tower."""
        site = self._site
        routing = [f"--router={site.folder / files.ROUTER}"] if site.routed else []
        return self._start(
            "control tower",
            "control-tower",
            f"--port={site.ports.page}",
            f"--token-file={site.folder / files.TOWER_TOKEN}",
            f"--matrix={site.folder / files.MATRIX}",
            f"--modules={site.folder / files.MODULES}",
            *routing,
            f"--client-file={site.folder / files.CLIENT}",
            f"--store={site.folder / files.EVENTS}",
            *files.settings_of(site),
        )

    def start_adapter(self, node_id: str) -> Child:
        """Start the adapter of the node of this id."""
        site = self._site
        listen = site.adapter_origin.removeprefix("http://")
        client = f"--client-file={site.folder / files.CLIENT}"
        return self._start(
            "readiness adapter", "readiness-adapter", f"--node-id={node_id}", client, f"--listen={listen}"
        )

    def refuse_an_end(self) -> None:
        """Raise :class:`CommandError` where one has ended by itself."""
        for name, child in self._running.items():
            if child.wait(0):
                last = self._last_line(name)
                raise CommandError(f"the {name} has ended by itself{f': {last}' if last else ''}")

    def close(self, hurried: Callable[[], bool]) -> None:
        """End both, and wait for all that they have started. ``hurried`` says whether to kill them now."""
        until = time.monotonic() + END_SECONDS
        for child in self._running.values():
            child.signal_group(signal.SIGTERM)
            child.signal_group(signal.SIGCONT)  # one that is stopped hears nothing
        while not all(child.wait(0) for child in self._running.values()):
            if hurried() or time.monotonic() >= until:
                break
            time.sleep(POLL_SECONDS)
        for child in self._running.values():
            child.signal_group(signal.SIGKILL)
            child.wait(None)
            child.end()
            self._tell(f"-{child.pid}\n")
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait()
        # The tower was killed, and its own guard would leave them 10 s: nobody else runs there.
        for pid in processes_of(self._site.folder, naming=False):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + END_SECONDS
        while (left := processes_of(self._site.folder, naming=False)) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        if left:
            console.complain(f"idkmesh: still ending: {', '.join(map(str, left))}")

    def _start(self, name: str, *arguments: str) -> Child:
        with self._log(name).open("ab") as log:
            log_file = log.fileno()
            try:
                argv = [sys.executable, "-m", "idkmesh", *arguments]
                child = spawn(argv, self._variables(), stdout=log_file, stderr=log_file)
            except SpawnError as error:
                raise CommandError(f"the {name} cannot be started: {error}") from None
        self._tell(f"+{child.pid} {process_guard.started_at(child.pid)}\n")
        self._running[name] = child
        return child

    def _variables(self) -> dict[str, str]:
        """Return the children's variables: none of ours that this shell has, and where Python and the package are."""
        found = environment(os.environ.copy())
        found["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), found.get("PATH", os.defpath)])
        package = str(Path(idkmesh.__file__).parents[1])
        if package != sysconfig.get_path("purelib"):
            found["PYTHONPATH"] = os.pathsep.join(filter(None, [package, found.get("PYTHONPATH", "")]))
        # Nobody else can enter the folder, in which the commands run.
        return {**found, "IDKMESH_PROBE_UID": str(os.geteuid())}

    def _tell(self, line: str) -> None:
        if self._guard.stdin is not None:
            with contextlib.suppress(OSError):  # somebody has killed it
                self._guard.stdin.write(line.encode())

    def _log(self, name: str) -> Path:
        return self._site.folder / f"{name.replace(' ', '-')}.log"

    def _last_line(self, name: str) -> str:
        with contextlib.suppress(OSError):
            lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
            return next((line for line in reversed(lines) if line.strip()), "")
        return ""


def shop_processes(folder: Path) -> dict[int, str]:
    """Return the shop's processes that have written down who they are: the number, and the instance's name."""
    return {pid: name for name, pid in _noted(folder) if is_shop(pid)}


def process_of(folder: Path, instance: str) -> int | None:
    """Return the number of an instance's process, None where it does not run."""
    return next((pid for pid, name in shop_processes(folder).items() if name == instance), None)


def is_shop(pid: int) -> bool:
    """Say whether a process of the shop has this number: it may be another one's by now."""
    try:
        return SHOP in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _noted(folder: Path) -> Iterator[tuple[str, int]]:
    for file in folder.glob("*.pid"):
        with contextlib.suppress(OSError, ValueError):
            yield file.stem, int(file.read_text(encoding="ascii"))
