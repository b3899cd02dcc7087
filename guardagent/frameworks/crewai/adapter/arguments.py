"""The arguments of a tool, bound to its function, so that what is judged is what the function receives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.utilities.string_utils import sanitize_tool_name

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.hosts import (
    BY_NAME,
    NAMED,
    bound_by_name,
    copied_values,
    read_signature,
    refuse_opaque,
    takes_any_name,
)
from guardagent.errors import InputError

_KINDS = (*BY_NAME, inspect.Parameter.VAR_POSITIONAL)


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
        function = tool.func if isinstance(tool, Tool) else tool._run  # noqa: SLF001 - the host's seam
        signature = read_signature(function, name, kinds=_KINDS)
        named = {one.name for one in signature.parameters.values() if one.kind in NAMED}
        fields = tool.args_schema.model_fields
        if odd := sorted(hidden - named - fields.keys()):
            raise InputError(f"{name!r} has no argument {odd[0]!r} to leave unjudged")
        declared = {one: signature.parameters[one].annotation for one in named}
        declared |= {one: fields[one].annotation for one in fields}
        refuse_opaque(name, declared, hidden, may_hide=True)
        free = not fields and takes_any_name(signature)
        beyond = None if free else frozenset(named) - fields.keys() - hidden
        spec = ToolSpec(name, _schema(tool), tool.description, unlisted_arguments=beyond)
        return cls(spec, signature, tool._validate_kwargs, hidden)  # noqa: SLF001 - the host's seam

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the tool will get, with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = bound_by_name(self.signature, args, kwargs, self.spec.name)
        apart = {name: named.pop(name) for name in self.unjudged & named.keys()}
        return copied_values(named), apart


def _schema(tool: BaseTool) -> dict[str, Any]:
    if not tool.args_schema.model_fields:
        return {}
    try:
        return dict(tool.args_schema.model_json_schema())
    except Exception:  # noqa: BLE001 - a type without a JSON schema; the host validates the arguments itself
        return {"type": "object", "properties": {one: {} for one in tool.args_schema.model_fields}}
