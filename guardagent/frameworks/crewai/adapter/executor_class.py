"""The class of a guarded executor: it runs the steps of one agent."""

from __future__ import annotations

from functools import cache
from typing import Any

from crewai.agents.agent_executor import AgentExecutor
from crewai.agents.step_executor import StepExecutor
from crewai.utilities.agent_utils import extract_tool_call_info, is_inside_event_loop
from pydantic import PrivateAttr

from guardagent._support.requirements import require_parts
from guardagent.errors import InputError
from guardagent.frameworks.crewai.adapter.attachment_base import CrewParts
from guardagent.frameworks.crewai.adapter.runs import CrewScope, RunEndedError, enter, scope

EXECUTOR_PARTS = (
    "invoke",
    "invoke_async",
    "state",
    "tools",
    "original_tools",
    "tools_handler",
    "_execute_single_native_tool_call",
    "_handle_agent_action",
    "_ensure_step_executor",
    "_step_executor",
)
STEP_PARTS = ("_execute_text_tool_with_events", "_execute_native_tool_calls")


@cache
def guarded_executor_class(base: Any) -> Any:
    """Returns the class of an executor with a guard."""
    if not issubclass(base, AgentExecutor):
        raise InputError(f"the executor of this agent is a {base.__name__}; expected an AgentExecutor")
    if issubclass(base, _CrewExecutor):
        return base
    return type(base)(base.__name__, (_CrewExecutor, base), {"__module__": base.__module__})


class _CrewExecutor(AgentExecutor):
    """Runs within a run of the guard, and ends when its guard ends the run."""

    _guardagent: CrewParts | None = PrivateAttr(default=None)

    def invoke(self, inputs: dict[str, Any]) -> Any:
        if is_inside_event_loop():
            return self.invoke_async(inputs)
        with enter(_attachment(self).begin(self)):
            try:
                _check()
                return super().invoke(inputs)
            except RunEndedError as ended:
                return {"output": ended.reason}

    async def invoke_async(self, inputs: dict[str, Any]) -> dict[str, Any]:
        with enter(_attachment(self).begin(self)):
            try:
                _check()
                return await super().invoke_async(inputs)  # type: ignore[no-any-return]
            except RunEndedError as ended:
                return {"output": ended.reason}

    def _execute_single_native_tool_call(self, tool_call: Any) -> dict[str, Any]:
        with enter(_attachment(self).propose(extract_tool_call_info(tool_call))):
            result: dict[str, Any] = super()._execute_single_native_tool_call(tool_call)
        _check()
        return result

    def _handle_agent_action(self, *args: Any, **kwargs: Any) -> Any:
        _check()
        return super()._handle_agent_action(*args, **kwargs)

    def _ensure_step_executor(self) -> Any:
        steps = super()._ensure_step_executor()
        if not isinstance(steps, _CrewSteps):
            require_parts(steps, *STEP_PARTS)
            kind: Any = type(steps)
            steps.__class__ = _guarded_steps_class(kind)
        return steps


class _CrewSteps(StepExecutor):
    """Runs the steps of a plan, and ends when the guard ends the run."""

    def _execute_text_tool_with_events(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._execute_text_tool_with_events(*args, **kwargs)
        _check()
        return result

    def _execute_native_tool_calls(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._execute_native_tool_calls(*args, **kwargs)
        _check()
        return result


@cache
def _guarded_steps_class(base: Any) -> Any:
    return type(base.__name__, (_CrewSteps, base), {"__module__": base.__module__})


def _attachment(executor: Any) -> CrewParts:
    found: CrewParts | None = executor._guardagent  # noqa: SLF001 - of this module
    if found is None:
        raise InputError("this executor has lost its guard; attach the guard again")
    return found


def _check() -> None:
    around = scope() or CrewScope(None)
    if around.run is not None:
        around.run.check()
