"""Makes the published JSON Schema of the probe matrix of the table that its loader judges by. A test compares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from idkmesh.health.matrix_rules import MATRIX
from idkmesh.health.shapes import Choice, Figure, Flag, ListOf, OneOf, Record, Shape, Text, TextMap

FILE = Path(__file__).parents[2] / "idkmesh" / "schemas" / "probe-matrix.json"


def text_schema(shape: Text) -> dict[str, Any]:
    """Return the schema of a text. A pattern of the table is for the whole text, one of JSON Schema for a part."""
    schema: dict[str, Any] = {"type": "string", "pattern": f"^(?:{shape.pattern})$"}
    if shape.least:
        schema["minLength"] = shape.least
    schema["maxLength"] = shape.most
    if shape.never is not None:
        schema["not"] = {"pattern": f"^(?:{shape.never.pattern})$"}
    return schema


def list_schema(shape: ListOf) -> dict[str, Any]:
    """Return the schema of a list."""
    schema: dict[str, Any] = {"type": "array", "minItems": shape.least, "maxItems": shape.most}
    if shape.first is not None:
        schema["prefixItems"] = [schema_of(shape.first)]
    return schema | {"items": schema_of(shape.item)}


def record_schema(shape: Record) -> dict[str, Any]:
    """Return the schema of a mapping with known keys."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: schema_of(member) for name, member in shape.members.items()},
        "required": list(shape.required),
        "additionalProperties": False,
    }
    if shape.any_of:
        schema["anyOf"] = [{"required": [name]} for name in shape.any_of]
    return schema


def schema_of(shape: Shape) -> dict[str, Any]:  # noqa: PLR0911  one a shape
    """Return the schema of a shape."""
    about = {"description": shape.meaning}
    match shape:
        case Text():
            return text_schema(shape) | about
        case Choice(words=(word,)):
            return {"const": word} | about
        case Choice():
            return {"enum": list(shape.words)} | about
        case Flag():
            return {"type": "boolean"} | about
        case Figure():
            kind = "number" if shape.fraction else "integer"
            return {"type": kind, "minimum": shape.least, "maximum": shape.most} | about
        case ListOf():
            return list_schema(shape) | about
        case TextMap():
            keys = {"propertyNames": schema_of(shape.key), "additionalProperties": schema_of(shape.value)}
            return {"type": "object", "maxProperties": shape.most} | keys | about
        case Record():
            return record_schema(shape) | about
        case OneOf():
            members = {name: schema_of(member) for name, member in shape.members.items()}
            bounds = {"additionalProperties": False, "minProperties": 1, "maxProperties": 1}
            return {"type": "object", "properties": members} | bounds | about


def document() -> dict[str, Any]:
    """Return the whole schema."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:idkmesh:schema:probe-matrix:0.1",
        "title": "Probe matrix",
        "description": MATRIX.meaning + " What no schema can say (names that stand once, timing that can come about) "
        "is refused by whoever reads the file.",
    }
    return head | {name: part for name, part in schema_of(MATRIX).items() if name not in head}


def text() -> str:
    """Return the file's text."""
    return json.dumps(document(), indent=2) + "\n"


def main() -> None:
    """Write the file."""
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
