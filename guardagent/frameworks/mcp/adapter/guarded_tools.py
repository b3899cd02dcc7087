"""Tools of a FastMCP server with the guard inside.

A gate judges each call, and requests approval through the client. A function is wrapped, so that it is judged by the
values it receives. The function of any other tool (of a mounted server, a proxy, a transformation) is not accessible:
its arguments are validated without coercion.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary, WeakSet

import anyio
import mcp_types as types
from fastmcp.exceptions import ToolError
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context, without_injected_parameters
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from fastmcp.tools.function_tool import FunctionTool
from fastmcp.tools.tool_transform import TransformedTool
from fastmcp.utilities.async_utils import call_sync_fn_in_threadpool
from mcp_types import InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import PrivateAttr, TypeAdapter
from pydantic import ValidationError as PydanticValidationError
from pydantic_core import to_jsonable_python

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.approval import edit_note
from guardagent.enforcement.calls import opaque_type, plain_arguments, plain_value
from guardagent.enforcement.host_adapter import end_conversation
from guardagent.enforcement.lifecycle import JudgedCall, PermitVoidError
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.calls import denial_message, outcome_of_result
from guardagent.frameworks.mcp.adapter.catalogue import structured_problem
from guardagent.frameworks.mcp.adapter.client_calls import InputRequiredSignal, Rounds
from guardagent.types import thaw

# --- the client's session, in a server of the mcp library

MISSING = (
    "this request belongs to no session, so that nothing is known of what came before it. Serve over stdio, or HTTP "
    "with sessions (not stateless, and clients with a protocol before 2026-07-28), or pass conversation=, which tells "
    "the id of the conversation from the request's context"
)

_channels: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_GRACE = 0.05  # seconds after a connection is closed, in which the calls that this cancels are recorded


class ClientSessions:
    """The sessions of a server's clients. The conversation of one ends with its connection, if the library tells.

    Args:
        guard: judges their calls.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self._watched: WeakSet[Any] = WeakSet()

    def name(self, session: Any, request: Any) -> str | None:
        """Returns the id of a client's session; None if the transport has none, so every request is independent.

        Args:
            session: the `ServerSession` of a request.
            request: its HTTP request, if any.
        """
        channel = _channel(getattr(session, "_request_outbound", None))
        if request is not None:
            session_id = getattr(getattr(session, "_connection", None), "session_id", None)
            name = f"mcp-{session_id}" if isinstance(session_id, str) and session_id else None
        else:
            name = None if channel is None else _channels.setdefault(channel, f"mcp-{secrets.token_hex(16)}")
        tasks = getattr(channel, "_tg", None)  # the tasks of the connection, which are cancelled when it closes
        if name is not None and tasks is not None and channel not in self._watched:
            self._watched.add(channel)
            tasks.start_soon(self._end_with, name)
        return name

    async def _end_with(self, name: str) -> None:
        """Waits until the connection is closed, and ends its conversation."""
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(_GRACE)
                await asyncio.to_thread(end_conversation, self._guard, name)


def _channel(context: Any) -> Any:
    """Returns the library's dispatcher; over pipes or in memory there is one for each client."""
    context = getattr(context, "_inner", context)
    dispatcher = getattr(context, "_dispatcher", None)
    if dispatcher is not None:
        return dispatcher
    back = getattr(context, "_back_request", None)  # in memory the library only keeps the channel back to the client
    return captured(back, "peer")


def captured(function: Any, name: str) -> Any:
    """Returns a variable that a function has of the one around it; None if there is none."""
    if not inspect.isfunction(function):
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return next((cell.cell_contents for known, cell in cells if known == name), None)


# --- the gate

_notes: ContextVar[list[str] | None] = ContextVar("guardagent_mcp_notes", default=None)


@contextmanager
def noting_edits() -> Iterator[list[str]]:
    """Yields a list that gets what ran inside in place of what the model has proposed, in lines for the model."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


class Gate:
    """Judges calls in the tools of a server.

    Args:
        guard: makes the decisions.
        conversation: returns the conversation id from the context of a request; by default the client's session.

    Attributes:
        problem: why the rules do not fit the server's tools, so that no call may run; None if they do.
    """

    problem: str | None = None

    def __init__(self, guard: EnforcementPoint, conversation: Callable[[Context], str | None] | None = None) -> None:
        self._guard, self._conversation = guard, conversation
        self._rounds, self._sessions = Rounds(guard), ClientSessions(guard)

    def conversation(self) -> str | None:
        """Returns the conversation id of the current request; None if it has no session."""
        try:
            context = get_context()
        except RuntimeError:
            return None
        if self._conversation is not None:
            return self._conversation(context)
        request = context.request_context
        return self._sessions.name(request.session, request.request) if request is not None else None

    async def run(
        self,
        call: HostCall,
        execute: Callable[[Mapping[str, Any]], Awaitable[Any]],
        schema: Mapping[str, Any] | None = None,
    ) -> Any:
        """Judges a call, and runs it if it is allowed.

        Args:
            call: has the arguments that the tool will receive.
            execute: runs the tool; raises InputError if the tool would receive other arguments than the judged ones.
            schema: the schema that the result has to match; None for a function of this server.

        Raises:
            ToolDenied: the call may not run.
            ToolError: it has run, and its result does not match the schema.
        """
        if (problem := self.problem if call.conversation else MISSING) is not None:
            raise ToolDenied(call.tool, await self._guard.arefuse(call, problem))
        context, proposed = get_context(), call
        state = context.request_state  # FastMCP validates the request's parameters each time that it is read
        known = self._rounds.resume(proposed, state) if state else None
        if known is not None:
            return await self._execute(known, proposed, thaw(known.args), execute, schema)
        try:
            call, args = await adrive(self._guard.lifecycle.authorize(call, self._decide(context, call, state)))
        except InputRequiredSignal as signal:
            return InputRequiredResult.model_validate(signal.args[0])
        except PermitVoidError:
            raise
        except ToolDenied as denied:
            raise GateDenial(call.tool, denied.verdict) from None
        return await self._execute(call, proposed, args, execute, schema)

    async def refuse(self, call: HostCall, error: Exception) -> str:
        """Refuses a call that cannot be judged. Returns the message for the model."""
        return denial_message(await self._guard.arefuse(call, str(error)))

    async def _execute(
        self,
        call: HostCall,
        proposed: HostCall,
        args: Mapping[str, Any],
        execute: Callable[[Mapping[str, Any]], Awaitable[Any]],
        schema: Mapping[str, Any] | None,
    ) -> Any:
        def outcome(output: Any) -> Outcome:
            wanted = getattr(output, "input_required", output)
            if isinstance(wanted, types.InputRequiredResult):
                self._rounds.leave_open(proposed, wanted.request_state, call)
            problems.append(problem := result_problem(call.tool, output, schema))
            return outcome_of(output) if problem is None else Outcome(problem, failed=None)

        if (notes := _notes.get()) is not None and (note := edit_note(proposed, args)):
            notes.append(note)
        problems: list[str | None] = []
        work = partial(execute, args)
        output = await adrive(self._guard.lifecycle.execute(call, Operation(work, work), outcome))
        if problems[-1:] not in ([], [None]):
            raise ToolError(problems[-1])
        return output

    # --- human approval

    def _decide(self, context: Context, proposed: HostCall, state: str | None) -> Procedure[JudgedCall]:
        def can_ask() -> bool:
            return context.request_context is not None and calls.can_ask(_capabilities(context))

        def by_result() -> bool:
            return can_ask() and context.session.protocol_version in MODERN_PROTOCOL_VERSIONS

        async def ask(request: ApprovalRequest) -> Approval | None:
            return await ask_by_form(context, request) if can_ask() else None

        return self._rounds.decide(proposed, state, partial(_form_answer, context), ask, by_result)


class GateDenial(ToolDenied):
    """A denial whose text also tells the agent what to do next."""

    def __str__(self) -> str:
        return denial_message(self.verdict)


def result_problem(tool: str, output: Any, schema: Mapping[str, Any] | None) -> str | None:
    """Returns what is wrong with the result of a tool that has a schema, as `Catalogue.output_problem` does."""
    if schema is None or not isinstance(output, ToolResult) or output.is_error is True:
        return None
    if isinstance(getattr(output, "input_required", None), types.InputRequiredResult):
        return None
    return structured_problem(tool, output.structured_content, schema)


def outcome_of(output: Any) -> Outcome:
    """Returns a call's outcome from the tool's result."""
    if isinstance(getattr(output, "input_required", output), types.InputRequiredResult):
        return Outcome("input is asked for", failed=None, ended=False)
    if isinstance(output, ToolResult | types.CallToolResult):
        structured, content = output.structured_content, [block.model_dump(mode="json") for block in output.content]
        answer = {"content": content, **({} if structured is None else {"structuredContent": structured})}
        return outcome_of_result({**answer, "isError": output.is_error is True})
    return Outcome(to_jsonable_python(output, fallback=repr))  # in the form that the client reads


async def ask_by_form(context: Any, request: ApprovalRequest) -> Approval:
    """Asks the client's user by a form, and returns the answer."""
    question = calls.question(request)
    response = await context.session.elicit_form(
        question["message"], question["requestedSchema"], related_request_id=context.request_id
    )
    return calls.answer({"action": response.action, "content": response.content})


def _form_answer(context: Context) -> Approval:
    response = (context.input_responses or {}).get(calls.KEY)
    if response is None:
        return calls.answer(None)
    return calls.answer({"action": getattr(response, "action", None), "content": getattr(response, "content", None)})


def _capabilities(context: Context) -> Any:
    client_capabilities = context.session.client_capabilities
    return client_capabilities.model_dump(by_alias=True, exclude_none=True) if client_capabilities is not None else None


# --- the tools

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
        if (opaque := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool.name!r} is a {opaque}, whose value no rule can read; "
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
        self._by_name = all(
            parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) for parameter in parameters
        )
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
            output = await self._gate.run(call, execute, self.output_schema)
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
        hints = get_type_hints(fn, include_extras=True)
    except Exception:  # noqa: BLE001 - names that do not exist at run time; FastMCP falls back in the same way
        hints = {}
    signature = inspect.signature(fn)
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    annotations["return"] = signature.return_annotation
    return {
        name: hints.get(name, annotation)
        for name, annotation in annotations.items()
        if annotation is not inspect.Parameter.empty
    }


def _unwrapped(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn
