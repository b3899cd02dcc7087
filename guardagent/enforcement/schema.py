"""Arguments held to the JSON schema of their tool: for hosts where the tool itself is out of reach.

What a tool far away makes of `"500"`, of a name that it does not know, or of an argument that is left out is not known
here. So nothing is coerced: what does not fit is refused, undeclared names are refused, and defaults are written out.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from guardagent.errors import InputError
from guardagent.json_schema import linear
from guardagent.types import thaw

_DEEPEST = 50


def completed(tool: str, args: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call with the defaults of the schema.

    Args:
        tool: for messages.
        args: as proposed.
        schema: the tool's JSON schema; an empty one allows no argument.

    Raises:
        InputError: they do not fit; with the first place.
    """
    if not isinstance(args, Mapping):
        raise InputError(f"the arguments of {tool} are a {type(args).__name__}; expected an object")
    try:
        given: dict[str, Any] = _with_defaults(thaw(args), schema, schema)
        problems = [*_undeclared(given, schema, schema, ""), *_misfits(given, schema)]
    except RecursionError:
        raise InputError(f"the arguments of {tool}, or its schema, are nested without end") from None
    if problems:
        raise InputError(f"the arguments of {tool}: {problems[0]}")
    return given


def read_object(text: str, tool: str) -> dict[str, Any]:
    """The arguments that a model wrote as JSON. A name given twice is refused, and so is what JSON does not have.

    Raises:
        InputError: they are no JSON object.
    """
    try:
        value = json.loads(text or "{}", object_pairs_hook=unique_names, parse_constant=no_constant, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the arguments of {tool} are no JSON: {error}; expected one object") from None
    if not isinstance(value, dict):
        raise InputError(f"the arguments of {tool} are a {type(value).__name__}; expected a JSON object")
    return value


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json.loads`: of a name that is given twice, nobody knows which one counts elsewhere."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def no_constant(name: str) -> Any:
    """For `json.loads`: NaN and infinities are refused."""
    raise ValueError(f"{name} is no number of JSON")


def finite(text: str) -> float:
    """For `json.loads`: a number that only becomes infinite here would be another one elsewhere."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _with_defaults(value: Any, schema: Any, whole: Mapping[str, Any], depth: int = 0) -> Any:
    if depth > _DEEPEST or not isinstance(value, dict | list):
        return value
    for part in _alternatives(schema, whole, certain=True):
        if isinstance(value, list):
            value[:] = [_with_defaults(item, part.get("items"), whole, depth + 1) for item in value]
            continue
        for name, inner in _properties(part).items():
            if name in value:
                value[name] = _with_defaults(value[name], inner, whole, depth + 1)
                continue
            defaults = [one["default"] for one in _alternatives(inner, whole, certain=True) if "default" in one]
            value |= {name: copy.deepcopy(defaults[0])} if defaults else {}
    return value


def _undeclared(value: Any, schema: Any, whole: Mapping[str, Any], place: str) -> Iterator[str]:
    """Names that no part of the schema declares: what a tool does with them cannot be known."""
    parts = list(_alternatives(schema, whole))
    if isinstance(value, dict):
        declared = {name for part in parts for name in _properties(part)}
        open_to = [
            part["additionalProperties"] for part in parts if part.get("additionalProperties") not in (None, False)
        ]
        patterns = any(part.get("patternProperties") for part in parts)
        typed = any(_properties(part) for part in parts)
        if not patterns and not open_to and (typed or not place):
            yield from (
                f"{place + name!r} is not declared; expected {', '.join(sorted(declared)) or 'none'}"
                for name in value
                if name not in declared
            )
        for name, item in value.items():
            for part in parts:
                if name in _properties(part):
                    yield from _undeclared(item, _properties(part)[name], whole, f"{place}{name}.")
    elif isinstance(value, list):
        for part in parts:
            for item in value:
                yield from _undeclared(item, part.get("items", {}), whole, f"{place}[].")


def _alternatives(schema: Any, whole: Mapping[str, Any], *, certain: bool = False) -> Iterator[Mapping[str, Any]]:
    """A schema and what it is put together from, each once; `certain` only what holds of every value."""
    found: list[Any] = [schema]
    seen: set[int] = set()
    for one in found:  # it grows while it is gone through
        if not isinstance(one, Mapping) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        reference = one.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            found.append(_at(whole, reference))
        for word in ("allOf",) if certain else ("allOf", "anyOf", "oneOf"):
            parts = one.get(word)
            found += parts if isinstance(parts, list | tuple) else ()


def _at(whole: Mapping[str, Any], reference: str) -> Any:
    found: Any = whole
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901 - as JSON Pointer writes them
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _misfits(value: Any, schema: Mapping[str, Any]) -> list[str]:
    validator, unresolvable = _validator(json.dumps(thaw(schema), sort_keys=True, default=repr))
    try:
        errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    except unresolvable as error:  # a reference that leads nowhere, or out of the schema
        raise InputError(f"the tool's schema cannot be followed: {error}") from None
    return [f"{'.'.join(map(str, error.absolute_path)) or 'they'}: {error.message[:300]}" for error in errors]


@lru_cache(maxsize=1024)
def _validator(text: str) -> Any:
    try:
        import jsonschema
        import referencing.exceptions
    except ImportError:
        raise InputError("holding arguments to a schema needs jsonschema; pip install jsonschema") from None
    schema = json.loads(text)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InputError(f"the tool's schema is none: {error.message[:300]}") from None
    fetching_nothing = referencing.Registry()
    return linear(kind)(schema, registry=fetching_nothing), referencing.exceptions.Unresolvable
