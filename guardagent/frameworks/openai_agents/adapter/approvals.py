"""The implementations of tools, which bind arguments as the tool will get them, and the SDK's own approval.

The approval is in `needs_approval`, `result.interruptions`, `state.approve` and `state.reject`.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from agents import FunctionTool, ModelBehaviorError, ToolApprovalItem
from agents.function_schema import FuncSchema, function_schema
from agents.tool import invoke_function_tool, set_function_tool_failure_error_function
from agents.tool_context import ToolContext
from pydantic import ValidationError

from guardagent.enforcement.approval import Approval, ApprovalRequest
from guardagent.enforcement.calls import HostCall, opaque_type, plain_value
from guardagent.enforcement.schema import read_object, validate_arguments
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents.adapter.attachment_base import BaseAttachment
from guardagent.types import Decision, Verdict, freeze, thaw

# --- implementations of tools


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


# --- approval

_REQUESTED_ELSEWHERE = Verdict(
    Decision.ESCALATE, reasons=("the approval was requested in another process, which has the reasons",)
)
_BY_THE_HOST = Verdict(Decision.ESCALATE, reasons=("its tool has needs_approval",))
_EDITED = "a reviewer edited this call; the edited call is judged"


class NeedsApproval:
    """`FunctionTool.needs_approval` of a guarded tool: true if a rule escalates or the operator requires approval.

    Args:
        attachment: knows the guard.
        tool: the tool without the guard.
        body: the tool's implementation.
    """

    def __init__(self, attachment: BaseAttachment, tool: FunctionTool, body: ToolBody) -> None:
        self._attachment, self._tool, self._body = attachment, tool, body

    async def __call__(self, context: Any, params: dict[str, Any], call_id: str) -> bool:
        try:
            call = self.shown_call(context, params, call_id)
        except (InputError, ModelBehaviorError):
            return False  # refused at the tool, so that there is nothing to ask a person
        if await self._escalates(call, params):
            return True
        if not await self._operator_asks(context, params, call_id, call.args):
            return False
        await self._attachment.guard.arecord_host_request(call)
        self._attachment.ask(call, _BY_THE_HOST, params)
        return True

    def shown_call(self, context: Any, params: Mapping[str, Any], call_id: str) -> HostCall:
        """Returns the call that is shown for approval. It has no step, since a resumed run does not know its step.

        Raises:
            InputError, ModelBehaviorError: the arguments do not fit.
        """
        args = self._body.bind(params).shown()
        return self._attachment.call(self._tool.qualified_name, args, context, id=call_id, step=None)

    async def _escalates(self, call: HostCall, params: Mapping[str, Any]) -> bool:
        if not self._attachment.escalates or call.conversation is None:
            return False  # without a conversation it is denied at the tool, with what to configure
        verdict = await self._attachment.guard.apreview(call)
        if verdict.decision is not Decision.ESCALATE:
            return False
        self._attachment.ask(call, verdict, params)
        return True

    async def _operator_asks(self, context: Any, params: dict[str, Any], call_id: str, args: Any) -> bool:
        asks = self._tool.needs_approval
        if not callable(asks):
            return bool(asks)
        if hasattr(self._tool, "__wrapped__") and args != freeze(params):
            return True  # as the SDK has it: what validation changed is for a person
        needed = asks(context, params, call_id)
        return bool(await needed if inspect.isawaitable(needed) else needed)


def host_approval(context: Any, tool: FunctionTool) -> Literal["once", "always"] | None:
    """Returns whether the SDK holds an approval of this call (`once`) or of the tool (`always`); None for neither."""
    if context.tool_call is None or context.agent is None or _status(context, tool, context.tool_call) is not True:
        return None
    other = context.tool_call.model_copy(update={"call_id": f"none-{secrets.token_hex(8)}"})
    return "once" if _status(context, tool, other) is None else "always"


def _status(context: ToolContext[Any], tool: FunctionTool, tool_call: Any) -> bool | None:
    namespace = context.tool_namespace
    item = ToolApprovalItem(agent=context.agent, raw_item=tool_call, tool_name=tool.name, tool_namespace=namespace)
    found = context.get_approval_status(
        tool.name, tool_call.call_id, tool_namespace=namespace, existing_pending=item, current_invocation=item
    )
    return found if isinstance(found, bool) else None


def request(item: ToolApprovalItem, state: Any = None) -> ApprovalRequest:
    """Returns the approval request of an interruption: every argument as the tool will get it, and the reasons.

    Args:
        item: one of `result.interruptions`, of a guarded agent.
        state: the run's state, if another process requested the approval; it names the conversation.

    Raises:
        InputError: the item is not an interruption of a guarded agent.
    """
    attachment = _attachment(item)
    if (pending := attachment.pending_approval(item)) is not None:
        return attachment.guard.request(pending.call, pending.verdict)
    if (call := _call_of(item, state)) is not None:
        return attachment.guard.request(call, _REQUESTED_ELSEWHERE)
    tool = item.qualified_name or item.tool_name or ""
    args, agent = read_object(item.arguments or "", tool), getattr(item.agent, "name", None)
    return ApprovalRequest(tool, args, _REQUESTED_ELSEWHERE, id=item.call_id or "", agent=agent)


def answer(state: Any, item: ToolApprovalItem, decision: Any) -> None:
    """Stores a reviewer's answer to an interruption in a run's state; adds edits, which the SDK does not support.

    Args:
        state: the result of `result.to_state()`.
        item: one of its interruptions.
        decision: an `Approval`, or a value that `Approval.read` accepts: `True`, `{"choice": "edit", "args": {...}}`,
            ... If it names a request as `of`, that must be the request of this item.

    Raises:
        InputError: the item is not an interruption of a guarded agent, the answer is for another request, or this
            process cannot apply it.
    """
    approval, attachment = Approval.read(decision), _attachment(item)
    pending = attachment.pending_approval(item)
    call = pending.call if pending is not None else _call_of(item, state)
    if call is None and (approval.choice == "edit" or approval.of is not None):
        raise InputError(f"{item.tool_name} has no approval request here; approve it unchanged, or reject it")
    if call is not None:
        approval = _record_answer(attachment, call, approval)
    if approval.choice == "reject":
        reason = f": {approval.reason}" if approval.reason else ""
        state.reject(item, rejection_message=f"A person rejected this call{reason}")
    else:
        state.approve(item)


def _record_answer(attachment: BaseAttachment, call: HostCall, approval: Approval) -> Approval:
    """Stores a reviewer's answer in the guard until the call reaches its tool.

    An edit also rejects the original call, so that a process that resumes the run without the edit does not run it.

    Raises:
        InputError: the answer is for another request.
    """
    approval = replace(approval, of=call.digest if approval.of is None else approval.of)
    if (approval.of or "").partition(".")[0] != call.digest:
        raise InputError(
            f"the answer is for another request than that of {call.tool!r} {call.id!r}; request approval again"
        )
    if approval.choice == "edit":
        attachment.guard.resolve(call, Approval("reject", reason=_EDITED, by=approval.by))
    if approval.choice == "reject":
        attachment.guard.resolve(call, approval)
        attachment.drop_pending(call)
    else:
        attachment.guard.notes(str(call.conversation))["said", call.digest] = approval
    return approval


def _call_of(item: ToolApprovalItem, state: Any) -> HostCall | None:
    """Returns the call of another process's interruption; None if state and tools do not determine it."""
    tools = {getattr(one, "qualified_name", None): one for one in getattr(item.agent, "tools", ())}
    needs = getattr(tools.get(item.qualified_name), "needs_approval", None)
    if state is None or not isinstance(needs, NeedsApproval):
        return None
    try:
        params = read_object(item.arguments or "", item.tool_name or "")
        call = needs.shown_call(state._context, params, item.call_id or "")  # noqa: SLF001 - no public way to it
    except (InputError, ModelBehaviorError):
        return None
    return replace(call, agent=getattr(item.agent, "name", None)) if call.conversation else None


def _attachment(item: ToolApprovalItem) -> BaseAttachment:
    found = getattr(item.agent, "guardagent_attachment", None)
    if found is None:
        raise InputError("this is not an interruption of a guarded agent; expected one of 'result.interruptions'")
    return found  # type: ignore[no-any-return]
