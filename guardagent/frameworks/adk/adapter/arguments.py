"""The arguments of a tool, as its function receives them, so that these are judged."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from guardagent._support.arguments import ambiguous_names
from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.hosts import JSON_SCALARS, copied_values, refuse_opaque, value_copy
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError
from guardagent.types import EMPTY

ANY: Mapping[str, Any] = {"type": "object"}
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def require_distinct(name: str, args: Any) -> None:
    """Raises InputError if two names in the model's arguments are equal for some readers."""
    if isinstance(args, Mapping) and (found := ambiguous_names(args)) is not None:
        raise InputError(f"the arguments of {name!r} have {found}; expected only one of them")


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """The arguments of one call.

    Attributes:
        own: copies of those that are judged.
        apart: those that the host or the operator fills in.
    """

    own: dict[str, Any]
    apart: dict[str, Any]


def bind_function(tool: Any, args: Mapping[str, Any], unjudged: Collection[str]) -> BoundArguments:
    """Returns the arguments of a FunctionTool, after the host's conversion, with the function's defaults.

    Raises:
        InputError: they do not fit, or one cannot be judged.
    """
    hidden = {tool._context_param_name, *unjudged}  # noqa: SLF001 - the host has no public name for it
    apart = {name: value for name, value in args.items() if name in hidden or _is_injected(tool, name, value)}
    own = copied_values({name: value for name, value in args.items() if name not in apart})
    _require_fit(tool, args)
    for name, default in shape_of(tool.func).defaults.items():
        if name not in args and name not in tool._ignore_params:  # noqa: SLF001 - as above
            own[name] = value_copy(default, name)
    return BoundArguments(own, apart)


def _require_fit(tool: Any, args: Mapping[str, Any]) -> None:
    """Raises InputError if a function lacks an argument, or does not take one; the host checks only the model's."""
    shape = shape_of(tool.func)
    unknown = [name for name in args if name not in shape.names] if shape.names is not None else []
    missing = [one for one in shape.required if one not in args and one not in tool._ignore_params]  # noqa: SLF001
    if unknown or missing:
        problem = f"there is no {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        raise InputError(f"the arguments of {tool.name!r} do not fit: {problem}")


def bind_schema(tool: Any, args: Any, unjudged: Collection[str]) -> BoundArguments:
    """Returns the arguments of another tool, which fit its declaration, with the declaration's defaults.

    Raises:
        InputError: they do not fit.
    """
    require_distinct(tool.name, args)
    apart = {name: value for name, value in args.items() if name in unjudged}
    own = {name: value for name, value in args.items() if name not in apart}
    schema = schema_of(tool)
    required = [one for one in schema.get("required", ()) if one not in apart]
    checked = validate_arguments(tool.name, own, {**schema, "required": required} if apart else schema)
    return BoundArguments(copied_values(checked), apart)


def spec_of(tool: Any, unjudged: Collection[str] = ()) -> ToolSpec:
    """Returns the declaration of a tool.

    Raises:
        InputError: an argument is of a type that no rule can read.
    """
    function = getattr(tool, "func", None)
    beyond = None if function is not None and shape_of(function).names is None else frozenset[str]()
    hints = getattr(getattr(tool, "_spec", None), "type_hints", {})
    refuse_opaque(tool.name, hints, {*getattr(tool, "_ignore_params", ()), *unjudged, "return"}, may_hide=True)
    return ToolSpec(tool.name, schema_of(tool), tool.description or "", unlisted_arguments=beyond)


def schema_of(tool: Any) -> Mapping[str, Any]:
    """Returns the JSON schema of a tool's arguments; that of any object if it declares none."""
    declaration = tool._get_declaration()  # noqa: SLF001 - the host has no public name for it
    schema = getattr(declaration, "parameters_json_schema", None)
    if isinstance(schema, Mapping):
        return schema
    parameters = getattr(declaration, "parameters", None)
    if parameters is None:
        return ANY
    found: Mapping[str, Any] = parameters.json_schema.model_dump(mode="json", exclude_none=True, by_alias=True)
    return found


@dataclass(frozen=True, slots=True)
class FunctionShape:
    """The parameters of a function.

    Attributes:
        names: their names; None if it takes any, or if it has no readable signature.
        required: those without a default.
        defaults: the others'. A default that rules cannot read is a constant of the operator's.
    """

    names: frozenset[str] | None
    required: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


def shape_of(function: Any) -> FunctionShape:
    """Returns the parameters of a function; reads each function once."""
    try:
        return _shape(function)
    except TypeError:  # not hashable
        return _shape.__wrapped__(function)


@lru_cache(maxsize=1024)
def _shape(function: Any) -> FunctionShape:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return FunctionShape(None)
    named = {name: one.default for name, one in parameters.items() if one.kind not in _VARIADIC}
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return FunctionShape(
        None if takes_any else frozenset(parameters),
        tuple(name for name, one in named.items() if one is inspect.Parameter.empty),
        {name: one for name, one in named.items() if one is not inspect.Parameter.empty and _is_plain(one)},
    )


def _is_injected(tool: Any, name: str, value: Any) -> bool:
    """Whether the host has filled in an argument, such as a credential; the model can only write JSON."""
    return name in tool._ignore_params and type(value) not in {*JSON_SCALARS, dict, list}  # noqa: SLF001 - as above


def _is_plain(value: Any) -> bool:
    try:
        plain_value(value)
    except InputError:
        return False
    return True
