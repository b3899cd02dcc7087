"""The arguments of a tool, at its function, so that what is judged is what the function receives."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from agent_framework import FunctionTool

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.hosts import (
    NAMED,
    annotations_of,
    copied_values,
    defaults_of,
    read_signature,
    refuse_opaque,
    same_arguments,
)
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, error_text
from guardagent.frameworks.agent_framework.adapter.host_names import KEPT_FROM_SERVERS
from guardagent.frameworks.agent_framework.adapter.servers import server_of


@dataclass(frozen=True, slots=True)
class FunctionToolArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration.
        tool: the tool itself.
        signature: of its function.
        defaults: the arguments that may be left out, with their values.
        context: the parameter through which the host passes its context; None if there is none.
        unjudged: arguments that the program supplies; they are neither judged nor logged.
        server: whether the tool is one of an MCP server.
    """

    spec: ToolSpec
    tool: FunctionTool
    signature: inspect.Signature
    defaults: Mapping[str, Any]
    context: str | None = None
    unjudged: frozenset[str] = frozenset()
    server: bool = False

    @classmethod
    def of(cls, tool: FunctionTool, unjudged: Collection[str] = ()) -> FunctionToolArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has no readable signature, or an argument of a type that no rule can read.
        """
        context = tool._context_parameter_name  # noqa: SLF001 - the host has no public name for it
        hidden = frozenset({*unjudged, *([context] if context else ())})
        signature = _signature(tool)
        refuse_opaque(tool.name, annotations_of(signature), hidden, may_hide=True)
        named = {one.name for one in signature.parameters.values() if one.kind in NAMED}
        spec = ToolSpec(
            tool.name, tool.parameters(), tool.description or "", unlisted_arguments=frozenset(named - hidden)
        )
        defaults, remote = defaults_of(signature), server_of(tool) is not None
        return cls(spec, tool, signature, defaults, context, frozenset(unjudged), remote)

    def bind(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the function gets, with defaults, and what is not judged.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = dict(kwargs)
        apart = {name: named.pop(name) for name in (*self.unjudged, self.context) if name in named}
        try:
            if self.server and self.context:
                named = {**self._of_program(apart.get(self.context)), **named}
            if self.tool.input_model is None:
                named = validate_arguments(self.spec.name, named, self.spec.schema)
            return copied_values(self._with_defaults(named, apart)), apart
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a value raises when it is read or copied
            raise InputError(f"the arguments of {self.spec.name!r} cannot be judged: {error_text(error)}") from None

    def rebound(self, judged: Mapping[str, Any], own: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that run: the judged copies, or a reviewer's edits in the types of the function.

        Raises:
            InputError: the function would get other arguments than the judged ones.
        """
        if same_arguments(judged, plain_arguments(own)):
            return dict(own)
        edited = self.of_edit(judged, apart)
        if not same_arguments(judged, plain_arguments(edited)):
            raise InputError(f"{self.spec.name!r} would get other arguments than the judged ones")
        return edited

    def of_edit(self, edited: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a reviewer's arguments, after the host's validation.

        Raises:
            InputError: they do not fit the tool.
        """
        if odd := sorted(set(edited) - set(self.spec.schema.get("properties", ())) - set(self.signature.parameters)):
            raise InputError(f"{self.spec.name!r} has no argument {odd[0]!r}")
        return self.bind({**self.tool._prepare_arguments(dict(edited)), **apart})[0]  # noqa: SLF001 - as the host does

    def _of_program(self, context: Any) -> dict[str, Any]:
        """Returns the arguments of the program that the host sends to a server beside those of the model."""
        declared, supplied = self.spec.schema.get("properties", {}), getattr(context, "kwargs", None) or {}
        return {name: value for name, value in supplied.items() if name in declared and name not in KEPT_FROM_SERVERS}

    def _with_defaults(self, named: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        names = self.signature.parameters
        known = [name for name, one in names.items() if one.kind in NAMED]
        odd = named.keys() - set(known) if len(known) == len(names) else ()
        absent = [one for one in known if one not in named and one not in apart and one not in self.defaults]
        if odd or absent:
            problem = f"{min(odd)!r} is not one of them" if odd else f"{absent[0]!r} is missing"
            raise InputError(f"the arguments of {self.spec.name!r} do not fit: {problem}")
        hidden = {*apart, self.context}
        return {**{name: named.get(name, self.defaults.get(name)) for name in known if name not in hidden}, **named}


def _signature(tool: FunctionTool) -> inspect.Signature:
    """Returns the signature of a tool's function, without `self`, as the host leaves it out."""
    function = tool.func.func if isinstance(tool.func, FunctionTool) else tool.func
    assert function is not None
    return read_signature(function, tool.name, omit=("self", "cls"))
