"""JSON values: their conversion to dataclasses and back, strict parsing, and JSON Schema in linear time.

- The annotations of a dataclass are its schema, so it is written once. They may use `str`, `int`, `float`, `bool`,
  `Any`, `Literal` of strings, `tuple[X, ...]`, `frozenset[X]`, `Mapping[str, X]`, `X | None`, `X | str` and
  dataclasses. A field with a default may be missing. No other key is accepted. An underscore at the end of a field's
  name is not part of its key.
- Parsed JSON is what every reader understands alike: no duplicate keys, no NaN or infinity, no overflowing number.
  Rejected input raises a ValueError, or a `json.JSONDecodeError` for a syntax error at a position.
- Patterns in schemas match in linear time, since schemas come from servers and strings from models.
- Most tools declare a few scalars and lists. For such a schema, `plain_test` gives a test that is ten times as fast as
  jsonschema, and true only for values that the whole validation accepts and leaves unchanged. Whatever it rejects, the
  whole validation decides.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, cast, get_args, get_origin, get_type_hints

from guardagent._support import syntax
from guardagent.errors import ContentError, InputError, name_hint

T = TypeVar("T")
Readers = Mapping[Any, Callable[[str], Any]]
_SCALAR_TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


def record_of(kind: type[T], value: Any, place: str = "", readers: Readers | None = None) -> T:
    """Converts a JSON value to a dataclass.

    Args:
        kind: the dataclass.
        value: the result of a JSON parser, or of one of YAML.
        place: the path of keys of the value, for errors.
        readers: read a string as one of these types.

    Raises:
        ValueError: the value is not of this form, or a dataclass or a reader does not accept it; the message has the
            path of keys.
        ContentError: a reader reads another file, which is invalid.
    """
    return cast("T", _value(kind, value, place, readers or {}))


def plain(value: Any) -> Any:
    """Converts a dataclass to a JSON value with the keys in the order of its fields."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def _value(kind: Any, value: Any, place: str, readers: Readers) -> Any:
    parts = get_args(kind)
    if is_dataclass(kind):
        return _record(kind, _expect(dict, value, place, "a mapping"), place, readers)
    if kind in readers:
        return _accepted(partial(readers[kind], _scalar(str, value, place)), place)
    match get_origin(kind):
        case origin if origin in (tuple, frozenset):
            items = _expect(list, value, place, "a list")
            return origin(_value(parts[0], item, f"{place}[{at}]", readers) for at, item in enumerate(items))
        case origin if origin is Mapping:
            return {
                _scalar(str, key, place): _value(parts[1], entry, _below(place, key), readers)
                for key, entry in _expect(dict, value, place, "a mapping").items()
            }
        case origin if origin is UnionType:
            if value is None and NoneType in parts:
                return None
            return _value(str if isinstance(value, str) and str in parts else parts[0], value, place, readers)
        case origin if origin is Literal:
            if value not in parts:
                _fail(place, f"is {_shown(value)}; expected one of {', '.join(map(repr, parts))}")
    return _text(value, place) if kind is Any or kind not in _SCALAR_TYPES else _scalar(kind, value, place)


def _record(kind: Any, values: Mapping[str, Any], place: str, readers: Readers) -> Any:
    known = _schema(kind)
    for name in map(str, values):
        if name not in known:
            _fail(place, f"unknown key {name[:60]!r}{name_hint(name[:60], known)}")
    for name, (known_field, _) in known.items():
        if name not in values and known_field.default is MISSING and known_field.default_factory is MISSING:
            _fail(place, f"the key {name!r} is missing; expected {', '.join(known)}")
    parts = {
        known[name][0].name: _value(known[name][1], value, _below(place, name), readers)
        for name, value in values.items()
    }
    return _accepted(partial(kind, **parts), place)


def _accepted(make: Callable[[], Any], place: str) -> Any:
    try:
        return make()
    except ContentError:
        raise
    except InputError as error:
        _fail(place, str(error))


@lru_cache
def _schema(kind: Any) -> Mapping[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return {field.name.rstrip("_"): (field, hints[field.name]) for field in fields(kind)}


def _scalar(kind: Any, value: Any, place: str) -> Any:
    types, expected = _SCALAR_TYPES[kind]
    if type(value) not in types:
        _fail(place, f"is {_shown(value)}; expected {expected}")
    return _text(value, place)


def _text(value: Any, place: str) -> Any:
    """The value, if all of its strings are Unicode: JSON can escape half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        _fail(place, "contains half of a surrogate pair; expected complete characters")
    except RecursionError:
        _fail(place, "is nested too deep; expected fewer levels")
    return value


def _expect(kind: type, value: Any, place: str, expected: str) -> Any:
    if not isinstance(value, kind):
        _fail(place, f"is {_shown(value)}; expected {expected}")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _fail(place: str, problem: str) -> NoReturn:
    raise ValueError(f"{place}: {problem}" if place else problem)


def loads(text: str | bytes | bytearray, **hooks: Any) -> Any:
    """Returns the value of a JSON string; bytes are UTF-8.

    Raises:
        ValueError: it is not JSON, or ambiguous.
    """
    try:
        return _shared_decoder(**hooks).decode(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def decoder(**hooks: Any) -> json.JSONDecoder:
    """Returns a strict decoder; `hooks` override those of `json.JSONDecoder` that are set here."""
    strict = {"object_pairs_hook": unique_keys, "parse_constant": _no_constant, "parse_float": _finite}
    return json.JSONDecoder(**strict | hooks)


_shared_decoder = lru_cache(8)(decoder)


def plain_value(text: str) -> Any:
    """Parses JSON like `loads`, in half the time for a short string without space around its value."""
    try:
        value, end = _scan(text, 0)
    except (StopIteration, RecursionError, ValueError):
        return loads(text)  # for its error
    return value if end == len(text) else loads(text)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Rejects a duplicate key, since readers differ in which value counts."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(duplicate_key_message(next(key for key in keys if keys.count(key) > 1)))
    return fields


def duplicate_key_message(key: str) -> str:
    return f"key {key!r} appears twice; expected it once"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


_scan = decoder().scan_once  # type: ignore[attr-defined]


def linear_time_validator(kind: Any) -> Any:
    """Returns a jsonschema validator class with RE2 patterns and exact decimals.

    A pattern that RE2 rejects matches everything.
    """
    import jsonschema

    extend: Any = jsonschema.validators.extend
    return extend(
        kind,
        {
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
            "type": _nullable_type(kind.VALIDATORS["type"]),
            "multipleOf": _multiple_of,
        },
    )


def without_unevaluated(kind: Any) -> Any:
    """Drops `unevaluatedProperties`, which would match `patternProperties` with Python's engine."""
    import jsonschema

    extend: Any = jsonschema.validators.extend
    return extend(kind, {"unevaluatedProperties": lambda *_: ()})


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str, where: str = "pattern") -> Any:
    """Compiles a pattern of a schema.

    Raises:
        InputError: it is not an RE2 regular expression.
    """
    try:
        return syntax.compile_pattern(pattern)
    except syntax.PatternError:
        raise InputError(f"{where}: {pattern!r} is not an RE2 regular expression; expected one") from None


def matches(pattern: str, text: str) -> bool | None:
    """Returns whether a pattern occurs in a string; None if RE2 cannot compile the pattern."""
    try:
        return compile_pattern(pattern).search(text) is not None
    except InputError:
        return None
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    import jsonschema

    if isinstance(value, str) and matches(pattern, value) is False:
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, _: Any) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    for pattern, schema in patterns.items():
        for name, item in value.items():
            if matches(pattern, name):  # if that is unknown, the tool itself decides
                yield from validator.descend(item, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, others: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    import jsonschema

    if not isinstance(value, dict):
        return
    patterns = schema.get("patternProperties", {})
    for name, item in value.items():
        if name in schema.get("properties", {}) or any(matches(pattern, name) is not False for pattern in patterns):
            continue
        if others is False:
            yield jsonschema.ValidationError(f"{name!r} is not declared")
        else:
            yield from validator.descend(item, others, path=name)


def _multiple_of(validator: Any, divisor: Any, value: Any, _: Any) -> Iterator[Any]:
    """`multipleOf` of the decimals that numbers print as: 19.99 is a multiple of 0.01."""
    import jsonschema

    if validator.is_type(value, "number") and not (
        math.isfinite(value) and (_exact(value) / _exact(divisor)).denominator == 1
    ):
        yield jsonschema.ValidationError(f"{value!r} is not a multiple of {divisor!r}")


def _exact(number: Any) -> Fraction:
    return Fraction(number if type(number) is int else str(number))


def _nullable_type(validate: Any) -> Any:
    """Returns `type` with the `nullable` of OpenAPI, which many servers use."""

    def checked(validator: Any, types: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if value is not None or schema.get("nullable") is not True:
            yield from validate(validator, types, value, schema) or ()

    return checked


Test = Callable[[Any], bool]

_ANNOTATIONS = frozenset({"title", "description", "examples", "default", "deprecated"})
_SCALAR_TESTS: dict[str, Test] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
}


def plain_test(schema: Any) -> Test | None:
    """Returns the test of a schema; None if the schema has keywords that only the whole validation knows."""
    if not isinstance(schema, Mapping):
        return None
    match {word: keyword for word, keyword in schema.items() if word not in _ANNOTATIONS}:
        case {"type": str(kind), **none} if kind in _SCALAR_TESTS and not none:
            return _SCALAR_TESTS[kind]
        case {"type": "string", "enum": list(values), **none} if not none:
            return lambda value: type(value) is str and value in values
        case {"type": "array", "items": item, **none} if not none:
            return _list_test(item)
        case {"anyOf": list(options), **none} if options and not none:
            return _any_test(options)
        case {"type": "object", "properties": Mapping() as properties, **others}:
            return _object_test(properties, others)
        case _:
            return None


def _list_test(item: Any) -> Test | None:
    fits = plain_test(item)
    return None if fits is None else lambda value: type(value) is list and all(map(fits, value))


def _any_test(options: list[Any]) -> Test | None:
    tests = [plain_test(option) for option in options]
    known = [test for test in tests if test is not None]
    return (lambda value: any(fits(value) for fits in known)) if len(known) == len(tests) else None


def _object_test(properties: Mapping[str, Any], others: Mapping[str, Any]) -> Test | None:
    tests = {name: test for name, schema in properties.items() if (test := plain_test(schema)) is not None}
    required = others.get("required", [])
    known = others.keys() <= {"required", "additionalProperties", "$schema"} and isinstance(required, list)
    if (
        not known
        or not tests
        or len(tests) < len(properties)
        or not all(isinstance(required_name, str) for required_name in required)
    ):
        return None
    # A default that is left out is written out by the whole validation.
    needed = {*required, *(name for name, schema in properties.items() if "default" in schema)}

    def fits(value: Any) -> bool:
        if type(value) is not dict or not needed <= value.keys():
            return False
        return all(name in tests and tests[name](item) for name, item in value.items())

    return fits
