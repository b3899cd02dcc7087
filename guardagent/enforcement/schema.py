"""Validates arguments against the JSON schema of their tool, for hosts that cannot see the tool's own validation.

A remote tool may coerce `"500"`, ignore an unknown name, or fill in a missing argument. So nothing is coerced here:
arguments that do not fit are refused, and defaults are written out. A schema that declares
properties takes no others unless it says so (`additionalProperties`), and never one that differs from a declared name
in case alone. `{"type": "object"}` declares none, and takes any.

A pattern that RE2 cannot compile (such as one with lookahead) is left to the tool, since Python's engine can take
exponential time on a model's text. `unchecked_patterns` lists such patterns.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from guardagent._support import json_values
from guardagent._support.arguments import normalized_name
from guardagent._support.json_values import (
    compile_pattern,
    linear_time_validator,
    matches,
    plain_test,
    without_unevaluated,
)
from guardagent.errors import InputError
from guardagent.types import sorted_json, thaw

_CONDITIONAL = ("anyOf", "oneOf", "if", "then", "else", "dependentSchemas")
"""Keywords of subschemas that apply conditionally: their names are known, their defaults are not certain."""

_OLDER = ("Draft7Validator", "Draft4Validator")
"""Drafts tried for a schema without `$schema` that is not valid under 2020-12."""

_Schemas = list[tuple[Any, bool]]
"""The schemas of one value, each with whether it certainly applies."""


def validate_arguments(tool: str, args: Any, schema: Mapping[str, Any] | str) -> dict[str, Any]:
    """Validates the arguments of a call. Returns them with the schema's defaults.

    Args:
        tool: for messages.
        args: the proposed arguments.
        schema: the tool's JSON schema, or its text by `sorted_json`; an empty one allows no argument.

    Raises:
        InputError: the arguments do not fit; the message names the first error.
    """
    if not isinstance(args, Mapping):
        raise InputError(f"the arguments of {tool!r} are a {type(args).__name__}; expected an object")
    try:
        arguments: dict[str, Any] = thaw(args)
        text = schema if isinstance(schema, str) else sorted_json(schema)
        problem = next(_checker(text).problems(arguments), None)
    except RecursionError:
        raise InputError(f"the arguments of {tool!r}, or its schema, are nested too deeply") from None
    if problem is not None:
        raise InputError(f"the arguments of {tool!r}: {problem}")
    return arguments


def output_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Returns where a tool's output breaks its JSON schema; None if it fits.

    The message has no text of the output, which may be an attack on the model that reads it.
    """
    try:
        return _checker(sorted_json(schema)).break_in(thaw(value))
    except InputError as error:
        return f"its output schema cannot be used: {error}"
    except RecursionError:
        return "it is nested too deeply"


def declared_arguments(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """Returns the names of all arguments that a schema accepts; None if it accepts others, or cannot be read."""
    if not schema:
        return None
    try:
        return _checker(sorted_json(schema)).declared()
    except (InputError, RecursionError):
        return None


def unchecked_patterns(schema: Any) -> list[str]:
    """Returns the patterns of a schema that are not checked here."""
    if isinstance(schema, list | tuple):
        return [pattern for subschema in schema for pattern in unchecked_patterns(subschema)]
    if not isinstance(schema, Mapping):
        return []
    own = [schema.get("pattern"), *_mapping(schema, "patternProperties")]
    odd = [pattern for pattern in own if isinstance(pattern, str) and not _compiles(pattern)]
    return odd + [pattern for subschema in schema.values() for pattern in unchecked_patterns(subschema)]


def read_object(text: str, tool: str) -> dict[str, Any]:
    """Reads the arguments that a model wrote as JSON. Duplicate names and non-JSON constants are refused.

    Raises:
        InputError: the text is not a JSON object.
    """
    try:
        value = json_values.loads(text or "{}")
    except ValueError as error:
        raise InputError(f"the arguments of {tool!r} are not JSON: {error}; expected one object") from None
    if not isinstance(value, dict):
        raise InputError(f"the arguments of {tool!r} are a {type(value).__name__}; expected a JSON object")
    return value


class _SchemaChecker:
    """Checks values against one schema."""

    def __init__(self, schema: Mapping[str, Any], validator: Any, resolver: Any, unresolvable: type[Exception]) -> None:
        self._schema, self._validator = schema, validator
        self._resolver, self._unresolvable = resolver, unresolvable
        self._is_plain = plain_test(schema) or (lambda _: False)

    def problems(self, arguments: dict[str, Any]) -> Iterator[str]:
        """Yields the errors of arguments, and adds their defaults.

        Raises:
            InputError: a reference cannot be resolved within the schema.
        """
        if self._is_plain(arguments):
            return
        try:
            yield from self._walk(arguments, [(self._schema, True)], "")
            errors = sorted(
                self._validator.iter_errors(arguments), key=lambda error: list(map(str, error.absolute_path))
            )
        except self._unresolvable as error:
            raise InputError(f"the tool's schema cannot be followed: {error}") from None
        for schema_error in errors:
            yield f"{'.'.join(map(str, schema_error.absolute_path)) or 'they'}: {schema_error.message[:300]}"

    def break_in(self, value: Any) -> str | None:
        """Returns the first place where a value breaks the schema, and the keyword; None if there is none.

        Raises:
            InputError: a reference cannot be resolved within the schema.
        """
        try:
            error = next(self._validator.iter_errors(value), None)
        except self._unresolvable as unresolvable:
            raise InputError(f"the tool's schema cannot be followed: {unresolvable}") from None
        if error is None:
            return None
        known = {*map(str, _mapping(self._schema, "properties"))}
        path = [str(part) if isinstance(part, int) or part in known else "*" for part in error.absolute_path]
        return f"{'.'.join(path) or 'the value'} breaks {error.validator!r}"

    def declared(self) -> frozenset[str] | None:
        """Returns the names that the schema declares; None if it accepts others.

        Raises:
            InputError: a reference cannot be resolved within the schema.
        """
        try:
            parts = self._parts([(self._schema, True)])
        except self._unresolvable as error:
            raise InputError(f"the tool's schema cannot be followed: {error}") from None
        if not any("properties" in part for part, _ in parts) or _of_others(parts):
            return None
        if any(_mapping(part, "patternProperties") for part, _ in parts):
            return None
        return frozenset(str(name) for part, _ in parts for name in _mapping(part, "properties"))

    def _walk(self, value: Any, schemas: _Schemas, place: str) -> Iterator[str]:
        if isinstance(value, dict):
            yield from self._object(value, self._parts(schemas), place)
        elif isinstance(value, list):
            parts = self._parts(schemas)
            for at, item in enumerate(value):
                yield from self._walk(item, _of_item(parts, at), f"{place}[].")

    def _object(self, value: dict[str, Any], parts: _Schemas, place: str) -> Iterator[str]:
        declared: dict[str, _Schemas] = {}
        for part, certain in parts:
            for name, inner in _mapping(part, "properties").items():
                declared.setdefault(name, []).append((inner, certain))
        yield from self._add_defaults(value, declared, place)
        spelt = {normalized_name(name): name for name in declared}
        closed = bool(declared) or (not place and (not self._schema or any("properties" in part for part, _ in parts)))
        for name, item in value.items():
            inner = declared.get(name, []) + _of_patterns(parts, name)
            if not inner and normalized_name(name) in spelt:
                other = spelt[normalized_name(name)]
                yield f"{place + name!r} is not declared, and some read it as {other!r}; expected that"
            inner = inner or _of_others(parts)
            if not inner and closed:
                yield f"{place + name!r} is not declared; expected {', '.join(sorted(declared)) or 'none'}"
            yield from self._walk(item, inner, f"{place}{name}.")

    def _add_defaults(self, value: dict[str, Any], declared: Mapping[str, _Schemas], place: str) -> Iterator[str]:
        for name, inner in declared.items():
            defaults = [schema["default"] for schema, certain in self._parts(inner) if certain and "default" in schema]
            if name in value or not defaults:
                continue
            fits = all(
                self._validator.evolve(schema=schema).is_valid(defaults[0]) for schema, certain in inner if certain
            )
            if fits:
                value[name] = copy.deepcopy(defaults[0])
            elif defaults[0] is not None:  # null stands for no default, whatever the type
                yield f"{place + name!r} is left out, and its default does not fit its own schema; expected a value"

    def _parts(self, schemas: _Schemas) -> _Schemas:
        """Returns the schemas with their subschemas (references, allOf, conditionals), each once."""
        pending, seen = list(schemas), set()
        parts: _Schemas = []
        for schema, certain in pending:  # `pending` grows during the loop
            if not isinstance(schema, Mapping) or (id(schema), certain) in seen:
                continue
            seen.add((id(schema), certain))
            parts.append((schema, certain))
            references = [schema[word] for word in ("$ref", "$dynamicRef") if isinstance(schema.get(word), str)]
            pending += [(self._resolver.lookup(reference).contents, certain) for reference in references]
            pending += [(subschema, certain) for subschema in _listed(schema.get("allOf"))]
            pending += [(subschema, False) for word in _CONDITIONAL for subschema in _listed(schema.get(word), word)]
        return parts


def _listed(value: Any, word: str = "") -> Iterable[Any]:
    if isinstance(value, list):
        return value
    return value.values() if word == "dependentSchemas" and isinstance(value, dict) else (value,)


def _of_patterns(parts: _Schemas, name: str) -> _Schemas:
    return [
        (inner, certain and matched is True)
        for part, certain in parts
        for pattern, inner in _mapping(part, "patternProperties").items()
        if (matched := matches(pattern, name)) is not False
    ]


def _of_others(parts: _Schemas) -> _Schemas:
    words = ("additionalProperties", "unevaluatedProperties")
    return [(part[word], certain) for part, certain in parts for word in words if part.get(word) not in (None, False)]


def _of_item(parts: _Schemas, at: int) -> _Schemas:
    schemas: _Schemas = []
    for part, certain in parts:
        items = part.get("items")
        first = items if isinstance(items, list) else part.get("prefixItems", [])
        rest = part.get("additionalItems") if isinstance(items, list) else items
        schemas.append((first[at] if at < len(first) else rest, certain))
    return schemas


def _mapping(schema: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    value = schema.get(word)
    return value if isinstance(value, Mapping) else {}


def _compiles(pattern: str) -> bool:
    try:
        return compile_pattern(pattern) is not None
    except InputError:
        return False


@lru_cache(maxsize=1024)
def _checker(text: str) -> _SchemaChecker:
    try:
        import jsonschema
        import referencing.exceptions
        import referencing.jsonschema
    except ImportError:
        raise InputError("validating arguments needs jsonschema; run 'pip install jsonschema'") from None
    schema = json.loads(text)
    kind = linear_time_validator(_validator_class(schema, jsonschema))
    kind = without_unevaluated(kind) if '"patternProperties"' in text else kind
    fetching_nothing = referencing.Registry()
    specification = referencing.jsonschema.specification_with(kind.META_SCHEMA.get("$schema", ""))
    resolver = fetching_nothing.resolver_with_root(specification.create_resource(schema))
    unresolvable = referencing.exceptions.Unresolvable
    return _SchemaChecker(schema, kind(schema, registry=fetching_nothing), resolver, unresolvable)


def _validator_class(schema: Mapping[str, Any], jsonschema: Any) -> Any:
    """Returns the validator class of a schema's draft.

    Raises:
        InputError: the schema is invalid under every draft.
    """
    newest = jsonschema.Draft202012Validator
    declared = jsonschema.validators.validator_for(schema, default=newest)
    problem = None
    for kind in (declared, *[getattr(jsonschema, name) for name in _OLDER if "$schema" not in schema]):
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            problem = problem or error
        else:
            return kind
    assert problem is not None
    raise InputError(f"the tool's schema is invalid: {problem.message[:300]}")
