"""The driver of LXD on a real LXD: what its daemon does that a document does not say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.drivers import lxd
from idkmesh.workloads.drivers.driver import DriverError
from idkmesh.workloads.drivers.lxd import LxdDriver
from idkmesh.workloads.drivers.lxd_exec import HELD_SECONDS, KILL_SECONDS
from idkmesh.workloads.model import (
    OWNER_KEY,
    DesiredModule,
    InstanceState,
    LxdPlatform,
    ModuleKind,
    Readiness,
    Run,
    RunEnd,
)
from scripts.lib.lxd_host import LxdHost, started_at
from tests.lxd_fixture import OURS, driver_of, module_of, running, seen, until
from tests.workloads.support import always

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
NOBODY = 65534
# What this machine may take beside what the contract grants: it may be busy.
SLACK = 5.0
# Read before the suite takes the variables of the user away.
TIMED_OUT = int(os.environ.get("IDKMESH_LXD_TIMED_OUT", "16"))
TRUE = Readiness(("true",))


@pytest.fixture
def host(lxd_host: LxdHost) -> Iterator[LxdHost]:
    """Return the LXD, and put it back in order: daemon and both instances running, nothing left in them."""
    yield lxd_host
    lxd_host.signal_daemon(signal.SIGCONT)
    lxd_host.start_daemon()
    for name in ("web-1", "web-2"):
        status = lxd_host.query(f"/1.0/instances/{name}")["status"]
        if status in {"Stopped", "Frozen"}:
            lxd_host.lxc("start", name)
        until(lambda name=name: commands(lxd_host, name) == [], f"{name} has processes")  # type: ignore[misc]


@pytest.fixture
def driver(host: LxdHost) -> LxdDriver:
    return driver_of(host)


def commands(host: LxdHost, name: str = "web-1") -> list[str]:
    """Return what runs in an instance beside its init, which sleeps a second at a time."""
    return [line for line in host.processes(name) if line not in {"sleep 1", ""}]


def shell(driver: LxdDriver, script: str, limit: int = 5, name: str = "web-1", uid: int = NOBODY) -> Run:
    return driver.run(running(driver, name), Readiness(("sh", "-c", script), limit), uid)


def meanwhile(driver: LxdDriver, do: Callable[[], object], limit: int, script: str = "exec sleep 4321") -> Run:
    """Run a command in web-1, do something as soon as it runs there, and return what came of the command."""
    instance = running(driver)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(driver.run, instance, Readiness(("sh", "-c", f"touch /tmp/on; {script}"), limit), NOBODY)
        do()
        return run.result(60)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def once_it_runs(host: LxdHost, do: Callable[[], object]) -> Callable[[], object]:
    def done() -> object:
        until(lambda: any("4321" in line for line in commands(host)), "the command does not run")
        return do()

    return done


# --- what is listed -----------------------------------------------------------------------------------------------


def test_instances_by_name(host: LxdHost, driver: LxdDriver) -> None:
    """AR-3.1, AR-8.2: in the order of the file, with addresses; one that is not there is gone, and not ours."""
    listed = driver.instances([module_of("web-2", "nowhere", "web-1"), module_of("web-1", name="other")])
    told = [(found.module, found.name, found.state, found.owned, found.address) for found in listed]
    up, gone = InstanceState.RUNNING, InstanceState.GONE
    one, two = host.address("web-1"), host.address("web-2")
    assert told == [
        ("web", "web-2", up, True, two),
        ("web", "nowhere", gone, False, None),
        ("web", "web-1", up, True, one),
        ("other", "web-1", up, False, one),
    ]


def test_instances_by_selector(driver: LxdDriver) -> None:
    """AR-2.2: a selector chooses by the configuration, by all that it names; nothing is chosen by nothing."""

    def names(**selector: str) -> list[str]:
        selector = {key.replace("__", "."): value for key, value in selector.items()}
        module = DesiredModule(name="web", kind=ModuleKind.STATELESS, driver="lxd", selector=selector)
        return [found.name for found in driver.instances([module])]

    assert names(user__idkmesh__module="web") == ["web-1", "web-2"]
    assert names(user__idkmesh__module="web", image__os="busybox") == ["web-1", "web-2"]
    assert names(user__idkmesh__module="web", image__os="another") == []
    assert names() == []


def test_what_is_not_ours_is_never_run_in(host: LxdHost, driver: LxdDriver) -> None:
    """AR-3.1: a module that names somebody else's instance gets nothing run there, and nothing restarted."""
    other = seen(driver, module="other")
    before = seen(driver).identity
    ended = driver.run(other, Readiness(("sleep", "4321"), 1), NOBODY)
    assert (ended.end, "not ours" in ended.reason) == (RunEnd.COULD_NOT_RUN, True)
    with pytest.raises(DriverError, match="not ours"):
        driver.restart(other, always)
    assert seen(driver).identity == before


def test_projects(host: LxdHost, driver: LxdDriver) -> None:
    """AR-8.2: a driver sees, asks and restarts the instances of its project, those of the same name elsewhere never."""
    host.lxc("project", "create", "second", "-c", "features.images=false", "-c", "features.profiles=false")
    host.make("web-1", OURS, project="second")
    second = driver_of(host, project="second")
    before = running(driver).identity
    found = running(second)
    assert found.identity != before
    assert seen(second, "web-2").state is InstanceState.GONE
    assert shell(second, "exit 7").code == 7
    assert shell(second, "exec sleep 4321", 1).end is RunEnd.TIMED_OUT
    second.restart(found, always)
    assert running(second).identity != found.identity
    assert running(driver).identity == before
    host.lxc("delete", "web-1", "--force", "--project", "second")
    host.lxc("project", "delete", "second")


def test_an_identity_outlives_the_daemon(host: LxdHost, driver: LxdDriver) -> None:
    """AR-4.4: a daemon that starts again leaves its instances their identity; a start of the instance does not."""
    before = running(driver).identity
    host.signal_daemon(signal.SIGKILL)
    host.wait_for_daemons_end()
    host.start_daemon()
    assert running(driver).identity == before
    host.lxc("restart", "web-1", "--force")
    assert running(driver).identity != before


# --- what is run --------------------------------------------------------------------------------------------------


def test_timed_out_commands_leave_nothing(host: LxdHost, driver: LxdDriver) -> None:
    """AR-3.4, AR-8.3: none is left in the instance's list of processes; no descriptor, no thread.

    Sixteen of them; IDKMESH_LXD_TIMED_OUT in the environment asks for more.
    """
    instance = running(driver)
    descriptors, threads = open_descriptors(), threading.active_count()
    with ThreadPoolExecutor(8) as pool:
        ends = list(
            pool.map(lambda _: driver.run(instance, Readiness(("sleep", "4321"), 1), NOBODY).end, range(TIMED_OUT))
        )
    assert ends == [RunEnd.TIMED_OUT] * TIMED_OUT
    assert commands(host) == []
    until(lambda: open_descriptors() == descriptors, "no descriptor is left")
    until(lambda: threading.active_count() == threads, "no thread is left")


def test_a_child_in_the_background(host: LxdHost, driver: LxdDriver) -> None:
    """AR-3.4: one that holds no output is nobody's affair; one that does keeps the next command from its start."""
    assert shell(driver, "sleep 2 >/dev/null 2>&1 & exit 0").code == 0
    held = shell(driver, "sleep 9 & exec sleep 4321", 1)
    assert held.end is RunEnd.LEFT_BEHIND
    again = shell(driver, "exec sleep 1234", 5)
    assert (again.end, again.seconds < 4) == (RunEnd.LEFT_BEHIND, True)
    assert [line for line in commands(host) if "1234" in line or "4321" in line] == []
    assert shell(driver, "exit 0", name="web-2").code == 0
    until(lambda: shell(driver, "exit 0").code == 0, "the child has ended, and nothing runs")


def test_what_is_left_behind_belongs_to_a_life(host: LxdHost, driver: LxdDriver) -> None:
    """AR-3.4: when the instance is started anew nothing of it is left, and the command runs again."""
    assert shell(driver, "sleep 4321 & exit 0", 1).end is RunEnd.LEFT_BEHIND
    host.lxc("restart", "web-1", "--force")
    assert shell(driver, "exit 0").code == 0


def test_a_flood_is_dropped(driver: LxdDriver) -> None:
    """AR-3.2: 60 MB of output are taken and not kept; an endless one ends at the limit like any other command."""
    instance = running(driver)
    tracemalloc.start()
    ended = driver.run(instance, Readiness(("dd", "if=/dev/zero", "bs=1M", "count=60"), 15), NOBODY)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ended.code == 0
    assert peak < 4 * 1024 * 1024
    endless = driver.run(instance, Readiness(("yes",), 1), NOBODY)
    assert endless.end is RunEnd.TIMED_OUT


def test_the_user_inside(driver: LxdDriver) -> None:
    """AR-3.2: the number that is asked for is the one that the command has, root only when it is asked for."""
    for uid in (NOBODY, 1234, 0):
        assert shell(driver, f'test "$(id -u):$(id -g)" = {uid}:{uid}', uid=uid).code == 0


def test_a_user_outside_the_map(driver: LxdDriver) -> None:
    """AR-3.3: the daemon would answer 1, as if the check had failed: the map is looked at before."""
    ended = shell(driver, "exit 0", uid=20_000_000)
    assert (ended.end, "map" in ended.reason) == (RunEnd.COULD_NOT_RUN, True)


# --- instances that stop ------------------------------------------------------------------------------------------


def test_stopped_frozen_and_gone(host: LxdHost, driver: LxdDriver) -> None:
    """AR-3.3: each could not run, says which it was, and is told in the listing."""
    host.make("odd-1", OURS)
    instance = running(driver, "odd-1")
    for verb, state, word in (
        (("pause",), InstanceState.FROZEN, "frozen"),
        (("stop", "--force"), InstanceState.STOPPED, "stopped"),
        (("delete", "--force"), InstanceState.GONE, "not found"),
    ):
        host.lxc(*verb, "odd-1")
        ended = driver.run(instance, TRUE, NOBODY)
        assert (ended.end, word in ended.reason) == (RunEnd.COULD_NOT_RUN, True), ended
        assert seen(driver, "odd-1").state is state
        with pytest.raises(DriverError, match=word):
            driver.restart(instance, always)


def test_frozen_in_the_middle(host: LxdHost, driver: LxdDriver) -> None:
    """AR-3.3: a command that its frozen instance keeps from ending says nothing, soon after its limit."""
    ended = meanwhile(driver, once_it_runs(host, lambda: host.lxc("pause", "web-1")), 1)
    assert ended.end is RunEnd.COULD_NOT_RUN, ended
    assert ended.seconds < 1 + KILL_SECONDS + HELD_SECONDS + SLACK
    host.lxc("start", "web-1")
    until(lambda: shell(driver, "exit 0").code == 0, "it runs again, and no command does")


@pytest.mark.parametrize("verb", [("stop", "--force"), ("restart", "--force"), ("restart",)])
def test_stopped_in_the_middle(host: LxdHost, driver: LxdDriver, verb: tuple[str, ...]) -> None:
    """AR-3.3: the daemon says 137 of a command that was killed with its instance: that is no failure of it."""
    ended = meanwhile(driver, once_it_runs(host, lambda: host.lxc(verb[0], "web-1", *verb[1:])), 15)
    assert ended.end is RunEnd.COULD_NOT_RUN, ended


# --- the daemon ---------------------------------------------------------------------------------------------------


def test_the_daemon_is_killed_in_the_middle(host: LxdHost, driver: LxdDriver) -> None:
    """AR-8.4: the result is lost, which is told at once; with the daemon back the next command runs."""
    ended = meanwhile(driver, once_it_runs(host, lambda: host.signal_daemon(signal.SIGKILL)), 15, "exec sleep 4321")
    assert ended.end is RunEnd.COULD_NOT_RUN, ended
    assert ended.seconds < 15
    host.wait_for_daemons_end()
    host.start_daemon()
    assert shell(driver, "exit 0").code == 0
    # It lives on, and nobody can end it now but somebody inside: section 9 of the contract.
    assert commands(host) != []
    host.lxc("restart", "web-1", "--force")


def test_the_daemon_is_asked_to_end_in_the_middle(host: LxdHost, driver: LxdDriver) -> None:
    """AR-8.4: it waits for commands that run, whose result counts, and answers 503 to all else meanwhile."""
    instance = running(driver)
    refused: list[Run] = []

    def asked() -> None:
        host.signal_daemon(signal.SIGTERM)
        time.sleep(0.5)
        refused.append(driver.run(instance, TRUE, NOBODY))

    ended = meanwhile(driver, once_it_runs(host, asked), 10, "sh -c 'sleep 2; : 4321'; exit 5")
    assert (ended.end, ended.code) in {(RunEnd.EXITED, 5), (RunEnd.COULD_NOT_RUN, None)}, ended
    assert [run.end for run in refused] == [RunEnd.COULD_NOT_RUN]
    host.wait_for_daemons_end()


def test_no_daemon(host: LxdHost, driver: LxdDriver) -> None:
    """AR-8.4: a command could not run; a listing and a restart are errors of one line that say where."""
    instance = running(driver)
    host.signal_daemon(signal.SIGKILL)
    host.wait_for_daemons_end()
    assert driver.run(instance, TRUE, NOBODY).end is RunEnd.COULD_NOT_RUN
    for call in (lambda: driver.instances([module_of("web-1")]), lambda: driver.restart(instance, always)):
        with pytest.raises(DriverError) as told:
            call()
        assert str(host.socket) in str(told.value)
        assert "\n" not in str(told.value)


def test_a_daemon_that_is_paused(host: LxdHost, driver: LxdDriver) -> None:
    """AR-8.4: requests have an end of their own, before a command's start and in its middle."""
    instance = running(driver)
    ended = meanwhile(driver, once_it_runs(host, lambda: host.signal_daemon(signal.SIGSTOP)), 1)
    assert ended.end is RunEnd.COULD_NOT_RUN, ended
    assert ended.seconds < 1 + KILL_SECONDS + HELD_SECONDS + SLACK
    again = driver.run(instance, TRUE, NOBODY)
    assert again.end is RunEnd.COULD_NOT_RUN
    assert again.seconds < SLACK


def test_a_supervisor_that_is_killed(host: LxdHost, driver: LxdDriver) -> None:
    """AR-3.4: the daemon ends a command whose asker is gone, so that none outlives it."""
    program = (
        "import sys; from tests.lxd_fixture import *; from idkmesh.workloads.model import *;"
        "driver = LxdDriver(LxdPlatform(socket=sys.argv[1]));"
        "driver.run(running(driver), Readiness(('sleep', '4321'), 15), 65534)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    asker = subprocess.Popen([sys.executable, "-c", program, str(host.socket)], env=environment)
    try:
        until(lambda: commands(host) != [], "the command does not run")
    finally:
        asker.kill()
        asker.wait()
    until(lambda: commands(host) == [], "the command goes on")


# --- restarts -----------------------------------------------------------------------------------------------------


def test_a_stubborn_instance_is_restarted(host: LxdHost, driver: LxdDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """AR-5.6: one that ignores the clean stop is forced when its 10 s are over; 2 s here, which the daemon counts."""
    assert lxd.CLEAN_STOP_SECONDS == 10
    monkeypatch.setattr(lxd, "CLEAN_STOP_SECONDS", 2)
    host.make("odd-2", OURS, stubborn=True)
    before = running(driver, "odd-2")
    began = time.monotonic()
    driver.restart(before, always)
    assert time.monotonic() - began >= 2
    assert running(driver, "odd-2").identity != before.identity
    host.lxc("delete", "--force", "odd-2")


def test_a_restart_that_somebody_else_has_made(host: LxdHost, driver: LxdDriver) -> None:
    """AR-4.4, AR-5.4: an instance that was started anew since it was seen is not restarted."""
    before = running(driver)
    host.lxc("restart", "web-1", "--force")
    after = running(driver).identity
    with pytest.raises(DriverError, match="started anew"):
        driver.restart(before, always)
    assert running(driver).identity == after


# --- over the network ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(lxd_host: LxdHost, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the paths of a client's certificate and key, which the daemon trusts."""
    folder = tmp_path_factory.mktemp("client")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=idkmesh"
    if shutil.which("openssl") is None:
        pytest.skip("not installed: openssl")
    files = [*command.split(), "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(files, check=True, cwd=folder, capture_output=True)
    lxd_host.trust(folder / "cert.pem")
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_over_tls(host: LxdHost, certificate: tuple[str, str]) -> None:
    """AR-8.2: the same over HTTPS, with a client's certificate and the daemon's own pinned, whatever its name."""
    cert, key = certificate
    platform = LxdPlatform(url=host.url, cert=cert, key=key, server_cert=str(host.server_certificate))
    driver = LxdDriver(platform)
    assert running(driver).address == host.address("web-1")
    assert shell(driver, "exit 9").code == 9
    assert driver.run(running(driver), Readiness(("dd", "if=/dev/zero", "bs=1M", "count=20"), 15), NOBODY).code == 0
    assert driver.run(running(driver), Readiness(("yes",), 1), NOBODY).end is RunEnd.TIMED_OUT
    assert shell(driver, "sleep 3 & exit 0", 1).end is RunEnd.LEFT_BEHIND
    driver.restart(running(driver), always)
    assert commands(host) == []


def test_tls_that_is_not_trusted(host: LxdHost, certificate: tuple[str, str]) -> None:
    """AR-8.2: no client's certificate, another server's, or nobody's word for it: one line, and nothing is asked."""
    cert, key = certificate
    server = str(host.server_certificate)
    for given, word in (
        ({"server_cert": server}, "not authorized"),
        ({"cert": cert, "key": key, "server_cert": cert}, "certificate"),
        ({"cert": cert, "key": key}, "certificate"),
    ):
        with pytest.raises(DriverError, match=word) as told:
            LxdDriver(LxdPlatform(url=host.url, **given)).instances([module_of("web-1")])
        assert host.url in str(told.value)
    with pytest.raises(DriverError, match=r"nowhere\.pem"):
        LxdDriver(LxdPlatform(url=host.url, cert="/nowhere.pem", key=key))


# --- the fixture itself -------------------------------------------------------------------------------------------


def test_the_fixture_leaves_nothing(lxd_host: LxdHost, tmp_path: Path) -> None:
    """Rule: `scripts/lxd` works from a path with spaces, twice, beside another, and takes all away again."""
    clone = tmp_path / "a clone"
    shutil.copytree(ROOT / "scripts", clone / "scripts", ignore=shutil.ignore_patterns("__pycache__", "bench"))
    base = Path(f"/tmp/idkmesh-lxd.{os.getpid()}")
    environment = {**os.environ, "IDKMESH_LXD": str(base)}

    def scripts_lxd(*arguments: str) -> str:
        command = [str(clone / "scripts" / "lxd"), *arguments]
        done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=120)
        return done.stdout

    links = interfaces()
    try:
        assert scripts_lxd("up", "fixture-one") == scripts_lxd("up", "fixture-one")
        scripts_lxd("restart")
        assert OWNER_KEY not in scripts_lxd("lxc", "config", "show", "fixture-one")
        assert "RUNNING" in scripts_lxd("lxc", "list", "-f", "csv")
        pids = [LxdHost(base).pid(role) for role in ("holder", "daemon")]
        assert None not in pids
    finally:
        scripts_lxd("down")
        scripts_lxd("down")
    assert not base.exists()
    assert interfaces() <= links
    assert [pid for pid in pids if pid and Path(f"/proc/{pid}").exists() and started_at(pid)] == []
    assert not any(Path("/sys/fs/cgroup").glob("*/lxc.*.fixture-one"))
