"""What is built can be installed elsewhere and is whole."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WAIT = 60.0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a source archive, a wheel from it, and a wheel from the tree."""
    out = tmp_path_factory.mktemp("built")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*wheel, str(out / "tree"), str(ROOT)], check=True)
    code = "import sys, hatchling.build as build; print(build.build_sdist(sys.argv[1]))"
    made = subprocess.run([sys.executable, "-c", code, str(out)], cwd=ROOT, check=True, capture_output=True, text=True)
    archive = out / made.stdout.split()[-1]
    (out / "source").mkdir()
    subprocess.run(["tar", "-xf", str(archive), "-C", str(out / "source")], check=True)
    (tree,) = (out / "source").iterdir()
    subprocess.run([*wheel, str(out / "sdist"), str(tree)], check=True)
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, and nothing else, into an empty environment in a path with spaces."""
    place = tmp_path_factory.mktemp("installed") / "an ünusual place"
    venv.create(place, with_pip=False)
    (wheel,) = (built / "tree").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(place)]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", str(wheel)], check=True)
    return place


def names(directory: Path) -> list[str]:
    (wheel,) = directory.glob("*.whl")
    return sorted(zipfile.ZipFile(wheel).namelist())


def test_both_wheels_have_the_same_files(built: Path) -> None:
    """CLI-05: a wheel made from the source archive equals one made from the tree."""
    assert names(built / "tree") == names(built / "sdist")


def test_the_wheel_has_every_file_of_the_package(built: Path) -> None:
    """CLI-05: data files are part of the package: schemas, page, type marker."""
    files = (path for path in (ROOT / "idkmesh").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    expected = {path.relative_to(ROOT).as_posix() for path in files}
    assert expected <= set(names(built / "tree"))


def test_the_wheel_runs_where_the_tree_is_not(installed: Path, tmp_path: Path) -> None:
    """CLI-05: installed into an empty environment, in a path with spaces, the command serves page and assets."""
    port_file = tmp_path / "port"
    command = [str(installed / "bin" / "idkmesh"), "control-tower", "--port", "0", "--port-file", str(port_file)]
    process = subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert "listens on" in process.stdout.readline()
        origin = f"http://127.0.0.1:{int(port_file.read_text())}"
        page = urllib.request.urlopen(origin, timeout=WAIT).read().decode()
        assets = [part.split('"')[0] for part in page.replace("href=", "src=").split('src="')[1:]]
        local = [asset for asset in assets if asset.startswith(("/", "static"))]
        assert local
        for asset in local:
            assert urllib.request.urlopen(f"{origin}/{asset.lstrip('/')}", timeout=WAIT).status == 200
    finally:
        process.terminate()
        process.communicate(timeout=WAIT)
    assert process.returncode == 0


def test_a_users_program_is_typed_and_runs(installed: Path, tmp_path: Path) -> None:
    """Rule: what is installed is typed: mypy in strict mode accepts a user's program, and sees its mistakes."""
    python = installed / "bin" / "python"
    program = tmp_path / "user.py"
    text = (ROOT / "scripts" / "lib" / "release_user.py").read_text(encoding="utf-8")
    program.write_text(text, encoding="utf-8")
    assert mypy(python, program) == (0, "Success: no issues found in 1 source file\n")
    done = subprocess.run(
        [python, "-I", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=WAIT
    )
    assert done.stdout == "served\n"
    program.write_text(text.replace("request_timeout=5", 'request_timeout="5"'), encoding="utf-8")
    code, said = mypy(python, program)
    assert code == 1
    assert '"request_timeout" to "ServiceLimits" has incompatible type "str"' in said


def mypy(python: Path, program: Path) -> tuple[int, str]:
    """Judge a program as its author would, outside the repository, by what is installed for an interpreter."""
    options = ["--strict", "--config-file=", f"--cache-dir={program.parent / 'cache'}", f"--python-executable={python}"]
    command = [sys.executable, "-m", "mypy", *options, str(program)]
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "MYPYPATH"}}
    done = subprocess.run(command, cwd=program.parent, env=kept, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout
