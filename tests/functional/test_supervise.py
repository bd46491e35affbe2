"""``idkmesh supervise`` with real processes. What takes 80 s by contract is tried once here, and on a real LXD."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.functional.health_support import TOKEN, probed, refused
from tests.functional.supervise_support import supervising, until
from tests.workloads.etcd_support import WHY_NOT, Etcd
from tests.workloads.process_support import waited, with_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.functional.supervise_support import Supervising

ROOT = Path(__file__).parents[2]
DUE_SECONDS = 80.0
"""From the first failure to the restart (AR-5.1)."""

LATE_SECONDS = 60.0
"""What a busy machine may take beyond it."""

LISTEN = "--probe-listen=127.0.0.1:0"
HEAD = """\
schema_version: "0.1"
kind: idkmesh-modules
supervisor: {interval_s: 1, lease: {sqlite: {}, ttl_s: 5}}
modules:
"""
ROW = (
    "- {{name: {name}, kind: stateless, driver: process, replicas: {replicas}, process: {{argv: [sleep, '3600']}}, "
    "readiness: {{command: [test, -f, ready]}}}}\n"
)


def row(name: str = "worker", replicas: int = 2) -> str:
    return ROW.format(name=name, replicas=replicas)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)  # commands run as nobody
    file = tmp_path / "modules.yaml"
    file.write_text(HEAD + row(), encoding="utf-8")
    return file


def processes_of(name: str) -> list[int]:
    """Return what runs for a module: its instances, and the readiness commands that happen to run just now."""
    return with_variable(f"IDKMESH_MODULE={name}")


def instances_of(name: str) -> list[int]:
    """Return the instances alone, by what they run: commands inherit the same variables."""
    found = []
    for pid in processes_of(name):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x003600\x00":
                found.append(pid)
    return found


@pytest.fixture
def own(modules: Path, request: pytest.FixtureRequest) -> str:
    """Write a declaration whose module nobody else on this machine has, and return its name."""
    name = f"m{os.getpid()}-{abs(hash(request.node.name)) % 100_000}"
    modules.write_text(HEAD + row(name), encoding="utf-8")
    return name


def states(service: Supervising) -> dict[str, str]:
    return {event["subject"]: event["data"]["detail"] for event in service.told("instance.unhealthy")}


# --- its life ---------------------------------------------------------------------------------------------------------


def test_from_the_start_to_the_end(modules: Path, own: str) -> None:
    """AR-7.1, AR-7.3, AR-7.7, AR-7.9, AR-8.5: lines and events; SIGTERM leaves no process and no lease."""
    with supervising(modules) as service:
        service.wait_for_line("the lease is ours")
        assert waited(lambda: len(instances_of(own)) == 2)
        assert service.end() == 0
        assert processes_of(own) == []
    assert service.announced[0].endswith(f"supervises 1 module of {modules}\n")
    assert service.announced[1] == f"events are kept in {service.store}\n"
    types = [event["type"].removeprefix("idkmesh.") for event in service.events()]
    assert [each for each in types if each.startswith("lease.")] == ["lease.acquired", "lease.lost"]
    assert {event["source"] for event in service.events()} == {"/supervisor"}
    with contextlib.closing(sqlite3.connect(service.store.parent / "lease.sqlite3")) as kept:
        assert kept.execute("SELECT count(*) FROM lease").fetchone() == (0,)


def test_an_instance_that_fails_is_told(modules: Path, own: str) -> None:
    """AR-4.1, AR-7.3: 20 s make it unhealthy, by a line and an event, and 20 s healthy again."""
    with supervising(modules) as service:
        service.wait_for_line(f"{own}/{own}-1 is unhealthy: readiness command failing", 60)
        until(lambda: len(states(service)) == 2, "the events")
        (modules.parent / "ready").touch()
        service.wait_for_line(f"{own}/{own}-2 is healthy again", 60)
        until(lambda: len(service.told("instance.healthy")) == 2, "the events")
        assert service.told("instance.restart_requested") == []
        assert service.end() == 0


def test_killed_it_leaves_no_process(modules: Path, own: str) -> None:
    """AR-7.7, AR-8.5, AR-4.5: the guard ends them; the next supervisor takes the lease and starts others."""
    with supervising(modules) as first:
        assert waited(lambda: len(instances_of(own)) == 2)
        first.end(signal.SIGKILL)
    assert waited(lambda: processes_of(own) == [])
    with supervising(modules) as second:
        second.wait_for_line("the lease is ours")  # once the one that was killed has run out
        assert waited(lambda: len(instances_of(own)) == 2)
        assert second.end() == 0


def test_two_take_turns(modules: Path, own: str, tmp_path: Path) -> None:
    """AR-6.1, AR-6.4, AR-7.8: one starts processes, the other stands by, is ready, and takes over."""
    store = tmp_path / "state" / "events.sqlite3"
    with supervising(modules) as first:
        first.wait_for_line("the lease is ours")
        assert waited(lambda: len(instances_of(own)) == 2)
        with supervising(modules, LISTEN, store=store) as second:
            until(lambda: second.probe("/readyz")[0] == 200, second.lines)
            assert len(instances_of(own)) == 2
            assert first.end() == 0
            second.wait_for_line("the lease is ours")
            assert waited(lambda: len(instances_of(own)) == 2)
            assert second.end() == 0


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    folder = tmp_path / "etcd"
    folder.mkdir()
    member = Etcd(folder)
    yield member
    member.kill()


def test_the_lease_in_etcd(modules: Path, own: str, etcd: Etcd, tmp_path: Path) -> None:
    """AR-6.1, AR-6.3, AR-6.4, AR-5.1, AR-5.3: the whole with a real etcd, for two supervisors as of two hosts.

    One acts and restarts what has failed for 80 s; without etcd nobody acts, and with it again one does; when that one
    ends, the other takes over.
    """
    text = modules.read_text(encoding="utf-8")
    text = text.replace("ttl_s: 5", "ttl_s: 10")  # a busy machine renews it all the same
    modules.write_text(text.replace("{sqlite: {}, ", f"{{etcd: {{endpoints: ['{etcd.url}']}}, "), encoding="utf-8")
    with supervising(modules) as first, supervising(modules, store=tmp_path / "b" / "events.sqlite3") as second:
        both = (first, second)

        def acts() -> list[Supervising]:
            """Return who has taken the lease more often than lost it, as the lines of each say."""
            return [
                each
                for each in both
                if sum("lease is ours" in line for line in each.lines)
                > sum("lease is no longer ours" in line for line in each.lines)
            ]

        until(lambda: len(acts()) == 1, [each.lines for each in both])
        (holder,) = acts()
        (other,) = (each for each in both if each is not holder)
        assert waited(lambda: len(instances_of(own)) == 2)
        line = holder.wait_for_line("was restarted", DUE_SECONDS + LATE_SECONDS)
        assert f"{own}/{own}-" in line
        until(lambda: holder.told("instance.restarted"), "the event after")
        assert other.told("instance.restart_requested") == other.told("lease.acquired") == []
        etcd.kill()
        until(lambda: acts() == [], [each.lines for each in both])
        assert "without the lease nothing is checked" in "".join(holder.lines)
        etcd.start()
        until(lambda: len(acts()) == 1, [each.lines for each in both])
        (holder,) = acts()
        (other,) = (each for each in both if each is not holder)
        assert holder.end() == 0
        until(lambda: other in acts(), other.lines)
        assert other.end() == 0
    assert processes_of(own) == []


def test_a_second_signal_ends_at_once(modules: Path, own: str) -> None:
    """AR-7.7: with 143, while the first one waits; processes are ended by their guard."""
    text = HEAD + row(own).replace("[test, -f, ready]", "[sleep, '10'], timeoutSecs: 15")
    modules.write_text(text, encoding="utf-8")
    with supervising(modules) as service:
        service.wait_for_line("the lease is ours")
        assert waited(lambda: len(processes_of(own)) == 4), "two processes, and a command for each"
        service.process.send_signal(signal.SIGTERM)
        assert not waited(lambda: service.process.poll() is not None, 1.0)
        assert service.end() == 143
    assert waited(lambda: processes_of(own) == [])


# --- its probes -------------------------------------------------------------------------------------------------------


def test_probes(modules: Path) -> None:
    """AR-7.8, HL-5.6: alive and ready whatever the instances are; what is no probe is not there."""
    with supervising(modules, LISTEN) as service:
        until(lambda: service.probe("/readyz")[0] == 200, service.lines)
        answer = json.loads(service.probe("/readyz")[1])
        assert (answer["service"], answer["status"], answer["warnings"]) == ("idkmesh-supervise", "ready", [])
        assert service.probe("/livez") == (200, "ok")
        assert json.loads(service.probe("/startupz")[1])["status"] == "started"
        assert service.probe("/api/v1/modules")[0] == 404
        assert service.end() == 0


def test_a_lease_store_that_fails_is_a_warning(modules: Path, tmp_path: Path) -> None:
    """AR-6.3, AR-7.8: nothing is done without the lease, and the probe names what is wrong."""
    (tmp_path / "state").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "lease.sqlite3")) as foreign:
        foreign.execute("CREATE TABLE theirs (a)")
        foreign.commit()
    with supervising(modules, LISTEN) as service:
        service.wait_for_line("another program's database")
        until(lambda: json.loads(service.probe("/readyz")[1])["warnings"] == ["lease_store"], service.lines)
        assert service.probe("/readyz")[0] == 200
        assert service.end() == 0


def test_systemd_is_told(modules: Path, tmp_path: Path) -> None:
    """HL-2.4, AR-7.8: ready, a keep-alive while nobody is silent, and the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        place = str(tmp_path / "notify")
        systemd.bind(place)
        systemd.settimeout(30)
        with supervising(modules, NOTIFY_SOCKET=place, WATCHDOG_USEC="1000000") as service:
            assert systemd.recv(1000).startswith(b"READY=1")
            assert systemd.recv(1000) == b"WATCHDOG=1"
            assert service.end() == 0
            told = [systemd.recv(1000)]
            while not told[-1].startswith(b"STOPPING=1"):
                told.append(systemd.recv(1000))


# --- SIGHUP -----------------------------------------------------------------------------------------------------------


def test_the_file_is_read_again(modules: Path, own: str) -> None:
    """AR-7.1, AR-7.6: a bad file keeps the running one and is told; a good one is taken."""
    with supervising(modules) as service:
        assert waited(lambda: len(instances_of(own)) == 2)
        before = sorted(instances_of(own))
        modules.write_text("{", encoding="utf-8")
        service.process.send_signal(signal.SIGHUP)
        line = service.wait_for_line("refused, the running one stays")
        assert f"{modules}:" in line
        modules.write_text(HEAD + row(own) + row(f"{own}-b", 1), encoding="utf-8")
        service.process.send_signal(signal.SIGHUP)
        service.wait_for_line("was read again: 1 kept, 0 changed, 1 added, 0 removed")
        assert waited(lambda: len(instances_of(f"{own}-b")) == 1)
        assert sorted(instances_of(own)) == before
        until(lambda: service.told("modules.refused") and service.told("modules.reloaded"), "the events")
        assert service.end() == 0
        assert processes_of(f"{own}-b") == []


def test_a_tower_reads_both_files_again(modules: Path, own: str, tmp_path: Path) -> None:
    """AR-7.1, AR-7.6, CT-9.9: inside the tower, with its events in the tower's own store."""
    store = f"--store={tmp_path / 'e.sqlite3'}"
    with probed("control-tower", "--port=0", store, f"--modules={modules}", cwd=tmp_path) as tower:
        host = f"127.0.0.1:{tower.port}"

        def ask(path: str) -> Any:
            return json.loads(tower.get(path, probe=False, host=host)[1])

        assert waited(lambda: len(instances_of(own)) == 2)
        modules.write_text(HEAD + row(own, 1), encoding="utf-8")
        tower.process.send_signal(signal.SIGHUP)
        tower.wait_for_line("declaration of modules was read again")
        assert waited(lambda: len(instances_of(own)) == 1)
        until(lambda: ask("/api/v1/events?type=idkmesh.modules.reloaded")["items"], "the event")
        # The one that has gone is shown for as long as what is known of it is fresh: three passes.
        until(lambda: [len(item["instances"]) for item in ask("/api/v1/modules")["items"]] == [1], "one is left")
        assert TOKEN not in "".join(tower.errors)
        assert tower.end() == 0
    assert processes_of(own) == []


# --- a single look ----------------------------------------------------------------------------------------------------


def test_a_single_look_starts_nothing(modules: Path, own: str) -> None:
    """AR-7.1: processes belong to the supervisor that starts them, so they say nothing: 3, with a line on why."""
    code, out, errors = refused("supervise", f"--modules={modules}", "--once")
    assert code == 3
    assert "a single look starts none" in errors
    assert out.splitlines()[1].split()[0] == own
    assert out.splitlines()[1].endswith("belong to the supervisor that starts them, and a single look starts none")
    code, out, _ = refused("supervise", "--once", "--json", IDKMESH_MODULES=str(modules))
    document = json.loads(out)
    assert (code, document["lease"]["role"], [item["name"] for item in document["items"]]) == (3, "observer", [own])
    assert processes_of(own) == []
    assert not (modules.parent / "state").exists()


# --- what is refused --------------------------------------------------------------------------------------------------


def test_wrong_usage(modules: Path, tmp_path: Path) -> None:
    """AR-7.1, CT-9.9, AR-3.2: one line and 2 for what cannot be meant; a bad file is all its findings."""
    bad = tmp_path / "bad.yaml"
    bad.write_text(HEAD + row("UPPER") + row("-"), encoding="utf-8")
    cases: list[tuple[list[str], dict[str, Any], str]] = [
        ([], {}, "supervise needs --modules FILE, or IDKMESH_MODULES"),
        (["--modules="], {}, "--modules: an empty value is refused"),
        ([f"--modules={modules}", "--json"], {}, "--json needs --once"),
        ([f"--modules={modules}"], {"IDKMESH_PROBE_UID": "nobody"}, "IDKMESH_PROBE_UID: 'nobody' is refused"),
        ([f"--modules={modules}", "--probe-listen=x"], {}, "--probe-listen: 'x' is refused"),
        ([f"--modules={tmp_path / 'nothing'}"], {}, "nothing"),
    ]
    for arguments, env, text in cases:
        code, out, errors = refused("supervise", *arguments, **env)
        assert (code, out, errors.count("\n")) == (2, "", 1), errors
        assert text in errors
    for command in (["supervise"], ["control-tower", "--port=0"]):
        code, out, errors = refused(*command, f"--modules={bad}")
        assert (code, out, errors.count("\n")) == (2, "", 2)
        assert f"{bad}:5:" in errors
        assert f"{bad}:6:" in errors


def test_what_cannot_be_had(modules: Path, tmp_path: Path) -> None:
    """AR-7.1, EV-2.13: a store or a platform that cannot be used is one line and 1, and nothing is started."""
    cert = HEAD.replace("modules:", "platforms: {lxd: {url: 'https://127.0.0.1:1', cert: /no/c, key: /no/k}}\nmodules:")
    lxd = tmp_path / "lxd.yaml"
    lxd.write_text(cert + "- {name: web, kind: stateless, driver: lxd, instances: [w], port: 80}\n", encoding="utf-8")
    for arguments in ([f"--modules={modules}", f"--store={tmp_path}"], [f"--modules={lxd}", "--once"]):
        code, out, errors = refused("supervise", *arguments)
        assert (code, out, errors.count("\n")) == (1, "", 1), errors


def test_its_variables_are_settings(modules: Path, own: str) -> None:
    """CT-9.9: nobody is warned of IDKMESH_MODULES and IDKMESH_PROBE_UID; root is told of once.

    AR-8.5: nor of the names that a process of the driver `process` finds; one alone is a mistake for IDKMESH_MODULES.
    """
    with supervising(modules, IDKMESH_MODULES="unused", IDKMESH_PROBE_UID="0") as service:
        service.wait_for_line("readiness commands run as root")
        service.wait_for_line("the lease is ours")
        assert service.end() == 0
    assert not any("is no setting" in line for line in service.lines)
    names: dict[str, Any] = {"IDKMESH_MODULE": "web", "IDKMESH_INSTANCE": "web-1"}
    alone: dict[str, Any] = {"IDKMESH_MODULE": "web"}
    for env, told in ((names, False), (alone, True)):
        errors = refused("supervise", f"--modules={modules}", "--store=", **env)[2]
        assert ("IDKMESH_MODULE is no setting" in errors) is told, errors
    assert processes_of(own) == []


# --- the example ------------------------------------------------------------------------------------------------------


def test_the_example_can_be_supervised(tmp_path: Path) -> None:
    """AR-7.1, AR-2.7: `examples/modules.yaml` with a socket where nobody is: each module says nothing, and why."""
    text = (ROOT / "examples" / "modules.yaml").read_text(encoding="utf-8")
    file = tmp_path / "modules.yaml"
    file.write_text(text.replace("/var/lib/lxd/unix.socket, project", f"{tmp_path}/none, project"), encoding="utf-8")
    code, out, errors = refused("supervise", f"--modules={file}", "--once")
    assert code == 3, errors
    _, *rows = out.splitlines()
    names = [line.split()[:2] for line in rows]
    assert names == [["web", "web-1"], ["web", "web-2"], ["db", "db-1"], ["cache", "-"], ["docs", "-"]]
    assert all(f"no socket at {tmp_path}/none (snap: " in row for row in rows[:4]), rows
    assert "a single look starts none" in rows[4]
    document = json.loads(refused("supervise", f"--modules={file}", "--once", "--json")[1])
    assert [item["counts"]["unknown"] for item in document["items"]] == [2, 1, 0, 0]
    assert all("no socket at" in item["reason"] for item in document["items"][:3])
    assert [each["name"] for each in document["platforms"]] == ["lxd", "process"]
    assert "platform lxd tells nothing of its instances" in errors
