"""The OpenAPI document of the interface, made from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from guardagent._version import __version__
from guardagent.server.access.caller import PERMITTED
from guardagent.server.http.routes import ApiRoute
from guardagent.server.service.requests import MAX_LIMIT

_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "where": {"type": "string"}},
            "required": ["code", "message", "where"],
        },
        "verdict": {"$ref": "#/components/schemas/Verdict"},
    },
    "required": ["error"],
}
_VERDICT = {
    "type": "object",
    "properties": {
        "label": {"enum": [0, 1]},
        "decision": {"enum": ["allow", "warn", "deny", "escalate", "halt"]},
        "reasons": {"type": "array", "items": {"type": "string"}},
        "violations": {"type": "array", "items": {"type": "object"}},
        "errors": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["label", "decision", "reasons", "violations", "errors"],
}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
_OPTIONS = {
    **dict.fromkeys(("after", "cursor", "wait"), _NUMBER),
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
}
_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    "description": "A repeated request with the same key gets the same answer, and does nothing more.",
}


def openapi_document(routes: Iterable[ApiRoute]) -> dict[str, Any]:
    """Returns the document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "GuardAgent", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR, "Verdict": _VERDICT},
        },
    }


def _operation(route: ApiRoute) -> dict[str, Any]:
    roles = ", ".join(sorted(PERMITTED.get(route.operation, ()))) or "nobody"
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": _OPTIONS.get(name, {"type": "string"})}
        for name, text in route.query.items()
    ]
    found: dict[str, Any] = {
        "summary": route.summary,
        "description": f"Roles: {roles}.",
        "operationId": _name(route),
        "parameters": [*parameters, *([] if route.body is None else [_HEADER])],
        "responses": {str(route.status): _success(route), "default": _described("An error.", "Error")},
    }
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": route.body.schema}}}
    return found


def _success(route: ApiRoute) -> dict[str, Any]:
    if route.kind != "application/json":
        return {"description": route.summary, "content": {route.kind: {"schema": {"type": "string"}}}}
    schema: dict[str, Any] = {"type": "object"}
    if route.has_verdict:
        schema |= {"properties": {"verdict": {"$ref": "#/components/schemas/Verdict"}}, "required": ["verdict"]}
    return {"description": route.summary, "content": {"application/json": {"schema": schema}}}


def _described(text: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": text, "content": content}


def _name(route: ApiRoute) -> str:
    parts = [one.strip("{}").replace(".json", "") for one in route.path.split("/")[1:] if one != "v1"]
    return "_".join([route.method.lower(), *parts])
