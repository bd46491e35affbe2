"""A real LXD from Debian's package in namespaces of its own, for the tests and for people who work on the driver.

Nothing of it touches the machine's own LXD or its network but one pair of virtual interfaces, by which the machine
reaches the instances. The image is a root of busybox, built here: no image server is asked. Laws:

1. It ends only what it started: each process is known by its id and its start time.
2. The daemon starts again in the network namespace of the one before. In another one it would not find the running
   instances, and start a second copy of each.
3. What an earlier run has left behind, its owner being dead, is taken away by the next one.

Needs root, and programs of the Debian packages lxd, lxd-client, busybox-static and iproute2.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROGRAMS: Final = {
    "lxd": "lxd",
    "lxc": "lxd-client",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
WAIT: Final = 60.0
PORT: Final = 8443
BRIDGE: Final = "br0"
PREFIX: Final = "idkmesh-lxd-"

# The namespace's own /sys is needed for its network; the control groups are the machine's. LXD maps the users of
# instances into the range that these two files grant to root, which are the machine's nowhere else.
HOLDER: Final = """
set -e
ip link set lo up
mkdir -p "$1/cgroups"
mount --rbind /sys/fs/cgroup "$1/cgroups"
mount -t sysfs sysfs /sys
mount --rbind "$1/cgroups" /sys/fs/cgroup
umount -l "$1/cgroups"
mount --bind "$1/subid" /etc/subuid
mount --bind "$1/subid" /etc/subgid
ip link add br0 type bridge
ip addr add "$2.1/24" dev br0
ip link set br0 up
echo ready
exec sleep infinity
"""

# An address comes with the instance's configuration: no DHCP server is needed. `stubborn` ignores a clean stop.
INIT: Final = """#!/bin/sh
if [ "$STUBBORN" = 1 ]; then trap '' PWR TERM INT HUP; else trap 'exit 0' PWR TERM INT HUP; fi
ip link set lo up
if [ -n "$ADDRESS" ]; then ip addr add "$ADDRESS/24" dev eth0; ip link set eth0 up; fi
while :; do sleep 1 & wait $!; done
"""

PRESEED: Final = """
config: {{images.auto_update_interval: "0", core.shutdown_timeout: "1", core.https_address: "{address}"}}
storage_pools: [{{name: default, driver: dir}}]
profiles:
  - name: default
    devices:
      root: {{path: /, pool: default, type: disk}}
      eth0: {{type: nic, nictype: bridged, parent: {bridge}, name: eth0}}
"""


class LxdHostError(Exception):
    """LXD does not come up here. As text it is one line: what happened, where, what to do."""


def why_not() -> str | None:
    """Say why LXD cannot run here, or None."""
    if not sys.platform.startswith("linux"):
        return "LXD runs on Linux alone"
    if os.geteuid() != 0:
        return "LXD needs root"
    missing = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if missing:
        return f"not installed: {' '.join(missing)} (scripts/test installs Debian packages as root)"
    busybox = shutil.which("busybox")
    if busybox is not None and b"/ld-linux" in Path(busybox).read_bytes()[:4096]:
        return "busybox is not the static one: install busybox-static"
    tried = subprocess.run(["unshare", "-n", "-m", "true"], check=False, capture_output=True, text=True)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


def started_at(pid: int) -> str | None:
    """Return what tells a process from a later one with its id, None where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT
    while not done():
        if time.monotonic() > deadline:
            raise LxdHostError(f"{what} did not come about within {WAIT:.0f} s: look into the folder's *.log")
        time.sleep(0.02)


class LxdHost:
    """One LXD, all of it in the folder ``base``; the path is short, for it has Unix sockets."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.folder = base / "lxd"
        self.socket = self.folder / "unix.socket"
        self._state_file = base / "state.json"
        self._state: dict[str, Any] = {}
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        with contextlib.suppress(OSError):
            self._state = json.loads(self._state_file.read_text(encoding="utf-8"))

    # --- what is there --------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where the daemon listens with TLS."""
        return f"https://{self._state['subnet']}.1:{PORT}"

    @property
    def server_certificate(self) -> Path:
        """The daemon's own certificate."""
        return self.folder / "server.crt"

    @property
    def owner(self) -> tuple[int, str | None]:
        """Who brought it up: process and start time."""
        pid, start = self._state.get("owner", (0, None))
        return pid, start

    def address(self, name: str, project: str = "default") -> str:
        """Return the address of an instance made here."""
        return f"{self._state['subnet']}.{self._state['instances'][f'{project}/{name}']}"

    def pid(self, role: str) -> int | None:
        """Return the id of ``holder`` or ``daemon`` where it runs."""
        pid, start = self._state.get(role, (0, None))
        return pid if pid and started_at(pid) == start else None

    def lxc(self, *arguments: str, check: bool = True) -> str:
        """Run LXD's own client and return what it prints."""
        environment = {**os.environ, "LXD_DIR": str(self.folder), "HOME": str(self.base)}
        done = subprocess.run(
            ["lxc", *arguments],
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
        )
        if check and done.returncode:
            raise LxdHostError(f"lxc {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def query(self, path: str) -> Any:  # noqa: ANN401  whatever JSON the daemon answers
        """Return the metadata that the daemon answers to a GET."""
        return json.loads(self.lxc("query", path))

    def processes(self, name: str) -> list[str]:
        """Return the command lines of an instance's processes but its init, as the machine sees them."""
        init = self.query(f"/1.0/instances/{name}/state")["pid"]
        space = Path(f"/proc/{init}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if entry.name != str(init) and (entry / "ns" / "pid").readlink() == space:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
        return found

    # --- up and down ----------------------------------------------------------------------------------------------

    def up(self, *names: str) -> None:
        """Bring up what is not up: namespaces, daemon, image, and instances of these names, running."""
        if reason := why_not():
            raise LxdHostError(f"LXD cannot run here: {reason}")
        self.base.mkdir(parents=True, exist_ok=True)
        self.base.chmod(0o711)  # the users of instances pass through it
        if self.pid("holder") is None:
            self._clear()
            self._state = {"owner": (os.getpid(), started_at(os.getpid())), "made": 0, "instances": {}}
            self._start_holder()
        first = not (self.folder / "database").exists()
        self.start_daemon()
        if first:
            self._initialise()
        for name in names:
            if f"default/{name}" not in self._state["instances"]:
                self.make(name)

    def down(self) -> None:
        """End instances, daemon and namespaces, and remove the folder. Repeated, it changes nothing."""
        with contextlib.suppress(LxdHostError, subprocess.SubprocessError, OSError):
            if self.pid("holder") is not None and (self.folder / "database").exists():
                self.start_daemon()  # instances outlive a daemon that was killed
                for path in self.query("/1.0/projects"):
                    self.lxc("stop", "--all", "--force", "--project", path.rpartition("/")[2], check=False)
                _until(lambda: not self._monitored(), "the end of the instances' monitors")
        self._end("daemon")
        for pid in self._monitored():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._end("holder")
        for group in Path("/sys/fs/cgroup").glob("*/lxc.pivot"):
            with contextlib.suppress(OSError):  # of another LXD, which uses it
                group.rmdir()
        shutil.rmtree(self.base, ignore_errors=True)

    def start_daemon(self) -> None:
        """Start the daemon, in the namespaces of the one before, unless it runs; return when it answers."""
        if self.pid("daemon") is not None:
            return
        self.folder.mkdir(exist_ok=True)
        holder = str(self._state["holder"][0])
        self._spawn("daemon", ["nsenter", "-t", holder, "-n", "-m", "lxd", "--group", "root"])
        environment = {**os.environ, "LXD_DIR": str(self.folder)}
        ready = subprocess.run(["lxd", "waitready", f"--timeout={WAIT:.0f}"], check=False, env=environment)
        if ready.returncode or self.pid("daemon") is None:
            raise LxdHostError(f"the daemon does not answer: look into {self.base}/daemon.log")

    def signal_daemon(self, number: signal.Signals) -> None:
        """Send the daemon a signal."""
        pid = self.pid("daemon")
        if pid is not None:
            os.kill(pid, number)

    def wait_for_daemons_end(self) -> None:
        """Return when the daemon has ended."""
        _until(lambda: self.pid("daemon") is None, "the daemon's end")
        self._reap("daemon")

    def make(
        self,
        name: str,
        config: Mapping[str, str] | None = None,
        *,
        project: str = "default",
        stubborn: bool = False,
        image: str = "bb",
    ) -> None:
        """Make an instance with an address of its own and start it. A stubborn one ignores a clean stop."""
        number = 10 + self._state["made"]
        keys = {"environment.ADDRESS": f"{self._state['subnet']}.{number}", "environment.STUBBORN": str(int(stubborn))}
        keys |= config or {}
        options = [part for key, value in keys.items() for part in ("-c", f"{key}={value}")]
        self.lxc("launch", image, name, "--project", project, "-q", *options)
        self._state["instances"][f"{project}/{name}"] = number
        self._state["made"] += 1
        self._save()

    def trust(self, certificate: Path) -> None:
        """Let the daemon trust a client's certificate."""
        self.lxc("config", "trust", "add", str(certificate))

    # --- parts ----------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._state_file.write_text(json.dumps(self._state), encoding="utf-8")

    def _spawn(self, role: str, argv: list[str]) -> subprocess.Popen[bytes]:
        with (self.base / f"{role}.log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if role == "holder" else log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "LXD_DIR": str(self.folder)},
            )
        self._started[role] = process
        self._state[role] = (process.pid, started_at(process.pid))
        self._save()
        return process

    def _start_holder(self) -> None:
        subnet, link = _free_subnet()
        self._state["subnet"] = subnet
        (self.base / "subid").write_text("root:100000:10000001\n", encoding="ascii")
        holder = ["unshare", "-n", "-m", "--propagation", "private", "bash", "-c", HOLDER, "_", str(self.base), subnet]
        process = self._spawn("holder", holder)
        assert process.stdout is not None  # noqa: S101  for the type checker: it was asked for
        with process.stdout:
            if process.stdout.readline() != b"ready\n":
                raise LxdHostError(f"no namespaces: look into {self.base}/holder.log")
        pid = str(process.pid)
        inside = ["nsenter", "-t", pid, "-n", "ip", "link", "set"]
        for command in (
            ["ip", "link", "add", link, "type", "veth", "peer", "name", "up0", "netns", pid],
            [*inside, "up0", "master", BRIDGE, "up"],
            ["ip", "addr", "add", f"{subnet}.254/24", "dev", link],
            ["ip", "link", "set", link, "up"],
        ):
            subprocess.run(command, check=True, capture_output=True)

    def _initialise(self) -> None:
        preseed = PRESEED.format(address=f"{self._state['subnet']}.1:{PORT}", bridge=BRIDGE)
        environment = {**os.environ, "LXD_DIR": str(self.folder)}
        subprocess.run(
            ["lxd", "init", "--preseed"], check=True, input=preseed, text=True, env=environment, capture_output=True
        )
        self.lxc("image", "import", str(_image(self.base / "image")), "--alias", "bb", "-q")

    def _end(self, role: str) -> None:
        pid = self.pid(role)
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        _until(lambda: self.pid(role) is None, f"the end of the {role}")
        self._reap(role)

    def _reap(self, role: str) -> None:
        if (process := self._started.pop(role, None)) is not None:
            process.wait()

    def _monitored(self) -> list[int]:
        """Return instances' inits, and then their monitors, which name the folder and take their groups away."""
        wanted = f"[lxc monitor] {self.folder}".encode()
        monitors, inits = [], []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes().startswith(wanted):
                    monitors.append(int(entry.name))
                    inits += (entry / "task" / entry.name / "children").read_text(encoding="ascii").split()
        return [*map(int, inits), *monitors]

    def _clear(self) -> None:
        for name in ("lxd", "image"):
            shutil.rmtree(self.base / name, ignore_errors=True)


def _free_subnet() -> tuple[str, str]:
    """Return a subnet of the range for benchmarks (RFC 2544) that no interface here has, and an interface's name."""
    taken = subprocess.run(["ip", "-o", "addr"], check=True, capture_output=True, text=True).stdout
    for number in range(256):
        candidate = f"198.18.{(os.getpid() + number) % 256}"
        if f" {candidate}." not in taken:
            return candidate, f"idkm{candidate.rpartition('.')[2]}"
    raise LxdHostError("no free subnet in 198.18.0.0/16: take away other LXDs of the tests")


def _image(folder: Path) -> Path:
    """Build an image whose programs are busybox, and return its archive."""
    root = folder / "rootfs"
    for name in ("bin", "sbin", "etc", "proc", "sys", "dev", "tmp", "root", "var", "run"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    busybox = shutil.which("busybox") or "busybox"
    shutil.copy(busybox, root / "bin" / "busybox")
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for applet in applets:
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    (root / "sbin" / "init").write_text(INIT, encoding="ascii")
    (root / "sbin" / "init").chmod(0o755)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    metadata = {"architecture": os.uname().machine, "creation_date": 1700000000, "properties": {"os": "busybox"}}
    (folder / "metadata.yaml").write_text(json.dumps(metadata), encoding="ascii")
    archive = folder / "busybox.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(folder / "metadata.yaml", "metadata.yaml")
        packed.add(root, "rootfs")
    return archive


def sweep(parent: Path = Path("/tmp")) -> None:  # noqa: S108  short: Unix sockets are in it
    """Take away LXDs that tests left behind, their processes being dead."""
    for base in parent.glob(f"{PREFIX}*"):
        host = LxdHost(base)
        pid, start = host.owner
        if pid and started_at(pid) != start:
            host.down()


def main(arguments: list[str]) -> int:
    """``up [NAME ...]``, ``down``, ``restart`` and ``lxc ARGS``; the folder is IDKMESH_LXD, or one in /tmp."""
    host = LxdHost(Path(os.environ.get("IDKMESH_LXD", "/tmp/idkmesh-lxd")))  # noqa: S108  short, and a developer's
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    try:
        if command == "up":
            host.up(*(rest or ["web-1"]))
            print(f"socket {host.socket}\nurl {host.url}\ncertificate {host.server_certificate}")
        elif command == "down":
            host.down()
        elif command == "restart":
            host.signal_daemon(signal.SIGKILL)
            host.wait_for_daemons_end()
            host.start_daemon()
        elif command == "lxc":
            print(host.lxc(*rest), end="")
        else:
            print("usage: scripts/lxd up [NAME ...] | down | restart | lxc ARGS", file=sys.stderr)
            return 2
    except (LxdHostError, subprocess.SubprocessError) as error:
        print(f"idkmesh: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
