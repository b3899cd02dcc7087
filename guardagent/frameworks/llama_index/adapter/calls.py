"""Judges and runs the calls of an agent's tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from llama_index.core.agent.workflow.multi_agent_workflow import handoff
from workflows.runtime.types.results import WaitingForEvent

from guardagent._support.execution import Procedure, adrive, drive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.enforcement.hosts import HostApproval, as_judged, noted_denial, paused_calls
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.llama_index.adapter.approvals import ask_host, explained
from guardagent.frameworks.llama_index.adapter.arguments import LlamaArguments
from guardagent.frameworks.llama_index.adapter.guarded_tool import Work
from guardagent.frameworks.llama_index.adapter.outcomes import failure_of, outcome_of
from guardagent.frameworks.llama_index.adapter.runs import SURROUNDINGS, UNNAMED, LlamaScope, scope

HANDOFF = handoff.__name__


class LlamaCalls:
    """Judges and runs calls.

    Args:
        guard: decides.
        named: returns the operator's name of the conversation.
    """

    def __init__(self, guard: EnforcementPoint, named: Callable[[], str | None]) -> None:
        self.guard, self._named = guard, named
        self._host_approval = HostApproval(guard)

    def invoke(self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work) -> Any:
        """Judges a call, and runs it with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
        """
        return drive(self._steps(arguments, args, kwargs, work, awaited=False))

    async def ainvoke(
        self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work
    ) -> Any:
        """As `invoke`, for coroutine functions."""
        return await adrive(self._steps(arguments, args, kwargs, work, awaited=True))

    def _steps(
        self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work, *, awaited: bool
    ) -> Procedure[Any]:
        around = scope() or LlamaScope(self._named())
        name, life = arguments.spec.name, self.guard.lifecycle
        try:
            own, apart = arguments.bind(args, kwargs)
            shown = _shown(name, own)
            plain = plain_arguments(shown)
            call = self._call(name, plain, around, _validation(arguments, apart))
        except InputError as error:
            verdict = yield from life.refuse(self._call(name, {}, around), str(error))
            raise noted_denial(ToolDenied(name, verdict), around, UNNAMED) from None
        paused = paused_calls(self.guard, call.conversation)
        started = paused.pop((name, around.tool_id), None)
        if started is not None and started.args == call.args:
            call, judged = started, shown
        else:
            try:
                call, judged = yield from life.authorize(call, self._judge(call, around, awaited=awaited))
            except ToolDenied as denied:
                raise noted_denial(denied, around, UNNAMED) from None
        live = _received(name, as_judged(judged, shown, plain))
        inside = replace(around, conversation=call.conversation, call=call)

        def failure(error: BaseException) -> Outcome | None:
            if isinstance(error, WaitingForEvent):  # the tool asks a person itself: it runs again, as the same call
                paused[name, around.tool_id] = call
                return None
            return failure_of(error)

        return (yield from life.execute(call, SURROUNDINGS.within(inside, work(**live, **apart)), outcome_of, failure))

    def _judge(self, call: HostCall, around: LlamaScope, *, awaited: bool) -> Procedure[JudgedCall]:
        """Judges a call. If a rule escalates it and the guard has no approver, the host asks a reviewer."""
        can_ask = awaited and around.ctx is not None and around.call is None and bool(call.conversation)
        if can_ask and self._host_approval.may_be_needed:
            judged = yield from ask_host(self.guard, replace(call, step=None, messages=None, seen=None), around.ctx)
            if judged is not None:
                return judged
        verdict, call = yield from self.guard.lifecycle.judge(call)
        return explained(verdict), call

    def _call(self, name: str, args: Mapping[str, Any], around: LlamaScope, validate_edit: Any = None) -> HostCall:
        options: dict[str, Any] = {"validate_edit": validate_edit}
        if around.run is not None:
            options |= around.run.call_options(nested=around.call is not None)
        if around.tool_id is not None and around.call is None:
            options["id"] = around.tool_id
        action = {"action": HANDOFF} if name == HANDOFF else {}
        return HostCall(name, args, around.conversation, agent=around.agent, **action, **options)


def _validation(
    arguments: LlamaArguments, apart: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    name = arguments.spec.name

    def validated(edited: Mapping[str, Any]) -> Mapping[str, Any]:
        own, _ = arguments.bind((), {**_received(name, edited), **apart})
        return plain_arguments(_shown(name, own))

    return validated


def _shown(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments as rules know them: those of a hand-off are `to` and `reason`."""
    if name != HANDOFF or "to_agent" not in args:
        return dict(args)
    return {"to" if key == "to_agent" else key: value for key, value in args.items()}


def _received(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments as the tool knows them."""
    if name != HANDOFF:
        return dict(args)
    return {"to_agent" if key == "to" else key: value for key, value in args.items()}
