"""The arguments of a tool, after the host's validation, so that what is judged is what the tool receives."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_origin

from pydantic_ai import RunContext

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.hosts import copied_values, refuse_opaque, same_arguments
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError
from guardagent.types import thaw


@dataclass(frozen=True, slots=True)
class PydanticArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration.
        schema: the JSON schema, if the host does not validate by it.
        defaults: the defaults of the tool's function.
        validator: the host's.
        single: the name of the only parameter, if the model writes the fields of its value as arguments.
    """

    spec: ToolSpec
    schema: Mapping[str, Any] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    validator: Any = None
    single: str | None = None

    @classmethod
    def of(cls, name: str, tool: Any) -> PydanticArguments:
        """Reads the declaration of a tool, as its toolset lists it.

        Raises:
            InputError: an argument has a type that no rule can read.
        """
        definition, made_of = tool.tool_def, schema_of(tool)
        schema, described = definition.parameters_json_schema, definition.description
        return cls.declared(name, schema, described, tool.args_validator, made_of)

    @classmethod
    def declared(
        cls, name: str, schema: Mapping[str, Any], description: str | None, validator: Any, made_of: Any
    ) -> PydanticArguments:
        """Reads the declaration of a tool.

        Args:
            name: as the model knows it.
            schema: the JSON schema of its arguments.
            description: for the model.
            validator: the host's.
            made_of: the host's description of its function; None for other tools.

        Raises:
            InputError: an argument has a type that no rule can read.
        """
        function = getattr(made_of, "function", None)
        single = getattr(made_of, "single_arg_name", None)
        parameters = [] if function is None else parameters_of(function)
        refuse_opaque(name, {one.name: one.annotation for one in parameters})
        defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
        generic = function is None or any(one.kind is one.VAR_KEYWORD for one in parameters)
        beyond = None if generic else frozenset(one.name for one in parameters)
        shown = schema if single is None else {"type": "object", "properties": {single: schema}}
        spec = ToolSpec(name, shown, description or "", unlisted_arguments=beyond)
        strict = schema if _unvalidated(validator, function) else None
        return cls(spec, strict, defaults, validator, single)

    def bind(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns copies of the arguments that the tool will get, with defaults.

        Args:
            args: after the host's validation.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = dict(args) if self.schema is None else validate_arguments(self.spec.name, args, self.schema)
        named = {**{name: one for name, one in self.defaults.items() if name not in named}, **named}
        return copied_values(named)

    def rebind(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """As `bind`, of arguments as rules read them, which a reviewer has edited.

        Raises:
            InputError: they do not fit the tool.
        """
        raw: Any = thaw(shown)
        if self.single is not None:
            raw = raw.get(self.single) if set(raw) == {self.single} else raw
        try:
            return self.bind(raw if self.validator is None else self.validator.validate_python(raw))
        except ValueError as error:
            raise InputError(f"the edited arguments of {self.spec.name!r} do not fit: {error}") from None

    def live(self, args: Mapping[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments that run: the judged copies, or a reviewer's edits.

        Raises:
            InputError: the tool would read the edits in another way than they were judged.
        """
        if same_arguments(plain_arguments(own), args):
            return own
        edited = self.rebind(args)
        if not same_arguments(plain_arguments(edited), args):
            raise InputError(f"the edited arguments of {self.spec.name!r} have no unique form")
        return edited


def schema_of(tool: Any) -> Any:
    """Returns the host's description of a tool's function; None for a tool that it did not make of a function."""
    schema = getattr(getattr(tool, "call_func", None), "__self__", None)
    return schema if hasattr(schema, "function") else None


def parameters_of(function: Any) -> list[inspect.Parameter]:
    """Returns the parameters of a function that the model fills in."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except Exception:  # noqa: BLE001 - an annotation may name what is not there at run time
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return []
    return [one for one in parameters if not _is_context(one.annotation)]


def _is_context(annotation: Any) -> bool:
    named = annotation.partition("[")[0].rpartition(".")[2] if isinstance(annotation, str) else None
    return annotation is RunContext or get_origin(annotation) is RunContext or named == "RunContext"


def _unvalidated(validator: Any, function: Any) -> bool:
    """Whether a validator takes anything: then the tool's JSON schema is applied strictly."""
    probes = (object(),) if function is not None else (object(), {"guardagent": object()})
    return any(_takes(validator, one) for one in probes)


def _takes(validator: Any, value: Any) -> bool:
    try:
        return bool(validator.validate_python(value) == value)
    except Exception:  # noqa: BLE001 - a validator of the host's or the program's
        return False
