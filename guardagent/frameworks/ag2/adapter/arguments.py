"""The arguments of a tool's function: cast by the host, with defaults, and copied."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.plain_values import opaque_type, plain_arguments, plain_value
from guardagent.errors import InputError
from guardagent.types import FrozenMapping, thaw

_JSON = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class Ag2Arguments:
    """Reads the arguments of a function.

    Attributes:
        spec: the tool's declaration.
        model: the host's model of the function, which casts arguments.
        injected: arguments that the host fills in; they are neither judged nor logged.
        names: the arguments that a model may pass; None if it may pass others.
        defaults: of the function.
    """

    spec: ToolSpec
    model: Any
    injected: frozenset[str]
    names: frozenset[str] | None
    defaults: Mapping[str, Any]

    @classmethod
    def of(cls, tool: Any) -> Ag2Arguments:
        """Reads the declaration of a function tool.

        Raises:
            InputError: its function takes arguments by position only, or of a type that no rule can read.
        """
        function, model = tool.schema.function, tool.model
        if model.args_name is not None:
            raise InputError(f"the tool {tool.name!r} takes arguments by position only; expected named parameters")
        injected = frozenset({*model.dependencies, *model.custom_fields})
        for one in model.params:
            if one.field_name not in injected and (found := opaque_type(one.field_type)) is not None:
                raise InputError(
                    f"{one.field_name!r} of the tool {tool.name!r} is a {found}, which has no lossless form for rules; "
                    "expected a plain type"
                )
        names = frozenset(one.field_name for one in model.params) - injected
        declared = frozenset(function.parameters.get("properties", {})) - injected
        spec = ToolSpec(tool.name, dict(function.parameters), function.description, unlisted_arguments=names)
        accepted = None if model.kwargs_name is not None else names | declared
        return cls(spec, model, injected, accepted, _defaults_of(model, injected))

    def check_names(self, args: Mapping[str, Any]) -> None:
        """Checks the names that a model has passed: the host would take them for what it fills in itself.

        Raises:
            InputError: one is unknown, or of an argument that the host fills in.
        """
        for name in args:
            if name in self.injected or (self.names is not None and name not in self.names):
                raise InputError(f"{self.spec.name!r} has no argument {name!r}")

    def own(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the function will get, and what the host fills in.

        Raises:
            InputError: one cannot be judged.
        """
        apart = {name: value for name, value in kwargs.items() if name in self.injected}
        named = {name: _copy(value, name) for name, value in kwargs.items() if name not in apart}
        left = {name: _copy(value, name) for name, value in self.defaults.items() if name not in named}
        return {**left, **named}, apart

    def judged(self, own: Mapping[str, Any]) -> FrozenMapping:
        """Returns arguments as rules read them.

        Raises:
            InputError: one has no form that rules can read.
        """
        return FrozenMapping(plain_arguments(own))

    def edited(self, args: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the function gets for a reviewer's edits.

        Raises:
            InputError: an argument is unknown; other errors of the host if one does not fit.
        """
        self.check_names(args)
        solved = {**args, **apart}
        cast = self.model.serializer(dict(solved)) if self.model.serializer is not None else {}
        merged = {**solved, **cast}
        return self.own({name: value for name, value in merged.items() if name not in self.injected})[0]


def _defaults_of(model: Any, injected: frozenset[str]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(model.call).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {one.name: one.default for one in parameters if one.default is not one.empty and one.name not in injected}


def same(args: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether two sets of judged arguments are equal, also in their types."""
    return repr(_canonical(thaw(args))) == repr(_canonical(thaw(others)))


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _canonical(value[name]) for name in sorted(value)}
    return [_canonical(item) for item in value] if isinstance(value, list | tuple) else value


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
