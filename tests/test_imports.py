from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import idkmesh

PACKAGE = Path(idkmesh.__file__).parent

WITHOUT_SERVER = (
    *("idkmesh.events", "idkmesh.health", "idkmesh.rehearsal"),
    *("idkmesh.workloads", "idkmesh.topology", "idkmesh.inspection", "idkmesh.validation", "idkmesh.etcd"),
)

# Lower layers never import higher ones. A module that is not named stands beside its neighbours, and is free.
LAYERS = (
    (
        *("idkmesh.clock", "idkmesh.service_runtime", "idkmesh.child_process", "idkmesh.time_limiter"),
        *("idkmesh.changes", "idkmesh.addresses", "idkmesh.strict_json", "idkmesh.open_file"),
    ),
    ("idkmesh.httpd", *WITHOUT_SERVER),
    ("idkmesh.control_tower", "idkmesh.control_tower_ui", "idkmesh.adapter", "idkmesh.router"),
    ("idkmesh.cli", "idkmesh.commands", "idkmesh.settings", "idkmesh.settings_in_force"),
)
STANDARD_LIBRARY_ALONE = ("idkmesh.clock", "idkmesh.service_runtime", "idkmesh.httpd")


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(path: Path) -> set[str]:
    """Every module that the file imports, wherever in the file, for types included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: relative import, write it in full"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@functools.cache
def modules() -> dict[str, set[str]]:
    return {module_name(path): imported_by(path) for path in sorted(PACKAGE.rglob("*.py"))}


def layer_of(name: str) -> int | None:
    return next((number for number, packages in enumerate(LAYERS) if within(name, packages)), None)


def test_layers() -> None:
    """Rule: clock, service_runtime, child_process <- httpd, events, ... <- tower, adapter, router <- command line."""
    upward = [
        (module, name)
        for module, names in modules().items()
        for name in names
        if (own := layer_of(module)) is not None and (other := layer_of(name)) is not None and other > own
    ]
    assert upward == []


def test_systems_run_without_the_server() -> None:
    """Rule: events, health, rehearsal, workloads, topology and inspection never import httpd, so each runs alone."""
    bound = [
        (module, name)
        for module, names in modules().items()
        for name in names
        if within(module, WITHOUT_SERVER) and within(name, ("idkmesh.httpd",))
    ]
    assert bound == []


def test_standard_library_alone() -> None:
    """HS-1.1: the server and what it stands on need nothing that Python does not bring."""
    foreign = [
        (module, name)
        for module, names in modules().items()
        for name in names
        if within(module, STANDARD_LIBRARY_ALONE)
        and name.partition(".")[0] not in sys.stdlib_module_names
        and not within(name, STANDARD_LIBRARY_ALONE)
        and name != "idkmesh.__version__"
        and not within(name, ("_typeshed",))  # exists for type checkers alone
    ]
    assert foreign == []


def test_runs_without_site_packages() -> None:
    """HS-1.1: the same, on an interpreter that sees no installed package."""
    names = [name for name in modules() if within(name, STANDARD_LIBRARY_ALONE)]
    program = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import " + ", ".join(names)
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True, timeout=60)
