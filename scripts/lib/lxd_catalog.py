"""Tries the commands of the catalog of classes in a real instance: Debian 12 with the real packages (AR-2.6).

By hand, as root, with the network and the Debian package mmdebstrap; it takes two minutes. Each command runs as the
user that the supervisor has, through the driver, with its server running, stopped and paused. A command is truthful
where that is 0, another status, and another status or a limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.workloads.drivers.lxd import LxdDriver
from idkmesh.workloads.model import (
    DEFAULT_PROBE_UID,
    OWNER_KEY,
    DesiredModule,
    Instance,
    LxdPlatform,
    ModuleKind,
    Readiness,
    RunEnd,
)
from scripts.lib.lxd_host import LxdHost, why_not

if TYPE_CHECKING:
    from idkmesh.workloads.model import Run

RELEASE: Final = "bookworm"
PACKAGES: Final = [
    "postgresql",
    "redis-server",
    "mariadb-server",
    "nginx",
    "rabbitmq-server",
    "curl",
    "iproute2",
    "procps",
]

INIT: Final = """#!/bin/sh
ip link set lo up
ip addr add "$ADDRESS/24" dev eth0
ip link set eth0 up
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 shm /dev/shm
trap 'exit 0' PWR TERM INT
while :; do sleep 1 & wait $!; done
"""


class Class(NamedTuple):
    """A class of the catalog: its service, the process that serves, and the commands that may speak for it."""

    name: str
    service: str
    process: str
    commands: tuple[str, ...]
    before: tuple[str, ...] = ()
    """What makes the service ready to be asked, as root, before it starts."""


CLASSES: Final = (
    Class("postgresql", "postgresql", "postgres", ("/usr/bin/pg_isready -q",)),
    Class("redis", "redis-server", "redis-server", ("/usr/bin/redis-cli -e ping", "/usr/bin/redis-cli ping")),
    Class("mariadb", "mariadb", "mariadbd", ("/usr/bin/mariadb-admin ping", "/usr/bin/mariadb-admin --silent ping")),
    Class("nginx", "nginx", "nginx", ("/usr/bin/curl -fsS -o /dev/null http://127.0.0.1/",)),
    Class(
        "rabbitmq",
        "rabbitmq-server",
        "beam.smp",
        (
            "/usr/sbin/rabbitmq-diagnostics -q ping",
            "/usr/bin/epmd -names",
            "/usr/bin/curl -fsS --http0.9 -o /dev/null http://127.0.0.1:5672/",
            "/usr/bin/curl -fsS telnet://127.0.0.1:5672",
            "/usr/bin/curl -fsS -o /dev/null http://127.0.0.1:15692/metrics",
        ),
        ("rabbitmq-plugins", "enable", "--offline", "rabbitmq_prometheus"),
    ),
)


def image(folder: Path) -> Path:
    """Build the image and return its archive."""
    made = folder / "rootfs.tar"
    if not made.exists():
        command = ["mmdebstrap", "--variant=apt", f"--include={','.join(PACKAGES)}", RELEASE, str(made)]
        subprocess.run(command, check=True)
    tree = folder / "image"
    (tree / "rootfs").mkdir(parents=True)
    subprocess.run(["tar", "-C", str(tree / "rootfs"), "--exclude=./dev/*", "-xf", str(made)], check=True)
    init = tree / "rootfs" / "sbin" / "init"
    init.unlink(missing_ok=True)
    init.write_text(INIT, encoding="ascii")
    init.chmod(0o755)
    metadata = {"architecture": "x86_64", "creation_date": 1700000000, "properties": {"os": "debian"}}
    (tree / "metadata.yaml").write_text(json.dumps(metadata), encoding="ascii")
    archive = folder / "debian.tar"
    with tarfile.open(archive, "w") as packed:
        packed.add(tree / "metadata.yaml", "metadata.yaml")
        packed.add(tree / "rootfs", "rootfs")
    return archive


def shown(run: Run) -> str:
    """Return a run in a word."""
    return str(run.code) if run.end is RunEnd.EXITED else f"{run.end.value} ({run.reason})"


def tried(host: LxdHost, driver: LxdDriver, instance: Instance, each: Class) -> None:
    """Print what each command says in the three conditions."""

    def do(*command: str) -> None:
        host.lxc("exec", instance.name, "--", *command, check=False)

    def said() -> list[str]:
        readiness = [Readiness(tuple(command.split()), 5) for command in each.commands]
        return [shown(driver.run(instance, each, DEFAULT_PROBE_UID)) for each in readiness]

    if each.before:
        do(*each.before)
    do("service", each.service, "start")
    do("sleep", "12" if each.name == "rabbitmq" else "3")
    running = said()
    do("pkill", "-STOP", "-x", each.process)
    paused = said()
    do("pkill", "-CONT", "-x", each.process)
    do("service", each.service, "stop")
    do("pkill", "-KILL", "-x", each.process)
    do("sleep", "1")
    for row in zip(each.commands, running, said(), paused, strict=True):
        print(f"{each.name:12} {row[0]:66} running {row[1]:4} stopped {row[2]:4} paused {row[3]}", flush=True)


def main(arguments: list[str]) -> int:
    """Try all classes, or those that are named. ``--rootfs FILE`` takes a root that mmdebstrap made before."""
    if reason := why_not():
        print(f"idkmesh: LXD cannot run here: {reason}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="idkmesh-catalog-", ignore_cleanup_errors=True) as folder:
        if arguments[:1] == ["--rootfs"]:
            (Path(folder) / "rootfs.tar").symlink_to(Path(arguments[1]).resolve())
            arguments = arguments[2:]
        archive = image(Path(folder))
        host = LxdHost(Path(folder) / "l")
        Path(folder).chmod(0o711)
        try:
            host.up()
            host.lxc("image", "import", str(archive), "--alias", "debian", "-q")
            host.make("catalog-1", {OWNER_KEY: "catalog"}, image="debian")
            driver = LxdDriver(LxdPlatform(socket=str(host.socket)))
            module = DesiredModule(name="catalog", kind=ModuleKind.SINGLETON, driver="lxd", instances=("catalog-1",))
            (instance,) = driver.instances([module])
            for each in CLASSES:
                if not arguments or each.name in arguments:
                    tried(host, driver, instance, each)
        finally:
            host.down()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
