"""Makes JSON Schema of the tables that loaders judge by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from idkmesh.validation.shapes import Case, Choice, Figure, Flag, ListOf, MapOf, OneOf, Record, Shape, Text

DIRECTORY = Path(__file__).parents[2] / "idkmesh" / "schemas"


def document(shape: Record, name: str, title: str, beyond: str) -> dict[str, Any]:
    """Return a whole published schema; ``beyond`` says what it leaves to whoever reads the file."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:idkmesh:schema:{name}:0.1",
        "title": title,
        "description": f"{shape.meaning} {beyond}".strip(),
    }
    return head | {key: part for key, part in schema_of(shape).items() if key not in head}


def text(schema: dict[str, Any]) -> str:
    """Return the text of a file."""
    return json.dumps(schema, indent=2) + "\n"


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
    if shape.one_of:
        schema["oneOf"] = [{"required": [name]} for name in shape.one_of]
    if shape.cases:
        schema["allOf"] = [case_schema(case) for case in shape.cases]
    return schema


def case_schema(case: Case) -> dict[str, Any]:
    """Return the schema of what holds besides where a key is there, or has a value."""
    given: dict[str, Any] = {"required": [case.key]}
    if case.word is not None:
        given = {"properties": {case.key: {"const": case.word}}} | given
    then: dict[str, Any] = {}
    if case.required:
        then["required"] = list(case.required)
    if case.one_of:
        then["oneOf"] = [{"required": [name]} for name in case.one_of]
    if case.foreign:
        then["properties"] = dict.fromkeys(case.foreign, False)
    return {"if": given, "then": then}


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
        case MapOf():
            keys = {"propertyNames": schema_of(shape.key), "additionalProperties": schema_of(shape.value)}
            least = {"minProperties": shape.least} if shape.least else {}
            return {"type": "object"} | least | {"maxProperties": shape.most} | keys | about
        case Record():
            return record_schema(shape) | about
        case OneOf():
            members = {name: schema_of(member) for name, member in shape.members.items()}
            bounds = {"additionalProperties": False, "minProperties": 1, "maxProperties": 1}
            return {"type": "object", "properties": members} | bounds | about
