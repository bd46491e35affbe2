"""What is built can be installed elsewhere and is whole."""

from __future__ import annotations

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


def test_the_wheel_runs_where_the_tree_is_not(built: Path, tmp_path: Path) -> None:
    """CLI-05: installed into an empty environment, in a path with spaces, the command serves page and assets."""
    place = tmp_path / "an ünusual place"
    venv.create(place, with_pip=False)
    (wheel,) = (built / "tree").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(place)]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", str(wheel)], check=True)
    port_file = tmp_path / "port"
    command = [str(place / "bin" / "idkmesh"), "control-tower", "--port", "0", "--port-file", str(port_file)]
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
