"""Soak and kill: long courses against a full control tower and a real event store.

connections  mixed connections (good, refused, malformed, slow, aborted, streams): descriptors, threads and memory back
             to the baseline, and no wrong status
sigterm      SIGTERM under load, again and again: every admitted request is answered, and the exit code is 0
kill         kill -9 of the writer of an event store, again and again: no committed event is lost or doubled
retention    a day's events at 100 a second, by a clock that runs faster, through retention

Each goes on where it was interrupted; --fresh begins anew. What is found stands in build/soak, and, with --page, in
docs/RELIABILITY.md. The exit code is 0 where nothing was wrong, 1 where something was, 130 where it was interrupted.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.bench.benchlib.options import bounded
from scripts.bench.benchlib.processes import StartError
from scripts.bench.benchlib.report import machine
from scripts.lib.soak import connections, kill, page, retention, sigterm
from scripts.lib.soak.progress import line, shown
from scripts.lib.soak.state import State, StateFileError, load, save

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from scripts.lib.soak.state import Step

ROOT: Final = Path(__file__).resolve().parents[3]
PARTS: Final[dict[str, tuple[Callable[[State, Path], Generator[Step, None, None]], int]]] = {
    "connections": (connections.steps, 1_000_000),
    "sigterm": (sigterm.steps, 1_000),
    "kill": (kill.steps, 1_000),
    "retention": (retention.steps, 8_640_000),
}
FULL: Final = {name: goal for name, (_, goal) in PARTS.items()}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=[*PARTS], default=[], help="this part (repeatable)")
    parser.add_argument("--count", type=bounded(1, 10_000_000), help="units of each part instead of the full number")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "soak", help="where the state is kept")
    parser.add_argument("--fresh", action="store_true", help="forget the state of the parts that run")
    parser.add_argument("--page", action="store_true", help="write docs/RELIABILITY.md from what the folder has")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts that were asked for."""
    chosen = arguments(argv)
    for each in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal too: what runs is to be ended
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, signal.default_int_handler)
    wrong = 0
    try:
        for name in chosen.only or PARTS:
            wrong += run(name, chosen.count or FULL[name], chosen.folder, fresh=chosen.fresh).wrong_total
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last whole step", file=sys.stderr)
        return 130
    except (StateFileError, StartError) as error:
        print(error, file=sys.stderr)
        return 1
    if chosen.page:
        (ROOT / "docs" / "RELIABILITY.md").write_text(page.written(_states(chosen.folder), FULL), encoding="utf-8")
    return 1 if wrong else 0


def run(name: str, goal: int, folder: Path, *, fresh: bool = False) -> State:
    """Run one part to its goal, from where its file says it is, and return how it stands."""
    path = folder / f"{name}.json"
    place = folder / name
    if fresh:
        path.unlink(missing_ok=True)
    state = load(path, name, goal)
    if not state.done:
        shutil.rmtree(place, ignore_errors=True)
    if state.done < goal:
        place.mkdir(parents=True, exist_ok=True)
        state = _run(replace(state, sittings=state.sittings + 1, machine=machine()), path, place)
    print(line(state))
    for text in state.wrong:
        print(f"WRONG: {text}")
    return state


def _run(state: State, path: Path, place: Path) -> State:
    steps, _ = PARTS[state.part]
    with shown(state) as tell, closing(steps(state, place)) as course:
        began = time.monotonic()
        for step in course:
            now = time.monotonic()
            state = state.after(step, now - began)
            began = now
            save(path, state)
            tell(state)
    return state


def _states(folder: Path) -> list[State]:
    return [load(path, name, 0) for name in PARTS if (path := folder / f"{name}.json").exists()]
