"""What the faults happen to: real processes in one folder (FT-4.1).

A control tower with matrix, modules and router, its readiness adapter, an etcd behind a proxy, and the programs that
the tower depends on.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import yaml

from idkmesh.adapter import node_get
from idkmesh.demo.asking import answered
from idkmesh.health.model import Command
from idkmesh.rehearsal.proxy import Proxies
from idkmesh.rehearsal.reroute import Upstream
from idkmesh.topology.model import Endpoint, Target
from idkmesh.topology.providers.forms import DEFAULT_PREFIX
from idkmesh.workloads.model import OWNER_KEY
from scripts.lib.lxd_host import PREFIX, LxdHost
from scripts.lib.verdicts import figures
from tests.topology.etcd_hands import EtcdHands
from tests.workloads.etcd_support import Etcd, free_ports

if TYPE_CHECKING:
    from idkmesh.health.model import Dependency

ROOT: Final = Path(__file__).parents[3]
PROGRAMS: Final = Path(__file__).parent / "programs"
TOKEN: Final = "the-token-of-the-fault-table-0123456789"  # noqa: S105  it opens a service that lives for minutes
TARGET: Final = Target("shop-web", "1.0.0", "r1")
LEFT: Final = "idkmesh-left-behind"
"""By which a child that a command has left is found."""

BARE: Final = (sys.executable, "-I", "-S")
STORE: Final = "events.sqlite3"
NAMESPACE: Final = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=24m none "$0" && exec "$@"')
DISK: Final = "disk"
LXD: Final = "lxd"
BOXED: Final = "web-1"
"""An instance of a real LXD, of the module ``boxed``."""
STAYS: Final = "sleep 600"
"""By which what its readiness command has left is found."""
IN_INSTANCE: Final = (PROGRAMS / "check.sh").read_text(encoding="ascii")

NAMES: Final = ("db", "cache", "web", "page", "probes", "router", "adapter")
START_LIMIT: Final = 60.0


class Site:
    """Everything that runs. ``more`` is :data:`DISK`, a file system of the tower's own, :data:`LXD`, or nothing."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder, self.more = folder, more
        self.state = folder / "state"
        self.state.mkdir(parents=True)
        self.ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.node_id = ""
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.stack = stack
            stack.callback(self.end_all)
            self._registry()
            if self.more == LXD:
                self._lxd()
            self._files()
            for name in ("db", "cache"):
                self.start_dependency(name)
            self.start_tower()
            self.node_id = self.observation()["node"]["id"]
            self.start_adapter()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    # --- processes ------------------------------------------------------------------------------------------------

    def start(self, name: str, *argv: str, **variables: str) -> None:
        """Start a process; its output is in a log of its name."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """End one at once."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def end(self, name: str) -> None:
        """End one as asked."""
        process = self.running.pop(name)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def end_all(self) -> None:
        """End what runs."""
        for name in tuple(self.running):
            self.running[name].send_signal(signal.SIGCONT)
            self.end(name)

    def start_dependency(self, name: str) -> None:
        """Start one of the programs that the tower depends on."""
        self.start(name, *BARE, str(PROGRAMS / "dependency.py"), str(self.ports[name]), str(self.folder / name))
        self._wait_for(name)

    def start_tower(self) -> None:
        """Start the tower, and wait until it listens."""
        own = (*NAMESPACE, str(self.state)) if self.more == DISK else ()
        shim = self.folder / "wall_clock.so"
        variables = {"LD_PRELOAD": str(shim), "IDKMESH_STEP": str(self.folder / "step")} if shim.exists() else {}
        self.start(
            "tower", *own, sys.executable, "-m", "idkmesh", "control-tower", f"--port={self.ports['page']}",
            f"--probe-listen=127.0.0.1:{self.ports['probes']}", f"--matrix={self.folder / 'matrix.yaml'}",
            f"--modules={self.folder / 'modules.yaml'}", f"--router={self.folder / 'router.yaml'}",
            f"--client-file={self.folder / 'node.json'}", f"--store={self.state / STORE}",
            f"--max-concurrent-requests={figures.PLACES}", f"--max-connections={figures.CONNECTIONS}",
            IDKMESH_CONTROL_TOWER_TOKEN=TOKEN, **variables,
        )  # fmt: skip
        self._wait_for("page", "tower")

    def start_adapter(self) -> None:
        """Start the adapter of this site's node."""
        client = str(self.folder / "node.json")
        look = (*BARE, str(PROGRAMS / "command.py"), str(self.folder / "look"), LEFT)
        ask = (*BARE, str(node_get.__file__), "--client-file", client)
        listen = f"127.0.0.1:{self.ports['adapter']}"
        self.start(
            "adapter", sys.executable, "-m", "idkmesh", "readiness-adapter", f"--node-id={self.node_id}",
            f"--client-file={client}", f"--listen={listen}", "--", *look, *ask,
        )  # fmt: skip
        self._wait_for("adapter")

    def _wait_for(self, port: str, process: str = "") -> None:
        name = process or port
        until = time.monotonic() + START_LIMIT
        while True:
            with contextlib.suppress(OSError):
                self.ask(port, "/")
                return
            if self.running[name].poll() is not None or time.monotonic() > until:
                log = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                raise ChildProcessError(f"{name} does not start: {log[-600:]}")
            time.sleep(0.05)

    # --- questions ------------------------------------------------------------------------------------------------

    def ask(
        self, port: str, path: str, body: bytes | None = None, *, token: str = "", seconds: float = figures.ASK_SECONDS
    ) -> tuple[int, bytes]:
        """Ask once. Raises ``OSError`` where nobody answers in time."""
        fields = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            fields["Content-Type"] = "application/json"
        return answered(self.ports[port], "GET" if body is None else "POST", path, body, fields, seconds=seconds)

    def observation(self) -> dict[str, Any]:
        """Return what the node says of itself."""
        found: dict[str, Any] = json.loads(self.ask("page", "/api/v1/node", token=TOKEN)[1])
        return found

    def word(self, name: str, word: str) -> None:
        """Have a program be so."""
        part = self.folder / f"{name}.part"
        part.write_text(word, encoding="ascii")
        part.replace(self.folder / name)

    def step(self, seconds: int) -> None:
        """Step the tower's wall clock."""
        with (self.folder / "step").open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    # --- files ----------------------------------------------------------------------------------------------------

    def _registry(self) -> None:
        place = self.folder / "etcd"
        place.mkdir()
        self.etcd = Etcd(place)
        self.stack.callback(self.etcd.kill)
        port = int(self.etcd.url.rpartition(":")[2])
        self.proxies = self.stack.enter_context(Proxies([Upstream("etcd", "127.0.0.1", port)]))
        self.hands = EtcdHands(self.etcd.url, DEFAULT_PREFIX)
        self.register()

    def register(self) -> None:
        """Have the release declared with its one instance."""
        self.hands.declare(TARGET, Endpoint(f"http://127.0.0.1:{self.ports['web']}"))

    def _lxd(self) -> None:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir="/tmp"))
        self.lxd = LxdHost(Path(folder))
        self.stack.callback(self.lxd.down)
        self.lxd.up()
        self.lxd.make(BOXED, {OWNER_KEY: "boxed"})
        self.word_inside("ok")
        self._inside(f"cat >/bin/check <<'END'\n{IN_INSTANCE}END\nchmod 755 /bin/check")

    def _inside(self, script: str) -> None:
        self.lxd.lxc("exec", BOXED, "--", "sh", "-c", script)

    def word_inside(self, word: str) -> None:
        """Have the readiness command in the instance be so."""
        self._inside(f"echo {word} >/tmp/part && mv /tmp/part /tmp/word")

    def left_inside(self) -> int:
        """Return how many processes of that command are in the instance."""
        return sum(line == STAYS for line in self.lxd.processes(BOXED)) if self.more == LXD else 0

    def _files(self) -> None:
        for name in ("db", "cache", "web", "check", "look"):
            self.word(name, "ok")
        (self.folder / "step").write_bytes(bytes(8))
        library = self.folder / "wall_clock.so"
        with contextlib.suppress(OSError, subprocess.CalledProcessError):  # its row says that there is no compiler
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, PROGRAMS / "wall_clock.c"], check=True)
        command = (*BARE, str(PROGRAMS / "command.py"), str(self.folder / "check"), LEFT)
        matrix = figures.matrix(self.ports["db"], self.ports["cache"], command)
        orchestrator = {
            name: {
                key: getattr(getattr(matrix.orchestrator, name), key)
                for key in ("period_ms", "timeout_ms", "failure_threshold")
            }
            for name in ("startup", "liveness", "readiness")
        }
        watchdog = {key: getattr(matrix.watchdog, key) for key in ("interval_ms", "max_missed_ticks")}
        self._yaml(
            "matrix", "idkmesh-probe-matrix", orchestrator=orchestrator, watchdog=watchdog,
            dependencies=[_row(each) for each in matrix.dependencies],
        )  # fmt: skip
        platforms: dict[str, Any] = {}
        boxed: list[dict[str, Any]] = []
        if self.more == LXD:
            platforms["platforms"] = {"lxd": {"socket": str(self.lxd.socket)}}
            boxed.append({
                "name": "boxed", "kind": "stateless", "driver": "lxd", "instances": [BOXED],
                "readiness": {"command": ["/bin/check"], "timeoutSecs": figures.COMMAND_SECONDS},
            })  # fmt: skip
        web = [*BARE, str(PROGRAMS / "dependency.py"), str(self.ports["web"]), str(self.folder / "web")]
        self._yaml(
            "modules", "idkmesh-modules", supervisor={"interval_s": figures.PASS_SECONDS, "lease": {"sqlite": {}}},
            modules=[{
                "name": "web", "kind": "stateless", "driver": "process", "replicas": 1, "port": self.ports["web"],
                "process": {"argv": web, "cwd": str(self.folder)},
            }, *boxed],
            **platforms,
        )  # fmt: skip
        token = self.folder / "router.token"
        token.touch(mode=0o600)
        token.write_text(TOKEN, encoding="ascii")
        self._yaml(
            "router", "idkmesh-router", listen=f"127.0.0.1:{self.ports['router']}",
            credentials=[{"id": "table", "token_file": "router.token"}],
            provider={"etcd": {"endpoints": [f"http://127.0.0.1:{self.proxies.ports['etcd']}"]}},
        )  # fmt: skip

    def _yaml(self, name: str, kind: str, **members: Any) -> None:  # noqa: ANN401  what YAML can say
        document = {"schema_version": "0.1", "kind": kind, **members}
        text = yaml.dump(document, Dumper=_Plain, sort_keys=False)
        (self.folder / f"{name}.yaml").write_text(text, encoding="utf-8")


class _Plain(yaml.SafeDumper):
    """Without aliases, which the project's files have not."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  yaml's signature
        return True


def _row(each: Dependency) -> dict[str, Any]:
    names = ("name", "critical", "interval_ms", "timeout_ms", "cache_ms", "success_threshold")
    if isinstance(each.probe, Command):
        probe: dict[str, Any] = {"command": {"argv": list(each.probe.argv)}}
    else:
        probe = {"http": {"url": getattr(each.probe, "url", "")}}
    return {name: getattr(each, name) for name in names} | {"probe": probe}
