"""Command-line options that the benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .servers import Server


def parser(program: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    options = argparse.ArgumentParser(
        prog=f"scripts/bench/{program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="measure only servers whose name contains NAME (repeatable)",
    )
    options.add_argument("--output", type=Path, metavar="FILE", help="write the JSON here instead of results/")
    return options


def bounded(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return a type of argument: a whole number in a range, so that no run is without bound."""

    def whole_number(text: str) -> int:
        value = int(text)
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{value} is not in {minimum}-{maximum}")
        return value

    return whole_number


def chosen(servers: Iterable[Server], only: Sequence[str]) -> list[Server]:
    """Return the servers that ``--only`` leaves."""
    wanted = [name.lower() for name in only]
    return [server for server in servers if not wanted or any(name in server.name.lower() for name in wanted)]
