"""The schema of a Python function, from its type hints and its docstring."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

from guardagent.errors import InputError, error_text
from guardagent.translation.tools import ToolSchema

_SECTION = re.compile(
    r"^(?:Args|Arguments|Parameters|Returns|Return|Raises|Yields|Examples?|Notes?):?\s*$|^:\w+", re.MULTILINE
)
_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):?\s*\n(?:-+\n)?(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_GOOGLE = re.compile(r"^(\s+)\*{0,2}(\w+)[^\n:]{0,100}:[ \t]*(.*(?:\n\1\s+\S.*)*)", re.MULTILINE)
_FIELD = re.compile(r"^:param (?:\w+ )?(\w+):[ \t]*(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)


def schema_of_function(fn: Callable[..., Any], name: str = "") -> ToolSchema:
    """Returns the schema of a function's arguments. An argument without a type hint can be anything.

    Raises:
        InputError: an argument has no JSON schema, or cannot be passed by name.
    """
    name = name or getattr(fn, "__name__", "")
    where = f"the function {name!r}"
    if not name or name == "<lambda>":
        raise InputError(f"{fn!r} has no name; expected a named function")
    try:
        signature = inspect.signature(fn)
        hints = typing.get_type_hints(_plain(fn), include_extras=True)
    except Exception as error:  # noqa: BLE001 - annotations are code of the host
        raise InputError(f"{where} has annotations that cannot be read: {error_text(error)}") from None
    doc = inspect.getdoc(fn) or ""
    definitions: dict[str, Any] = {}
    properties = {}
    described = _descriptions(doc)
    for one in signature.parameters.values():
        if one.kind is one.VAR_KEYWORD:
            continue
        if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
            raise InputError(f"{where}: the argument {one.name!r} has no name in a call; expected named arguments")
        schema = _json_schema(hints.get(one.name, Any), f"{where}: the argument {one.name!r}", definitions)
        properties[one.name] = {**schema, **_default(one), **_described(described.get(one.name), schema)}
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    named = [one for one in signature.parameters.values() if one.name in properties]
    parameters["required"] = [one.name for one in named if one.default is one.empty]
    parameters["additionalProperties"] = len(named) < len(signature.parameters)
    if definitions:
        parameters["$defs"] = definitions
    return ToolSchema(name, _SECTION.split(doc, maxsplit=1)[0].strip(), parameters, _output_schema(hints))


def _plain(fn: Any) -> Any:
    """Returns the function that has the annotations."""
    found = inspect.unwrap(getattr(fn, "func", fn))
    return found if inspect.isroutine(found) else type(found).__call__


def _json_schema(hint: Any, where: str, definitions: dict[str, Any]) -> dict[str, Any]:
    from pydantic import TypeAdapter

    try:
        schema = dict(TypeAdapter(hint).json_schema())
    except Exception as error:  # noqa: BLE001 - pydantic raises many types, and types have code of their own
        reason = error_text(error).partition("\n")[0]
        raise InputError(f"{where} has a type without JSON schema: {reason:.200}; expected a plain type") from None
    for name, definition in schema.pop("$defs", {}).items():
        if definitions.setdefault(name, definition) != definition:
            raise InputError(f"{where}: two types are named {name!r}; expected each name once")
    return schema


def _output_schema(hints: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the schema of the returned value; None if it is not annotated, or has none."""
    from pydantic import TypeAdapter

    if hints.get("return") in (None, type(None), Any):
        return None
    try:
        return TypeAdapter(hints["return"]).json_schema(mode="serialization")
    except Exception:  # noqa: BLE001 - as above; an output without schema is known by its samples
        return None


def _default(parameter: inspect.Parameter) -> dict[str, Any]:
    if parameter.default is parameter.empty:
        return {}
    try:
        json.dumps(parameter.default, allow_nan=False)
    except (TypeError, ValueError):
        return {}
    return {"default": parameter.default}


def _described(text: str | None, schema: Mapping[str, Any]) -> dict[str, str]:
    return {"description": text} if text and "description" not in schema else {}


def _descriptions(doc: str) -> dict[str, str]:
    """The descriptions of arguments in a docstring: a section 'Args:' or fields ':param name:'."""
    section = _ARGUMENTS.search(doc)
    found = {match[2]: match[3] for match in _GOOGLE.finditer(section[1])} if section else {}
    found |= {match[1]: match[2] for match in _FIELD.finditer(doc)}
    return {name: " ".join(text.split()) for name, text in found.items()}
