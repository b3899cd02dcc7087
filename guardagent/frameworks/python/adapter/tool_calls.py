"""Runs the tool calls of one model message: all are judged, then they run one after the other."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from guardagent._support.execution import Operation, Procedure, adrive, combine, drive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import InputError, ToolDenied, error_text, name_hint
from guardagent.frameworks.python.adapter.attachment import add, ensure_attached
from guardagent.frameworks.python.adapter.caller_context import (
    ConversationSource,
    conversation_id,
    current_agent,
    guarded_call,
)
from guardagent.frameworks.python.adapter.functions import GuardedFunction, guarded_function, tool_of
from guardagent.frameworks.python.adapter.messages import (
    Transcript,
    call_arguments,
    call_name,
    get_field,
    output_text,
    tool_message,
)
from guardagent.frameworks.python.adapter.tool import Fn
from guardagent.types import Decision, Verdict, unchecked_verdict

Tools = Mapping[str, Fn] | Iterable[Fn]
_WHY = "another call of the same message ended the run"
_NOT_RUN = f"not run: {_WHY}"


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """The results of the tool calls of a message.

    Attributes:
        messages: the answer to each call, in their order.
        verdicts: the verdict on each.
        ended: why the run must end: `halted`, or `gave up` after too many replans; else None.
        why: the reason, for the user.
    """

    messages: list[dict[str, Any]]
    verdicts: list[Verdict]
    ended: Literal["halted", "gave up"] | None = None
    why: str = ""


def run_tool_calls(
    tool_calls: Iterable[Any] | None,
    tools: Tools,
    guard: EnforcementPoint,
    *,
    conversation: ConversationSource = None,
    messages: Sequence[Any] | None = None,
    agent: str | None = None,
) -> ToolTurn:
    """Judges the tool calls of a message, runs the allowed ones, and returns the messages that answer them.

    All calls are judged before the first runs, so that each is judged with the earlier ones in flight; they run in the
    order of the message. An Exception of a tool becomes a message for the model; an interruption passes through.

    Args:
        tool_calls: `message.tool_calls`, as objects of a client library or as dicts.
        tools: name -> function, or functions with names, guarded or not: each call is judged once.
        guard: decides.
        conversation: its id, or a function that returns it; by default that of the `with conversation(id):` around.
        messages: the conversation so far, for rules that read it. Its tool results must be known to the guard.
        agent: the agent that proposes the calls.

    Raises:
        InputError: there is no conversation, or a tool is invalid.
    """
    turn = _ToolCallBatch(tools, guard, messages, conversation_id(conversation), agent)
    turn.refuse_coroutines()
    with guarded_call(turn.conversation, agent):
        return drive(turn.steps(tool_calls))


async def arun_tool_calls(
    tool_calls: Iterable[Any] | None,
    tools: Tools,
    guard: EnforcementPoint,
    *,
    conversation: ConversationSource = None,
    messages: Sequence[Any] | None = None,
    agent: str | None = None,
) -> ToolTurn:
    """As `run_tool_calls`, for coroutine functions; plain functions run in the event loop."""
    turn = _ToolCallBatch(tools, guard, messages, conversation_id(conversation), agent)
    with guarded_call(turn.conversation, agent):
        return await adrive(turn.steps(tool_calls))


@dataclass(slots=True)
class _ProposedCall:
    """A call of the message, with its verdict and result.

    `raised` is its tool's error, and `inner` the verdict on a denied call that its tool made, as in a sub-agent.
    """

    id: Any
    call: HostCall
    function: GuardedFunction | None = None
    problem: str | None = None
    verdict: Verdict = field(default_factory=lambda: unchecked_verdict("not judged"))
    inner: Verdict | None = None
    content: str = _NOT_RUN
    raised: BaseException | None = None

    def failure(self, error: BaseException) -> Outcome:
        """Notes the tool's error. The model gets an Exception as a message; other errors pass through."""
        self.raised = error
        if isinstance(error, Exception):
            self.content, self.inner = _error_message(error), error.verdict if isinstance(error, ToolDenied) else None
        return Outcome.of_error(error)


class _ToolCallBatch:
    """The calls of one message, and the context that they are judged in."""

    def __init__(
        self, tools: Tools, guard: EnforcementPoint, messages: Any, conversation: str, agent: str | None
    ) -> None:
        self.guard, self.conversation = guard, conversation
        self._functions = _guarded_functions(tools, guard)
        self._options: dict[str, Any] = {"agent": agent or current_agent(), "step": secrets.token_hex(8)}
        if messages is not None:
            transcript = Transcript.of(guard, conversation)
            transcript.read(messages)
            self._options |= {"messages": transcript.messages, "seen": transcript.seen}

    def refuse_coroutines(self) -> None:
        odd = next((function.tool.name for function in self._functions.values() if function.tool.is_async), None)
        if odd is not None:
            raise InputError(f"{odd!r} is a coroutine function; call 'await arun_tool_calls(...)'")

    def steps(self, tool_calls: Iterable[Any] | None) -> Procedure[ToolTurn]:
        proposed = [self._proposed(call) for call in tool_calls or ()]
        for one in proposed:
            yield from self._judge(one)
        halted = any(one.verdict.decision is Decision.HALT for one in proposed)
        yield from self._withdraw(proposed) if halted else self._run_all(proposed)
        return _result(proposed)

    def _proposed(self, call: Any) -> _ProposedCall:
        """Reads a call of the message, with the problem if it cannot be judged."""
        name, call_id = call_name(call), get_field(call, "id")
        about = {**self._options, **({"id": call_id} if isinstance(call_id, str) and call_id else {})}
        function = self._functions.get(name)
        try:
            if function is None:
                raise InputError(f"unknown tool {name!r}{name_hint(name, self._functions)}")  # noqa: TRY301 - one way out
            args = function.tool.read(call_arguments(call))
        except InputError as error:
            return _ProposedCall(call_id, HostCall(name, {}, self.conversation, **about), None, str(error))
        return _ProposedCall(call_id, function.proposed(args, self.conversation, apart={}, **about), function)

    def _judge(self, one: _ProposedCall) -> Procedure[None]:
        life = self.guard.lifecycle
        if one.problem is None:
            one.verdict = yield from life.before(one.call)
        if one.problem is not None or one.verdict.decision is Decision.ESCALATE:
            problem = one.problem or "it needs human approval, and has none"
            refused = yield from life.refuse(one.call, problem)
            one.verdict = refused if one.problem is not None else combine(one.verdict, refused)
        one.content = one.verdict.feedback() if one.verdict.label else _NOT_RUN

    def _run_all(self, proposed: Sequence[_ProposedCall]) -> Procedure[None]:
        waiting = [one for one in proposed if one.verdict.label == 0]
        try:
            while waiting:
                one = waiting.pop(0)
                yield from self._run(one)
                if one.inner is not None and one.inner.decision is Decision.HALT:
                    break
        finally:
            for one in waiting:
                self.guard.withdraw(one.call, _WHY)

    def _run(self, one: _ProposedCall) -> Procedure[None]:
        life, function = self.guard.lifecycle, one.function
        assert function is not None
        try:
            args = yield from life.use(one.call)
        except InputError as error:
            one.content = f"This is not allowed: {error}"
            return
        work = Operation(partial(function.run, args), partial(function.arun, args))
        try:
            output = yield from life.execute(one.call, work, function.outcome, one.failure)
        except Exception as error:
            if error is not one.raised:
                raise  # it is none of the tool's
        else:
            one.content = output_text(output)

    def _withdraw(self, proposed: Sequence[_ProposedCall]) -> Procedure[None]:
        """Withdraws the allowed calls of a message that halts the run."""
        for one in proposed:
            if one.verdict.label == 0:
                yield from self.guard.lifecycle.withdraw(one.call, _WHY)


def _guarded_functions(tools: Tools, guard: EnforcementPoint) -> dict[str, GuardedFunction]:
    """Returns the tools by name. A function that is not guarded yet is attached."""
    if isinstance(tools, Mapping):
        function = {
            name: guarded_function(fn, guard) or GuardedFunction(guard, tool_of(fn, name)) for name, fn in tools.items()
        }
    else:
        function = {}
        for fn in tools:
            one = guarded_function(fn, guard) or GuardedFunction(guard, tool_of(fn))
            if one.tool.name in function:
                raise InputError(f"two tools are named {one.tool.name!r}; expected unique names")
            function[one.tool.name] = one
    add(guard, [one.tool for one in function.values()])
    ensure_attached(guard)
    return function


def _result(proposed: Sequence[_ProposedCall]) -> ToolTurn:
    messages = [tool_message(one.id, one.content) for one in proposed]
    verdicts = [one.verdict for one in proposed]
    every = [*verdicts, *(one.inner for one in proposed if one.inner is not None)]
    for verdict in every:
        if verdict.decision is Decision.HALT:
            return ToolTurn(messages, verdicts, "halted", "; ".join(verdict.reasons))
    last = next((verdict for verdict in every if gave_up(verdict)), None)
    if last is not None:
        return ToolTurn(messages, verdicts, "gave up", "; ".join(last.reasons))
    return ToolTurn(messages, verdicts)


def _error_message(error: Exception) -> str:
    return str(error) if isinstance(error, ToolDenied) else f"Error: {error_text(error)}"
