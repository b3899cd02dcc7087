"""The class of a guarded agent: a subclass of the agent's own."""

from __future__ import annotations

from functools import cache
from typing import Any

from crewai import Agent
from crewai.utilities.agent_utils import parse_tools
from pydantic import PrivateAttr

from guardagent.errors import InputError
from guardagent.frameworks.crewai.adapter.answers import judge_output, judge_result
from guardagent.frameworks.crewai.adapter.attachment_base import CrewParts
from guardagent.frameworks.crewai.adapter.messages import last_user_text
from guardagent.frameworks.crewai.adapter.runs import enter, scope

AGENT_PARTS = (
    "create_agent_executor",
    "_update_executor_parameters",
    "_prepare_kickoff",
    "_build_output_from_result",
    "_finalize_kickoff",
    "execute_task",
    "aexecute_task",
    "kickoff",
    "kickoff_async",
)
RESTORED = "restore the checkpoint with from_checkpoint(...), attach the guard to that, and kick it off"


@cache
def guarded_agent_class(base: Any) -> Any:
    """Returns the class of an agent with a guard."""
    if issubclass(base, _CrewAgent):
        return base
    return type(base)(base.__name__, (_CrewAgent, base), {"__module__": base.__module__})


class _CrewAgent(Agent):
    """Runs its tasks in a conversation, with guarded tools. Its copies are guarded, too."""

    _guardagent: CrewParts | None = PrivateAttr(default=None)

    def copy(self) -> Any:
        return attachment_of(self).guard_agent(super().copy())

    # --- its executors

    def __setattr__(self, name: str, value: Any) -> None:
        """Guards a new executor before another thread can run it."""
        if name == "agent_executor" and value is not None:
            attachment_of(self).guard_executor(value)
        super().__setattr__(name, value)

    def create_agent_executor(self, *args: Any, **kwargs: Any) -> None:
        super().create_agent_executor(*args, **kwargs)
        attachment_of(self).guard_executor(self.agent_executor)

    def _update_executor_parameters(self, *, raw_tools: Any, **kwargs: Any) -> None:
        """Gives guarded tools to an executor that may be running: it never has the tools themselves."""
        made = attachment_of(self).guarded_tools(raw_tools)
        super()._update_executor_parameters(**{**kwargs, "tools": parse_tools(made), "raw_tools": made})

    def _prepare_kickoff(self, *args: Any, **kwargs: Any) -> Any:
        prepared = super()._prepare_kickoff(*args, **kwargs)
        attachment_of(self).guard_executor(prepared[0])
        return prepared

    # --- its runs

    def execute_task(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        attachment = attachment_of(self)
        if _within_run():
            return super().execute_task(task, *args, **kwargs)
        with enter(attachment.begin()):
            return judge_result(attachment.guard, task.description, super().execute_task(task, *args, **kwargs))

    async def aexecute_task(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        attachment = attachment_of(self)
        if _within_run():
            return await super().aexecute_task(task, *args, **kwargs)
        with enter(attachment.begin()):
            result = await super().aexecute_task(task, *args, **kwargs)
            return judge_result(attachment.guard, task.description, result)

    def kickoff(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_restoring(args, kwargs)
        with enter(attachment_of(self).begin()):
            return super().kickoff(messages, *args, **kwargs)  # inside an event loop the coroutine below

    async def kickoff_async(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_restoring(args, kwargs)
        with enter(attachment_of(self).begin()):
            return await super().kickoff_async(messages, *args, **kwargs)

    def _build_output_from_result(self, result: Any, executor: Any, *args: Any, **kwargs: Any) -> Any:
        output = super()._build_output_from_result(result, executor, *args, **kwargs)
        return judge_output(attachment_of(self).guard, last_user_text(executor.state.messages), output)

    def _finalize_kickoff(self, output: Any, executor: Any, inputs: Any, form: Any, messages: Any, *args: Any) -> Any:
        """Judges the output again if a guardrail of the host has changed it."""
        output = super()._finalize_kickoff(output, executor, inputs, form, messages, *args)
        return judge_output(attachment_of(self).guard, last_user_text(messages), output)


def attachment_of(guarded: Any) -> CrewParts:
    """Returns the attachment of a guarded crew or agent.

    Raises:
        InputError: it has none, so that nothing may run.
    """
    found: CrewParts | None = guarded._guardagent  # noqa: SLF001 - of the guarded classes
    if found is None:
        raise InputError(f"this {type(guarded).__name__} has lost its guard; attach the guard again")
    return found


def refuse_restoring(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses to kick off the copy that the host makes from a checkpoint, which has no guard.

    Raises:
        InputError: a checkpoint is to be restored.
    """
    if any(getattr(one, "restore_from", None) is not None for one in (*args, *kwargs.values())):
        raise InputError(f"a kickoff from a checkpoint runs unguarded copies; {RESTORED}")


def _within_run() -> bool:
    around = scope()
    return around is not None and around.run is not None
