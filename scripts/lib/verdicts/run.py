"""``scripts/fault_table``: brings each fault about, looks, and writes what came of it (FT-4, FT-5)."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scripts.lib.chromium import chromium
from scripts.lib.lxd_host import why_not
from scripts.lib.verdicts import report
from scripts.lib.verdicts.cells import WELL, judged
from scripts.lib.verdicts.eyes import Eyes
from scripts.lib.verdicts.hands import HANDS, MORE
from scripts.lib.verdicts.site import DISK, LEFT, LXD, ROOT, Site
from scripts.lib.verdicts.table import LEAST_SECONDS, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scripts.lib.verdicts.cells import Observer
    from scripts.lib.verdicts.table import Row

RESULTS: Final = ROOT / "build" / "fault_table.json"
PAGE: Final = ROOT / "docs" / "VERDICTS.md"
WELL_SECONDS: Final = 90.0
"""By when a site is well, or a row is given up."""
SAYS_SECONDS: Final = 3.0
"""How long each has to have said the same to be taken at its word."""
OLD_SECONDS: Final = 3.0
"""How old a process has to be to count as left behind: a command's own child lives for a moment."""


def lacking(row: Row) -> str:
    """Return what this machine does not have of what a row needs, empty where it has all."""
    have = {
        "cc": shutil.which("cc") is not None,
        "etcd": shutil.which("etcd") is not None and find_spec("etcd3gw") is not None,
        "namespace": os.geteuid() == 0 and shutil.which("unshare") is not None,
        "lxd": not why_not() and not another_lxd(),
        "ptrace": sys.platform == "linux",
    }
    return row.needs if row.needs and not have[row.needs] else ""


def another_lxd() -> bool:
    """Say whether an LXD runs here: bridge and images are the machine's, so there is one at a time."""
    return subprocess.run(["pgrep", "-x", "lxd"], check=False, stdout=subprocess.DEVNULL).returncode == 0


@contextlib.contextmanager
def watched_site(more: str = "") -> Iterator[tuple[Site, Eyes]]:
    """Give a site that runs, and eyes on it."""
    with (
        tempfile.TemporaryDirectory(prefix="idkmesh-faults-") as folder,
        Site(Path(folder) / "site", more) as site,
    ):
        eyes = Eyes(site, chromium())
        with eyes.looking():
            yield site, eyes


def played(row: Row, site: Site, eyes: Eyes) -> dict[str, Any]:
    """Bring one fault about, undo it, and judge what was seen. Raises ``TimeoutError`` where it cannot begin."""
    eyes.wait_until_well(WELL_SECONDS, 2.0)
    eyes.samples.clear()
    begin = time.monotonic()
    with HANDS[row.name](site):
        _wait(eyes, {observer: cell.words for observer, cell in row.cells.items()}, row.seconds, row.least)
        end = time.monotonic()
    _wait(eyes, {observer: (word,) for observer, word in WELL.items()}, row.longest)
    samples = sorted(eyes.samples, key=lambda each: each.at)
    seen = {
        observer: judged(cell, WELL[observer], [each for each in samples if each.observer is observer], begin, end)
        for observer, cell in row.cells.items()
    }
    return report.document(row, seen, left_behind() + site.left_inside())


def left_behind() -> int:
    """Return how many processes a command has left that still run."""
    ticks, count = os.sysconf("SC_CLK_TCK"), 0
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            began = int((place / "stat").read_text().rpartition(")")[2].split()[19]) / ticks
            count += words[-2] == LEFT.encode() and b"-c" in words and uptime - began > OLD_SECONDS
    return count


def run(rows: Sequence[Row], results: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Play these rows, and return all that is known then: earlier rows of ``results`` too, and what was not run."""
    known: dict[str, dict[str, Any]] = _read(results)
    not_run: dict[str, str] = {}
    for more in ("", DISK, LXD):
        todo = [row for row in rows if MORE.get(row.name, "") == more and not _refuse(row, not_run)]
        while todo:
            with watched_site(more) as (site, eyes):
                while todo:
                    row = todo.pop(0)
                    print(f"{row.name}: up to {row.seconds + row.longest:.0f} s ...", flush=True)
                    try:
                        known[row.name] = played(row, site, eyes)
                    except TimeoutError as error:
                        not_run[row.name] = f"it could not begin: {error}"
                        print(f"  {error}", flush=True)
                        break
                    _tell(known[row.name])
                    _write(results, known)
    missing = {row.name: not_run.get(row.name) or "not played yet" for row in TABLE if row.name not in known}
    return [known[row.name] for row in TABLE if row.name in known], missing


def is_right(row: Row, found: Mapping[str, Any]) -> bool:
    """Say whether what came of a row is right, and was judged by what the table expects today."""
    judged_by = {
        observer: (tuple(cell["expected"]), cell["notice"][1], cell["recover"][1])
        for observer, cell in found["cells"].items()
    }
    expected = {observer.value: (cell.words, cell.notice, cell.recover) for observer, cell in row.cells.items()}
    return judged_by == expected and not report.wrong_cells([found])


def _wait(eyes: Eyes, words: Mapping[Observer, tuple[str, ...]], most: float, least: float = LEAST_SECONDS) -> None:
    """Wait until each has said these words for a while, for ``most`` at the most and ``least`` anyway."""
    began = time.monotonic()
    time.sleep(least)
    while time.monotonic() - began < most and not eyes.all_say(words, SAYS_SECONDS):
        time.sleep(0.1)


def _refuse(row: Row, not_run: dict[str, str]) -> bool:
    need = lacking(row)
    if need:
        not_run[row.name] = f"this machine had no {need} to spare"
    return bool(need)


def _tell(row: dict[str, Any]) -> None:
    for observer, cell in row["cells"].items():
        if cell["notice"][1] or cell["recover"][1] or cell["wrong"]:
            took = " ".join("never" if each is None else f"{each:.1f}" for each in (*cell["notice"], *cell["recover"]))
            print(f"  {observer:16} {'/'.join(cell['seen'])[:40]:24} {took}  {cell['wrong']}", flush=True)


def _read(results: Path) -> dict[str, dict[str, Any]]:
    if not results.exists():
        return {}
    return {row["name"]: row for row in json.loads(results.read_text(encoding="utf-8"))["rows"]}


def _write(results: Path, known: dict[str, dict[str, Any]]) -> None:
    results.parent.mkdir(parents=True, exist_ok=True)
    part = results.with_suffix(".part")
    part.write_text(json.dumps({"rows": list(known.values())}, indent=1), encoding="utf-8")
    part.replace(results)


def machine() -> str:
    """Return what this machine is, in a few words."""
    return f"{os.cpu_count()} processors, shared with others, {os.uname().sysname}, Python {sys.version.split()[0]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 where no cell is wrong and no row is missing, else 1."""
    parser = argparse.ArgumentParser(prog="scripts/fault_table", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="this row; may be repeated")
    parser.add_argument("--resume", action="store_true", help="leave out what the results have, and is right")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE")
    options = parser.parse_args(arguments)
    names = [row.name for row in TABLE]
    unknown = [name for name in options.only or () if name not in names]
    if unknown:
        parser.error(f"no such row: {unknown[0]}; there are {', '.join(names)}")
    known = _read(options.results)
    right = [row.name for row in TABLE if row.name in known and is_right(row, known[row.name])]
    rows = [
        row
        for row in TABLE
        if (not options.only or row.name in options.only) and not (options.resume and row.name in right)
    ]
    done, not_run = run(rows, options.results)
    options.page.write_text(report.page(done, TABLE, machine(), not_run), encoding="utf-8")
    wrong = report.wrong_cells(done)
    print(f"{len(done)} of {len(TABLE)} rows, {sum(len(row['cells']) for row in done)} cells, {len(wrong)} wrong")
    for line in wrong:
        print(f"  {line}")
    return 1 if wrong or len(done) < len(TABLE) else 0


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM):  # what runs is ended, also where a shell has had SIGINT ignored
        signal.signal(each, _end)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it outlives its terminal
        signal.signal(signal.SIGHUP, _end)
    raise SystemExit(main())
