"""The OpenAPI 3.1 document of a service, made from the table of routes that serves (CT-7.1, RT-9.10)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh.httpd.responses import JSON, PROBLEM_JSON, Response, json_body
from idkmesh.httpd.routes import Access, Answer, Probe, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.httpd.routes import EventStream, Parameter, RouteTable


class About(NamedTuple):
    """What a document says of its service beside the table. ``tokens`` are OpenAPI's security schemes by name."""

    title: str
    description: str
    tokens: Mapping[str, Mapping[str, str]]


BEARER: Final = {"type": "http", "scheme": "bearer"}
TOWER: Final = About(
    "IDKMesh control tower",
    "The local, read-only API of one node. Every path but the probes needs a loopback Host; every path under /api/ "
    "needs the session token. Refusals are the error envelope, or RFC 9457 problem details where Accept asks for them.",
    {"bearer": BEARER, "uiToken": {"type": "apiKey", "in": "header", "name": "X-IDKMesh-UI-Token"}},
)


def openapi_route(path: str, document: Callable[[], dict[str, Any]]) -> Route:
    """Return the route that answers the document of the table that it is in, made when it is first asked for.

    It is kept as bytes: to make it takes ten times the memory, and as many at once as there are workers.
    """
    content = functools.cache(lambda: json_body(document()))
    return Route(
        method="GET",
        path=path,
        access=Access.API,
        endpoint=lambda _request, _body: Response(200, (), content()),
        operation="getOpenApi",
        summary="This API as an OpenAPI 3.1 document.",
        answers=(Answer(status=200, meaning="An OpenAPI 3.1 document.", content_types=(JSON,)),),
    )


def openapi_document(
    table: RouteTable, version: str, schemas: Mapping[str, Mapping[str, Any]], about: About = TOWER
) -> dict[str, Any]:
    """Return the document for ``table``. ``schemas`` are the published ones by file name; answers refer to them."""
    paths: dict[str, dict[str, Any]] = {}
    for probe in table.probes:
        paths[probe.path] = _operations(probe, ("GET", "HEAD"), about)
    for route in table.routes:
        paths.setdefault(route.path, _path_parameters(route)).update(_operations(route, route.methods(), about))
    if table.stream is not None:
        paths[table.stream.path] = _operations(table.stream, table.stream.methods(), about)
    identifiers = {schema["$id"]: name for name, schema in schemas.items() if "$id" in schema}
    return {
        "openapi": "3.1.0",
        "info": {"title": about.title, "version": version, "description": about.description},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {_component(name): _embedded(schema, identifiers) for name, schema in schemas.items()},
            "securitySchemes": {name: dict(scheme) for name, scheme in about.tokens.items()},
            "responses": {"Refusal": _refusal()},
        },
    }


def _path_parameters(route: Route) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if route.names:
        schema["enum"] = list(route.names)
    elif route.name_form is not None:
        schema["pattern"] = f"^{route.name_form}$"
    else:
        return {}
    return {"parameters": [{"name": "name", "in": "path", "required": True, "schema": schema}]}


def _operations(row: Route | EventStream | Probe, methods: tuple[str, ...], about: About) -> dict[str, Any]:
    return {method.lower(): _operation(row, "Head" if method == "HEAD" else "", about) for method in methods}


def _operation(row: Route | EventStream | Probe, suffix: str, about: About) -> dict[str, Any]:
    answers = {str(answer.status): _answer(answer) for answer in row.answers}
    document: dict[str, Any] = {
        "operationId": row.operation + suffix,
        "summary": row.summary,
        "security": [],
        "responses": answers | {"default": {"$ref": "#/components/responses/Refusal"}},
    }
    if row.access is Access.API:
        document["security"] = [{name: []} for name in about.tokens]
    if isinstance(row, Probe):
        return document
    if row.parameters:
        document["parameters"] = [_parameter(parameter) for parameter in row.parameters]
    if isinstance(row, Route) and row.body_types:
        body = {} if row.body_schema is None else {"schema": _reference(row.body_schema)}
        document["requestBody"] = {"required": True, "content": dict.fromkeys(row.body_types, body)}
    return document


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.meaning,
        "schema": dict(parameter.schema),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    media: dict[str, Any] = {} if answer.schema is None else {"schema": _reference(answer.schema)}
    return {"description": answer.meaning, "content": dict.fromkeys(answer.content_types, media)}


def _refusal() -> dict[str, Any]:
    return {
        "description": "A refusal; its code says which.",
        "headers": {"X-Request-ID": {"schema": {"type": "string"}}},
        "content": {
            JSON: {"schema": _reference("error.json")},
            PROBLEM_JSON: {"schema": _reference("problem.json")},
        },
    }


def _reference(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{_component(schema)}"}


def _embedded(value: Any, identifiers: Mapping[str, str]) -> Any:  # noqa: ANN401  a JSON value
    """Return a schema, or a part of one, whose references to other published ones lead within this document."""
    if isinstance(value, list):
        return [_embedded(item, identifiers) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _reference(identifiers[part])["$ref"]
        if name == "$ref" and part in identifiers
        else _embedded(part, identifiers)
        for name, part in value.items()
    }


def _component(schema: str) -> str:
    return schema.removesuffix(".json")
