"""The repository keeps its own promises: commands, links, clauses, pages, reasons."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

from idkmesh import __version__

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEST_COMMAND = "scripts/test"


def repository_files() -> list[Path]:
    """Return the files that git knows, or, outside a checkout, those that a source archive has."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(ROOT), "ls-files", "-z"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        return [path for name in names if name and (path := ROOT / name).is_file()]
    kept = (path for path in ROOT.rglob("*") if path.is_file())
    return [path for path in kept if not {".venv", "__pycache__"} & set(path.relative_to(ROOT).parts)]


FILES = repository_files()
PYTHON_FILES = [path for path in FILES if path.suffix == ".py"]
TEST_FILES = [path for path in PYTHON_FILES if path.is_relative_to(ROOT / "tests")]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def readme_commands() -> list[str]:
    """Return each line of the README's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


CLAUSE = r"(?:HS|CT|EV|HL|AR|RA|RT|DM|FT)-\d+"
"""A section of one of the specifications."""


def clauses(text: str) -> set[str]:
    return set(re.findall(rf"\b{CLAUSE}(?:\.\d+)?", text))


def stated_clauses() -> set[str]:
    """Return every clause of the specifications, and every section as ``HS-5``."""
    stated: set[str] = set()
    for path in (ROOT / "docs" / "specifications").glob("*.md"):
        stated.update(re.findall(r"^- \*\*([A-Z]{2}-\d+\.\d+)\*\*", path.read_text(encoding="utf-8"), re.MULTILINE))
    return stated | {clause.partition(".")[0] for clause in stated}


SCOPE = {"HS-1.3"}
"""Clauses that say what the project is for. Nothing that it does could prove them."""

BEING_BUILT: set[str] = set()
"""Clauses of a part that is not whole yet. A part leaves with the tests that prove it; in the end this is empty."""


def proved_clauses(docstring: str) -> set[str]:
    """Return the clauses that a docstring names; ``HS-3.1 to HS-3.10`` names those between too."""
    proved = clauses(docstring)
    for first, last in re.findall(rf"\b({CLAUSE}\.\d+) to ({CLAUSE}\.\d+)", docstring):
        section, _, low = first.partition(".")
        proved |= {f"{section}.{number}" for number in range(int(low), int(last.partition(".")[2]) + 1)}
    return proved


@pytest.mark.parametrize("command", [line for line in readme_commands() if line.startswith("scripts/")])
def test_readme_scripts_exist(command: str) -> None:
    """Rule: what the README says to run is there, and can be run."""
    assert os.access(ROOT / command.split(maxsplit=1)[0], os.X_OK)


def test_readme_subcommands_exist() -> None:
    """Rule: the README names no command that the program does not have."""
    named = set(re.findall(r"(?:idkmesh|scripts/run) ([a-z][a-z-]+)", "\n".join(readme_commands())))
    shown = subprocess.run([sys.executable, "-m", "idkmesh", "--help"], check=True, capture_output=True, text=True)
    assert named <= set(re.findall(r"[a-z][a-z-]+", shown.stdout))


def test_ci_runs_the_readmes_test_command() -> None:
    """Rule: the build runs what a reader is told to run, and nothing else."""
    assert TEST_COMMAND in readme_commands()
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert run[-1] == f"exec {TEST_COMMAND}"


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".md"], ids=name_of)
def test_links_resolve(path: Path) -> None:
    """Rule: a relative link leads to a folder or to a file that says something."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    linked = {target: path.parent / target for target in targets if "://" not in target}
    assert [target for target, file in linked.items() if not file.exists() or not file.stat().st_size] == []


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_cited_clauses_exist(path: Path) -> None:
    """Rule: a clause that code or a test names is one of a specification."""
    assert clauses(path.read_text(encoding="utf-8")) - stated_clauses() == set()


def test_every_clause_is_proved() -> None:
    """Rule: a test names each clause, but for those that state the scope alone."""
    proved: set[str] = set()
    for path in TEST_FILES:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        tests = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        proved.update(*(proved_clauses(ast.get_docstring(test) or "") for test in tests))
    stated = {clause for clause in stated_clauses() if "." in clause}
    assert stated - proved == SCOPE | BEING_BUILT


def test_specifications_cite_what_exists() -> None:
    """Rule: the same for the documents."""
    for path in (ROOT / "docs").rglob("*.md"):
        assert clauses(path.read_text(encoding="utf-8")) - stated_clauses() == set(), name_of(path)


def test_every_decision_is_listed() -> None:
    """Rule: a record that nobody finds decides nothing."""
    directory = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\((\d{4}-[a-z0-9-]+\.md)\)", (directory / "README.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in directory.glob("[0-9]*.md"))


def test_every_dependency_has_its_reason() -> None:
    """Rule: a dependency stands in decision 0007, in the table of its extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    record = (ROOT / "docs" / "decisions" / "0007-dependencies.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in record.split("\n## ")[1:]}
    for extra, requirements in {"run": project["dependencies"], **project["optional-dependencies"]}.items():
        (section,) = (text for title, text in sections.items() if extra in title.lower())
        names = [re.split(r"[\[<>=; ]", requirement)[0] for requirement in requirements]
        assert re.findall(r"^\| ([a-z0-9-]+) \| .{10,}", section, re.MULTILINE) == sorted(names)


def test_version_has_its_changes() -> None:
    """Rule: the version of the package is one that the changelog tells about."""
    assert __version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_path_of_one_machine(path: Path) -> None:
    """Rule: no file depends on, or tells of, the machine that it was written on."""
    found = re.findall(rb"(?<![\w.])/(?:roo[t]|wor[k]|hom[e]/\w+|User[s]/\w+|tm[p]/w)/", path.read_bytes())
    assert found == []


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_every_exception_has_its_reason(path: Path) -> None:
    """Rule: a lint rule is never switched off without a word on why."""
    with path.open("rb") as file:
        comments = [token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]
    unexplained = [text for text in comments if re.search(r"noqa(?!: [A-Z]+\d+(?:, ?[A-Z]+\d+)*(?: -)?  ?\S)", text)]
    assert unexplained == []


MOST_LINES_OF_A_MODULE = 500
MOST_LINES_OF_A_FUNCTION = 40
"""A screen."""

LONGER = {
    "idkmesh/service_runtime.py": "one module by contract: another service takes all of it in one import",
    "idkmesh/httpd/connection.py: __init__": "the fields of a connection, a line each, and what they mean",
    "idkmesh/httpd/core.py: __init__": "the same of what a server's front and workers share",
    "idkmesh/workloads/supervisor.py: __init__": "what it supervises and the parts it speaks to, a line each",
}
"""What is longer, and why."""


def test_modules_and_functions_can_be_read() -> None:
    """Rule: no module of the package has more than 500 lines and no function more than 40, without a reason above."""
    long = []
    for path in PYTHON_FILES:
        if not path.is_relative_to(ROOT / "idkmesh"):
            continue
        text = path.read_text(encoding="utf-8")
        long += [name_of(path)] if len(text.splitlines()) > MOST_LINES_OF_A_MODULE else []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_FUNCTION:
                long.append(f"{name_of(path)}: {node.name}")
    assert sorted(long) == sorted(LONGER)


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_every_test_says_what_it_proves(path: Path) -> None:
    """Rule: a test's docstring names the clause it proves or states the rule."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    tests = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    assert [test.name for test in tests if not ast.get_docstring(test)] == []


@pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for POSIX shells")
def test_set_up_skips_a_python_that_does_not_run(tmp_path: Path) -> None:
    """Rule: a name on PATH is no Python until it has run; paths may contain spaces."""
    directory = tmp_path / "version shims"
    directory.mkdir()
    for name, line in {
        "python3.13": "exit 127",
        "python3.12": "exit 1",
        "python3.11": f'exec "{sys.executable}" "$@"',
    }.items():
        (directory / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (directory / name).chmod(0o755)
    program = 'ROOT=$1; . "$2"; find_python "import venv"'
    command = ["sh", "-euc", program, "sh", str(tmp_path), str(ROOT / "scripts" / "lib" / "environment.sh")]
    environ = {"PATH": f"{directory}:/usr/bin:/bin"}
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout.strip()
    subprocess.run([found, "-c", "import sys; sys.version_info >= (3, 11) or sys.exit(1)"], check=True, env=environ)
