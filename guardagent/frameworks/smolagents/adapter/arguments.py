"""The arguments of a tool: bound to its signature, and copied, so that what was judged is what runs."""

from __future__ import annotations

import copy
import datetime as dt
import inspect
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.hosts import bound_by_name, named_by_schema, read_signature
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError

_ATOMS = frozenset(
    {str, int, float, bool, type(None), Decimal, bytes, uuid.UUID, dt.date, dt.datetime, dt.time, dt.timedelta}
)
_SEQUENCES = frozenset({list, tuple, set, frozenset})
_SELF = frozenset({"self"})  # which `@tool` declares for a static function
_DEEPEST = 100
_COMBINED = frozenset({"anyOf", "oneOf", "allOf", "$ref"})


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration.
        signature: of its function; None if it takes whatever its schema declares.
        unjudged: arguments that are passed on unchanged, and neither judged nor logged.
    """

    spec: ToolSpec
    signature: inspect.Signature | None
    unjudged: frozenset[str] = frozenset()

    @classmethod
    def of_tool(cls, tool: Any, unjudged: Collection[str] = ()) -> ToolArguments:
        """Reads the declaration of a tool of smolagents.

        Raises:
            InputError: the tool has no argument of a name in `unjudged`.
        """
        generic = getattr(tool, "skip_forward_signature_validation", False) is True
        signature = None if generic else read_signature(tool.forward, tool.name, omit=_SELF - tool.inputs.keys())
        spec = ToolSpec(tool.name, _schema(tool.inputs), tool.description)
        return cls(spec, signature, _known(unjudged, tool.inputs, tool.name))

    @classmethod
    def of_function(cls, function: Callable[..., Any], name: str, unjudged: Collection[str] = ()) -> ToolArguments:
        """Reads the signature of a function that generated code may call.

        Raises:
            InputError: it has none.
        """
        signature = read_signature(function, name, omit=_SELF)
        schema = {"type": "object", "properties": {one: {} for one in signature.parameters}}
        spec = ToolSpec(name, schema, inspect.getdoc(function) or "")
        return cls(spec, signature, _known(unjudged, signature.parameters, name))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the tool will get, with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = self._named(args, kwargs)
        apart = {name: named.pop(name) for name in self.unjudged & named.keys()}
        judged = {name: value_copy(value, f"{name} of {self.spec.name}") for name, value in named.items()}
        if self.signature is None:
            judged = validate_arguments(self.spec.name, judged, self.spec.schema)
        return judged, apart

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self.signature is None:
            return named_by_schema(self.spec.schema, args, kwargs, self.spec.name)
        return bound_by_name(self.signature, args, kwargs, self.spec.name)


def value_copy(value: Any, place: str, depth: int = 0) -> Any:
    """Returns a deep copy of a value of plain types, exactly: a subclass could show rules another value.

    Raises:
        InputError: the value is of another type.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if depth > _DEEPEST:
        raise InputError(f"{place[:80]} is nested too deeply, or contains itself")
    if kind in _SEQUENCES:
        return kind(value_copy(item, f"{place}[]", depth + 1) for item in copy.copy(value))
    if kind is dict:
        return {
            value_copy(name, f"a key of {place}", depth + 1): value_copy(item, f"{place}.{name}", depth + 1)
            for name, item in dict(value).items()
        }
    raise InputError(
        f"{place[:80]} is a {kind.__name__}, which cannot be judged and copied; expected plain values, "
        "or name the argument in unjudged=... if no rule needs it"
    )


def _schema(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a tool's `inputs` as a JSON schema."""
    required = [name for name, one in inputs.items() if not one.get("nullable") and "default" not in one]
    properties = {name: _property(one) for name, one in inputs.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _property(declared: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: one for name, one in declared.items() if name != "nullable"}
    kinds = [found["type"]] if isinstance(found.get("type"), str) else list(found.get("type") or ())
    if _COMBINED & found.keys() or {"any", "image", "audio"} & set(kinds):
        found.pop("type", None)
    elif declared.get("nullable"):
        found["type"] = [*kinds, "null"]
    return found


def _known(unjudged: Collection[str], names: Collection[str], tool: str) -> frozenset[str]:
    if odd := sorted(set(unjudged) - set(names)):
        raise InputError(f"{tool!r} has no argument {odd[0]!r} to leave unjudged")
    return frozenset(unjudged)
