"""Judges and runs the calls of tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent_framework import MiddlewareTermination

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement import Approval, EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.enforcement.hosts import awaited, copied_values, noted_denial
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.agent_framework.adapter.approvals import ANSWER, FunctionApprovalNeeded, call_shown
from guardagent.frameworks.agent_framework.adapter.arguments import FunctionToolArguments
from guardagent.frameworks.agent_framework.adapter.guarded_tool import Work
from guardagent.frameworks.agent_framework.adapter.outcomes import outcome_of, outcome_of_error, outcome_of_server_error
from guardagent.frameworks.agent_framework.adapter.runs import SURROUNDINGS, UNNAMED, ClientScope, scope
from guardagent.types import Decision, unchecked_verdict

HANDOFF = "handoff"
_CANNOT_ASK = (
    "this run cannot wait for a reviewer: pass session=... to it, or give the guard an approver; an agent that runs "
    "as a tool always needs an approver"
)


class FunctionToolCalls:
    """Judges and runs calls.

    Args:
        guard: decides.
        named: returns the operator's name of the conversation.
    """

    def __init__(self, guard: EnforcementPoint, named: Callable[[], str | None]) -> None:
        self.guard, self._named = guard, named

    async def invoke(self, arguments: FunctionToolArguments, kwargs: Mapping[str, Any], work: Work) -> Any:
        """Judges a call at the function of its tool, and runs it with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
            FunctionApprovalNeeded: it waits for a reviewer.
        """
        return await adrive(self._steps(arguments, kwargs, work))

    async def hand_over(self, to: str, args: Mapping[str, Any], work: Callable[[], Any]) -> Any:
        """Judges a hand-off to an agent, and lets the host hand over.

        Raises:
            ToolDenied: the conversation stays with its agent.
            FunctionApprovalNeeded: it waits for a reviewer.
        """
        return await adrive(self._handed_over(to, args, work))

    async def refuse(self, name: str, problem: str) -> ToolDenied:
        """Returns the denial of a call that cannot be judged."""
        around = self._around()
        verdict = await self.guard.arefuse(self._call(name, {}, around), problem)
        return noted_denial(ToolDenied(name, verdict), around, UNNAMED)

    def _steps(self, arguments: FunctionToolArguments, kwargs: Mapping[str, Any], work: Work) -> Procedure[Any]:
        around = self._around()
        proposed, own, apart = yield from self._proposed(arguments, kwargs, around)
        call, judged = yield from self._authorized(proposed, around)
        live = own
        if call is not proposed:
            live = yield from self._edited(arguments, call, around, lambda: arguments.rebound(judged, own, apart))
        if arguments.context is not None and (context := apart.get(arguments.context)) is not None:
            context.arguments = copied_values(live)  # a middleware may keep it while the tool runs
        running = SURROUNDINGS.within(around.within(call), awaited(lambda: work({**live, **apart})))
        failure = outcome_of_server_error if arguments.server else outcome_of_error
        return (yield from self.guard.lifecycle.execute(call, running, outcome_of, failure))

    def _proposed(
        self, arguments: FunctionToolArguments, kwargs: Mapping[str, Any], around: ClientScope
    ) -> Procedure[tuple[HostCall, dict[str, Any], dict[str, Any]]]:
        """Returns a call with its arguments as the function gets them, and what is not judged.

        Raises:
            ToolDenied: the arguments cannot be judged.
        """
        name = arguments.spec.name
        try:
            own, apart = arguments.bind(kwargs)
            validate = lambda edited: plain_arguments(arguments.of_edit(edited, apart))  # noqa: E731
            return self._call(name, plain_arguments(own), around, validate), own, apart
        except InputError as error:
            verdict = yield from self.guard.lifecycle.refuse(self._call(name, {}, around), str(error))
            raise noted_denial(ToolDenied(name, verdict), around, UNNAMED) from None

    def _edited(
        self,
        arguments: FunctionToolArguments,
        call: HostCall,
        around: ClientScope,
        rebound: Callable[[], dict[str, Any]],
    ) -> Procedure[dict[str, Any]]:
        """Returns the arguments of an answered call in the types of the function.

        Raises:
            ToolDenied: the function would get others than the judged ones.
        """
        try:
            return rebound()
        except Exception as error:  # noqa: BLE001 - the call has a permit, and does not run
            yield from self.guard.lifecycle.withdraw(call, error_text(error), used=True)
            verdict = unchecked_verdict(error_text(error), checked_by="policy")
            raise noted_denial(ToolDenied(arguments.spec.name, verdict), around, UNNAMED) from None

    def _handed_over(self, to: str, args: Mapping[str, Any], work: Callable[[], Any]) -> Procedure[Any]:
        around, life = self._around(), self.guard.lifecycle
        call, _ = yield from self._authorized(
            self._call(HANDOFF, {**args, "to": to}, around, _uneditable, HANDOFF), around
        )
        return (yield from life.execute(call, Operation(work, work), lambda _: Outcome(), _of_hand_off))

    def _authorized(self, call: HostCall, around: ClientScope) -> Procedure[tuple[HostCall, dict[str, Any]]]:
        try:
            return (yield from self.guard.lifecycle.authorize(call, self._judge(call, around)))
        except ToolDenied as denied:
            raise noted_denial(denied, around, UNNAMED) from None

    def _judge(self, call: HostCall, around: ClientScope) -> Procedure[JudgedCall]:
        """Judges a call, with a reviewer's answer if there is one.

        Raises:
            FunctionApprovalNeeded: a rule escalates it, and the host can ask a reviewer.
        """
        life, edited = self.guard.lifecycle, False
        if around.answered is None:
            verdict, call = yield from life.judge(call)
        else:
            try:
                call = call_shown(call, around.answered)
            except Exception as error:  # noqa: BLE001 - a host's validation of what a client sends
                return (yield from life.refuse(call, error_text(error))), call
            approval = Approval.read(around.answered[ANSWER]).validated(call.validate_edit)
            verdict = yield from life.resolve(call, approval)
            call, edited = (
                with_edits(call, approval),
                approval.choice == "edit" or around.answered.get("edited") is True,
            )
        if verdict.decision is Decision.ESCALATE and self.guard.approver is None:
            if around.asks and around.call is None and call.conversation:
                raise FunctionApprovalNeeded(life.request(call, verdict), call, edited=edited)
            verdict = replace(verdict, errors=(*verdict.errors, _CANNOT_ASK))
        return verdict, call

    def _around(self) -> ClientScope:
        return scope() or ClientScope(self._named())

    def _call(
        self,
        name: str,
        args: Mapping[str, Any],
        around: ClientScope,
        validate_edit: Any = None,
        action: str | None = None,
    ) -> HostCall:
        options: dict[str, Any] = {"validate_edit": validate_edit, "action": action}
        if around.run is not None:
            options |= around.run.call_options(nested=around.call is not None)
        if around.tool_id is not None and around.call is None:
            options["id"] = around.tool_id
        return HostCall(name, args, around.conversation, agent=around.agent, **options)


def _uneditable(args: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG001 - as the other validations
    raise InputError("the host hands over to the agent that the model named; expected 'approve' or 'reject'")


def _of_hand_off(error: BaseException) -> Outcome:
    """Returns the outcome of a hand-off: the host ends the run with an exception of its own."""
    return Outcome() if isinstance(error, MiddlewareTermination) else Outcome.of_error(error)
