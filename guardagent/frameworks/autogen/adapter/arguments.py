"""The arguments of a tool, as its function receives them: validated, with defaults, and copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.hosts import refuse_opaque
from guardagent.errors import InputError
from guardagent.types import FrozenMapping

_SERVER_TOOL = "McpToolAdapter"


@dataclass(frozen=True, slots=True)
class AutoGenArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration, under the name by which models call it.
        model: the class of its arguments.
        explicit: whether the tool omits arguments that are not marked as set, so that defaults have to be.
    """

    spec: ToolSpec
    model: type[BaseModel]
    explicit: bool

    @classmethod
    def of(cls, tool: Any, name: str) -> AutoGenArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has an argument of a type that no rule can read.
        """
        model = tool.args_type()
        refuse_opaque(name, {argument: one.annotation for argument, one in model.model_fields.items()})
        schema = tool.schema.get("parameters", {})
        more = frozenset(model.model_fields) if model.model_config.get("extra") != "allow" else None
        spec = ToolSpec(name, dict(schema), tool.description or "", unlisted_arguments=more)
        return cls(spec, model, any(one.__name__ == _SERVER_TOOL for one in type(tool).__mro__))

    def copied(self, args: BaseModel) -> BaseModel:
        """Returns a copy of arguments, which nobody else can change.

        Raises:
            InputError: they cannot be copied.
        """
        try:
            own = args.model_copy(deep=True)
        except Exception as error:  # noqa: BLE001 - whatever a copy raises
            raise InputError(f"the arguments of {self.spec.name!r} cannot be copied: {error}") from None
        if self.explicit:
            own.__pydantic_fields_set__.update(
                name for name in type(own).model_fields if getattr(own, name, None) is not None
            )
        return own

    def judged(self, own: BaseModel) -> FrozenMapping:
        """Returns arguments as rules read them.

        Raises:
            InputError: one has no form that rules can read.
        """
        found = plain_value(own, f"the arguments of {self.spec.name}", frozen=True)
        if not isinstance(found, Mapping):
            raise InputError(f"the arguments of {self.spec.name!r} are a {type(found).__name__}; expected an object")
        return FrozenMapping(found)

    def edited(self, args: Mapping[str, Any]) -> BaseModel:
        """Returns the arguments that a tool gets for a reviewer's edits.

        Raises:
            InputError: an argument is unknown.
            pydantic.ValidationError: one does not fit.
        """
        unknown = [] if self.model.model_config.get("extra") == "allow" else [*args.keys() - self.model.model_fields]
        if unknown:
            raise InputError(f"{self.spec.name!r} has no argument {unknown[0]!r}")
        return self.copied(self.model.model_validate(dict(args)))
