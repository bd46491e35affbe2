"""Writes ``docs/reference/schemas.md``: each published schema with its members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from idkmesh.control_tower import assets
from scripts.lib.document_links import anchor
from scripts.lib.settings_page import paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]


def schemas_page() -> str:
    """Return the page."""
    schemas = {name: assets.schema(name) for name in assets.SCHEMA_NAMES}
    listed = "\n".join(f"| [{name}](#{anchor(name)}) | {schema['title']} |" for name, schema in schemas.items())
    sections = "\n".join(section(name, schema, schemas) for name, schema in schemas.items())
    return f"""# Schemas

Made by `scripts/reference` from the files in `idkmesh/schemas/`; change it there, or in the table that a file is made
of. A control tower answers each at `GET /api/v1/schemas/NAME` (CT-7.2), and the package carries them.

A member in bold is there wherever what it stands in is. `[]` stands for the items of a list, `*` for a name that is not
known before.

| schema | |
|---|---|
{listed}

{sections}"""


def section(name: str, schema: Schema, schemas: dict[str, Schema]) -> str:
    """Return the section of one schema."""
    names = {other["$id"]: other_name for other_name, other in schemas.items() if "$id" in other}
    rows = "\n".join(_row(*member, names) for member in members(schema, schema))
    table = f"\n| member | takes | meaning |\n|---|---|---|\n{rows}\n" if rows else ""
    about = paragraph(f"{schema['title']}. {schema.get('description', '')}".strip())
    return f"## {name}\n\n{about}\n{table}"


def members(schema: Schema, root: Schema, path: str = "") -> Iterator[tuple[str, bool, Schema]]:
    """Return each member below a schema: its path, whether it is always there beside its neighbours, what it takes."""
    schema = resolved(schema, root)
    for name, member in schema.get("properties", {}).items():
        if not isinstance(member, dict):
            continue
        here = f"{path}.{name}" if path else name
        yield here, name in schema.get("required", ()), resolved(member, root)
        yield from members(member, root, here)
    if isinstance(schema.get("items"), dict):
        yield from members(schema["items"], root, f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from members(schema["additionalProperties"], root, f"{path}.*" if path else "*")
    also = [schema[key] for key in ("then", "else") if key in schema]
    for one in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), *schema.get("allOf", ()), *also):
        if isinstance(one, dict):
            yield from members(one, root, path)


def resolved(schema: Schema, root: Schema) -> Schema:
    """Return what a reference within the same schema leads to, with what stands beside it."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/"):
        return schema
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return {**found, **{key: value for key, value in schema.items() if key != "$ref"}}


def _row(path: str, required: bool, schema: Schema, names: dict[str, str]) -> str:  # noqa: FBT001  a part of a member
    shown = f"**`{path}`**" if required else f"`{path}`"
    return f"| {shown} | {_takes(schema, names)} | {schema.get('description', '').replace('|', chr(92) + '|')} |"


def _takes(schema: Schema, names: dict[str, str]) -> str:
    if "$ref" in schema:
        name = names[schema["$ref"]]
        return f"[{name}](#{anchor(name)})"
    if "const" in schema:
        return f"`{_plain(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{_plain(value)}`" for value in schema["enum"])
    kinds = schema.get("type", "anything")
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if isinstance(schema.get("items"), dict):
        text = text.replace("array", f"array of {_takes(schema['items'], names)}")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None or high is not None:
        text += f" {'' if low is None else f'from {low:,}'}{'' if high is None else f' to {high:,}'}"
    return " ".join(text.split())


def _plain(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
