"""Mistakes on the command line: one line each, of bounded length, that no name or text of others can break."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh import console
from idkmesh.service_runtime import MAX_LOGGED_CHARACTERS
from tests.test_cli import idkmesh, one_line, serving

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = "y" * 60_000
CODES = {1, 2}

MODULES = {
    "huge.py": "raise RuntimeError('x' * 100_000)",
    "coloured.py": r"raise RuntimeError('a\nb\x1b[31mred\x07')",
    "script.py": "raise SystemExit('nothing to do')",
    "ends.py": "import sys; sys.exit(0)",
    "lazy.py": "def __getattr__(name): raise RuntimeError('not here')",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with modules that do not load and files that are no tokens."""
    folder = tmp_path_factory.mktemp("place")
    for name, source in MODULES.items():
        (folder / name).write_text(source + "\n")
    (folder / "two\nlines").write_text("short\n")
    (folder / "folder").mkdir()
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("",),
        (LONG,),
        ("no\ncommand",),
        ("control-tower", LONG),
        ("control-tower", "--none\nsuch"),
        ("control-tower", f"--none={LONG}"),
        ("control-tower", "--open=1"),
        ("control-tower", "--port"),
        ("control-tower", "--port="),
        ("control-tower", "--port=1.0"),
        ("control-tower", "--port=\u0663"),
        ("control-tower", "--port=" + "9" * 50_000),
        ("control-tower", f"--host={LONG}"),
        ("control-tower", "--host=a\nb"),
        ("control-tower", "--host=\x1b[31m"),
        ("control-tower", "--host=::ffff:127.0.0.1"),
        ("control-tower", f"--request-timeout={LONG}"),
        ("control-tower", "--request-timeout=1\n"),
        ("control-tower", "--port=0", "--port-file="),
        ("control-tower", "--port=0", "--port-file=/"),
        ("control-tower", "--port=0", "--port-file=.."),
        ("control-tower", "--port=0", "--port-file=folder"),
        ("control-tower", "--port=0", f"--port-file={LONG}"),
        ("control-tower", "--port=0", "--port-file=a\nb/c"),
        ("control-tower", "--token-file="),
        ("control-tower", f"--token-file={LONG}"),
        ("control-tower", "--token-file=two\nlines"),
        ("control-tower", "--token-file=\x1b[31m"),
        ("serve", LONG),
        ("serve", f"{LONG}:app"),
        ("serve", f"script:{LONG}"),
        ("serve", "a\nb"),
        ("serve", "a\nb:app"),
        ("serve", ".script:app"),
        ("serve", "huge:app"),
        ("serve", "coloured:app"),
        ("serve", "script:app"),
        ("serve", "ends:app"),
        ("serve", "lazy:app"),
        ("serve", "lazy:a\nb"),
        ("serve", "folder", "more"),
        ("serve", "folder", f"--host={LONG}"),
        ("serve", "folder", "--host=a\nb"),
        ("serve", "folder", "--host=.x"),
        ("serve", "folder", "--host=[::1"),
        ("serve", "folder", "--host=\x1b[31m"),
        ("serve", "folder", f"--tls-cert={LONG}"),
        ("serve", "folder", "--tls-cert=a\nb"),
        ("serve", "folder", "--tls-cert=folder"),
        ("serve", "folder", "--tls-cert=huge.py", f"--tls-key={LONG}"),
        ("inspect-request", LONG),
        ("inspect-request", ""),
        ("inspect-request", "a\nb"),
        ("inspect-request", "\x1b[31m"),
        ("inspect-request", "-", "-"),
    ],
    ids=lambda arguments: " ".join(argument[:20] for argument in arguments).encode("unicode_escape").decode(),
)
def test_every_mistake_is_one_short_line(arguments: tuple[str, ...], place: Path) -> None:
    """CT-9.5: exit code 1 or 2, nothing on standard output, one line of printable characters, of bounded length."""
    code, text, errors = idkmesh(*arguments, cwd=place)
    assert code in CODES
    assert text == ""
    assert one_line(errors)
    assert errors.removesuffix("\n").isprintable()
    assert len(errors) <= MAX_LOGGED_CHARACTERS + 1
    assert not list(place.glob(".*")), "nothing is left behind"


def test_a_module_that_ends_the_program_says_so(place: Path) -> None:
    """Rule: `serve` that serves nothing is no success, whatever the module asked for."""
    for module, told in (("script", "SystemExit: nothing to do"), ("ends", "SystemExit: 0")):
        code, _, errors = idkmesh("serve", f"{module}:app", cwd=place)
        assert code == 1
        assert told in errors
        assert f"{module}.py:1" in errors


def test_long_lines_keep_both_ends() -> None:
    """CT-9.5: what happened stands first and what to do last; a line within the bound is not touched."""
    line = "n" * MAX_LOGGED_CHARACTERS
    assert console.fitted(line) == line
    cut = console.fitted(f"cannot read {LONG}: choose another")
    assert len(cut) <= MAX_LOGGED_CHARACTERS
    assert cut.startswith("cannot read yyy")
    assert " ... " in cut
    assert cut.endswith("yyy: choose another")


def test_what_does_not_print_is_escaped() -> None:
    """CT-9.5: line ends, terminal commands, direction overrides and bytes that are no text; other scripts stay."""
    assert console.fitted("a\nb\r\x1b[2J\x7f\x85\u2028\u202e\udce9 \u540d \u00e9") == (
        "a\\nb\\r\\x1b[2J\\x7f\\x85\\u2028\\u202e\\udce9 \u540d \u00e9"
    )


def test_announcement_of_a_strange_folder_is_one_line(tmp_path: Path) -> None:
    """CT-9.5: a folder's name adds no line to what a script reads."""
    (tmp_path / "a\nb").mkdir()
    with serving("serve", "a\nb", "--port=0", cwd=tmp_path) as service:
        assert "serves a\\nb on http://" in service.line


@pytest.mark.parametrize(("stream", "tell"), [("stdout", console.say), ("stderr", console.complain)])
def test_a_line_is_written_whole(monkeypatch: pytest.MonkeyPatch, stream: str, tell: Callable[[str], None]) -> None:
    """CT-9.5: text and line end are one write, so that no other thread's line stands between the two."""
    writes: list[str] = []

    class Writes(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return super().write(text)

    monkeypatch.setattr(sys, stream, Writes())
    tell("listens")
    assert [text for text in writes if text] == ["listens\n"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["inspect-request", "-"], ["control-tower", "--port", "0"]])
def test_output_that_cannot_be_written_is_one_line(arguments: list[str]) -> None:
    """CT-9.5: where the output's disk is full a command says so in one line, and ends with 1."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "idkmesh", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            input=b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            check=False,
            timeout=30,
            env=environ,
        )
    assert done.returncode == 1
    assert done.stderr == b"idkmesh: cannot write to standard output: No space left on device\n"
