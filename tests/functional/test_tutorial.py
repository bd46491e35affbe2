"""The tutorial is gone through: each of its blocks is typed beside a demo that runs, and then without one."""

from __future__ import annotations

import contextlib
import re
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from idkmesh.demo.faults import table
from idkmesh.demo.ports import PAGE_PORT
from idkmesh.demo.settings import Figures
from tests.documents import ROOT, WAIT, answer, blocks_of, environment, running, shell
from tests.functional.supervise_support import until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="the demo reads from /proc who runs")

PAGE = ROOT / "docs" / "tutorial.md"
TEXT = PAGE.read_text(encoding="utf-8")
START, SAID, ENTER, ASK, FOLLOW, SLOW, MEND, COPY, TOWER, JUDGE, ROW, LOOK = (block.text for block in blocks_of(PAGE))

CALM = (
    "from idkmesh import console; from idkmesh.commands import demo as d; d.CALM_SECONDS = 3600.0; "
    "console.run(lambda: d.demo(d.Request(0)))"
)
"""The demo as it is, in which the first fault comes in an hour."""


class Place(NamedTuple):
    """Where a reader is: the demo's folder, its port, what it has said, and an empty home."""

    folder: Path
    port: int
    said: list[str]
    home: Path

    def types(self, text: str, folder: Path | None = None) -> str:
        """Type lines as they stand, but for the port; return what they print. Each succeeds, and warns of nothing."""
        done = self._typed(text, folder)
        assert (done.returncode, done.stderr) == (0, ""), text
        return done.stdout

    def sees(self, pattern: str, text: str, folder: Path | None = None) -> None:
        """Type lines until they print what is wanted: on a busy machine a probe may be late, and is asked again."""

        def seen() -> bool:
            found[:] = [self._typed(text, folder).stdout]
            return re.search(pattern, found[0], re.MULTILINE | re.DOTALL) is not None

        found: list[str] = []
        until(seen, found, WAIT)

    def _typed(self, text: str, folder: Path | None) -> subprocess.CompletedProcess[str]:
        environ = environment(HOME=str(self.home))
        return shell(text.replace(str(PAGE_PORT), str(self.port)), folder or self.folder, environ)


def linked(line: str) -> tuple[str, int]:
    """Return a line of a link without its token, and the port in it."""
    (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)/", line)
    return re.sub(r"/.*", "", line.partition("http://")[0]), int(port)


@contextlib.contextmanager
def demo(home: Path) -> Iterator[Place]:
    """Run the demo, once all is well; nothing of it is left behind."""
    with running([sys.executable, "-c", CALM]) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().rstrip() for _ in range(4)]
        assert "all parts are well" in said[3], said
        (folder,) = re.findall(r" in (\S+): look at them", said[2])
        yield Place(Path(folder), linked(said[1])[1], said, home)
    assert not Path(folder).exists()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with demo(tmp_path_factory.mktemp("home")) as found:
        yield found


def test_what_it_prints_is_what_the_page_shows(place: Place) -> None:
    """Rule: the page begins as the README does (DM-6.1), and shows the demo's own lines."""
    assert START == "scripts/run\n"
    parts, link, folder = SAID.splitlines()
    assert parts == place.said[0]
    assert linked(link) == (linked(place.said[1])[0], PAGE_PORT)
    assert re.sub(r"/\S+:", ":", folder) == re.sub(r"/\S+:", ":", place.said[2])


def test_the_second_terminal(place: Place) -> None:
    """Rule: what the page asks is answered by a demo that is well, in the folder that the page's pattern finds."""
    activate, enter = ENTER.splitlines()
    assert activate == ". .venv/bin/activate"
    assert place.folder.match(Path(enter.removeprefix("cd ")).name)
    place.sees(r"\Aready\nok\nnode .*^store  .*^shop-web/1\.0\.0/r1  populated .*idkmesh\.agent\.invoked", ASK)


def test_following_events(place: Place) -> None:
    """Rule: who follows sees a line when the first fault begins or ends, and none of the orders; Ctrl-C ends it."""
    with running(["sh", "-c", f"exec {FOLLOW}"], place.folder) as process:
        assert process.stdout is not None
        for line in (SLOW, MEND) * 4:  # it tells of what comes after its own start, which nothing announces
            place.types(line)
            if select.select([process.stdout], [], [], 10.0)[0]:
                break
        assert "idkmesh.dependency.changed" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.wait(WAIT)
    (place.folder / "cache.delay").unlink(missing_ok=True)


def test_the_fault_that_a_reader_can_type(place: Place) -> None:
    """DM-2.1: the first fault is one line, and another one undoes it."""
    place.types(SLOW)
    place.sees(r"^cache [^\n]* timeout$", LOOK)
    place.types(MEND)
    place.sees(r"^cache [^\n]* ok ", LOOK)


def test_each_fault_is_told_with_its_bounds() -> None:
    """DM-2.1, DM-2.2: the page has each fault under its key, with the bound of each thing that is to be seen."""
    told = dict(re.findall(r"^### (\d: [^\n]*)\n(.*?)(?=^##)", TEXT, re.MULTILINE | re.DOTALL))
    faults = table(Figures())
    assert list(told) == [f"{fault.key}: {fault.name}" for fault in faults]
    for fault, text in zip(faults, told.values(), strict=True):
        flat = " ".join(text.split()).lower()
        assert [each.what for each in fault.then if f"ithin {each.bound:g} s" not in flat] == []


def test_the_files_are_a_start_for_ones_own(tmp_path: Path) -> None:
    """DM-1.4: copied as the page says, the files bring up the same shop without a demo, and take a row more."""
    with demo(tmp_path) as place:
        place.types(COPY)
    own = tmp_path / "shop"
    texts = {path.name: path.read_text(encoding="utf-8") for path in own.glob("*.yaml")}
    assert [name for name, text in texts.items() if str(place.folder) in text] == []
    assert str(own) in texts["matrix.yaml"]
    port_file = own / "port"
    command = f"exec env {TOWER.rstrip()} --port 0 --port-file {port_file.name}"
    with running(["sh", "-c", command], own) as process:
        assert process.stdout is not None
        assert "router" in process.stdout.readline()  # it listens before the tower
        assert "/#token=" in process.stdout.readline() + process.stdout.readline()
        port = int(port_file.read_text())
        assert answer(port, "/readyz", 200).status == 200
        assert place.types(JUDGE, own).startswith("0 findings ")
        assert ROW.count("http://127.0.0.1:8080/health") == 1
        with (own / "matrix.yaml").open("a", encoding="utf-8") as matrix:
            matrix.write(ROW.replace("http://127.0.0.1:8080/health", f"http://127.0.0.1:{port}/healthz"))
        rows = ("store", "cache", "web-1", "web-2", "worker", "ours")
        place.sees("".join(rf"^{name} +\w+ +\w+ +ok .*" for name in rows), LOOK, own)
