"""``idkmesh inspect`` as a person uses it: files in, lines and an exit code out."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from idkmesh.cli import main
from idkmesh.commands import inspect as inspect_command
from tests.inspection.support import BASE, EXAMPLES, ROOT, whole

if TYPE_CHECKING:
    from pathlib import Path

GOOD = whole("container", EXAMPLES["PB101"]["after"])
WARNED = whole("container", EXAMPLES["PB101"]["before"])
WRONG = whole("container", EXAMPLES["PB103"]["before"])
TEMPLATE = whole("file", EXAMPLES["PB002"]["before"])
BROKEN = whole("file", EXAMPLES["PB001"]["before"])


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "good": GOOD,
        "warned": WARNED,
        "wrong": WRONG,
        "template": TEMPLATE,
        "broken": BROKEN,
        "unknown": "a: 1\n",
        "matrix": BASE,
    }.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "latin.yaml").write_bytes(b"a: b\n\nc: \xe9\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (["good"], 0),
        (["warned"], 0),
        (["wrong"], 1),
        (["good", "wrong"], 1),
        (["broken"], 2),
        (["wrong", "broken"], 2),
        (["template"], 3),
        (["unknown"], 3),
        (["template", "wrong"], 1),
        (["none"], 2),
        (["latin"], 2),
        (["good", "good"], 0),
    ],
)
def test_exit_codes(files: list[str], code: int) -> None:
    """HL-7.6: 0 no errors, 1 errors, 2 a bad file, 3 nothing could be told; the worst of these: 2, 1, 3."""
    assert main(["inspect", *(f"{name}.yaml" for name in files)]) == code


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.5: the report for people is the default."""
    main(["inspect", "wrong.yaml", "good.yaml"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["wrong.yaml", "  Deployment/cart, container server"]
    assert lines[2].startswith("    15:13 error PB103: ")
    assert lines[-1] == "1 finding in 2 files: 1 error, 0 warnings, 0 notes"


@pytest.mark.parametrize("output", ["json", "sarif"])
def test_documents(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.5: a document on standard output, and nothing besides."""
    assert main(["inspect", "--format", output, "wrong.yaml"]) == 1
    told = capsys.readouterr()
    assert told.err == ""
    assert ("idkmesh-inspection" if output == "json" else "2.1.0") in json.loads(told.out).values()


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("none.yaml", "idkmesh: cannot read none.yaml: No such file or directory"),
        (".", "idkmesh: cannot read .: Is a directory"),
        ("latin.yaml", "idkmesh: latin.yaml:3: it is not UTF-8: save it as UTF-8"),
        ("a\0b", "idkmesh: cannot read a\\x00b: ValueError: embedded null byte"),
    ],
)
def test_unreadable_files_are_a_line_each_and_the_others_are_judged(
    file: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """HL-7.6: one line that says what happened and where; the findings in the others are not lost."""
    assert main(["inspect", file, "wrong.yaml"]) == 2
    told = capsys.readouterr()
    assert told.err == line + "\n"
    assert "PB103" in told.out


def test_a_rule_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.5: what it says, why, what to do and where more stands; one that there is not is wrong usage."""
    assert main(["inspect", "--explain", "pb303"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PB303 (note): A shell that is not needed"
    assert [line.partition(":")[0] for line in lines[1:]] == ["Why", "What to do", "An example before and after"]
    assert lines[-1].endswith("docs/reference/inspection.md#pb303")
    assert main(["inspect", "--explain", "PB999"]) == 2
    assert main(["inspect", "--explain", "PB303", "good.yaml"]) == 2


def test_no_file_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.5: where nothing could be read, nothing is counted."""
    assert main(["inspect", "none.yaml"]) == 2
    assert capsys.readouterr().out == ""


def test_a_question_ends_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.3: a mend that asks is one sentence."""
    (tmp_path / "typo.yaml").write_text(BASE.replace("success_threshold", "sucess_threshold"), encoding="utf-8")
    assert main(["inspect", "typo.yaml"]) == 1
    assert capsys.readouterr().out.splitlines()[3].endswith("Did you mean success_threshold?")


def test_long_files_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.7: a file beyond the bound is not read to its end."""
    monkeypatch.setattr(inspect_command, "_MAX_BYTES", 100)
    assert main(["inspect", "wrong.yaml"]) == 2
    assert capsys.readouterr().err == "idkmesh: wrong.yaml is longer than 100 bytes: split it\n"


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.6: - is standard input, and one that is closed is a line."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(WRONG.encode())))
    assert main(["inspect", "-"]) == 1
    assert capsys.readouterr().out.startswith("standard input\n")
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["inspect", "-"]) == 2
    assert capsys.readouterr().err == "idkmesh: cannot read standard input: it is closed\n"


def test_texts_of_the_file_send_the_terminal_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rule: what stands in a file is shown as one printable line."""
    text = WRONG.replace("name: server", r'name: "a\e[2J\nb"')
    (tmp_path / "sly.yaml").write_text(text, encoding="utf-8")
    main(["inspect", "sly.yaml"])
    assert r"container a\x1b[2J\nb" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["inspect"], ["inspect", "--format", "xml", "good.yaml"], ["inspect", "--matrix"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.6: exit code 2 and one line."""
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_example_shows_what_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.1, HL-7.4: what the page tries is there, and has something to tell, beside a matrix more."""
    example, matrix = (str(ROOT / "examples" / name) for name in ("cart.yaml", "probe-matrix.yaml"))
    assert "idkmesh inspect examples/cart.yaml" in (ROOT / "docs" / "INSPECTION.md").read_text(encoding="utf-8")
    told = []
    for flags in ([], ["--matrix", matrix]):
        assert main(["inspect", "--format", "json", *flags, example]) == 1
        told.append({each["rule"] for each in json.loads(capsys.readouterr().out)["findings"]})
    assert told == [{"PB103", "PB111"}, {"PB103", "PB111", "PB411"}]


@pytest.mark.usefixtures("loader")
def test_beside_a_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.4: with --matrix the manifest is held against it."""
    (tmp_path / "uses.yaml").write_text(whole("container", EXAMPLES["PB410"]["before"]), encoding="utf-8")
    assert main(["inspect", "--matrix", "matrix.yaml", "uses.yaml"]) == 0
    assert "PB410" in capsys.readouterr().out
    assert main(["inspect", "uses.yaml"]) == 0
    assert "PB410" not in capsys.readouterr().out


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\n", "is no probe matrix: it needs kind: idkmesh-probe-matrix"),
        ("a: [\n", "is no probe matrix"),
        (whole("matrix", EXAMPLES["PB401"]["before"]), ":3:5: timeout_ms 1500 is not below 1000. Lower it."),
    ],
)
def test_matrix_that_is_none(text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.4: one line and exit code 2, and nothing is judged by half."""
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    assert main(["inspect", "--matrix", "bad.yaml", "good.yaml"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert told in printed.err
