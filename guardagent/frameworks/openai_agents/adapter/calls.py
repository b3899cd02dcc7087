"""Judges and runs the calls of tools in place of their own invocation, and judges the agent's final answer.

A tool runs with the judged arguments. The SDK does not pass on whether an MCP server's answer is an error, so that is
observed here. The final answer is judged before the user sees it, by an output guardrail of the SDK.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from agents import (
    FunctionTool,
    GuardrailFunctionOutput,
    MCPToolCancellationError,
    ModelBehaviorError,
    OutputGuardrail,
    UserError,
)
from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
from agents.tool import maybe_invoke_function_tool_failure_error_function
from mcp.shared import exceptions
from pydantic_core import to_jsonable_python

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement.approval import Approval, with_edits
from guardagent.enforcement.calls import HostCall, Outcome, plain_value
from guardagent.enforcement.lifecycle import CallLifecycle, JudgedCall
from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.openai_agents.adapter.approvals import Bound, ToolBody, host_approval
from guardagent.frameworks.openai_agents.adapter.attachment_base import BaseAttachment
from guardagent.frameworks.openai_agents.adapter.runs import (
    AgentRun,
    DenialText,
    RunHalted,
    RunScope,
    chat,
    denial_text,
    enter,
    scope,
)
from guardagent.types import Decision, freeze, unchecked_verdict

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

_CHANGED = unchecked_verdict("the call was changed between its judgement and the tool", checked_by="policy")


def _enclosing_call(call: HostCall) -> HostCall | None:
    """Returns the enclosing call if it is the same one: a wrapper of a guarded tool was guarded again."""
    around = scope()
    outer = around.call if around is not None else None
    same = outer is not None and (outer.conversation, outer.tool, outer.id) == (call.conversation, call.tool, call.id)
    return outer if same else None


class Invoker:
    """`FunctionTool.on_invoke_tool` of a guarded tool.

    Args:
        attachment: has the guard, the conversation and the reviewer's answers.
        tool: the tool without the guard.
        body: the tool's implementation.
    """

    def __init__(self, attachment: BaseAttachment, tool: FunctionTool, body: ToolBody) -> None:
        self.attachment, self.body = attachment, body
        self._tool = tool
        self._handles = hasattr(tool.on_invoke_tool, "__agents_bind_function_tool__")

    @property
    def is_agent(self) -> bool:
        return bool(self._tool._is_agent_tool)  # noqa: SLF001 - the SDK has no public name for it

    async def __call__(self, context: Any, arguments: str) -> Any:
        """Judges, runs and records one call. The SDK turns an error into a message for the model."""
        try:
            return await self._invoke(context, arguments)
        except RunHalted:
            raise
        except Exception as error:
            message = None
            if self._handles:
                message = await maybe_invoke_function_tool_failure_error_function(
                    function_tool=self._tool, context=context, error=error
                )
            if message is None:
                raise
            return message

    async def _invoke(self, context: Any, arguments: str) -> Any:
        waiting = self.attachment.notes(context).pop(self._key(context), None)
        try:
            bound = self.body.bind(read_object(arguments, self._tool.name))
            shown = bound.shown()
        except InputError as error:
            unread = self.attachment.call(self._tool.qualified_name, {}, context, id=context.tool_call_id)
            return denial_text(self._tool.name, await self.attachment.guard.arefuse(unread, str(error)))
        name = self._tool.qualified_name
        call = self.attachment.call(name, shown, context, id=context.tool_call_id, validate_edit=self._validate_edit)
        if waiting is not None and waiting.args == call.args:
            return await self._execute(context, waiting, bound)
        if (outer := _enclosing_call(call)) is not None:
            return await bound.execute(context) if outer.args == call.args else denial_text(name, _CHANGED)
        try:
            call, args = await adrive(self._life.authorize(call, self._judge(context, call)))
            bound = await self._bind_judged(call, bound, args)
        except ToolDenied as denial:
            return denial_text(name, denial.verdict)
        except InputError as error:
            return denial_text(call.tool, unchecked_verdict(str(error), checked_by="policy"))
        return await self._execute(context, call, bound)

    def _validate_edit(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self.body.rebind(edited).shown()

    @property
    def _life(self) -> CallLifecycle:
        return self.attachment.guard.lifecycle

    def _judge(self, context: Any, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call with the reviewer's edits. The guard resolves the approvals that the SDK holds."""
        guard, shown_call, host = self.attachment.guard, replace(call, step=None), host_approval(context, self._tool)
        self.attachment.drop_pending(shown_call)
        if host is None or (host == "always" and not guard.has_request(shown_call)):
            return (yield from self._decide(call))
        approval = self.attachment.notes(context).pop(("said", shown_call.digest), None)
        approval = (approval or Approval("approve", by="the host's approval", of=shown_call.digest)).validated(
            self._validate_edit
        )
        if approval.choice == "edit":
            return (yield from self._decide(with_edits(call, approval)))
        verdict = yield from self._life.resolve(shown_call, approval)
        if verdict.decision is Decision.ESCALATE and guard.approver is not None:
            return (yield from self._decide(call))  # the operator's approval lifts no rule
        return verdict, shown_call

    def _decide(self, call: HostCall) -> Procedure[JudgedCall]:
        verdict, call = yield from self.attachment.judge(call)
        if verdict.decision is Decision.ESCALATE and self.attachment.guard.approver is None:
            verdict = replace(verdict, errors=(*verdict.errors, _STANDING_APPROVAL))
        return verdict, call

    async def _bind_judged(self, call: HostCall, bound: Bound, judged: Mapping[str, Any]) -> Bound:
        """Returns the arguments that run: exactly the judged ones.

        Raises:
            InputError: the tool would get other arguments than the edited ones.
        """
        if freeze(bound.shown()) == freeze(judged):
            return bound
        try:
            return self._bound_to(call, judged)
        except (InputError, ModelBehaviorError) as error:
            await self.attachment.guard.awithdraw(call, error_text(error), used=True)
            raise InputError(error_text(error)) from None

    def _bound_to(self, call: HostCall, judged: Mapping[str, Any]) -> Bound:
        bound = self.body.rebind(judged)
        if freeze(bound.shown()) != freeze(judged):
            raise InputError(f"{call.tool!r} would get other arguments than the judged ones")
        return bound

    async def _execute(self, context: Any, call: HostCall, bound: Bound) -> Any:
        inside = RunScope(call.conversation, AgentRun() if self.is_agent else None, call)

        async def work() -> tuple[Any, ServerAnswer]:
            with enter(inside), observed_answer() as server:
                return await bound.execute(context), server

        def outcome(result: tuple[Any, ServerAnswer]) -> Outcome | None:
            output, server = result
            if self._is_paused(context):
                self.attachment.notes(context)[self._key(context)] = call
                return None
            failed = server.failed or isinstance(output, DenialText)
            return Outcome(server.shown(output), failed=failed, other_outputs=server.parts)

        output, _ = await adrive(self._life.execute(call, Operation(work, work), outcome, self._outcome_of))
        return output

    def _outcome_of(self, error: BaseException) -> Outcome:
        if isinstance(error, MCPToolCancellationError):
            return Outcome(error_text(error), failed=None, ended=False)
        if self._tool._mcp_tool_binding is not None and not isinstance(error, UserError | McpError):  # noqa: SLF001
            return Outcome(error_text(error), failed=None)  # the connection broke: the server may have done its work
        return Outcome.of_error(error)

    def _is_paused(self, context: Any) -> bool:
        """Whether an agent as a tool waits for approval; it is called again after the answer."""
        if not self.is_agent or context.tool_call is None:
            return False
        nested = peek_agent_tool_run_result(context.tool_call, scope_id=get_agent_tool_state_scope(context))
        return bool(getattr(nested, "interruptions", None))

    def _key(self, context: Any) -> tuple[str, str, str]:
        return "paused", self._tool.qualified_name, context.tool_call_id


# --- final answers


class AnswerGuardrail(OutputGuardrail[Any]):
    """Trips if the answer is denied; `output_info` is the verdict."""

    @classmethod
    def of(cls, attachment: BaseAttachment) -> AnswerGuardrail:
        async def judge(context: Any, agent: Any, output: Any) -> Any:  # noqa: ARG001 - the SDK's signature
            return await _judge(attachment, context, output)

        return cls(guardrail_function=judge, name="guardagent")


async def _judge(attachment: BaseAttachment, context: Any, output: Any) -> Any:
    around, run = scope(), attachment.run_of(context)
    if (around is not None and around.inside) or (run.final is not None and output == run.final):
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)
    text = output if isinstance(output, str) else _json(output)
    beside = run.texts[:-1]  # the SDK's answer is only the last message of a response; the user may see them all
    text = "\n".join([*(one for one in beside if one not in text), text])
    user_messages = [one["content"] for one in chat(run.input) if one["role"] == "user"]
    conversation = attachment.conversation_of(context) or ""
    verdict = await attachment.guard.aanswer(conversation, user_messages[-1] if user_messages else "", text)
    return GuardrailFunctionOutput(output_info=verdict.to_dict(), tripwire_triggered=bool(verdict.label))


def _json(output: Any) -> str:
    """Returns a structured answer as text: what its values hold, as for arguments, if that has a form."""
    try:
        plain = plain_value(output, "the answer")
    except InputError:
        plain = to_jsonable_python(output, fallback=repr)
    return json.dumps(plain, ensure_ascii=False, default=str)
