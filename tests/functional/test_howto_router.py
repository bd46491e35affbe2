"""The how-to pages on etcd and on acceptance, on a real etcd, a real router and a real agent."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from scripts.bench.benchlib.processes import free_port
from tests.documents import ROOT, answer, blocks_of, environment, running, shell
from tests.functional.router_support import RELEASE, Site, agent, routing
from tests.functional.supervise_support import supervising, until
from tests.workloads.etcd_support import WHY_NOT, Etcd

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

SCRIPT, CALL = (block.text for block in blocks_of(ROOT / "docs" / "howto" / "acceptance-script.md"))
MODULES, SUPERVISE, CONFIGURATION, ROUTER, REGISTER = (
    block.text for block in blocks_of(ROOT / "docs" / "howto" / "etcd.md")
)
BEGIN, ASK = (block.text for block in blocks_of(ROOT / "docs" / "howto" / "router.md"))
STOP = "lxc stop echo-1"

needs_etcd = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    folder = tmp_path / "etcd"
    folder.mkdir()
    member = Etcd(folder)
    yield member
    member.kill()


def accept(folder: Path, router: int, stop: str, seconds: int = 30) -> subprocess.CompletedProcess[str]:
    """Run the page's script, with ``stop`` in the place of its command."""
    assert SCRIPT.count("127.0.0.1:8780") == 1
    text = SCRIPT.replace("127.0.0.1:8780", f"127.0.0.1:{router}").replace("--timeout 30", f"--timeout {seconds}")
    (folder / "acceptance.sh").write_text(text, encoding="utf-8")
    assert STOP in CALL
    return shell(CALL.replace(STOP, stop), folder)


@contextlib.contextmanager
def registered(folder: Path, etcd: Etcd, endpoint: str) -> Iterator[subprocess.Popen[str]]:
    """Run the page's program that registers an instance, until the test ends it."""
    assert (REGISTER.count("port=2379"), REGISTER.count("http://127.0.0.1:9001")) == (1, 1)
    text = REGISTER.replace("port=2379", f"port={etcd.url.rpartition(':')[2]}")
    (folder / "register.py").write_text(text.replace("http://127.0.0.1:9001", endpoint), encoding="utf-8")
    with running([sys.executable, "register.py"], folder, ends=-15, environ=environment(NO_PROXY="*")) as process:
        yield process


def test_the_acceptance_script(tmp_path: Path) -> None:
    """RT-12.4: the page's script waits for the newer state, and says yes."""
    site = Site(tmp_path)
    with agent() as echo, routing(site) as service:
        site.declare({RELEASE: [echo.url]})
        emptied = site.releases.read_text().replace(f'"{echo.url}"', "")
        (tmp_path / "emptied.json").write_text(emptied)
        done = accept(tmp_path, service.port, f"mv emptied.json {site.releases.name}")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"{RELEASE}: empty at revision 2\n{RELEASE} is gone, and the router knows it\n"
        assert service.end() == 0


def test_the_script_says_no_where_the_instance_stays(tmp_path: Path) -> None:
    """RT-12.4: a command that takes nothing away: the wait times out, and the script ends with its exit code."""
    assert SCRIPT.count("--timeout 30") == 1
    site = Site(tmp_path)
    with agent() as echo, routing(site) as service:
        site.declare({RELEASE: [echo.url]})
        done = accept(tmp_path, service.port, "true", seconds=2)
        assert done.returncode == 1
        assert "timed out after 2 s" in done.stderr
        assert "is gone" not in done.stdout
        assert service.end() == 0


@needs_etcd
def test_registration_under_a_lease(tmp_path: Path, etcd: Etcd) -> None:
    """RT-7.1, RT-13.1: the page's configuration, program and script: an instance ends, and that is known."""
    site = Site(tmp_path)
    assert CONFIGURATION.count("8780") == CONFIGURATION.count("http://127.0.0.1:2379") == 1
    text = CONFIGURATION.replace("8780", "0").replace("http://127.0.0.1:2379", etcd.url)
    site.config.write_text(text, encoding="utf-8")
    token, check, run = ROUTER.splitlines()
    site.token_file.unlink()
    for line in (token, check):
        done = shell(line, tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), line
    assert re.fullmatch(r"[0-9a-f]{64}\n", site.token_file.read_text())
    assert shlex.split(run)[1:] == ["router", "--config", site.config.name]
    with agent() as echo, routing(site) as service, registered(tmp_path, etcd, echo.url) as instance:
        done = accept(tmp_path, service.port, f"kill {instance.pid}")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{RELEASE} is gone" in done.stdout
        assert service.end() == 0


@needs_etcd
def test_a_lease_for_several_hosts(tmp_path: Path, etcd: Etcd) -> None:
    """AR-6.1, AR-6.4: the page's declaration is taken; of two supervisors one holds the lease and one stands by."""
    assert MODULES.count("http://127.0.0.1:2379") == 1
    assert MODULES.count('"8089"') == MODULES.count("port: 8089") == 1
    modules = tmp_path / "modules.yaml"
    modules.write_text(MODULES.replace("http://127.0.0.1:2379", etcd.url), encoding="utf-8")
    check, run = SUPERVISE.splitlines()
    done = shell(check, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert shlex.split(run)[1:] == ["supervise", "--modules", modules.name]
    with supervising(modules) as first:
        first.wait_for_line("the lease is ours")
        with supervising(modules, store=tmp_path / "second" / "events.sqlite3") as second:
            until(lambda: any("production" in line for line in second.lines), second.lines)
            assert not any("is ours" in line for line in second.lines)
            assert second.end() == 0
        assert first.end() == 0


@pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("curl")), reason="needs openssl and curl")
def test_the_page_of_the_router(tmp_path: Path) -> None:
    """Rule: the page's commands, in a copy of the examples and on free ports, end with the agent's answer."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "examples" / "router.token").unlink(missing_ok=True)
    ports = {"9001": str(free_port()), "8780": str(free_port())}

    def moved(text: str) -> str:
        return functools.reduce(lambda found, port: found.replace(port, ports[port]), ports, text)

    for name in ("router.yaml", "releases.json"):
        file = tmp_path / "examples" / name
        file.write_text(moved(file.read_text(encoding="utf-8")), encoding="utf-8")
    secret, check, serve, route = moved(BEGIN).splitlines()
    for line in (secret, check):
        done = shell(line, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    variable, _, program = serve.removesuffix(" &").partition(" ")
    environ = environment(**dict([variable.split("=")]))
    store = ["--store", str(tmp_path / "events.sqlite3")]
    with (
        running([sys.executable, "-m", *shlex.split(program)], tmp_path, environ=environ),
        running([sys.executable, "-m", *shlex.split(route), *store], tmp_path),
    ):
        for port in ports.values():
            answer(int(port), "/")
        done = shell(moved(ASK), tmp_path)
        assert (done.returncode, json.loads(done.stdout)) == (0, {"hello": "world"}), done.stdout
