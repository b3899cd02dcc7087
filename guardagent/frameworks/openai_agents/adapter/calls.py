"""Judges and runs the calls of tools and the hand-offs in place of the SDK's own, and judges the agent's final answer.

A tool runs with the judged arguments. The SDK does not pass on whether an MCP server's answer is an error, so that is
observed here. The final answer is judged before the user sees it, by an output guardrail of the SDK.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    MCPToolCancellationError,
    OutputGuardrail,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    UserError,
    handoff,
)
from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
from agents.tool import maybe_invoke_function_tool_failure_error_function
from mcp.shared import exceptions
from pydantic_core import to_jsonable_python

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement.approval import BY_HOST, Approval, with_edits
from guardagent.enforcement.calls import HostCall, Outcome, plain_value
from guardagent.enforcement.host_adapter import HANDOFF, ToolInvocation, explained, last_user_text
from guardagent.enforcement.host_runs import awaited
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.schema import read_object, validate_arguments
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.openai_agents.adapter.approvals import ToolBody, host_approval, shown_arguments
from guardagent.frameworks.openai_agents.adapter.runs import (
    AgentRun,
    DenialText,
    OpenAIAdapter,
    RunHalted,
    RunScope,
    chat,
    denial_text,
    scope,
)
from guardagent.types import Decision, Verdict, unchecked_verdict

# --- answers of MCP servers

# An error that the server itself answered with; mcp 2 spells it otherwise than mcp 1.
McpError: type[Exception] = getattr(exceptions, "MCPError", None) or exceptions.McpError


@dataclass(slots=True)
class ServerAnswer:
    """A server's answer to the running call.

    Attributes:
        failed: whether the answer is an error.
        seen: whether there was an answer; there is none for a tool outside an MCP server.
        parts: the output that the SDK shows, and the structured content.
    """

    failed: bool = False
    seen: bool = False
    parts: tuple[Any, ...] = ()

    def shown(self, output: Any) -> Any:
        """The tool's output as rules see it: of a single text, the text."""
        if self.seen and isinstance(output, dict) and output.get("type") == "text":
            return output.get("text")
        return output


_answer: ContextVar[ServerAnswer | None] = ContextVar("guardagent_mcp_answer", default=None)


@contextmanager
def observed_answer() -> Iterator[ServerAnswer]:
    """Records a server's answer inside the block."""
    answer = ServerAnswer()
    token = _answer.set(answer)
    try:
        yield answer
    finally:
        _answer.reset(token)


class _AnswerExtractor:
    """The server's `custom_data_extractor`, the one hook that is shown the whole answer; the operator's own goes on."""

    def __init__(self, before: Any) -> None:
        self._before = before

    async def __call__(self, context: Any) -> Any:
        answer = _answer.get()
        if answer is not None:
            answer.seen, answer.failed = True, bool(context.is_error)
            answer.parts = (context.tool_output, context.structured_content)
        data = self._before(context) if self._before is not None else None
        return await data if inspect.isawaitable(data) else data


def observe(server: Any) -> None:
    """Records the answers of a server."""
    before = getattr(server, "custom_data_extractor", None)
    if not isinstance(before, _AnswerExtractor):
        server.custom_data_extractor = _AnswerExtractor(before)


# --- calls

_STANDING_APPROVAL = "this call needs its own human approval; a standing approval of the tool does not cover it"

_PARTS = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
_CHANGED = unchecked_verdict("the call was changed between its judgement and the tool", checked_by="policy")


class OpenAIInvocation(ToolInvocation[RunScope]):
    """One call of a tool.

    Args:
        adapter: has the guard, the conversation and the reviewer's answers.
        tool: the tool without the guard.
        body: the tool's implementation.
        context: the SDK's context of the tool.
        arguments: the JSON text of the model.

    Raises:
        ModelBehaviorError: the arguments do not fit, in the SDK's own words.
    """

    resumes = True
    adapter: OpenAIAdapter

    def __init__(
        self, adapter: OpenAIAdapter, tool: FunctionTool, body: ToolBody, context: Any, arguments: str
    ) -> None:
        super().__init__(adapter, tool.qualified_name, RunScope(adapter.conversation_of(context)))
        self._tool, self._body, self._context = tool, body, context
        self._server, self._problem = ServerAnswer(), None
        self._plain: Mapping[str, Any] = {}
        try:
            self.own = body.bind(read_object(arguments, tool.name))
            self._plain = shown_arguments(tool, self.own)
        except InputError as error:
            self._problem = error

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._problem is not None:
            raise self._problem
        return self.own, {}

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self._body.rebind(edited)

    def plain(self) -> Mapping[str, Any]:
        return self._plain

    def options(self) -> dict[str, Any]:
        return {
            **self.adapter.call_options(self._context, self.around.conversation),
            "id": self._context.tool_call_id,
        }

    def enclosing_call(self) -> HostCall | None:
        """Returns the enclosing call if it is the same one: a wrapper of a guarded tool was guarded again."""
        around = scope()
        outer = around.call if around is not None and self._problem is None else None
        same = (self.around.conversation, self.name, self._context.tool_call_id)
        return outer if outer is not None and (outer.conversation, outer.tool, outer.id) == same else None

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call with the reviewer's edits. The guard resolves the approvals that the SDK holds."""
        guard, pending, host = self.guard, self.adapter.pending, host_approval(self._context, self._tool)
        if host is None and not pending:
            return (yield from self._decide(call))
        shown_call = replace(call, step=None)
        pending.pop(shown_call.digest, None)
        if host is None or (host == "always" and not guard.has_request(shown_call)):
            return (yield from self._decide(call))
        approval = guard.notes(str(call.conversation)).pop(("said", shown_call.digest), None)
        approval = (approval or Approval("approve", by=BY_HOST, of=shown_call.digest)).validated(call.validate_edit)
        if approval.choice == "edit":
            return (yield from self._decide(with_edits(call, approval)))
        verdict = yield from guard.lifecycle.resolve(shown_call, approval)
        if verdict.decision is Decision.ESCALATE and guard.approver is not None:
            return (yield from self._decide(call))  # the operator's approval lifts no rule
        return verdict, shown_call

    def _decide(self, call: HostCall) -> Procedure[JudgedCall]:
        verdict, call = yield from self.guard.lifecycle.judge(call)
        return verdict if self.guard.approver is not None else explained(verdict, _STANDING_APPROVAL), call

    def inside(self, call: HostCall) -> RunScope:
        return RunScope(call.conversation, AgentRun() if is_agent(self._tool) else None, call)

    def work(self, args: Mapping[str, Any]) -> Operation:
        """Returns the work of the tool with these arguments."""

        async def work() -> Any:
            with observed_answer() as self._server:
                return await self._body.execute(self._context, args)

        return awaited(work)

    def outcome(self, output: Any) -> Outcome | None:
        if self.waits():
            return None
        server = self._server
        failed = server.failed or isinstance(output, DenialText)
        return Outcome(server.shown(output), failed=failed, other_outputs=server.parts)

    def tell(self, output: Any, line: str) -> Any:
        if self._tool.output_json_schema is not None or isinstance(output, DenialText):
            return output
        parts = output if isinstance(output, list) else [output]
        if parts and all(isinstance(part, _PARTS) for part in parts):
            return [*parts, ToolOutputText(text=line)]
        return super().tell(output, line)

    def tell_failure(self, text: Any) -> Any:
        """Returns the text of a failure with what ran, which the host's own text does not tell."""
        return f"{text}\n{self._note}" if self._note and self._note not in str(text) else text

    def failure(self, error: BaseException) -> Outcome:
        if isinstance(error, MCPToolCancellationError):
            return Outcome(error_text(error), failed=None, ended=False)
        if self._tool._mcp_tool_binding is not None and not isinstance(error, UserError | McpError):  # noqa: SLF001
            return Outcome(error_text(error), failed=None)  # the connection broke: the server may have done its work
        return Outcome.of_error(error)

    def waits(self) -> bool:
        """Whether an agent as a tool waits for approval; it is called again after the answer."""
        context = self._context
        if not is_agent(self._tool) or context.tool_call is None:
            return False
        nested = peek_agent_tool_run_result(context.tool_call, scope_id=get_agent_tool_state_scope(context))
        return bool(getattr(nested, "interruptions", None))


def is_agent(tool: FunctionTool) -> bool:
    """Whether a tool runs an agent."""
    return bool(tool._is_agent_tool)  # noqa: SLF001 - the SDK has no public name for it


class Invoker:
    """`FunctionTool.on_invoke_tool` of a guarded tool.

    Args:
        adapter: has the guard.
        tool: the tool without the guard.
        body: the tool's implementation.
    """

    def __init__(self, adapter: OpenAIAdapter, tool: FunctionTool, body: ToolBody) -> None:
        self.adapter, self._body, self.guardagent_inner = adapter, body, tool
        self._handles = hasattr(tool.on_invoke_tool, "__agents_bind_function_tool__")

    async def __call__(self, context: Any, arguments: str) -> Any:
        """Judges, runs and records one call. The SDK turns an error into a message for the model."""
        invocation = None
        try:
            invocation = OpenAIInvocation(self.adapter, self.guardagent_inner, self._body, context, arguments)
            return await self._invoke(invocation, context)
        except RunHalted:
            raise
        except Exception as error:
            message = None
            if self._handles:
                message = await maybe_invoke_function_tool_failure_error_function(
                    function_tool=self.guardagent_inner, context=context, error=error
                )
            if message is None:
                raise
            return message if invocation is None else invocation.tell_failure(message)

    async def _invoke(self, invocation: OpenAIInvocation, context: Any) -> Any:
        if (outer := invocation.enclosing_call()) is not None:
            if outer.args != invocation.plain():
                return denial_text(invocation.name, _CHANGED)
            return await self._body.execute(context, invocation.own)
        try:
            call, args = await adrive(invocation.allowed())
        except ToolDenied as denied:
            return denial_text(denied.tool, denied.verdict)
        output = await adrive(invocation.run(call, invocation.work(args)))
        if invocation.waits():
            invocation.pause(call)
        return output


# --- hand-offs

# The SDK asks for the message right after the hand-off, in the same task.
_denial: ContextVar[DenialText | None] = ContextVar("guardagent_handoff_denial", default=None)


def is_guarded_handoff(item: Any) -> bool:
    return isinstance(getattr(item, "on_invoke_handoff", None), _GuardedHandoff)


def target_of(item: Any) -> Any:
    """Returns the target agent of a hand-off; None if only running it determines the target."""
    if isinstance(item, Agent):
        return item
    reference = item._agent_ref  # noqa: SLF001 - there is no public way to it
    return reference() if reference is not None else None


def guarded_handoff(adapter: OpenAIAdapter, item: Any, guard_agent: Callable[[Any], None]) -> Any:
    """Returns the guarded hand-off; `guard_agent` guards the agent that it leads to."""
    before = handoff(item) if isinstance(item, Agent) else item
    created = copy.copy(before)
    created.on_invoke_handoff = _GuardedHandoff(adapter, before, guard_agent)
    created.get_transfer_message = lambda agent: _denial.get() or before.get_transfer_message(agent)
    if before.input_filter is not None:
        created.input_filter = lambda data: data if _denial.get() else before.input_filter(data)
    return created


class HandoffInvocation(ToolInvocation[RunScope]):
    """One hand-off, which is judged as the event `handoff(to=...)`."""

    edits_run = True
    target = "to"
    adapter: OpenAIAdapter

    def __init__(self, adapter: OpenAIAdapter, before: Handoff[Any, Any], context: Any, arguments: str | None) -> None:
        super().__init__(adapter, HANDOFF, RunScope(adapter.conversation_of(context)))
        self._before, self._context, self._arguments = before, context, arguments
        self.unread = {"to": before.agent_name}

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        name, schema = self._before.tool_name, self._before.input_json_schema
        model_input = read_object(self._arguments or "", name) if schema.get("properties") else {}
        args = validate_arguments(name, model_input, schema) if model_input else {}
        return {**self.unread, **({"input": args} if args else {})}, {}

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return dict(edited)

    def options(self) -> dict[str, Any]:
        return self.adapter.call_options(self._context, self.around.conversation)

    def outcome(self, output: Any) -> Outcome:
        return Outcome({"assistant": output.name})


class _GuardedHandoff:
    """`Handoff.on_invoke_handoff`. The SDK has no way to refuse a hand-off: a denied one stays with its agent."""

    def __init__(self, adapter: OpenAIAdapter, before: Handoff[Any, Any], guard_agent: Callable[[Any], None]) -> None:
        self._adapter, self.guardagent_inner, self._guard_agent = adapter, before, guard_agent

    async def __call__(self, context: Any, arguments: str | None = None) -> Any:
        _denial.set(None)
        invocation = HandoffInvocation(self._adapter, self.guardagent_inner, context, arguments)
        try:
            call, args = await adrive(invocation.allowed())
        except ToolDenied as denied:
            return self._stay(context, denied.verdict)
        return await adrive(invocation.execute(call, awaited(partial(self._hand_off, context, args))))

    async def _hand_off(self, context: Any, args: Mapping[str, Any]) -> Any:
        agent = await self.guardagent_inner.on_invoke_handoff(context, json.dumps(args.get("input") or {}))
        if agent.name != args["to"]:
            raise InputError(f"the hand-off to {args['to']!r} leads to {agent.name!r}; expected what was judged")
        self._guard_agent(agent)
        return agent

    def _stay(self, context: Any, verdict: Verdict) -> Any:
        denial = denial_text(HANDOFF, verdict)
        agent = self._adapter.run_of(context).agent
        if denial.final is not None or agent is None:
            raise RunHalted(HANDOFF, verdict)  # a hand-off cannot end a run with an answer
        _denial.set(denial)
        return agent


# --- final answers


class AnswerGuardrail(OutputGuardrail[Any]):
    """Trips if the answer is denied; `output_info` is the verdict."""

    @classmethod
    def of(cls, adapter: OpenAIAdapter) -> AnswerGuardrail:
        async def judge(context: Any, agent: Any, output: Any) -> Any:  # noqa: ARG001 - the SDK's signature
            return await _judge(adapter, context, output)

        return cls(guardrail_function=judge, name="guardagent")


async def _judge(adapter: OpenAIAdapter, context: Any, output: Any) -> Any:
    around, run = scope(), adapter.run_of(context)
    if (around is not None and around.inside) or (run.final is not None and output == run.final):
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)
    text = output if isinstance(output, str) else _json(output)
    beside = run.texts[:-1]  # the SDK's answer is only the last message of a response; the user may see them all
    text = "\n".join([*(earlier_text for earlier_text in beside if earlier_text not in text), text])
    conversation = adapter.conversation_of(context) or ""
    verdict = await adapter.guard.aanswer(conversation, last_user_text(chat(run.input)), text)
    return GuardrailFunctionOutput(output_info=verdict.to_dict(), tripwire_triggered=bool(verdict.label))


def _json(output: Any) -> str:
    """Returns a structured answer as text: what its values hold, as for arguments, if that has a form."""
    try:
        plain = plain_value(output, "the answer")
    except InputError:
        plain = to_jsonable_python(output, fallback=repr)
    return json.dumps(plain, ensure_ascii=False, default=str)
