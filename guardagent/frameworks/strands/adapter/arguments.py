"""The arguments of a tool, as the host's validation leaves them, so that what is judged is what the tool receives."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from strands.tools.decorator import DecoratedFunctionTool

from guardagent._support.arguments import ambiguous_names
from guardagent._support.requirements import require_parts
from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.hosts import copied_values, refuse_opaque, same_arguments
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, error_text
from guardagent.frameworks.strands.adapter.outcomes import RETURNED


@dataclass(frozen=True, slots=True)
class StrandsArguments:
    """Reads the arguments of a tool, and gives them to it.

    Attributes:
        tool: the tool itself.
        declared: its declaration in the host's form.
        spec: its declaration.
        function: whether it is a function of this process, whose arguments the host validates.
    """

    tool: Any
    declared: Any
    spec: ToolSpec
    function: bool

    @classmethod
    def of(cls, tool: Any) -> StrandsArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has an argument of a type that no rule can read.
        """
        declared = tool.tool_spec
        schema = declared.get("inputSchema") or {}
        spec = ToolSpec(tool.tool_name, schema.get("json", schema), declared.get("description") or "")
        if not (isinstance(tool, DecoratedFunctionTool) and type(tool).stream is DecoratedFunctionTool.stream):
            return cls(tool, declared, spec, function=False)
        require_parts(tool, "_metadata", "_tool_func", "_wrap_tool_result")
        require_parts(tool._metadata, "validate_input", "input_model", "inject_special_parameters")  # noqa: SLF001 - the host's validation has no public name
        fields = tool._metadata.input_model.model_fields  # noqa: SLF001 - as above
        refuse_opaque(spec.name, {name: one.annotation for name, one in fields.items()})
        return cls(tool, declared, replace(spec, unlisted_arguments=frozenset(fields)), function=True)

    def bind(self, proposed: Any) -> dict[str, Any]:
        """Returns copies of the arguments that the tool will get, with defaults.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        if not isinstance(proposed, Mapping):
            kind = type(proposed).__name__
            raise InputError(f"the arguments of {self.spec.name!r} are a {kind}; expected an object")
        if (found := ambiguous_names(proposed)) is not None:  # the host's validation may drop one of them
            raise InputError(f"the arguments of {self.spec.name!r} have {found}; expected only one of them")
        named = self._validated(dict(proposed)) if self.function else self._checked(proposed)
        return copied_values(named)

    def received(self, judged: Mapping[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments that run: the judged copies, or those that a reviewer's edit leads to.

        Raises:
            InputError: the tool would get other arguments than the edited ones.
        """
        if same_arguments(plain_arguments(own), judged):
            return own
        edited = self.bind(judged)
        if not same_arguments(plain_arguments(edited), judged):
            raise InputError(f"{self.spec.name!r} would get other arguments than the judged ones")
        return edited

    def tool_with(self, named: Mapping[str, Any]) -> Any:
        """Returns the tool, so that it runs with these arguments, whatever its validation would make of them."""
        if not self.function:
            return self.tool
        created = copy.copy(self.tool)
        created._metadata = _JudgedMetadata(self.tool._metadata, named)  # noqa: SLF001 - the host's seam
        created._wrap_tool_result = self._wrap  # noqa: SLF001 - as above
        return created

    def _wrap(self, tool_use_id: str, result: Any, exception: Exception | None = None) -> Any:
        event = self.tool._wrap_tool_result(tool_use_id, result, exception=exception)  # noqa: SLF001 - as above
        setattr(event, RETURNED, result)
        return event

    def _validated(self, proposed: dict[str, Any]) -> dict[str, Any]:
        metadata = self.tool._metadata  # noqa: SLF001 - as above
        fields = metadata.input_model.model_fields
        if odd := [name for name in proposed if name not in fields]:
            expected = ", ".join(sorted(fields)) or "none"
            raise InputError(f"{self.spec.name!r} has no argument {str(odd[0])[:80]!r}; expected {expected}")
        try:
            return dict(metadata.validate_input(proposed))
        except ValueError as error:
            raise InputError(f"the arguments of {self.spec.name!r} do not fit: {error_text(error)}") from None

    def _checked(self, proposed: Mapping[str, Any]) -> dict[str, Any]:
        plain = {str(name): plain_value(value, str(name)) for name, value in proposed.items()}
        return validate_arguments(self.spec.name, plain, self.spec.schema)


class _JudgedMetadata:
    """The metadata of a tool whose arguments are validated already."""

    def __init__(self, metadata: Any, named: Mapping[str, Any]) -> None:
        self._metadata, self._named = metadata, named

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metadata, name)

    def validate_input(self, _: Any) -> dict[str, Any]:
        return dict(self._named)
