"""Arguments whose values are not known yet, and their JSON schemas."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from guardagent.errors import InputError
from guardagent.policy.language.values import Unknown, exact, kind_of
from guardagent.policy.logic.expressions import conj, is_whole, less, neg, size
from guardagent.policy.logic.operations import Operations
from guardagent.policy.logic.symbols import KINDS
from guardagent.policy.logic.values import ScalarValue, Value


@dataclass(frozen=True, slots=True)
class Open:
    """An argument whose value is not known yet.

    Attributes:
        schema: a JSON schema of the value, or None for any value.
    """

    schema: Mapping[str, Any] | None = None


OPEN: Final = Open()


def reject_nested_open(args: Mapping[str, Any]) -> None:
    """Rejects arguments that contain `Open` inside a list or mapping.

    Raises:
        InputError: an argument contains `Open`.
    """
    for name, value in args.items():
        if not isinstance(value, Open) and _has_open(value):
            problem = f"argument {name!r} contains 'Open'; expected 'Open' as the whole argument only"
            raise InputError(problem)


def _has_open(value: Any) -> bool:
    kind = kind_of(value)
    inside = value.values() if kind == "mapping" else value if kind == "list" else ()
    return isinstance(value, Open) or any(_has_open(one) for one in inside)


_KINDS = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "boolean": "truth",
    "array": "list",
    "object": "mapping",
}
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "readOnly"})
_READ = _ANNOTATIONS | {
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
}  # fmt: skip
_LEAST = {"text": "minLength", "number": "minimum"}
_MOST = {"text": "maxLength", "number": "maximum"}


def choices(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    """Returns all values that a schema allows if there are few, else None."""
    if "const" in schema:
        return [schema["const"]]
    if isinstance(found := schema.get("enum"), list | tuple):
        return found
    types = _types(schema)
    if types is None or not set(types) <= {"boolean", "null"}:
        return None
    return [one for kind in types for one in ((True, False) if kind == "boolean" else (None,))]


def _types(schema: Mapping[str, Any]) -> list[str] | None:
    types = schema.get("type")
    return [types] if isinstance(types, str) else list(types) if isinstance(types, list | tuple) else None


def open_value(operations: Operations, key: Hashable, schema: Mapping[str, Any]) -> Value:
    """Returns a symbolic value that covers every value that a schema allows, and possibly more."""
    symbols = operations.symbols
    few = choices(schema)
    if few is not None:
        leaves = [leaf for one in few for _, leaf in operations.constant(one).cases]
        return symbols.one_of(leaves, known=None not in few and bool(leaves))
    types = _types(schema) or [*_KINDS, "null"]
    kinds = [kind for kind in KINDS if any(_KINDS.get(one) == kind for one in types)]
    value = symbols.any_value(key, kinds=kinds, known="null" not in types and bool(kinds))
    for guard, leaf in value.cases:
        if isinstance(leaf, ScalarValue):
            symbols.axioms += [neg(conj(guard, neg(limit))) for limit in _limits(leaf, schema, types)]
    return value


def _limits(leaf: ScalarValue, schema: Mapping[str, Any], types: Sequence[str]) -> list[Any]:
    """Returns a schema's limits of a number or of a string's length."""
    if leaf.kind == "truth":
        return []
    amount = size(leaf.payload) if leaf.kind == "text" else leaf.payload
    found = [neg(less(amount, low)) for low in _bound(schema, _LEAST[leaf.kind])]
    found += [neg(less(high, amount)) for high in _bound(schema, _MOST[leaf.kind])]
    if leaf.kind == "number":
        found += [less(low, amount) for low in _bound(schema, "exclusiveMinimum")]
        found += [less(amount, high) for high in _bound(schema, "exclusiveMaximum")]
        found += [is_whole(amount)] if "number" not in types and "integer" in types else []
    return found


def _bound(schema: Mapping[str, Any], name: str) -> list[Any]:
    bound = schema.get(name)
    number = exact(bound) if kind_of(bound) == "number" else Unknown()
    return [] if type(number) is Unknown else [number]


def schema_allows(schema: Mapping[str, Any], value: Any) -> bool | None:
    """Returns whether a schema allows a value, or None if it has unsupported keywords."""
    few = choices(schema)
    if few is not None and not any(type(one) is type(value) and one == value for one in few):
        return False
    if value is None or kind_of(value) is None:
        return _types(schema) is None or "null" in (_types(schema) or ())
    types = _types(schema)
    if types is not None and not any(_is(value, one) for one in types):
        return False
    if not all(_within(schema, value)):
        return False
    return True if schema.keys() <= _READ else None


def _is(value: Any, kind: str) -> bool:
    found = {"truth value": "truth"}.get(kind_of(value) or "", kind_of(value))
    return _KINDS.get(kind) == found and (kind != "integer" or _whole(value))


def _whole(value: Any) -> bool:
    number = exact(value)
    return type(number) is int


def _within(schema: Mapping[str, Any], value: Any) -> list[bool]:
    kind = kind_of(value)
    if kind not in ("number", "text"):
        return []
    amount: Any = len(value) if kind == "text" else exact(value)
    if type(amount) is Unknown:
        return [False]
    found = [low <= amount for low in _bound(schema, _LEAST[kind])]
    found += [amount <= high for high in _bound(schema, _MOST[kind])]
    if kind == "number":
        found += [low < amount for low in _bound(schema, "exclusiveMinimum")]
        found += [amount < high for high in _bound(schema, "exclusiveMaximum")]
    return found
