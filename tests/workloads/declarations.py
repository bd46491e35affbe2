"""What the tests of declarations share: a file that is right, and ways to read what is wrong with another."""

from __future__ import annotations

from pathlib import Path

import pytest

from idkmesh.workloads.declaration import DeclarationError, DeclarationFinding, load_declaration

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "modules.yaml"

HEAD = """\
schema_version: "0.1"
kind: idkmesh-modules
platforms: {lxd: {socket: /var/lib/lxd/unix.socket}}
modules:
"""
ROW = "  - {name: web, kind: stateless, driver: lxd, instances: [web-1], port: 80}\n"
BASE = HEAD + ROW


def with_row(**members: str) -> str:
    """Return a file with one module; ``members`` replace or add keys, and an empty one takes its key away."""
    row = {"name": "web", "kind": "stateless", "driver": "lxd", "instances": "[web-1]", "port": "80"} | members
    return HEAD + "  - " + "\n    ".join(f"{name}: {value}" for name, value in row.items() if value) + "\n"


def with_command(command: str, **members: str) -> str:
    """Return a file with one module whose readiness has a command and other ``members``."""
    return with_row(readiness="{" + ", ".join(f"{k}: {v}" for k, v in ({"command": command} | members).items()) + "}")


def with_part(name: str, value: str) -> str:
    """Return a file with another part beside the modules, or in the place of the one of this name."""
    lines = [line for line in BASE.splitlines(keepends=True) if not line.startswith(f"{name}:")]
    return "".join([*lines[:2], f"{name}: {value}\n", *lines[2:]])


def many(count: int) -> str:
    """Return a file with many modules of two instances and a command."""
    return HEAD + "".join(
        f"""\
  - name: web-{number}
    kind: stateless
    driver: lxd
    instances: [web-{number}-1, web-{number}-2]
    port: 8080
    readiness: {{command: [/usr/local/bin/check, --fast], timeoutSecs: 3}}
"""
        for number in range(count)
    )


def in_all(count: int) -> str:
    """Return a file with so many instances, a thousand in each module but the last, whose list is marked."""
    modules = [range(first, min(first + 1000, count)) for first in range(0, count, 1000)]
    rows = [f"[{', '.join(f'a{number}' for number in each)}]" for each in modules]
    rows[10:] = [f"@@{row}" for row in rows[10:]]
    return HEAD + "".join(
        f"  - {{name: web-{number}, kind: stateless, driver: lxd, instances: {row}, port: 80}}\n"
        for number, row in enumerate(rows)
    )


def findings(text: str) -> tuple[DeclarationFinding, ...]:
    """Return what is wrong with a text, which is something."""
    with pytest.raises(DeclarationError) as caught:
        load_declaration(text, "m.yaml")
    return caught.value.findings
