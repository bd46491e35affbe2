"""The table of faults, its judgement and its bounds; one row on real processes; and the page that was written."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if sys.platform != "linux":
    pytest.skip("the fault table reads /proc and unshares", allow_module_level=True)

from idkmesh.rehearsal.bounds import verdict_bounds
from scripts.lib.verdicts import figures, report, run
from scripts.lib.verdicts.cells import NO_ANSWER, WELL, Cell, Observer, Sample, judged
from scripts.lib.verdicts.hands import HANDS
from scripts.lib.verdicts.table import TABLE
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


def test_what_the_table_has() -> None:
    """FT-1.1: each fault once, and hands for no others; no outage of a dependency or registry restarts."""
    names = [row.name for row in TABLE]
    assert len(names) == len(set(names)) == len(HANDS)
    restarts = {row.name for row in TABLE if row.cells[Observer.RESTART].words != ("none",)}
    assert restarts == {"watchdog wedged", "node paused", "descriptors exhausted"}


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
    """FT-4.3, FT-5.2: in the count, in the table, and by a line; what was left behind is one too."""
    rows = [made(TABLE[0]), made(TABLE[1], ready="too late") | {"left_behind": 2}]
    page = report.page(rows, TABLE, "a machine", {"x": "y"})
    assert "2 faults, 18 cells, 2 wrong" in page
    assert "- dependency slow, ready: too late\n- dependency slow: 2 left behind\n" in page
    assert "**wrong**" in page
    assert "- x: y." in page


PAGE = Path(__file__).parents[1] / "docs" / "VERDICTS.md"


def test_the_page_that_was_written() -> None:
    """FT-1.3, FT-5.2: all rows of the table, each with its cells, none wrong, the bounds of today; no date.

    A row that needs an LXD may be missing where it is said: one runs on a machine at a time.
    """
    text = PAGE.read_text(encoding="utf-8")
    rows = [row for row in TABLE if "lxd" not in row.needs or f"- {row.name}: this machine had no" not in text]
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
