"""Makes the page on how to write a probe matrix, of the table that its loader judges by and of tried examples."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Final

import yaml

from idkmesh.health.matrix_file import MAX_FILE_BYTES
from idkmesh.health.matrix_rules import DEPENDENCY, MATRIX, MAX_DEPENDENCIES, PROBES
from idkmesh.validation.shapes import OneOf, Record, Shape

EXAMPLES: Final[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "docs" / "reference" / "matrix-examples.yaml").read_text(encoding="utf-8")
)

EXTRA: Final = {
    "grpc": "It needs the extra: `pip install 'idkmesh[grpc]'`, in a checkout `pip install '.[grpc]'`.",
    "command": "No shell reads it: a pipeline goes into a script of its own, which stands in `argv`.",
    "http": "A secret never stands in the file: `headers_from_env` names the variable that holds it.",
    "python": "It is called in the process that probes, so the module has to be installed there.",
}
"""What a reader of one kind has to know besides its members."""


def wanted(shape: Shape) -> str:
    """Return in words what a member takes."""
    if isinstance(shape, Record):
        return "a mapping"
    return "one key, [the kind](#kinds-of-probes)" if isinstance(shape, OneOf) else shape.wanted


def table(record: Record) -> str:
    """Return the members of a mapping as a table, those that must be there in bold."""
    rows = (
        f"| {f'**`{name}`**' if name in record.required else f'`{name}`'} | {wanted(shape)} | {shape.meaning} |"
        for name, shape in record.members.items()
    )
    return "\n".join(("| key | takes | |", "|---|---|---|", *rows))


def kind_section(name: str) -> str:
    """Return the section about one kind of probe."""
    record = PROBES[name]
    either = " or ".join(f"`{key}`" for key in record.any_of)
    needs = f"\n\nOne at least of {either} is there." if either else ""
    extra = f"\n\n{EXTRA[name]}" if name in EXTRA else ""
    example = textwrap.indent(EXAMPLES["kinds"][name].rstrip(), "  ")
    return f"""### {name}

{record.meaning}{extra}

{table(record)}{needs}

```yaml
probe:
{example}
```
"""


def member(name: str) -> Record:
    """Return a part of the file that is a mapping."""
    shape = MATRIX.members[name]
    assert isinstance(shape, Record)  # noqa: S101  the table is this project's own
    return shape


def matrix_page() -> str:
    """Return ``matrix.md``."""
    kinds = "\n".join(kind_section(name) for name in PROBES)
    figures = member("orchestrator").members["liveness"]
    assert isinstance(figures, Record)  # noqa: S101  as above
    relations = "\n".join(f"| {row['says']} | {row['why']} | `{row['rule']}` |" for row in EXAMPLES["relations"])
    return f"""# How to write a probe matrix

Made by `scripts/reference` from the table in `idkmesh/health/matrix_rules.py` and from `matrix-examples.yaml`; change
it there.

A probe matrix says what a program depends on, how each dependency is asked, and how the orchestrator asks the program.
Begin with this, and put your own dependencies in:

```yaml
{EXAMPLES["whole"].rstrip()}
```

1. For each dependency ask: can the program answer anything useful while it is down? If not, it is critical.
2. Choose the [kind](#kinds-of-probes) that asks for the least that proves it works.
3. Copy the orchestrator's figures from the manifest, or choose them here and have `idkmesh probes manifest` print it.
4. `idkmesh probes run FILE` asks each dependency once, and says every mistake in the file with line and column.
   `idkmesh inspect FILE` says what is allowed and does harm.

Times are whole milliseconds. Keys in bold must be there; unknown keys are refused. The file is YAML without anchors,
aliases and tags, of at most {MAX_FILE_BYTES:,} bytes and {MAX_DEPENDENCIES:,} dependencies. On SIGHUP the
control tower and `idkmesh serve` read it again: put it in place whole, written beside and then renamed. Its
[schema](../../idkmesh/schemas/probe-matrix.json) is for editors.

## The file

{table(MATRIX)}

## orchestrator

{table(member("orchestrator"))}

Each of the three has

{table(figures)}

## watchdog

{member("watchdog").meaning}

{table(member("watchdog"))}

## dependencies

{table(DEPENDENCY)}

## What holds between figures

What breaks one of these is refused with the word at the right.

| rule | why | |
|---|---|---|
{relations}

Names of dependencies stand once.

## Kinds of probes

A run that fails says that the dependency is down. A run that could not be made (no such program, no such module) says
nothing of it: the dependency is unknown, which for a critical one is not ready either.

{kinds}"""
