"""The files of the demo are judged by what judges a user's, and what is seen is read from real documents' forms."""

from __future__ import annotations

import json
import random
import socket
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.cli import main
from idkmesh.console import CommandError
from idkmesh.demo import files
from idkmesh.demo.clients import room
from idkmesh.demo.ports import LOWEST, PAGE_PORT, chosen, first_free, is_free
from idkmesh.demo.seen import tower_seen
from idkmesh.demo.settings import ROW_LENGTH, Figures, Ports, Site
from idkmesh.demo.shop.cache import delay_seconds
from idkmesh.demo.shop.check import is_fresh, says_yes
from idkmesh.health.matrix_file import read_matrix
from idkmesh.router.configuration import read_configuration
from idkmesh.topology.providers.releases import read_releases
from idkmesh.workloads.declaration import load_declaration
from tests.demo.support import WELL_TOWER, seen_at

if TYPE_CHECKING:
    from pathlib import Path


def site(folder: Path) -> Site:
    return Site(folder=folder, ports=Ports(page=PAGE_PORT, first=20_000), python="python3")


@pytest.fixture
def written(tmp_path: Path) -> Site:
    """Write all files into a folder with a name that YAML could misread."""
    folder = tmp_path / 'a "demo": #1'
    folder.mkdir()
    found = site(folder)
    for name, text in files.all_files(found).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / files.ROUTER_TOKEN).write_text("x" * 64)
    (folder / files.ROUTER_TOKEN).chmod(0o600)
    return found


def test_the_matrices_are_taken(written: Site) -> None:
    """DM-1.4: both are accepted; of the tower's the store alone is critical."""
    matrix = read_matrix(written.folder / files.MATRIX)
    assert [row.name for row in matrix.dependencies if row.critical] == ["store"]
    assert {row.name for row in matrix.dependencies} == set(WELL_TOWER.verdicts)
    assert {row.timeout_ms for row in matrix.dependencies} == {Figures().timeout_ms}
    assert [row.name for row in read_matrix(written.folder / files.WEB_MATRIX).dependencies] == ["store", "cache"]


@pytest.mark.parametrize("name", [files.MATRIX, files.WEB_MATRIX])
def test_nothing_is_found_in_the_matrices(written: Site, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """DM-1.4: what is meant as a start for one's own has no figures that an inspection warns of."""
    assert main(["inspect", str(written.folder / name)]) == 0
    assert capsys.readouterr().out.startswith("0 findings ")


def test_the_declaration_is_taken(written: Site) -> None:
    """DM-1.1, DM-1.4: two replicas of a stateless module, and three of one each; all by the driver `process`."""
    modules = load_declaration(files.modules(written), "modules.yaml").modules
    assert [(each.name, each.kind.value, each.replicas, each.driver) for each in modules] == [
        ("web", "stateless", 2, "process"),
        ("store", "stateful", 1, "process"),
        ("cache", "singleton", 1, "process"),
        ("worker", "singleton", 1, "process"),
    ]
    assert {each.cwd for each in modules} == {str(written.folder)}
    without = load_declaration(files.modules(written, without="store"), "modules.yaml").modules
    assert [each.name for each in without] == ["web", "cache", "worker"]


def test_the_router_is_taken(written: Site) -> None:
    """DM-1.4, DM-1.2: its configuration, and the releases that name both replicas."""
    known = read_configuration(str(written.folder / files.ROUTER))
    assert known.listen == ("127.0.0.1", written.ports.router)
    for numbers, ports in {(1, 2): [20_000, 20_001], (1,): [20_000]}.items():
        document = json.loads(files.releases(written, numbers))
        assert document["releases"][0]["endpoints"] == [f"http://127.0.0.1:{port}" for port in ports]
        assert len(read_releases(files.releases(written, numbers).encode())) == 1


def test_ports_do_not_meet() -> None:
    """DM-1.5: each part has a port of its own in the row."""
    ports = Ports(page=1, first=100)
    assert [ports.web, ports.web + 1, ports.store, ports.cache, ports.router, ports.adapter] == list(range(100, 106))
    assert ROW_LENGTH == 7


def test_a_row_that_is_free() -> None:
    """DM-1.5: a row counts where each of its ports is free."""
    taken = {100 + ROW_LENGTH - 1, 200}
    assert first_free((100, 200, 300), lambda port: port not in taken) == 300
    assert first_free((100, 200), lambda port: port not in taken) is None


def test_the_pages_port() -> None:
    """DM-1.5: one that is named is taken, or refused in one line; 0 is one of the row."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(CommandError, match=rf"^cannot listen on 127\.0\.0\.1:{port}: the port is in use; "):
            chosen(port)
    found = chosen(0)
    assert found.page == found.first + ROW_LENGTH - 1
    assert found.first >= LOWEST
    assert chosen(None).page == PAGE_PORT or not is_free(PAGE_PORT)


def test_no_row_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """DM-1.5: where none is, that is one line."""
    monkeypatch.setattr(random, "sample", lambda *_: [])
    with pytest.raises(CommandError, match=r"^no 7 ports in a row are free between \d+ and \d+$"):
        chosen(0)


def documents(**more: Any) -> dict[str, Any]:
    instance = {
        "name": "web-1",
        "state": "running",
        "health": "unhealthy",
        "progress": {"text": "4 of 20 s failing"},
        "restarts": 1,
        "restart_due_seconds": 12.5,
    }
    health = {"readiness": {"status": "not_ready", "failing": ["store"]}}
    refusals = [{"code": "overloaded", "total": 3}, {"code": "not_found", "total": 9}]
    return {
        "status": {"operations": {"health": health, "refusals": refusals}},
        "dependencies": {"items": [{"name": "store", "verdict": "failing"}]},
        "modules": {"items": [{"instances": [instance]}]},
        "node": {"capacity": {"connections": {"limit": 64, "used": 66}}},
        "topology": {"observations": [{"state": "populated", "localRevision": 2}]},
        **more,
    }


def test_what_is_read_from_the_documents() -> None:
    """DM-3.2: a look is what the tower's own documents say."""
    seen = tower_seen(documents())
    assert (seen.readiness, seen.failing, seen.verdicts) == ("not_ready", ("store",), {"store": "failing"})
    assert (seen.overloaded, seen.free_connections, seen.release, seen.revision) == (3, 0, "populated", 2)
    assert (seen.instances["web-1"].restarts, seen.instances["web-1"].restart_in) == (1, 12.5)
    without = tower_seen(documents(node=None, topology=None))
    assert (without.free_connections, without.release, without.revision) == (None, None, 0)
    with pytest.raises(LookupError):
        tower_seen(documents(modules={}))


def test_who_is_not_well_is_named() -> None:
    """DM-5.3: the parts that a start waits for, by name."""
    assert seen_at(1.0).unwell(routed=True) == ()
    assert seen_at(1.0, alive=None).unwell(routed=True) == ("control tower",)
    assert seen_at(1.0, instances={}, ready=False).unwell(routed=True) == ("modules", "readiness adapter")
    assert seen_at(1.0, release=None).unwell(routed=False) == ()
    assert seen_at(1.0, release=None).unwell(routed=True) == ("router",)


@pytest.mark.parametrize(("limit", "used", "many"), [(1024, 20, 64), (100, 20, 48), (40, 20, 0)])
def test_few_descriptors(limit: int, used: int, many: int) -> None:
    """DM-2.5: less is opened where the limit is near, and nothing beyond it."""
    assert room(64, limit, used) == many


@pytest.mark.parametrize(("text", "seconds"), [("1500\n", 1.5), ("", 0), ("-1", 0), ("1.5", 0), ("99999999", 10)])
def test_the_caches_delay(text: str, seconds: float) -> None:
    """DM-2.1: a number of milliseconds in a file; what is none delays nothing, and nothing delays for long."""
    assert delay_seconds(text) == seconds


def test_a_check_without_an_answer(tmp_path: Path) -> None:
    """DM-1.1: a readiness command says no where nobody listens and where no file is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not says_yes(port, "/livez")
    assert not is_fresh(str(tmp_path / "none"))
    (tmp_path / "beat").touch()
    assert is_fresh(str(tmp_path / "beat"))
