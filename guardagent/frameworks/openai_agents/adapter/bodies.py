"""The implementations of tools, which bind arguments as the tool will get them."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agents import FunctionTool, ModelBehaviorError
from agents.function_schema import FuncSchema, function_schema
from agents.tool import invoke_function_tool, set_function_tool_failure_error_function
from pydantic import ValidationError

from guardagent.enforcement.calls import opaque_type, plain_value
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError
from guardagent.types import thaw


@dataclass(frozen=True, slots=True)
class Bound:
    """Arguments that a tool accepted.

    Attributes:
        shown: returns them as plain values; raises InputError if one has no lossless form.
        execute: runs the tool with them.
    """

    shown: Callable[[], dict[str, Any]]
    execute: Callable[[Any], Awaitable[Any]]


class ToolBody(Protocol):
    """A tool without the SDK around it.

    Attributes:
        unlisted_arguments: as of `ToolSpec`.
    """

    @property
    def unlisted_arguments(self) -> frozenset[str] | None: ...

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """Validates arguments, with defaults.

        Raises:
            InputError: the tool does not declare one of them.
            ModelBehaviorError: they do not fit, in the SDK's own words.
        """

    def rebind(self, shown: Mapping[str, Any]) -> Bound:
        """Binds arguments named as by `Bound.shown`."""


def body_of(tool: FunctionTool) -> ToolBody:
    """Returns a tool's implementation: its function if the SDK made it from one, else the consumer of its JSON text."""
    function = getattr(tool, "__wrapped__", None)
    return _RemoteBody(tool) if function is None else _FunctionBody(tool, function)


class _FunctionBody:
    """A function of this process: the SDK's own validation decides what it gets."""

    def __init__(self, tool: FunctionTool, function: Any) -> None:
        self._tool = tool
        named = inspect.isroutine(function) or inspect.isclass(function)
        self._function: Callable[..., Any] = function if named else function.__call__
        if inspect.isgeneratorfunction(self._function) or inspect.isasyncgenfunction(self._function):
            raise InputError(
                f"tool {tool.name!r} is a generator, which never runs; expected a function that returns its result"
            )
        self._schema: FuncSchema = function_schema(
            self._function, name_override=tool.name, strict_json_schema=tool.strict_json_schema
        )
        for name, one in self._schema.params_pydantic_model.model_fields.items():
            if (found := opaque_type(one.annotation)) is not None:
                raise InputError(
                    f"{name} of tool {tool.name!r} is a {found}, whose value no rule can read; expected a plain type"
                )
        self._declared = frozenset(self._schema.params_json_schema.get("properties", ()))

    @property
    def unlisted_arguments(self) -> frozenset[str] | None:
        """The names by which the function gets its arguments; None if it takes any."""
        parameters = self._schema.signature.parameters.values()
        open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters)
        return None if open_ended else frozenset(one.name for one in parameters)

    def rebind(self, shown: Mapping[str, Any]) -> Bound:
        fields = self._schema.params_pydantic_model.model_fields
        return self.bind({_alias(fields.get(name), name): value for name, value in shown.items()})

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        undeclared = [name for name in arguments if name not in self._declared]
        if undeclared:
            expected = ", ".join(sorted(self._declared)) or "none"
            raise InputError(f"{self._tool.name} has no argument {undeclared[0]!r}; expected {expected}")
        try:
            parsed = self._schema.params_pydantic_model(**thaw(arguments))
        except ValidationError as error:
            raise ModelBehaviorError(f"Invalid JSON input for tool {self._tool.name}: {error}") from error
        args, kwargs = self._schema.to_call_args(parsed)
        return Bound(lambda: self._shown(args, kwargs), lambda context: self._execute(context, args, kwargs))

    def _shown(self, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        before = (None,) if self._schema.takes_context else ()
        bound = self._schema.signature.bind(*before, *args, **kwargs)
        parameters = list(self._schema.signature.parameters.values())[len(before) :]
        shown: dict[str, Any] = {}
        for one in parameters:
            argument = bound.arguments.get(one.name, () if one.kind is one.VAR_POSITIONAL else {})
            value = plain_value(argument, f"{one.name} of {self._tool.name}")
            more = value if one.kind is one.VAR_KEYWORD else {one.name: value}
            if again := shown.keys() & more.keys():
                raise InputError(f"{self._tool.name} would get {min(again)!r} twice; expected unique names")
            shown.update(more)
        return shown

    async def _execute(self, context: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        before = (context,) if self._schema.takes_context else ()
        if inspect.iscoroutinefunction(self._function):
            output = await self._function(*before, *args, **kwargs)
        else:
            output = await asyncio.to_thread(self._function, *before, *args, **kwargs)
            output = await output if inspect.isawaitable(output) else output
        adapter = self._tool._output_type_adapter  # noqa: SLF001 - there is no other way to it
        return output if adapter is None else adapter.validate_python(output)


class _RemoteBody:
    """A tool that takes JSON text: one of an MCP server, an agent, or another callable of a FunctionTool.

    Its coercion of `"500"` is unknown here, so its schema is applied strictly.
    """

    unlisted_arguments: frozenset[str] | None = frozenset()  # rules see the names of the schema

    def __init__(self, tool: FunctionTool) -> None:
        self._name, self._schema = tool.name, tool.params_json_schema
        self._tool = set_function_tool_failure_error_function(copy.copy(tool), None)  # its errors come out as they are
        self._tool.timeout_seconds = None  # the outer one has it

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        args = validate_arguments(self._name, arguments, self._schema)
        text = json.dumps(args, ensure_ascii=False)
        return Bound(lambda: args, lambda context: self._execute(context, text))

    def rebind(self, shown: Mapping[str, Any]) -> Bound:
        return self.bind(shown)

    async def _execute(self, context: Any, text: str) -> Any:
        return await invoke_function_tool(function_tool=self._tool, context=context, arguments=text)


def _alias(field: Any, name: str) -> str:
    alias = getattr(field, "validation_alias", None) or getattr(field, "alias", None)
    return alias if isinstance(alias, str) else name
