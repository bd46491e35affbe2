"""What a user's program may import: the names, their types, and what importing them costs."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import idkmesh

PACKAGE = Path(idkmesh.__file__).parent

PUBLIC: Final = {
    "idkmesh": {
        "BoundedHTTPServer",
        "BoundedWSGIServer",
        "ProbeMatrix",
        "RequestLimiter",
        "ServiceLimits",
        "Watchdog",
        "serve_until_signal",
        "use_short_switch_interval",
    },
    "idkmesh.httpd": {
        "BoundedHTTPServer",
        "BoundedWSGIServer",
        "serve_until_signal",
        "use_short_switch_interval",
    },
    "idkmesh.health.middleware": {"HealthMiddleware"},
}
"""Every name that a program may rely on, by the module that the documentation imports it from."""

STANDARD_LIBRARY: Final = {
    *("__future__", "collections", "contextlib", "contextvars", "dataclasses", "datetime", "email.utils", "enum"),
    *("errno", "fcntl", "functools", "heapq", "http", "http.client", "http.server", "importlib", "io", "ipaddress"),
    *("itertools", "json", "logging", "math", "os", "queue", "re", "reprlib", "resource", "select", "selectors"),
    *("signal", "socket", "socketserver", "ssl", "stat", "struct", "sys", "tempfile", "termios", "threading", "time"),
    *("traceback", "typing", "urllib.parse"),
}
"""What the server imports of the standard library. A new one is a decision: it is loaded by every program."""

DEAR: Final = ("asyncio", "concurrent.futures", "multiprocessing", "sqlite3", "unittest", "urllib.request", "xml")
"""Modules that a server would pay for at each start, and that nothing of it needs."""

OURS: Final = ("idkmesh.httpd.stream_hub", "idkmesh.httpd.streams", "idkmesh.httpd.routes", "idkmesh.httpd.notify")
"""Ours that only some servers need: those with a table of routes, with streams of events, or under systemd."""


@pytest.mark.parametrize("module", [name for name in PUBLIC if name != "idkmesh.health.middleware"])
def test_what_is_exported_is_the_written_list(module: str) -> None:
    """Rule: a name comes or goes by a change of this list, and each is there."""
    found = importlib.import_module(module)
    assert set(found.__all__) == PUBLIC[module]
    for name in PUBLIC[module]:
        assert getattr(found, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        found.nothing  # noqa: B018  the look-up is what is tried


def test_the_documentation_imports_public_names_alone() -> None:
    """Rule: what README, pages and examples import is public, so that what a reader has written goes on to work."""
    root = PACKAGE.parent
    texts = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.py")]
    shown: dict[str, set[str]] = {}
    for text in texts:
        for line in text.read_text(encoding="utf-8").splitlines():
            words = line.split("#")[0].replace(",", " ").split()
            if len(words) > 3 and words[0] == "from" and words[1].startswith("idkmesh") and words[2] == "import":
                shown.setdefault(words[1], set()).update(words[3:])
    assert shown
    assert {module for module in shown if not shown[module] <= PUBLIC.get(module, set())} == set()


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in PUBLIC.items() for name in sorted(names)]
)
def test_every_public_name_is_typed(module: str, name: str) -> None:
    """Rule: each parameter of a public callable and of its public methods has a type, and so has what it returns."""
    found = getattr(importlib.import_module(module), name)
    own = [each for key, each in vars(found).items() if not key.startswith("_")] if inspect.isclass(found) else [found]
    untyped = [
        f"{function.__qualname__}: {parameter.name}"
        for function in own
        if inspect.isfunction(function)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.annotation is parameter.empty and parameter.name not in {"self", "cls"}
    ]
    assert untyped == []


def imported(path: Path) -> set[str]:
    """Return what a module imports when it is loaded or run; what is for type checkers alone does not count."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        waiting.extend(ast.iter_child_nodes(node))
    return names


def test_the_server_imports_a_bounded_list() -> None:
    """HS-1.1: of the standard library the server takes these modules, all of them and no other."""
    files = [*(PACKAGE / "httpd").glob("*.py"), PACKAGE / "clock.py", PACKAGE / "service_runtime.py"]
    names = set().union(*(imported(path) for path in files))
    assert {name for name in names if not name.startswith("idkmesh")} == STANDARD_LIBRARY


def test_what_the_server_loads_is_not_dear() -> None:
    """HS-1.1: nor do these modules bring a large one along; the package by itself brings no server at all."""
    program = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import idkmesh.httpd\n"
        "assert 'http.server' not in sys.modules and 'idkmesh.httpd.core' not in sys.modules\n"
        "from idkmesh.httpd import *\n"
        f"print([name for name in {DEAR + OURS!r} if name in sys.modules])"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
