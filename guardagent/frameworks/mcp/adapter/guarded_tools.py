"""Tools of a FastMCP server with the guard inside.

A function is wrapped, so that it is judged by the values it receives. The function of any other tool (of a mounted
server, a proxy, a transformation) is not accessible: its arguments are validated without coercion.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from fastmcp.tools.function_tool import FunctionTool
from fastmcp.tools.tool_transform import TransformedTool
from fastmcp.utilities.async_utils import call_sync_fn_in_threadpool
from mcp_types import InputRequiredResult
from pydantic import PrivateAttr, TypeAdapter
from pydantic import ValidationError as PydanticValidationError

from guardagent.enforcement import HostCall
from guardagent.enforcement.calls import opaque_type, plain_arguments, plain_value
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.mcp.adapter.gate import Gate

_MARK = "__guardagent__"
MAX_COPIES = 5000
_copies: dict[int, tuple[Tool, Gate, Tool]] = {}


def guarded_tool(tool: Tool, gate: Gate) -> Tool:
    """Returns a copy of a tool that calls the gate before it runs; copies are cached, since they take time."""
    known = _copies.get(id(tool))
    if known is None or known[0] is not tool or known[1] is not gate:
        while len(_copies) >= MAX_COPIES:
            del _copies[next(iter(_copies))]
        known = _copies[id(tool)] = (tool, gate, _copy(tool, gate))
    return known[2]


def require_plain(tool: Tool) -> None:
    """Refuses a tool with arguments that rules cannot see.

    Raises:
        InputError: it has a secret parameter, or one that can be read only once.
    """
    within = getattr(getattr(tool, "fn", None), _MARK, None)
    for name, annotation in within.annotations() if within is not None else ():
        if (found := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool.name!r} is a {found}, whose value no rule can read; "
                "expected a plain type, or a value that the server itself injects (Depends)"
            )


def _copy(tool: Tool, gate: Gate) -> Tool:
    if gate in (tool.gates if isinstance(tool, GuardedTool) else _gates_of(getattr(tool, "fn", None))):
        return tool
    if isinstance(tool, FunctionTool) and not isinstance(tool, TransformedTool):
        return tool.model_copy(update={"fn": _function(tool.fn, tool.name, tool.run_in_thread is not False, gate)})
    return GuardedTool.around(tool, gate)


def _gates_of(fn: Any) -> tuple[Gate, ...]:
    """Returns the gates in a function; each server may add its own."""
    within = getattr(fn, _MARK, None)
    return within.gates if within is not None else ()


@functools.lru_cache(maxsize=5000)
def _function(fn: Callable[..., Any], name: str, threaded: bool, gate: Gate) -> Callable[..., Any]:  # noqa: FBT001 - a key of the cache
    return _JudgedFunction(fn, name, gate, threaded=threaded).wrapper()


class _JudgedFunction:
    """A tool's function, with the parameters that a client provides."""

    def __init__(self, fn: Callable[..., Any], name: str, gate: Gate, *, threaded: bool) -> None:
        self._fn, self._name, self._gate = fn, name, gate
        self._signature = inspect.signature(fn)
        self._own = tuple(inspect.signature(without_injected_parameters(fn)).parameters)
        self._in_thread = threaded and not inspect.iscoroutinefunction(_unwrapped(fn))
        parameters = self._signature.parameters.values()
        self._by_name = all(one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) for one in parameters)
        self._hints = _hints(fn)
        self.gates = (*_gates_of(fn), gate)

    def annotations(self) -> list[tuple[str, Any]]:
        """Returns the parameters that a client provides, with their types."""
        return [(name, self._hints.get(name)) for name in self._own]

    def wrapper(self) -> Callable[..., Any]:
        """Returns the guarded function; it has the same signature for FastMCP."""

        @functools.wraps(self._fn)
        async def judged(*args: Any, **kwargs: Any) -> Any:
            if self._by_name and not args and kwargs.keys() == self._signature.parameters.keys():
                return await self._judge(kwargs)
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return await self._judge(dict(bound.arguments))

        for name, value in (("__signature__", self._signature), ("__annotations__", self._hints), (_MARK, self)):
            setattr(judged, name, value)
        return judged

    async def _judge(self, values: dict[str, Any]) -> Any:
        arguments = {name: values[name] for name in self._own}
        conversation = self._gate.conversation()
        try:
            call = HostCall(self._name, plain_arguments(arguments), conversation, validate_edit=self._ready)
        except InputError as error:
            raise ToolError(await self._gate.refuse(HostCall(self._name, {}, conversation), error)) from None

        async def execute(args: Mapping[str, Any]) -> Any:
            as_judged = args == self._plain(arguments)
            as_python = arguments if as_judged else self._fit(args)
            if not as_judged and self._plain(as_python) != args:
                raise InputError(f"{self._name!r} would get other arguments than the judged ones")
            return await self._call({**values, **as_python})

        try:
            return await self._gate.run(call, execute)
        except ToolDenied as denied:
            raise ToolError(str(denied)) from None

    async def _call(self, values: Mapping[str, Any]) -> Any:
        args, kwargs = (), values
        if not self._by_name:
            arguments: Any = dict(values)
            bound = inspect.BoundArguments(self._signature, arguments)
            args, kwargs = bound.args, bound.kwargs
        if self._in_thread:
            output = await call_sync_fn_in_threadpool(functools.partial(self._fn, *args, **kwargs))
        else:
            output = self._fn(*args, **kwargs)
        output = await output if inspect.isawaitable(output) else output
        if inspect.isasyncgen(output):
            return [item async for item in output]
        return list(output) if inspect.isgenerator(output) else output

    def _ready(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self._plain(self._fit(args))

    def _plain(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: plain_value(value, name) for name, value in values.items()}

    def _fit(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns edited arguments in the form that the function receives.

        Raises:
            InputError: the arguments do not match the parameters.
        """
        unknown = sorted(set(args) - set(self._own))
        if unknown:
            raise InputError(f"{self._name!r} has no argument {unknown[0]!r}")
        values = {}
        for name in self._own:
            default = self._signature.parameters[name].default
            if name not in args and default is inspect.Parameter.empty:
                raise InputError(f"{self._name!r} needs the argument {name!r}")
            values[name] = self._one(name, args[name]) if name in args else default
        return values

    def _one(self, name: str, value: Any) -> Any:
        try:
            return TypeAdapter(self._hints.get(name, Any)).validate_python(value, by_alias=True, by_name=True)
        except PydanticValidationError as error:
            raise InputError(f"{name} of {self._name}: {error.errors()[0]['msg']}") from None


class GuardedTool(Tool):
    """A guarded tool that is not a function."""

    _inner: Tool = PrivateAttr()
    _gate: Gate = PrivateAttr()

    @classmethod
    def around(cls, tool: Tool, gate: Gate) -> GuardedTool:
        """Returns a guarded copy with the same declaration."""
        created: GuardedTool = cls.model_construct(**{name: getattr(tool, name) for name in Tool.model_fields})
        created.__pydantic_private__ = {**(tool.__pydantic_private__ or {}), "_inner": tool, "_gate": gate}
        return created

    @property
    def inner(self) -> Tool:
        """Returns the unguarded tool."""
        return self._inner

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Returns the gates around the tool."""
        return (*(self._inner.gates if isinstance(self._inner, GuardedTool) else ()), self._gate)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Judges a call, and runs the tool if it is allowed."""

        def ready(args: Mapping[str, Any]) -> dict[str, Any]:
            return validate_arguments(self.name, args, self.parameters)

        async def execute(args: Mapping[str, Any]) -> Any:
            return await self._inner._run(dict(args))  # noqa: SLF001 - the method that the server calls

        conversation = self._gate.conversation()
        try:
            call = HostCall(self.name, ready(arguments), conversation, validate_edit=ready)
            output = await self._gate.run(call, execute)
        except ToolDenied as denied:
            raise ToolError(str(denied)) from None
        except InputError as error:
            raise ToolError(await self._gate.refuse(HostCall(self.name, arguments, conversation), error)) from None
        return InputRequiredToolResult(output) if isinstance(output, InputRequiredResult) else output

    def to_mcp_tool(self, **overrides: Any) -> Any:
        """Returns the declaration that the tool is listed with."""
        return self._inner.to_mcp_tool(**overrides)


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        found = get_type_hints(fn, include_extras=True)
    except Exception:  # noqa: BLE001 - names that do not exist at run time; FastMCP falls back in the same way
        found = {}
    signature = inspect.signature(fn)
    annotations = {name: one.annotation for name, one in signature.parameters.items()}
    annotations["return"] = signature.return_annotation
    return {name: found.get(name, one) for name, one in annotations.items() if one is not inspect.Parameter.empty}


def _unwrapped(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn
