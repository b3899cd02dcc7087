"""The tools of a model. Arguments are validated strictly and never repaired."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from guardagent._support.files import parse_json
from guardagent._support.json_values import compile_pattern, linear_time_validator
from guardagent._support.requirements import install_hint
from guardagent.errors import InputError, UnknownNameError
from guardagent.models.redaction import scrub
from guardagent.types import thaw

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_LONGEST = 300  # characters of a schema error
_VALUES = ("const", "default", "enum", "examples")  # keywords that hold values, not schemas


class ToolSet:
    """Tools in the form of the chat completions API: `{"type": "function", "function": {"name", "parameters"}}`.

    `parameters` is a JSON schema (2020-12). Undeclared arguments are refused unless the schema allows additional ones;
    without a schema, the tool takes no arguments. Patterns are RE2, which runs in linear time.

    Raises:
        InputError: a tool or its schema is invalid, or two tools have the same name.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
            raise InputError(f"'tools' is a {type(tools).__name__}; expected a list of tools")
        self.definitions = [thaw(tool) for tool in tools]
        self._tools: dict[str, _ToolValidator] = {}
        for place, tool in enumerate(self.definitions):
            name, schema = _function(tool, place)
            if name in self._tools:
                raise InputError(f"'tools[{place}]' has the name {name!r} of another tool; expected each name once")
            self._tools[name] = _ToolValidator(name, schema)

    def parse(self, name: str, arguments: str) -> dict[str, Any]:
        """Parses the arguments of a call, and adds the defaults of the schema.

        Raises:
            InputError: the tool is unknown, or the arguments are not JSON, repeat a name, or do not fit the schema.
        """
        self._require_known(name)
        return self.validate(name, parse_json(arguments, f"the arguments of {name!r}"))

    def validate(self, name: str, arguments: Any) -> dict[str, Any]:
        """Like `parse`, for arguments that are already parsed.

        Raises:
            InputError: as for `parse`.
        """
        self._require_known(name)
        if not isinstance(arguments, Mapping):
            raise InputError(f"the arguments of {name!r} are a {type(arguments).__name__}; expected a JSON object")
        try:
            text = canonical_json(arguments)
        except (ValueError, TypeError, RecursionError) as error:  # infinity, a lone surrogate, unlimited nesting
            raise InputError(f"the arguments of {name!r} hold a value that JSON cannot represent: {error}") from None
        if scrub(text) != text:
            raise InputError(f"the arguments of {name!r} hold a secret of this process; expected none")
        return self._tools[name].validate(arguments)

    def _require_known(self, name: str) -> None:
        if name not in self._tools:
            raise UnknownNameError("tool", without_surrogates(name), self._tools)


def canonical_json(args: Mapping[str, Any]) -> str:
    """Arguments as a canonical JSON string with sorted keys.

    Raises:
        ValueError: a value is not a JSON value.
    """
    text = json.dumps(thaw(args), sort_keys=True, ensure_ascii=False, allow_nan=False)
    text.encode()  # fails for a lone surrogate
    return text


class _ToolValidator:
    """A tool with the validator of its arguments."""

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self._name = name
        self._validator = _validator(json.dumps(schema), f"the parameters of {name!r}")
        properties = schema.get("properties", {})
        self._defaults = {
            key: property_schema["default"]
            for key, property_schema in properties.items()
            if _has_default(property_schema)
        }

    def validate(self, args: Mapping[str, Any]) -> dict[str, Any]:
        from jsonschema.exceptions import best_match

        complete = {**thaw(self._defaults), **args}
        try:
            error = best_match(self._validator.iter_errors(complete))
        except Exception as problem:  # noqa: BLE001 - an unresolvable reference, unlimited recursion, huge numbers
            raise InputError(f"the arguments of {self._name!r} cannot be validated: {problem}") from None
        if error is None:
            return complete
        place = error.json_path.removeprefix("$").removeprefix(".")
        message = f"{place}: {error.message}" if place else error.message
        raise InputError(
            f"the arguments of {self._name!r} do not fit the schema: {_shortened(without_surrogates(message))}"
        )


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _function(tool: Any, place: int) -> tuple[str, Mapping[str, Any]]:
    function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise InputError(f"'tools[{place}]' is not a tool; expected {{'type': 'function', 'function': {{'name': …}}}}")
    schema = function.get("parameters") or {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(schema, dict):
        raise InputError(f"the parameters of {name!r} are a {type(schema).__name__}; expected a JSON schema")
    try:
        return name, json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the parameters of {name!r} are not JSON: {error}; expected a JSON schema") from None


@lru_cache(maxsize=1024)  # compiling a schema takes 1 to 2 ms, and hosts pass the same schemas at every turn
def _validator(schema_text: str, where: str) -> Validator:
    """Compiles a schema into a validator of arguments.

    Raises:
        InputError: jsonschema is not installed, or the schema is invalid, has a remote reference, or a pattern that is
            not RE2.
    """
    try:
        import jsonschema
        import referencing
    except ImportError:
        raise InputError(f"validating arguments needs jsonschema; {install_hint('chat')}") from None
    schema = json.loads(schema_text)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InputError(f"{where}: {error.json_path}: {error.message[:_LONGEST]}; expected a JSON schema") from None
    _refuse_unsupported(schema, where)
    if not {"additionalProperties", "unevaluatedProperties"} & schema.keys():
        schema = {**schema, "unevaluatedProperties": False}
    fetching_nothing = referencing.Registry()
    validator: Validator = linear_time_validator(jsonschema.Draft202012Validator)(schema, registry=fetching_nothing)
    return validator


def _refuse_unsupported(schema: Mapping[str, Any], where: str) -> None:
    for keyword, value in _keywords(schema):
        if keyword in ("$ref", "$dynamicRef") and not value.startswith("#"):
            raise InputError(f"{where}: {keyword!r} is {value!r}; expected a reference within the same schema")
        if keyword == "pattern":
            compile_pattern(value, where)
        if keyword == "patternProperties":
            raise InputError(f"{where}: 'patternProperties' is not supported; expected 'properties' with their names")


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yields the relevant keywords of a schema and its subschemas, with their values."""
    if isinstance(schema, list):
        for subschema in schema:
            yield from _keywords(subschema)
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if isinstance(value, str) == (keyword != "patternProperties"):  # skips a property of that name
            yield keyword, value
        if keyword not in _VALUES:
            yield from _keywords(value)


def _shortened(text: str) -> str:
    """Keeps the beginning, which has the location, and the end, which has the expectation."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} … {text[-half:]}"


def without_surrogates(text: str) -> str:
    """Replaces lone surrogates, which cannot be sent."""
    return text.encode("utf-8", "replace").decode()
