"""The OpenAPI document of the API, made from the table of its routes and from the models."""

from __future__ import annotations

import re
from typing import Any

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from framehold_fleet.models.nodes import ErrorView

from .access import Need
from .routes import BASE, ROUTES, Route
from .sources import VERSION

_REF = "#/components/schemas/{model}"
_ALWAYS = (400, 421, 500)
_WHY = {
    400: "A parameter or the body is wrong; the text names it",
    401: "The token is missing or wrong",
    403: "The token that this needs is not set, or the read token was shown for an action",
    404: "There is no such thing",
    409: "It can't be done now; the text says why",
    413: "The body is too long",
    421: "The router does not answer to the Host of the request",
    500: "A bug",
    502: "A node did not answer: the text says whether it was done",
    503: "It can't be answered at present; try again",
}
_ACCESS: dict[Need, list[dict[str, list[str]]]] = {
    Need.OPEN: [],
    Need.READ: [{}, {"bearer": []}, {"basic": []}],
    Need.ACTION: [{"bearer": []}],
}


def document() -> dict[str, Any]:
    """The whole document."""
    views = [route.view for route in ROUTES if route.view is not None]
    given = [model for route in ROUTES for model in (route.query, route.body) if model is not None]
    modes: list[tuple[Any, JsonSchemaMode]] = [(model, "serialization") for model in {*views, ErrorView}]
    modes += [(model, "validation") for model in set(given)]
    modes.sort(key=lambda pair: str(pair[0].__name__))
    names, definitions = models_json_schema(modes, ref_template=_REF)
    schemas: dict[str, Any] = definitions["$defs"]
    paths: dict[str, Any] = {}
    for route in ROUTES:
        query = schemas[_name(names[route.query, "validation"])]
        paths.setdefault(BASE + route.path, {})[route.method.lower()] = _operation(route, query)
    for model in {route.query for route in ROUTES}:
        del schemas[_name(names[model, "validation"])]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Framehold", "version": VERSION, "description": "A running fleet: its nodes and calls."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The admin token; for reads also the read token",
                },
                "basic": {"type": "http", "scheme": "basic", "description": "Any user, one of the tokens as password"},
            },
        },
    }


def _operation(route: Route, query: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.answers,
        "summary": route.summary,
        "security": _ACCESS[route.need],
        "parameters": _parameters(route, query),
        "responses": {str(route.status): _good(route), **_errors(route)},
    }
    if route.body is not None:
        content = {"application/json": {"schema": {"$ref": _REF.format(model=route.body.__name__)}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(route: Route, query: dict[str, Any]) -> list[dict[str, Any]]:
    text = {"type": "string"}
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in re.findall(r"{(\w+)}", route.path)
    ]
    for name, schema in query.get("properties", {}).items():
        about = next((kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}), schema)
        about = {key: value for key, value in about.items() if key not in ("description", "title")}
        found.append({"name": name, "in": "query", "required": name in query.get("required", ()), "schema": about})
    if route.listed:
        found.append({"name": "format", "in": "query", "schema": {"enum": ["json", "csv"], "default": "json"}})
    return found


def _good(route: Route) -> dict[str, Any]:
    text: dict[str, Any] = {"schema": {"type": "string"}}
    if route.view is not None:
        content = {"application/json": {"schema": {"$ref": _REF.format(model=route.view.__name__)}}}
        if route.listed:
            content["text/csv"] = text
    elif route.path == "stream":
        content = {"text/event-stream": text}
    else:
        content = {"application/json": {"schema": {"type": "object"}}}
    return {"description": route.summary, "content": content}


def _errors(route: Route) -> dict[str, Any]:
    statuses = {*_ALWAYS, *route.errors}
    statuses |= {Need.OPEN: set(), Need.READ: {401, 403}, Need.ACTION: {401, 403}}[route.need]
    statuses |= {413} if route.body is not None else set()
    content = {"application/json": {"schema": {"$ref": _REF.format(model=ErrorView.__name__)}}}
    return {str(status): {"description": _WHY[status], "content": content} for status in sorted(statuses)}


def _name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"].rpartition("/")[2])
