"""The implementations of tools, which bind arguments as the tool will get them, and the SDK's own approval.

The approval is in `needs_approval`, `result.interruptions`, `state.approve` and `state.reject`.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, Protocol

from agents import FunctionTool, ModelBehaviorError, ToolApprovalItem
from agents.function_schema import FuncSchema, function_schema
from agents.tool import invoke_function_tool, set_function_tool_failure_error_function
from agents.tool_context import ToolContext
from pydantic import ValidationError

from guardagent.enforcement.approval import Approval, ApprovalRequest
from guardagent.enforcement.calls import HostCall, opaque_type, plain_value
from guardagent.enforcement.schema import read_object, validate_arguments
from guardagent.enforcement.tool_arguments import takes_any_name
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents.adapter.runs import OpenAIAdapter, denial_text
from guardagent.types import Decision, FrozenMapping, Verdict, freeze, thaw

# --- implementations of tools

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class ToolBody(Protocol):
    """A tool without the SDK around it.

    Attributes:
        unlisted_arguments: as of `ToolSpec`.
    """

    @property
    def unlisted_arguments(self) -> frozenset[str] | None: ...

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the tool will get, by the names that rules know, with defaults.

        Raises:
            InputError: the tool does not declare one of them.
            ModelBehaviorError: they do not fit, in the SDK's own words.
        """

    def rebind(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """Binds arguments that have the names that rules know."""

    async def execute(self, context: Any, named: Mapping[str, Any]) -> Any:
        """Runs the tool with arguments that `bind` has returned."""


def shown_arguments(tool: FunctionTool, named: Mapping[str, Any]) -> FrozenMapping:
    """Returns bound arguments as rules read them.

    Raises:
        InputError: one has no lossless form.
    """
    plain = {name: plain_value(value, f"{name} of {tool.name}", frozen=True) for name, value in named.items()}
    return FrozenMapping(MappingProxyType(plain))


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
        for name, field in self._schema.params_pydantic_model.model_fields.items():
            if (kind := opaque_type(field.annotation)) is not None:
                raise InputError(
                    f"{name} of tool {tool.name!r} is a {kind}, whose value no rule can read; expected a plain type"
                )
        self._declared = frozenset(self._schema.params_json_schema.get("properties", ()))
        parameters = list(self._schema.signature.parameters.values())[bool(self._schema.takes_context) :]
        self._positional = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
        self._rest = next((item.name for item in parameters if item.kind is item.VAR_POSITIONAL), None)

    @property
    def unlisted_arguments(self) -> frozenset[str] | None:
        """The names by which the function gets its arguments; None if it takes any."""
        signature = self._schema.signature
        return None if takes_any_name(signature) else frozenset(signature.parameters)

    def rebind(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        fields = self._schema.params_pydantic_model.model_fields
        return self.bind({_alias(fields.get(name), name): thaw(value) for name, value in shown.items()})

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        undeclared = [name for name in arguments if name not in self._declared]
        if undeclared:
            expected = ", ".join(sorted(self._declared)) or "none"
            raise InputError(f"{self._tool.name} has no argument {undeclared[0]!r}; expected {expected}")
        try:
            parsed = self._schema.params_pydantic_model(**arguments)
        except ValidationError as error:
            raise ModelBehaviorError(f"Invalid JSON input for tool {self._tool.name}: {error}") from error
        args, kwargs = self._schema.to_call_args(parsed)
        named = dict(zip(self._positional, args, strict=False))
        if self._rest is not None:
            named[self._rest] = args[len(self._positional) :]
        if again := named.keys() & kwargs.keys():
            raise InputError(f"{self._tool.name} would get {min(again)!r} twice; expected unique names")
        return {**named, **kwargs}

    async def execute(self, context: Any, named: Mapping[str, Any]) -> Any:
        kwargs = dict(named)
        args = [context] if self._schema.takes_context else []
        args += [kwargs.pop(name) for name in self._positional]
        args += kwargs.pop(self._rest) if self._rest is not None else ()
        if inspect.iscoroutinefunction(self._function):
            output = await self._function(*args, **kwargs)
        else:
            output = await asyncio.to_thread(self._function, *args, **kwargs)
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

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return validate_arguments(self._name, arguments, self._schema)

    rebind = bind

    async def execute(self, context: Any, named: Mapping[str, Any]) -> Any:
        text = json.dumps(named, ensure_ascii=False)
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
        adapter: has the guard.
        tool: the tool without the guard.
        body: the tool's implementation.
    """

    def __init__(self, adapter: OpenAIAdapter, tool: FunctionTool, body: ToolBody) -> None:
        self._adapter, self._tool, self._body = adapter, tool, body

    async def __call__(self, context: Any, params: dict[str, Any], call_id: str) -> bool:
        try:
            call = self.shown_call(context, params, call_id)
        except (InputError, ModelBehaviorError):
            return False  # refused at the tool, so that there is nothing to ask a person
        if await self._escalates(call, params):
            return True
        if not await self._operator_asks(context, params, call_id, call.args):
            return False
        await self._adapter.guard.arecord_host_request(call)
        self._adapter.ask(call, _BY_THE_HOST, params)
        return True

    def shown_call(self, context: Any, params: Mapping[str, Any], call_id: str) -> HostCall:
        """Returns the call that is shown for approval. It has no step, since a resumed run does not know its step.

        Raises:
            InputError, ModelBehaviorError: the arguments do not fit.
        """
        args = shown_arguments(self._tool, self._body.bind(params))
        conversation = self._adapter.conversation_of(context)
        options = {**self._adapter.call_options(context, conversation), "id": call_id, "step": None}
        agent = self._adapter.run_of(
            context
        ).agent  # the context of an agent as a tool is that of the outer agent's call
        return HostCall(self._tool.qualified_name, args, conversation, **{**options, **_named(agent)})

    async def _escalates(self, call: HostCall, params: Mapping[str, Any]) -> bool:
        if not self._adapter.approval.may_be_needed or call.conversation is None:
            return False  # without a conversation it is denied at the tool, with what to configure
        verdict = await self._adapter.guard.apreview(call)
        if verdict.decision is not Decision.ESCALATE:
            return False
        self._adapter.ask(call, verdict, params)
        return True

    async def _operator_asks(self, context: Any, params: dict[str, Any], call_id: str, args: Any) -> bool:
        asks = self._tool.needs_approval
        if not callable(asks):
            return bool(asks)
        if hasattr(self._tool, "__wrapped__") and args != freeze(params):
            return True  # as the SDK has it: what validation changed is for a person
        needed = asks(context, params, call_id)
        return bool(await needed if inspect.isawaitable(needed) else needed)


def _named(agent: Any) -> dict[str, str]:
    return {} if agent is None else {"agent": agent.name}


async def refuse_unread(adapter: OpenAIAdapter, agent: Any, context: Any, calls: Iterable[Any]) -> None:
    """Refuses proposed calls with unreadable arguments, about which the SDK would ask a person.

    Args:
        adapter: has the guard, and the names of these tools.
        agent: the agent whose model proposes them.
        context: the SDK's context of the run.
        calls: the items of the model's response.
    """
    for call in calls:
        name, namespace = getattr(call, "name", None), getattr(call, "namespace", None)
        qualified = f"{namespace}.{name}" if namespace else name
        if getattr(call, "type", None) != "function_call" or qualified not in adapter.asking:
            continue
        if not (call.arguments or "").strip():
            call.arguments = "{}"  # as the tool reads it
        try:
            read_object(call.arguments, qualified)
        except InputError as error:
            conversation = adapter.conversation_of(context)
            options = {**adapter.call_options(context, conversation), "id": call.call_id, "agent": agent.name}
            verdict = await adapter.guard.arefuse(HostCall(qualified, {}, conversation, **options), str(error))
            item = ToolApprovalItem(agent=agent, raw_item=call, tool_name=name, tool_namespace=namespace)
            context.reject_tool(item, rejection_message=denial_text(qualified, verdict))


def host_approval(context: Any, tool: FunctionTool) -> Literal["once", "always"] | None:
    """Returns whether the SDK holds an approval of this call (`once`) or of the tool (`always`); None for neither."""
    if context.tool_call is None or context.agent is None or _status(context, tool, context.tool_call) is not True:
        return None
    other = context.tool_call.model_copy(update={"call_id": f"none-{secrets.token_hex(8)}"})
    return "once" if _status(context, tool, other) is None else "always"


def _status(context: ToolContext[Any], tool: FunctionTool, tool_call: Any) -> bool | None:
    namespace = context.tool_namespace
    item = ToolApprovalItem(agent=context.agent, raw_item=tool_call, tool_name=tool.name, tool_namespace=namespace)
    approval_status = context.get_approval_status(
        tool.name, tool_call.call_id, tool_namespace=namespace, existing_pending=item, current_invocation=item
    )
    return approval_status if isinstance(approval_status, bool) else None


def request(item: ToolApprovalItem, state: Any = None) -> ApprovalRequest:
    """Returns the approval request of an interruption: every argument as the tool will get it, and the reasons.

    Args:
        item: one of `result.interruptions`, of a guarded agent.
        state: the run's state, if another process requested the approval; it names the conversation.

    Raises:
        InputError: the item is not an interruption of a guarded agent.
    """
    adapter = _adapter_of(item)
    if (pending := adapter.pending_approval(item)) is not None:
        return adapter.guard.request(pending.call, pending.verdict)
    if (call := _call_of(item, state)) is not None:
        return adapter.guard.request(call, _REQUESTED_ELSEWHERE)
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
    approval, adapter = Approval.read(decision), _adapter_of(item)
    pending = adapter.pending_approval(item)
    call = pending.call if pending is not None else _call_of(item, state)
    if call is None and (approval.choice == "edit" or approval.of is not None):
        raise InputError(f"{item.tool_name} has no approval request here; approve it unchanged, or reject it")
    if call is not None:
        approval = _record_answer(adapter, call, approval)
    if approval.choice == "reject":
        reason = f": {approval.reason}" if approval.reason else ""
        state.reject(item, rejection_message=f"A person rejected this call{reason}")
    else:
        state.approve(item)


def _record_answer(adapter: OpenAIAdapter, call: HostCall, approval: Approval) -> Approval:
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
        adapter.guard.resolve(call, Approval("reject", reason=_EDITED, by=approval.by))
    if approval.choice == "reject":
        adapter.guard.resolve(call, approval)
        adapter.pending.pop(call.digest, None)
    else:
        adapter.guard.notes(str(call.conversation))["said", call.digest] = approval
    return approval


def _call_of(item: ToolApprovalItem, state: Any) -> HostCall | None:
    """Returns the call of another process's interruption; None if state and tools do not determine it."""
    tools = {getattr(tool, "qualified_name", None): tool for tool in getattr(item.agent, "tools", ())}
    needs = getattr(tools.get(item.qualified_name), "needs_approval", None)
    if state is None or not isinstance(needs, NeedsApproval):
        return None
    try:
        params = read_object(item.arguments or "", item.tool_name or "")
        call = needs.shown_call(state._context, params, item.call_id or "")  # noqa: SLF001 - no public way to it
    except (InputError, ModelBehaviorError):
        return None
    return replace(call, agent=getattr(item.agent, "name", None)) if call.conversation else None


def _adapter_of(item: ToolApprovalItem) -> OpenAIAdapter:
    guardagent_attachment = getattr(item.agent, "guardagent_attachment", None)
    if guardagent_attachment is None:
        raise InputError("this is not an interruption of a guarded agent; expected one of 'result.interruptions'")
    return guardagent_attachment  # type: ignore[no-any-return]
