"""The arguments of a tool, bound to its function, so that what is judged is what the function receives."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.tools import FunctionTool

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.hosts import (
    annotations_of,
    bound_by_name,
    copied_values,
    named_by_schema,
    read_signature,
    refuse_opaque,
    takes_any_name,
)
from guardagent.enforcement.schema import validate_arguments


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
        signature = read_signature(tool.real_fn, name)
        generic = takes_any_name(signature)
        refuse_opaque(name, annotations_of(signature), hidden, may_hide=True)
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
        return copied_values(named), apart

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self.signature is None:
            return named_by_schema(self.schema, args, kwargs, self.spec.name)
        return bound_by_name(self.signature, args, kwargs, self.spec.name)


def _closed(schema: Mapping[str, Any], tool: FunctionTool) -> Mapping[str, Any]:
    """Returns a schema that takes no other arguments, with those that the operator has filled in."""
    filled: dict[str, Any] = {name: {} for name in tool.partial_params}
    return {**schema, "properties": {**schema.get("properties", {}), **filled}}
