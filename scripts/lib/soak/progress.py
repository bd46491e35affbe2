"""How far it is, for a person: a bar on a terminal where rich is installed, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scripts.lib.soak.state import State

LINE_SECONDS: Final = 5.0


def line(state: State) -> str:
    """Return a state as one line."""
    rate = state.done / state.seconds if state.seconds else 0.0
    left = f", {max(0, state.goal - state.done) / rate:,.0f} s left" if rate else ""
    return f"{state.part}: {state.done:,} of {state.goal:,}, {state.wrong_total} wrong, {rate:,.1f}/s{left}"


@contextlib.contextmanager
def shown(state: State) -> Iterator[Callable[[State], None]]:
    """Give what takes each new state and shows it."""
    bar = _bar if sys.stderr.isatty() and _has_rich() else _lines
    with bar(state) as tell:
        yield tell


def _has_rich() -> bool:
    try:
        import rich.progress  # noqa: F401, PLC0415  an extra; without it there are lines
    except ModuleNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _bar(state: State) -> Iterator[Callable[[State], None]]:
    from rich.console import Console  # noqa: PLC0415  an extra
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415  as above

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(state.part, total=state.goal, completed=state.done)

        def tell(now: State) -> None:
            wrong = f"{now.part}, {now.wrong_total} wrong"
            progress.update(task, completed=now.done, description=wrong)

        yield tell


@contextlib.contextmanager
def _lines(state: State) -> Iterator[Callable[[State], None]]:
    told = time.monotonic()
    print(line(state), file=sys.stderr, flush=True)

    def tell(now: State) -> None:
        nonlocal told
        if time.monotonic() - told >= LINE_SECONDS or now.done >= now.goal:
            told = time.monotonic()
            print(line(now), file=sys.stderr, flush=True)

    yield tell
