"""What every benchmark says beside its figures: machine, versions, goals, and the file of results."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .processes import BENCH_DIR, cores, environment, python
from .stats import middle
from .tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DISTRIBUTIONS = ("waitress", "cheroot", "gunicorn", "werkzeug", "uvicorn", "httptools", "uvloop", "granian")
PROGRAMS = {"idkmesh": python("-m", "idkmesh", "--version"), "nginx": ["nginx", "-v"], "wrk": ["wrk", "-v"]}
NOTICEABLE = 0.08
VERSION = re.compile(r"\d+\.\d+\S*")


@dataclass(frozen=True)
class Goal:
    """A figure to reach: ``value`` at least or at most ``bound``; NaN was not measured."""

    what: str
    value: float
    bound: float
    at_least: bool

    @property
    def verdict(self) -> str:
        """Whether it was reached."""
        if math.isnan(self.value):
            return "not measured"
        return "reached" if (self.value >= self.bound if self.at_least else self.value <= self.bound) else "MISSED"


def machine() -> dict[str, object]:
    """Describe processor, memory, kernel, interpreter and pinning, without anything that names the machine."""
    models = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    server_core, load_core = cores()
    return {
        "processor": models[0] if models else platform.machine(),
        "processors": len(models),
        "memory_gib": round(int(memory) / 1024**2, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "server_core": server_core,
        "load_core": load_core,
    }


def versions() -> dict[str, str]:
    """Return the version of every peer and tool, or "not installed"."""
    programs = {name: _program(command) for name, command in PROGRAMS.items()}
    return programs | {name: _distribution(name) for name in DISTRIBUTIONS}


def _distribution(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _program(command: Sequence[str]) -> str:
    """Return the first thing in a program's own words that looks like a version. wrk says it and exits with 1."""
    try:
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not installed"
    found = VERSION.search(done.stdout + done.stderr)
    return found.group() if found else "not installed"


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


class Report:
    """Collects the tables and raw figures of one run, prints them as they come, and writes the JSON file."""

    def __init__(self, name: str, settings: Mapping[str, object]) -> None:
        self._began = datetime.now(UTC)
        self._name = name
        self._content: dict[str, Any] = {
            "benchmark": name,
            "began": self._began.isoformat(timespec="seconds"),
            "settings": dict(settings),
            "machine": machine(),
            "versions": versions(),
            "notes": [],
        }
        facts = [*self._content["machine"].items(), *self._content["versions"].items()]
        self.say(f"# {name}\n\n{table(('machine and versions', ''), [(key, str(value)) for key, value in facts])}")
        if self._content["machine"]["server_core"] == self._content["machine"]["load_core"]:
            self.note("server and load share one core: rates and latencies say little here")

    def say(self, text: str) -> None:
        """Print a paragraph."""
        sys.stdout.write(f"{text}\n\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Print a remark that belongs to the figures, and keep it with them."""
        self._content["notes"].append(text)
        self.say(f"Note: {text}.")

    def disturbance(self, shares: Sequence[float]) -> None:
        """Say so when others than server and load had a noticeable share of the cores (0-1, one for each run)."""
        if (share := middle(shares)) > NOTICEABLE:
            self.note(f"other programs had {share:.0%} of a core: measure again on a quiet machine")

    def progress(self, text: str) -> None:
        """Tell a waiting person what is being measured."""
        sys.stderr.write(f"{text}\n")

    def add(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str | float | None]]) -> None:
        """Print a table and keep its cells."""
        self._content.setdefault("tables", {})[title] = {"header": list(header), "rows": [list(row) for row in rows]}
        self.say(f"## {title}\n\n{table(header, rows)}")

    def goals(self, goals: Sequence[Goal]) -> None:
        """Print what was to be reached and what was."""
        rows = [
            (goal.what, goal.value, f"{'>=' if goal.at_least else '<='} {goal.bound:g}", goal.verdict) for goal in goals
        ]
        self.add("Goals", ("goal", "measured", "to reach", "verdict"), rows)
        self._content["goals"] = [{**asdict(goal), "verdict": goal.verdict} for goal in goals]

    def write(self, runs: Sequence[Mapping[str, object]], output: Path | None) -> None:
        """Write everything, each single run included, as JSON."""
        self._content["runs"] = list(runs)
        self._content["seconds"] = round((datetime.now(UTC) - self._began).total_seconds(), 1)
        path = output or BENCH_DIR / "results" / f"{self._name}-{self._began:%Y%m%dT%H%M%SZ}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_without_nan(self._content), indent=1) + "\n", encoding="utf-8")
        self.say(f"{self._content['seconds']} s; results in {path.name}")


def _without_nan(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return the same JSON value with null for NaN, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
