"""Writes the pages of ``docs/explanation/`` that are made of tables and of other documents. A test compares them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.events.retention import RETENTION_SETTINGS
from idkmesh.events.store import READER_CACHE_KIB, READERS
from idkmesh.httpd.stream_window import WINDOW_BYTES
from idkmesh.service_runtime import SETTINGS
from scripts.lib.document_links import moved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from idkmesh.service_runtime import Setting

ROOT: Final = Path(__file__).parents[2]
DIRECTORY: Final = ROOT / "docs" / "explanation"
ADMISSIONS: Final = re.compile(
    r"^## (?:\d+\. )?(What (?:is not (?:claimed|proved)|was tried on fakes alone|it does not promise|it is not))\n"
    r"(.*?)(?=^## |\Z)",
    re.MULTILINE | re.DOTALL,
)
"""The sections of a document that say what it does not claim."""


KEPT: Final = (
    (
        "The latest events, from which all streams are written ([EV-5.10](../specifications/EVENTS_V0_1.md)).",
        f"{WINDOW_BYTES >> 20} MiB",
        "some 4,000 events",
    ),
    ("Pages of the event store that its writer keeps: SQLite's own default.", "2 MiB", "some 4,000 events"),
    (
        "Pages of the event store that its readers keep (EV-2.14).",
        f"{READERS} times {READER_CACHE_KIB} KiB",
        "the longest answers of each",
    ),
    (
        "Workers: a thread each, started when first needed.",
        "`max_concurrent_requests`",
        "as many requests at once as ever come",
    ),
    (
        "What glibc keeps for each thread that has freed memory, for it to use again.",
        "235 KiB a thread; measured: 60",
        "thousands of requests a thread",
    ),
    (
        "What glibc has in pieces between blocks in use, in up to eight arenas a processor, or `MALLOC_ARENA_MAX`.",
        "no number; measured: 12 MiB in two",
        "some 100,000 requests",
    ),
)
"""What is kept, how much of it at most, and after what it is full."""


def limit_row(setting: Setting) -> str:
    """Return the row of one limit."""
    unit = "" if setting.unit == "count" else f" {setting.unit}"
    return f"| `{setting.name}` | {setting.default:,.15g}{unit} | {setting.meaning} | {setting.not_covered} |"


def limits_page() -> str:
    """Return ``limits.md``, from the tables of settings."""

    def table(settings: Iterable[Setting]) -> str:
        rows = "\n".join(limit_row(setting) for setting in settings)
        return f"| limit | default | bounds | does not cover |\n|---|---|---|---|\n{rows}\n"

    return f"""# Limits, and what they do not cover

Made by `scripts/reference` from the tables in `idkmesh/service_runtime.py` and `idkmesh/events/retention.py`; change it
there.

A limit that is not told is a surprise, and one whose edge is not told is a false promise. Each stands once, is
proved by tests, and is published while the service runs. Ranges, flags and variables:
[settings](../reference/settings.md).

## Of a server

{table(SETTINGS)}
## Of the event store

{table(RETENTION_SETTINGS)}
## What is kept in memory

Each of these grows until it is full, and no further, whatever comes. A process that has been idle since its start has
none of it, so its memory grows in its first hours: [measured](../RELIABILITY.md).

{_kept()}
The last two are the allocator's, and not lost: Python's own objects and the blocks in use stay as many. Two arenas are
enough, since the interpreter lock lets few threads allocate at once: `MALLOC_ARENA_MAX=2` in the environment, as the
units under `examples/` and `deploy/` have it, keeps the pieces at 12 MiB where sixteen arenas went on to 16, and the
same load takes as long. A library sets nothing of the kind for the program it is in, and neither do the commands. Two
more ways were measured and left: `GLIBC_TUNABLES=glibc.malloc.tcache_count=0` takes 6 MiB away at 100 workers, for a
lock at each small block; handing memory back at rest (`malloc_trim`) brought 2 to 5 MiB, which the next load takes
again.

## What no limit bounds

- A handler: how long it runs, and what it allocates. Python cannot stop a thread. A drain abandons it, and says so.
- A client: how often it comes. There is no identity to hold a rate to, so there is no 429
  ([0003](../decisions/0003-no-429.md)).
- The kernel: its accept queue beyond `listen_backlog`, and its buffers of each socket.
- The descriptors of a process together: two listeners, a program's own files and a leak may take them all. Who connects
  then waits, at the paths of a probe too, but for those at a `--probe-listen` of their own, which is answered (HS-4.9).
"""


def _kept() -> str:
    rows = "\n".join(f"| {what} | {most} | {after} |" for what, most, after in KEPT)
    return f"| what | most | full after |\n|---|---|---|\n{rows}\n"


def admissions(path: Path) -> list[tuple[str, str]]:
    """Return title and text of the sections of a document that say what it does not claim."""
    return [(title, text.strip()) for title, text in ADMISSIONS.findall(path.read_text(encoding="utf-8"))]


def sources() -> list[Path]:
    """Return the documents that have such sections, contracts first; each contract has one."""
    contracts = sorted((ROOT / "docs" / "specifications").glob("*.md"))
    return [*contracts, *(path for path in sorted((ROOT / "docs").glob("*.md")) if admissions(path))]


def unproved_page() -> str:
    """Return ``unproved.md``, from the sections of other documents."""
    parts = []
    for path in sources():
        document = path.relative_to(ROOT).as_posix()
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        link = moved(f"[{title}]({path.name})", document, "docs/explanation/unproved.md")
        parts.append(f"## {title}\n\nFrom {link}.\n")
        for name, text in admissions(path):
            parts.append(f"### {name}\n\n{moved(text, document, 'docs/explanation/unproved.md')}\n")
    return f"""# What is unproved

Made by `scripts/reference` from the sections of the contracts and pages that it names; change it there.

A claim without a proof is an opinion. Whatever these documents do not claim, or have tried on stand-ins alone, is here
in one place. What is claimed has a clause, and each clause a test.

{chr(10).join(parts)}"""


PAGES: Final = {"limits.md": limits_page, "unproved.md": unproved_page}


def main() -> None:
    """Write each page."""
    for name, page in PAGES.items():
        (DIRECTORY / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
