"""The arguments of a tool's function: cast by the host, with defaults, and copied."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.hosts import copied_values, defaults_of, refuse_opaque
from guardagent.errors import InputError
from guardagent.types import FrozenMapping


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
        refuse_opaque(tool.name, {one.field_name: one.field_type for one in model.params}, injected)
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
        named = {name: value for name, value in kwargs.items() if name not in apart}
        left = {name: value for name, value in self.defaults.items() if name not in named}
        return copied_values({**left, **named}), apart

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
        found = defaults_of(inspect.signature(model.call))
    except (TypeError, ValueError):
        return {}
    return {name: default for name, default in found.items() if name not in injected}
