"""The table of faults, its judgement and its bounds; one row on real processes; and the page that was written."""

from __future__ import annotations

import json
import re
import resource
import shutil
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

if sys.platform != "linux":
    pytest.skip("the fault table reads /proc and unshares", allow_module_level=True)

from idkmesh.rehearsal.bounds import verdict_bounds
from idkmesh.workloads.model import Word
from idkmesh.workloads.tracker import HYSTERESIS_SECONDS, RESTART_AFTER_SECONDS
from scripts.lib.verdicts import figures, report, run
from scripts.lib.verdicts.cells import NO_ANSWER, WELL, Cell, Observer, Sample, Seen, judged
from scripts.lib.verdicts.eyes import Eyes
from scripts.lib.verdicts.hands import HANDS
from scripts.lib.verdicts.site import TOKEN
from scripts.lib.verdicts.table import TABLE
from tests.functional.health_support import probed
from tests.functional.support import until
from tests.workloads.etcd_support import WHY_NOT

if TYPE_CHECKING:
    from scripts.lib.verdicts.table import Row

ROWS = [pytest.param(row, id=row.name) for row in TABLE]


@pytest.mark.parametrize("row", ROWS)
def test_every_fault_has_every_cell(row: Row) -> None:
    """FT-1.1, FT-1.2: each observer, a word at least, and a bound where anything may show; and a hand that does it."""
    assert set(row.cells) == set(Observer) == set(WELL)
    for observer, cell in row.cells.items():
        assert cell.words
        if cell.words != (WELL[observer],):
            assert cell.recover > 0
        assert row.seconds > cell.notice
        assert row.longest > cell.recover
    assert row.name in HANDS
    assert row.why


def test_what_the_table_has() -> None:
    """FT-1.1: each fault once, and hands for no others; no outage of what a node needs restarts, nor do its clients."""
    names = [row.name for row in TABLE]
    assert len(names) == len(set(names)) == len(HANDS)
    restarts = {row.name: row.cells[Observer.RESTART].words for row in TABLE}
    due = {name for name, words in restarts.items() if words == ("due",)}
    assert due == {"watchdog wedged", "node paused"}
    assert {name for name, words in restarts.items() if words == ("of a module",)} == {"instance's command hung"}


def test_a_fault_of_an_instance_lasts_until_a_restart_would_be_due() -> None:
    """FT-4.2, FT-4.3: beyond the 80 s of AR-5.1 where nobody may be restarted; AR-3.4 leaves one process in a row."""
    due = HYSTERESIS_SECONDS[Word.FAILS] + RESTART_AFTER_SECONDS
    of_instances = [row for row in TABLE if row.needs == "lxd"]
    assert len(of_instances) == 4
    for row in of_instances:
        assert max(row.least, row.cells[Observer.RESTART].notice) > due + figures.PASS_SECONDS
    assert [row.name for row in TABLE if row.leaves] == ["instance's command leaving children"]


def test_how_far_the_clock_is_stepped() -> None:
    """FT-4.5, FT-3.1: an hour back; forward by what the bound of its recovery has; each time back to right."""
    steps: list[int] = []
    site = cast("Any", SimpleNamespace(step=steps.append))
    for name in ("wall clock stepped back", "wall clock stepped forward"):
        with HANDS[name](site):
            assert steps[-1] != 0
    assert steps == [-3600, 0, figures.FORWARD_SECONDS, 0]
    cells = {row.name: row.cells for row in TABLE}["wall clock stepped forward"]
    assert 0 < cells[Observer.ADAPTER_READY].recover - figures.FORWARD_SECONDS < 5


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 0.5) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        return client.recv(1)


def test_descriptors_are_exhausted_by_clients(tmp_path: Path) -> None:
    """FT-4.5, HS-4.9: nobody is taken, each probe is answered, and the limit is as it was; by the hand of the row."""
    arguments = ("control-tower", "--port=0", f"--store={tmp_path / 'e.sqlite3'}", "--probe-listen=127.0.0.1:0")
    with probed(*arguments, IDKMESH_CONTROL_TOWER_TOKEN=TOKEN) as tower:
        tower.wait_for("/readyz", 200)
        assert tower.get("/livez", probe=False) == (200, b"ok")  # its loop runs, and has what it opens
        pid = tower.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        site = cast("Any", SimpleNamespace(running={"tower": tower.process}, ports={"page": tower.port}))
        with HANDS["descriptors exhausted"](site):
            tower.wait_for_line("cannot accept")
            assert [tower.get("/livez") for _ in range(20)] == [(200, b"ok")] * 20
            with pytest.raises(TimeoutError):
                ask(tower.port)
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == before
        until(lambda: tower.get("/livez", probe=False) == (200, b"ok"))
        assert tower.end() == 0


def test_a_replica_has_been_restarted_until_it_is_healthy() -> None:
    """FT-1.1: `of a module` from the restart on, through what is unknown and unhealthy, and not for an earlier one."""
    said = [("healthy", 1), ("unhealthy", 1), ("unknown", 2), ("unhealthy", 2), ("healthy", 2), ("unknown", 2)]

    class Site:
        def ask(self, port: str, path: str, **_: Any) -> tuple[int, bytes]:
            if path == "/livez":
                return 200, b"ok"
            assert (port, path) == ("page", "/api/v1/modules")
            health, restarts = said.pop(0)
            instance = {"name": "web-1", "health": health, "restarts": restarts}
            return 200, json.dumps({"items": [{"instances": [instance]}]}).encode()

    eyes = Eyes(cast("Any", Site()), "")
    words = []
    while said:
        eyes._modules()
        eyes._restart()
        words.append(eyes.newest()[Observer.RESTART].word)
    assert words == ["none", "none", "of a module", "of a module", "none", "none"]


def test_the_bounds_follow_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """FT-3.1: a bound is that of HL-8.5 of the matrix that is written; the page's are those that its files have."""
    rows = {row.name: row for row in figures.matrix(1, 1, ("x",)).dependencies}
    cells = {row.name: row.cells for row in TABLE}
    notice, back = verdict_bounds(rows["db"], figures.ORCHESTRATOR.readiness.period_ms / 1000)
    assert cells["dependency down"][Observer.READY] == Cell(
        ("not_ready",), notice + figures.SLACK, back + figures.SLACK
    )
    assert cells["dependency flapping"][Observer.READY].notice == notice + 1.0 + figures.SLACK
    assert cells["watchdog wedged"][Observer.LIVE].notice == figures.WATCHDOG.budget_seconds + figures.SLACK
    assert figures.page_figure("poll.js", "BEAT") > 0
    with pytest.raises(LookupError, match=r"poll\.js has no NOTHING"):
        figures.page_figure("poll.js", "NOTHING")


def samples(*said: tuple[float, str]) -> list[Sample]:
    return [Sample(at, Observer.READY, word) for at, word in said]


LATER = "bound 3.0 s"
LONG = "not_ready after 6.0 s, bound 2.0 s"
AT_ALL = "ready after 3.0 s, bound 0.0 s"
GOOD = Cell(("not_ready",), 2.0, 3.0)


@pytest.mark.parametrize(
    ("cell", "said", "noticed", "recovered", "wrong"),
    [
        (GOOD, [(0.5, "ready"), (1.5, "not_ready"), (9, "not_ready"), (10.5, "not_ready"), (12, "ready")], 1.5, 2, ""),
        (GOOD, [(0.5, "ready"), (2.5, "not_ready"), (12, "ready")], 2.5, 0, "not_ready after 2.5 s, bound 2.0 s"),
        (GOOD, [(1, "not_ready"), (5, "ready"), (12, "ready")], None, 0, "not_ready expected, seen ready"),
        (GOOD, [(1, "not_ready"), (5, "ready"), (6, "not_ready"), (12, "ready")], 6, 0, LONG),
        (GOOD, [(1, "not_ready"), (10.5, "starting"), (14, "ready")], 1, 4, "afterwards ready after 4.0 s, " + LATER),
        (GOOD, [(1, "not_ready"), (12, "starting")], 1, None, "afterwards ready expected, seen starting"),
        (GOOD, [(12, "ready")], None, 0, "not_ready expected, seen nothing"),
        (Cell(("ready",)), [(1, "ready"), (12, "ready")], 0, 0, ""),
        (Cell(("ready",)), [(1, "ready"), (2, "not_ready"), (3, "ready"), (12, "ready")], 3, 0, AT_ALL),
        (Cell((NO_ANSWER,), 3, 3), [(2, NO_ANSWER), (12, "ready")], 2, 0, ""),
    ],
)  # fmt: skip
def test_a_cell_is_judged_by_every_answer(
    cell: Cell, said: list[tuple[float, str]], noticed: float | None, recovered: float | None, wrong: str
) -> None:
    """FT-2.1, FT-2.2, FT-2.3: the last other answer decides when something was noticed, and one too late is wrong."""
    seen = judged(cell, "ready", samples(*said), 0.0, 10.0)
    assert (seen.noticed, seen.recovered, seen.wrong) == (noticed, recovered, wrong)


def test_what_a_machine_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """FT-4.4: a row says what it needs and this machine has not."""
    by_name = {row.name: row for row in TABLE}
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert run.lacking(by_name["registry empty"]) == "etcd"
    assert run.lacking(by_name["wall clock stepped back"]) == "cc"
    assert run.lacking(by_name["store full"]) == "namespace"
    assert run.lacking(by_name["LXD restarting"]) == "lxd"
    assert run.lacking(by_name["node paused"]) == ""


needs_a_browser = pytest.mark.skipif(
    shutil.which("chromium") is None or bool(WHY_NOT), reason=WHY_NOT or "needs a chromium"
)


@needs_a_browser
@pytest.mark.alone
@pytest.mark.slow
def test_a_row_on_real_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FT-4.1, FT-4.2, FT-4.3, FT-5.1, FT-5.2: played, told, and written; 1 while rows are missing; nothing is left."""
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    files = (f"--results={results}", f"--page={page}")
    assert run.main(["--only=dependency down", *files]) == 1
    (row,) = json.loads(results.read_text(encoding="utf-8"))["rows"]
    assert (row["name"], row["left_behind"], len(row["cells"])) == ("dependency down", 0, len(Observer))
    assert row["cells"]["ready"]["seen"] == row["cells"]["adapter ready"]["seen"] == ["not_ready"]
    assert "### dependency down" in page.read_text(encoding="utf-8")
    assert "1 of" in capsys.readouterr().out
    assert report.wrong_cells([row]) == []
    assert run.main(["--only=dependency down", "--resume", *files]) == 1
    assert "up to" not in capsys.readouterr().out


def test_a_row_that_is_not_there_is_wrong_usage() -> None:
    """FT-5.1: the names are said."""
    with pytest.raises(SystemExit) as ended:
        run.main(["--only=nothing"])
    assert ended.value.code == 2


def made(row: Row, **wrong: str) -> dict[str, Any]:
    seen = {
        observer: judged(cell, well, [Sample(1.0, observer, cell.words[0]), Sample(12.0, observer, well)], 0, 10)
        for observer, cell in row.cells.items()
        for well in (WELL[observer],)
    }
    found = report.document(row, seen, 0)
    for observer, line in wrong.items():
        found["cells"][observer]["wrong"] = line
    return found


def test_a_wrong_cell_is_on_the_page() -> None:
    """FT-4.3, FT-5.2: in the count, in the table, and by a line; so is what was left behind, or should have been."""
    leaving = next(row for row in TABLE if row.leaves)
    assert report.wrong_cells([made(leaving)]) == ["instance's command leaving children: 0 left behind, 1 expected"]
    assert report.wrong_cells([made(leaving) | {"left_behind": 1}]) == []
    rows = [made(TABLE[0]), made(TABLE[1], ready="too late") | {"left_behind": 2}]
    page = report.page(rows, TABLE, "a machine", {"x": "y"})
    assert "2 faults, 18 cells, 2 wrong" in page
    assert "- dependency slow, ready: too late\n- dependency slow: 2 left behind, 0 expected\n" in page
    assert "**wrong**" in page
    assert "- x: y." in page


def test_what_most_want_to_know_is_at_the_top() -> None:
    """FT-5.2: in which faults a restart is due, and in which traffic is taken away, each with a link to its section."""
    page = report.page([made(row) for row in TABLE], TABLE, "a machine", {})
    top = page.partition("## The table")[0]
    assert "A restart of the node is due in: [watchdog wedged](#watchdog-wedged), [node paused](#node-paused)." in top
    assert "restarted in: [instance's command hung](#instances-command-hung).\n" in top
    assert "(#store-full)" in top
    assert "| [node replaced](#node-replaced) | (ok) | (ready) |" in page
    for row in TABLE:
        assert f"### {row.name}\n\n{row.does[0].upper()}{row.does[1:]}.\n\nExpected: {row.why}.\n" in page


PAGE = Path(__file__).parents[1] / "docs" / "VERDICTS.md"


def test_the_page_that_was_written() -> None:
    """FT-1.3, FT-5.2: all rows of the table, each with its cells, none wrong, the bounds of today; no date.

    A row that needs an LXD may be missing where it is said: one runs on a machine at a time.
    """
    text = PAGE.read_text(encoding="utf-8")
    rows = [row for row in TABLE if row.needs != "lxd" or f"- {row.name}: this machine had no" not in text]
    assert f"**{len(rows)} faults, {len(rows) * len(Observer)} cells, 0 wrong.**" in text
    sections = dict(re.findall(r"^### ([^\n]*)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == [row.name for row in rows]
    for row in rows:
        assert row.does[1:] in sections[row.name]
        for observer, cell in row.cells.items():
            if cell.notice or cell.recover:
                expected = " or ".join(cell.words)
                bounds = rf"([0-9.]+) \| {cell.notice:.1f} \| ([0-9.]+) \| {cell.recover:.1f}"
                line = rf"^\| {observer} \| {expected} \| [^|]+ \| {bounds} \|$"
                found = re.search(line, sections[row.name], re.MULTILINE)
                assert found, (row.name, observer)
                assert float(found[1]) <= cell.notice + 0.05
                assert float(found[2]) <= cell.recover + 0.05
    assert not re.search(r"20\d\d-\d\d", text)


def test_what_was_judged_by_another_table_is_played_again() -> None:
    """FT-5.1: a row that was right by other words or bounds than today's is not left out."""
    row = TABLE[0]
    seen = {name: Seen(words=cell.words, noticed=0.0, recovered=0.0, wrong="") for name, cell in row.cells.items()}
    found = json.loads(json.dumps(report.document(row, seen, row.leaves)))
    assert run.is_right(row, found)
    found["cells"][Observer.READY.value]["expected"] = ["another word"]
    assert not run.is_right(row, found)
