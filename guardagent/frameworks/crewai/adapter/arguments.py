"""The arguments of a tool, bound to its function, so that what is judged is what the function receives."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.utilities.string_utils import sanitize_tool_name

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.plain_values import opaque_type, plain_value
from guardagent.errors import InputError
from guardagent.types import thaw

_JSON = frozenset({str, int, float, bool, type(None)})
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class CrewArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration, under the name that the model knows.
        signature: of its function.
        validate: the host's own validation, with its coercion and defaults.
        unjudged: arguments that are passed on unchanged, and neither judged nor logged.
    """

    spec: ToolSpec
    signature: inspect.Signature
    validate: Callable[[dict[str, Any]], dict[str, Any]]
    unjudged: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tool: BaseTool, unjudged: Collection[str] = ()) -> CrewArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has no readable signature, an argument of a type that no rule can read, or no argument of a
                name in `unjudged`.
        """
        name, hidden = sanitize_tool_name(tool.name), frozenset(unjudged)
        signature = _signature(tool.func if isinstance(tool, Tool) else tool._run, name)  # noqa: SLF001 - the host's seam
        named = {one.name for one in signature.parameters.values() if one.kind in _NAMED}
        fields = tool.args_schema.model_fields
        if odd := sorted(hidden - named - fields.keys()):
            raise InputError(f"{name!r} has no argument {odd[0]!r} to leave unjudged")
        _refuse_opaque(name, signature, fields, hidden)
        free = not fields and any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
        beyond = None if free else frozenset(named) - fields.keys() - hidden
        spec = ToolSpec(name, _schema(tool), tool.description, unlisted_arguments=beyond)
        return cls(spec, signature, tool._validate_kwargs, hidden)  # noqa: SLF001 - the host's seam

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the tool will get, with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = self._named(args, kwargs)
        apart = {name: named.pop(name) for name in self.unjudged & named.keys()}
        return {name: _copy(value, name) for name, value in named.items()}, apart

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"the arguments of {self.spec.name!r} do not fit: {error}") from None
        bound.apply_defaults()
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL and value:
                raise InputError(f"{self.spec.name!r} takes its arguments by name")
            if kind is not inspect.Parameter.VAR_POSITIONAL:
                named |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
        return named


def as_judged(args: Mapping[str, Any], own: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that run: the judged copies, or a reviewer's edits where they differ.

    Args:
        args: the arguments that may run, as rules read them.
        own: the judged copies.
        plain: the judged copies, as rules read them.
    """
    shown = thaw(plain)
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
        if one.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise InputError(f"{name!r} takes {str(one)!r} by position only; expected named parameters")
    return signature


def _refuse_opaque(name: str, signature: inspect.Signature, fields: Mapping[str, Any], hidden: Collection[str]) -> None:
    declared = {one.name: one.annotation for one in signature.parameters.values() if one.kind in _NAMED}
    for argument, annotation in {**declared, **{one: fields[one].annotation for one in fields}}.items():
        if argument not in hidden and (found := opaque_type(annotation)) is not None:
            raise InputError(
                f"{argument!r} of the tool {name!r} is a {found}, which has no lossless form for rules; expected a "
                "plain type, or name it in unjudged=..."
            )


def _schema(tool: BaseTool) -> dict[str, Any]:
    if not tool.args_schema.model_fields:
        return {}
    try:
        return dict(tool.args_schema.model_json_schema())
    except Exception:  # noqa: BLE001 - a type without a JSON schema; the host validates the arguments itself
        return {"type": "object", "properties": {one: {} for one in tool.args_schema.model_fields}}


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
