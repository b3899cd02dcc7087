"""Judges and runs the calls of an agent's tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from crewai.tools.tool_failure import ToolFailure, ToolFailureReason

from guardagent._support.execution import Procedure, adrive, drive
from guardagent.enforcement import EnforcementPoint, HostCall
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.hosts import as_judged, noted_denial, proposed_ids
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.crewai.adapter.arguments import CrewArguments
from guardagent.frameworks.crewai.adapter.guarded_tool import CrewTool
from guardagent.frameworks.crewai.adapter.messages import chat, result_ids
from guardagent.frameworks.crewai.adapter.outcomes import outcome_of, outcome_of_error
from guardagent.frameworks.crewai.adapter.runs import SURROUNDINGS, UNNAMED, CrewScope, scope


class CrewCalls:
    """Judges and runs calls.

    A denial and a tool's error are the host's `ToolFailure`, not exceptions: the host repeats a call that raised, up to
    five times, without a proposal of the model.

    Args:
        guard: decides.
        named: returns the operator's name of the conversation.
    """

    def __init__(self, guard: EnforcementPoint, named: Callable[[], str | None]) -> None:
        self.guard, self._named = guard, named

    def invoke(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return drive(self._steps(tool, args, kwargs))

    async def ainvoke(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return await adrive(self._steps(tool, args, kwargs))

    def _steps(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Procedure[Any]:
        around = scope() or CrewScope(self._named())
        arguments, life = tool.guardagent_arguments, self.guard.lifecycle
        try:
            own, apart = arguments.bind(args, kwargs)
            plain = plain_arguments(own)
            proposed = self._call(arguments, plain, around, _validation(arguments, apart))
        except InputError as error:
            verdict = yield from life.refuse(self._call(arguments, {}, around), str(error))
            return self._failure(ToolDenied(arguments.spec.name, verdict), around, tool)
        try:
            call, judged = yield from life.authorize(proposed)
        except ToolDenied as denied:
            return self._failure(denied, around, tool)
        inside = replace(around, conversation=call.conversation, call=call, tool_id=None)
        live = own if call is proposed else as_judged(judged, own, plain)
        work = SURROUNDINGS.within(inside, tool.work({**live, **apart}))
        remote = tool.guardagent_server is not None
        try:
            return (yield from life.execute(call, work, outcome_of, lambda one: outcome_of_error(one, remote=remote)))
        except Exception as error:
            if around.run is None or around.run.executor is None:
                raise
            return _failed(error)

    def _call(
        self, arguments: CrewArguments, args: Mapping[str, Any], around: CrewScope, validate_edit: Any = None
    ) -> HostCall:
        run, options = around.run, {"validate_edit": validate_edit}
        executor = run.executor if run is not None else None
        if run is not None and executor is not None:
            options |= {"step": run.step, "agent": executor.agent.role.strip()}
        if executor is not None and around.call is None:
            messages = executor.state.messages
            proposed = proposed_ids(self.guard, around.conversation)
            seen = [one for one in result_ids(messages) if one not in proposed]
            options |= {"messages": chat(messages), "seen": seen}
        if around.tool_id is not None:
            options["id"] = around.tool_id
        return HostCall(arguments.spec.name, args, around.conversation, **options)

    def _failure(self, denied: ToolDenied, around: CrewScope, tool: CrewTool) -> ToolFailure:
        """Returns a denial in the host's form."""
        tool.forget_use()
        denied = noted_denial(denied, around, UNNAMED)
        details = {"decision": str(denied.verdict.decision.value), "rules": list(denied.verdict.rules)}
        return ToolFailure(message=str(denied), details=details)


def _failed(error: Exception) -> ToolFailure:
    """Returns a tool's error in the host's form."""
    message, code = f"Error executing tool: {error_text(error)}", type(error).__name__
    return ToolFailure(message=message, reason=ToolFailureReason.EXCEPTION, code=code)


def _validation(arguments: CrewArguments, apart: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Returns what turns a reviewer's edits into the arguments that the tool would get."""

    def validated(edited: Mapping[str, Any]) -> Mapping[str, Any]:
        fitted = arguments.validate({**edited, **apart})
        return plain_arguments(arguments.bind((), {**fitted, **apart})[0])

    return validated
