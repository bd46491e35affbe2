"""Builds what would be published, and tries it where a user would have it.

The source archive is built from the tree and the wheel from the archive, both by hatchling. Each is judged by ``twine
check`` and installed, with what it depends on, into an empty environment on each supported Python that is found. There,
outside the repository, ``idkmesh --version`` is run, a user's program serves (``scripts/lib/release_user.py``), mypy
judges that program in strict mode, and a control tower starts, is found ready by ``idkmesh healthcheck``, and drains.

Exit code 0 if all of it is well, 1 if something is not, or if a supported Python was not found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parents[2]
USER: Final = Path(__file__).with_name("release_user.py")
WAIT: Final = 120.0
"""Seconds for one step in an environment; an installation has more."""

DIRECTORIES: Final = ("/usr/local/bin", "/usr/bin", "~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin")
"""Where interpreters are besides ``PATH``."""


NOT_FOUND: Final = "not found"
ANY: Final = "any"
"""In the place of a version: what is said of an archive itself."""


class StepError(Exception):
    """A step did not do what it should; the text is one line."""


@dataclass(frozen=True)
class Row:
    """What became of one artifact on one Python: ``ok``, or what was wrong."""

    python: str
    artifact: str
    outcome: str


def supported() -> list[str]:
    """Return the versions that ``pyproject.toml`` promises, such as ``3.11``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    last = [line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith("Programming Language")]
    return [version for version in last if version.startswith("3.")]


def candidates(version: str) -> list[str]:
    """Return what may be the interpreter of a version, best first."""
    name = f"python{version}"
    known = [shutil.which(name) or ""]
    for directory in DIRECTORIES:
        base, star, rest = directory.partition("*")
        folder = Path(base).expanduser()
        found = folder.glob(f"*{rest}/{name}") if star else [folder / name]
        known += sorted(str(path) for path in found if path.exists())
    return [each for each in known if each]


def interpreter(version: str) -> str | None:
    """Return an interpreter of a version that runs: a name alone proves nothing, version managers leave shims."""
    program = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    for path in candidates(version):
        try:
            done = subprocess.run(
                [path, "-I", "-c", program], capture_output=True, text=True, check=False, timeout=WAIT
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.strip() == version:
            return path
    return None


def step(*command: str | Path, cwd: Path, wait: float = WAIT) -> str:
    """Run a command as a user would, outside the repository, and return its output; a failure is one line."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("IDKMESH_", "PYTHONPATH"))}
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=cwd, env=kept, capture_output=True, text=True, check=False, timeout=wait)
    except subprocess.TimeoutExpired:
        raise StepError(f"{Path(words[0]).name}: no end after {wait:g} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no word"]
        raise StepError(f"{Path(words[0]).name} {' '.join(words[1:3])}: exit code {done.returncode}: {said[-1]}")
    return done.stdout


def built(folder: Path) -> list[Path]:
    """Build the source archive from the tree and the wheel from the archive."""
    hatchling = (sys.executable, "-m", "hatchling", "build", "-d", folder, "-t")
    step(*hatchling, "sdist", cwd=ROOT)
    (archive,) = folder.glob("*.tar.gz")
    unpacked = folder / "unpacked"
    shutil.unpack_archive(archive, unpacked, filter="data")
    (tree,) = unpacked.iterdir()
    step(*hatchling, "wheel", cwd=tree)
    (wheel,) = folder.glob("*.whl")
    return [archive, wheel]


def tried(python: str, artifact: Path, folder: Path) -> None:
    """Install an artifact into an empty environment and try it there. Raises :class:`StepError`."""
    place = folder / "environment"
    step(python, "-m", "venv", "--without-pip", place, cwd=folder)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", place / "bin" / "python")
    step(*pip, "install", artifact, cwd=folder, wait=5 * WAIT)
    version = step(place / "bin" / "idkmesh", "--version", cwd=folder).strip()
    if version != f"idkmesh {artifact.name.removesuffix('.tar.gz').split('-')[1]}":
        raise StepError(f"idkmesh --version says {version!r}")
    own = place / "bin" / "python"
    if "served" not in step(own, USER, cwd=folder):
        raise StepError("the user's program did not serve")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file=", "--python-executable", own)
    step(*mypy, shutil.copy(USER, folder / "user.py"), cwd=folder)
    tower(place / "bin" / "idkmesh", folder)


def tower(command: Path, folder: Path) -> None:
    """Start a control tower, ask it as an orchestrator does, and end it."""
    log = folder / "tower.log"
    store = ("--store", str(folder / "events.sqlite3"))
    with log.open("wb") as file:
        arguments = [str(command), "control-tower", "--port", "0", "--port-file", str(folder / "port"), *store]
        process = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=file, text=True)
    try:
        if not process.stdout or "listens on" not in process.stdout.readline():
            raise StepError(f"control-tower: {log.read_text(encoding='utf-8').strip() or 'no word'}")
        step(command, "healthcheck", "--port", (folder / "port").read_text(encoding="ascii").strip(), cwd=folder)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    if process.returncode:
        raise StepError(f"control-tower: exit code {process.returncode} at SIGTERM")


def outcome(action: Callable[..., object], *arguments: object, **more: object) -> str:
    """Call an action; return ``ok``, or the line of what was wrong."""
    try:
        action(*arguments, **more)
    except StepError as error:
        return str(error)
    return "ok"


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| Python | artifact | outcome |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {row.python} | {row.artifact} | {row.outcome} |" for row in rows)])


def verdict(rows: list[Row], *, some_may_be_missing: bool) -> int:
    """Return the exit code: what was not found is a failure too, unless it is allowed."""
    accepted = {"ok", NOT_FOUND} if some_may_be_missing else {"ok"}
    tried_somewhere = any(row.python != ANY and row.outcome != NOT_FOUND for row in rows)
    return int(not tried_somewhere or not all(row.outcome in accepted for row in rows))


def checked(folder: Path) -> list[Row]:
    """Build both artifacts and try each. Raises :class:`StepError` where there is nothing to try."""
    artifacts = built(folder)
    judge = (sys.executable, "-m", "twine", "check", "--strict")
    rows = [Row(ANY, each.name, outcome(step, *judge, each, cwd=folder)) for each in artifacts]
    for version in supported():
        found = interpreter(version)
        for artifact in artifacts:
            print(f"Python {version}: {artifact.name}", file=sys.stderr)
            place = Path(tempfile.mkdtemp(dir=folder))
            rows.append(Row(version, artifact.name, outcome(tried, found, artifact, place) if found else NOT_FOUND))
    return rows


def main() -> int:
    """Build, try, and print the table."""
    parser = argparse.ArgumentParser(
        prog="scripts/release-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="a supported Python that is not found is no failure, but one must be",
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idkmesh-release-") as name:
        try:
            rows = checked(Path(name))
        except StepError as error:
            print(f"nothing was built: {error}", file=sys.stderr)
            return 1
    print(table(rows))
    return verdict(rows, some_may_be_missing=chosen.allow_missing)


if __name__ == "__main__":
    sys.exit(main())
