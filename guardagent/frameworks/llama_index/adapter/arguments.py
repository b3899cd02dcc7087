"""The arguments of a tool, bound to its function, so that what is judged is what the function receives."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.tools import FunctionTool

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.plain_values import opaque_type, plain_arguments, plain_value
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError
from guardagent.types import thaw

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_JSON = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class LlamaArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration.
        signature: of its function; None if it takes whatever its schema declares.
        schema: the JSON schema, if there is no signature.
        unjudged: arguments that the host or the operator fills in; they are neither judged nor logged.
    """

    spec: ToolSpec
    signature: inspect.Signature | None
    schema: Mapping[str, Any]
    unjudged: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tool: Any, unjudged: Collection[str] = ()) -> LlamaArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has no readable signature, or an argument of a type that no rule can read.
        """
        name = tool.metadata.get_name()
        schema = tool.metadata.get_parameters_dict()
        if not isinstance(tool, FunctionTool):
            return cls(ToolSpec(name, schema, tool.metadata.description or ""), None, schema, frozenset(unjudged))
        hidden = frozenset({*unjudged, *([tool.ctx_param_name] if tool.ctx_param_name else ())})
        signature = _signature(tool.real_fn, name)
        generic = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in signature.parameters.values())
        for one in signature.parameters.values():
            if one.name not in hidden and (found := opaque_type(one.annotation)) is not None:
                raise InputError(
                    f"{one.name!r} of the tool {name!r} is a {found}, which has no lossless form for rules; expected a "
                    "plain type, or name it in unjudged=..."
                )
        beyond = None if generic else frozenset(signature.parameters) - hidden
        spec = ToolSpec(name, schema, tool.metadata.description or "", unlisted_arguments=beyond)
        return cls(spec, None if generic else signature, _closed(schema, tool), hidden)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the arguments that the tool will get, with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = self._named(args, kwargs)
        apart = {name: named.pop(name) for name in self.unjudged & named.keys()}
        if self.signature is None:
            named = validate_arguments(self.spec.name, named, self.schema)
        return {name: _copy(value, name) for name, value in named.items()}, apart

    def judged(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the arguments as rules read them.

        Raises:
            InputError: one has no form that rules can read.
        """
        return plain_arguments(named)

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self.signature is None:
            names = tuple(self.schema.get("properties", ()))
            if len(args) > len(names) or set(names[: len(args)]) & kwargs.keys():
                raise InputError(f"the arguments of {self.spec.name!r} do not fit; expected {', '.join(names)}")
            return {**dict(zip(names, args, strict=False)), **kwargs}
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"the arguments of {self.spec.name!r} do not fit: {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)


def _copy(value: Any, place: str) -> Any:
    """Returns a deep copy of JSON values; others are checked for a form that rules can read."""
    if type(value) in _JSON:
        return value
    if type(value) is dict:
        return {name: _copy(item, f"{place}.{name}") for name, item in value.items()}
    if type(value) is list:
        return [_copy(item, f"{place}[]") for item in value]
    try:
        plain_value(value, place)
        return copy.deepcopy(value)
    except Exception as error:  # noqa: BLE001 - whatever a copy raises
        raise InputError(f"{place} cannot be judged and copied: {error}") from None


def as_judged(args: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that run: the judged copies, or a reviewer's edits where they differ."""
    shown = thaw(plain_arguments(own))
    return {
        name: own[name] if name in own and repr(shown[name]) == repr(value) else value for name, value in args.items()
    }


def _signature(function: Any, name: str) -> inspect.Signature:
    try:
        signature = inspect.signature(function)
        with contextlib.suppress(Exception):  # an annotation may name what is not there at run time
            signature = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError):
        raise InputError(f"{name!r} has no readable signature; wrap it in a function that has one") from None
    for one in signature.parameters.values():
        if one.kind not in (*_NAMED, inspect.Parameter.VAR_KEYWORD):
            raise InputError(f"{name!r} takes {str(one)!r} by position only; expected named parameters")
    return signature


def _closed(schema: Mapping[str, Any], tool: FunctionTool) -> Mapping[str, Any]:
    """Returns a schema that takes no other arguments, with those that the operator has filled in."""
    filled: dict[str, Any] = {name: {} for name in tool.partial_params}
    return {**schema, "properties": {**schema.get("properties", {}), **filled}}
