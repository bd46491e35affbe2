"""The units of systemd under examples/: what systemd says of them, and whether their commands and times are ours."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from idkmesh.cli import build_parser
from idkmesh.commands.supervise import PASS_SECONDS
from idkmesh.workloads.service import GIVE_BACK_SECONDS, PROCESSES_SECONDS
from tests.httpd.test_notify import pairs
from tests.systemd import needs_systemd, verified

EXAMPLES = Path(__file__).parents[1] / "examples"
UNITS = sorted(EXAMPLES.glob("*.service"))


def unit(name: str) -> dict[str, str]:
    return pairs((EXAMPLES / name).read_text(encoding="utf-8"))


@needs_systemd
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_has_nothing_to_say(path: Path, tmp_path: Path) -> None:
    """Rule: a unit of ours is one that systemd takes."""
    assert verified([path], tmp_path) == (0, "")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_commands_are_ours(path: Path) -> None:
    """Rule: what a unit starts is a command with flags that there are."""
    arguments = shlex.split(pairs(path.read_text(encoding="utf-8"))["ExecStart"])[1:]
    command = build_parser().parse_args(arguments).command
    assert command.__name__ == "_" + arguments[0].replace("-", "_")


def test_supervision_has_time_to_end() -> None:
    """AR-7.7, AR-7.8: systemd waits for all that the end may take, and no shorter than a beat may for a silence."""
    found = unit("idkmesh-supervise.service")
    assert found["Type"] == "notify"
    assert float(found["TimeoutStopSec"].removesuffix("s")) > PASS_SECONDS + GIVE_BACK_SECONDS + PROCESSES_SECONDS
    assert float(found["WatchdogSec"].removesuffix("s")) > 10
