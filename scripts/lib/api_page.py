"""Writes ``docs/reference/api.md`` from the OpenAPI documents of the tables that serve."""

from __future__ import annotations

from typing import Any

from idkmesh.control_tower import assets
from idkmesh.control_tower.endpoints import control_tower_table
from idkmesh.control_tower.openapi import openapi_document
from idkmesh.control_tower.probes import probe_rows
from idkmesh.control_tower.topology_routes import TOWER_PATH
from idkmesh.router.routes import OPENAPI_PATH, router_document, router_table
from idkmesh.service_runtime import ServiceIdentity, ServiceLimits
from scripts.lib.document_links import anchor

_MARKUP = "]()*_|<>&`\\"


class Nobody:
    """Stands for what a table's endpoints would ask. A table is read here, and nobody asks."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  it stands for anything
        """Return the same for whatever is wanted of it, but for what Python itself looks for."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self) -> bytes:
        """Answer nothing."""
        return b""


def documents() -> dict[str, dict[str, Any]]:
    """Return the OpenAPI document of each service that has routes, by the command."""
    nobody: Any = Nobody()
    identity = ServiceIdentity(service="reference", service_version="0")
    tower = control_tower_table(identity, ServiceLimits(), nobody, nobody, nobody, topology=nobody)
    router = router_table(nobody, nobody, probe_rows(nobody))
    schemas = {name: assets.schema(name) for name in assets.SCHEMA_NAMES}
    return {"control-tower": openapi_document(tower, "0", schemas), "router": router_document(router)}


def api_page() -> str:
    """Return the page."""
    found = documents()
    parts = "\n".join(f"## idkmesh {command}\n\n{_NOTES[command]}\n\n{_paths(found[command])}" for command in found)
    return f"""# HTTP interfaces

Made by `scripts/reference` from the tables of routes that serve; change them there. Each service answers its own as
OpenAPI 3.1: the control tower at `GET /api/v1/openapi.json`, a router at `GET {OPENAPI_PATH}`. HEAD is answered as GET,
without the content. A refusal is the [error envelope](schemas.md#errorjson), or
[problem details](schemas.md#problemjson) where `Accept` asks for them, with a [code](errors.md). Beside both,
`--probe-listen` answers the four probe paths alone, and the readiness adapter three of its own:
[its contract](../specifications/READINESS_ADAPTER_V0_1.md) (RA-8.1).

{parts}"""


_NOTES = {
    "control-tower": "[Its contract](../specifications/CONTROL_TOWER_LOCAL_API_V0_1.md) says who may ask (CT-2).",
    "router": "[Its contract](../specifications/ROUTER_TOPOLOGY_V0_1.md) says who may ask (RT-9). A router beside a "
    f"tower (`--router`)\nhas its own address and the same paths; the tower has `{TOWER_PATH}` then.",
}


def _paths(document: dict[str, Any]) -> str:
    return "\n".join(
        _operation(path, method.upper(), operation, item.get("parameters", []))
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method not in {"head", "parameters"}
    )


def _operation(path: str, method: str, operation: dict[str, Any], of_path: list[dict[str, Any]]) -> str:
    wanted = "a token" if operation["security"] else "no token"
    lines = [f"### {method} {path}", "", f"{operation['summary']} It wants {wanted}.", ""]
    parameters = [*of_path, *operation.get("parameters", [])]
    if parameters:
        lines += ["| parameter | in | takes | meaning |", "|---|---|---|---|", *map(_parameter, parameters), ""]
    if "requestBody" in operation:
        types = ", ".join(_contents(operation["requestBody"]["content"]))
        lines += [f"It reads a body of the type {types}.", ""]
    lines += ["| status | content | meaning |", "|---|---|---|"]
    lines += [_answer(status, answer) for status, answer in operation["responses"].items() if status != "default"]
    return "\n".join([*lines, ""])


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    takes = f"one of {len(schema['enum'])} names" if len(schema.get("enum", ())) > 20 else _takes(schema)
    return f"| `{parameter['name']}` | {parameter['in']} | {takes} | {parameter.get('description', '')} |"


def _takes(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    bounds = [f"{word} {schema[word]}" for word in ("minimum", "maximum", "maxLength") if word in schema]
    form = [pattern(schema["pattern"])] if "pattern" in schema else []
    return ", ".join([str(schema.get("type", "anything")), *bounds, *form])


def pattern(text: str) -> str:
    """Return a pattern as code in which no reader of Markdown finds a link, an emphasis or the end of a cell."""
    return f"<code>{''.join(f'&#{ord(char)};' if char in _MARKUP else char for char in text)}</code>"


def _answer(status: str, answer: dict[str, Any]) -> str:
    return f"| {status} | {'; '.join(_contents(answer['content']))} | {answer['description']} |"


def _contents(content: dict[str, Any]) -> list[str]:
    """Return the types of a body, each with the schema that it has."""
    shown = []
    for name, media in content.items():
        reference = media.get("schema", {}).get("$ref", "")
        schema = f"{reference.rpartition('/')[2]}.json" if reference else ""
        shown.append(f"`{name}`" + (f", [{schema}](schemas.md#{anchor(schema)})" if schema else ""))
    return shown
