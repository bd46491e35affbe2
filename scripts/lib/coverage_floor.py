"""Fail when the server or what it stands on is covered less than the floor, in branches or in all.

Reads the data file that ``coverage combine`` left in the current directory.
"""

from __future__ import annotations

import json
import subprocess
import sys

FLOOR = 97.0
GROUPS = {
    "idkmesh.service_runtime": "idkmesh/service_runtime.py",
    "idkmesh.httpd": "idkmesh/httpd/*",
}


def percentages(pattern: str) -> tuple[float, float]:
    """Return how much of the files is covered: branches alone, and lines with branches, both in percent."""
    command = [sys.executable, "-m", "coverage", "json", "--quiet", f"--include={pattern}", "-o", "-"]
    report = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if report.returncode:
        sys.exit(f"coverage floor: no figures for {pattern} in .coverage, run scripts/test without arguments")
    totals = json.loads(report.stdout)["totals"]
    return 100.0 * totals["covered_branches"] / max(1, totals["num_branches"]), totals["percent_covered"]


def main() -> int:
    """Print a line for each group and return 1 if one is below the floor."""
    low = False
    for name, pattern in GROUPS.items():
        branches, overall = percentages(pattern)
        low = low or min(branches, overall) < FLOOR
        print(f"{name}: branches {branches:.1f} %, in all {overall:.1f} % (at least {FLOOR:g} %)")
    return int(low)


if __name__ == "__main__":
    sys.exit(main())
