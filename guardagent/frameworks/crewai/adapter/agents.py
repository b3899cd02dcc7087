"""The classes of guarded agents, crews and executors: each is a subclass of the original class.

An executor runs the steps of one agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from crewai import Agent, Crew
from crewai.agents.agent_executor import AgentExecutor
from crewai.agents.step_executor import StepExecutor
from crewai.hooks.contexts import StepContext
from crewai.hooks.dispatch import HookAborted, InterceptionPoint, get_global_hook_list, register
from crewai.tasks.task_output import TaskOutput
from crewai.types.streaming import CrewStreamingOutput
from crewai.utilities.agent_utils import extract_tool_call_info, is_inside_event_loop, parse_tools
from pydantic import PrivateAttr

from guardagent._support.requirements import require_parts
from guardagent.errors import InputError, error_text
from guardagent.frameworks.crewai.adapter.calls import judge_output, judge_result, judge_task
from guardagent.frameworks.crewai.adapter.runs import (
    SURROUNDINGS,
    CrewScope,
    RunEndedError,
    enter,
    request_text,
    scope,
)

if TYPE_CHECKING:
    from guardagent.frameworks.crewai.adapter import CrewAttachment

# --- agents

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

    _guardagent: CrewAttachment | None = PrivateAttr(default=None)

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
        with enter(attachment.begin_run()):
            return judge_result(attachment, task.description, super().execute_task(task, *args, **kwargs))

    async def aexecute_task(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        attachment = attachment_of(self)
        if _within_run():
            return await super().aexecute_task(task, *args, **kwargs)
        with enter(attachment.begin_run()):
            result = await super().aexecute_task(task, *args, **kwargs)
            return judge_result(attachment, task.description, result)

    def kickoff(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_restoring(args, kwargs)
        with enter(attachment_of(self).begin_run()):
            return super().kickoff(messages, *args, **kwargs)  # inside an event loop the coroutine below

    async def kickoff_async(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_restoring(args, kwargs)
        with enter(attachment_of(self).begin_run()):
            return await super().kickoff_async(messages, *args, **kwargs)

    def _build_output_from_result(self, result: Any, executor: Any, *args: Any, **kwargs: Any) -> Any:
        output = super()._build_output_from_result(result, executor, *args, **kwargs)
        return judge_output(attachment_of(self), request_text(executor.state.messages), output)

    def _finalize_kickoff(self, output: Any, executor: Any, inputs: Any, form: Any, messages: Any, *args: Any) -> Any:
        """Judges the output again if a guardrail of the host has changed it."""
        output = super()._finalize_kickoff(output, executor, inputs, form, messages, *args)
        return judge_output(attachment_of(self), request_text(messages), output)


def attachment_of(guarded: Any) -> CrewAttachment:
    """Returns the attachment of a guarded crew or agent.

    Raises:
        InputError: it has none, so that nothing may run.
    """
    found: CrewAttachment | None = guarded._guardagent  # noqa: SLF001 - of the guarded classes
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


# --- crews

CREW_PARTS = (
    "_execute_tasks",
    "_aexecute_tasks",
    "_create_crew_output",
    "_get_agent_to_use",
    "kickoff",
    "kickoff_async",
    "akickoff",
    "kickoff_for_each_async",
    "akickoff_for_each",
    "copy",
)


@cache
def guarded_crew_class(base: Any) -> Any:
    """Returns the class of a crew with a guard."""
    if issubclass(base, _GuardedCrew):
        return base
    return type(base)(base.__name__, (_GuardedCrew, base), {"__module__": base.__module__})


class _GuardedCrew(Crew):
    """Runs its tasks in a conversation, with guarded agents. Its copies are guarded, too."""

    _guardagent: CrewAttachment | None = PrivateAttr(default=None)

    def copy(self) -> Any:
        return attachment_of(self).guard_crew(super().copy())

    # --- its agents

    def _get_agent_to_use(self, task: Any) -> Any:
        agent = super()._get_agent_to_use(task)
        return agent if agent is None else attachment_of(self).guard_agent(agent)

    # --- its runs

    def kickoff(self, *args: Any, **kwargs: Any) -> Any:
        self._prepare(args, kwargs)
        return _bound(super().kickoff(*args, **kwargs))

    async def kickoff_async(self, *args: Any, **kwargs: Any) -> Any:
        self._prepare(args, kwargs)
        return _bound(await super().kickoff_async(*args, **kwargs))

    async def akickoff(self, *args: Any, **kwargs: Any) -> Any:
        self._prepare(args, kwargs)
        return _bound(await super().akickoff(*args, **kwargs))

    async def kickoff_for_each_async(self, *args: Any, **kwargs: Any) -> Any:
        return _bound(await super().kickoff_for_each_async(*args, **kwargs))

    async def akickoff_for_each(self, *args: Any, **kwargs: Any) -> Any:
        return _bound(await super().akickoff_for_each(*args, **kwargs))

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        refuse_restoring(args, kwargs)
        attachment_of(self).guard_crew(self)

    def _execute_tasks(self, tasks: Any, *args: Any, **kwargs: Any) -> Any:
        with enter(attachment_of(self).begin_run(last_task=tasks[-1] if tasks else None)):
            return super()._execute_tasks(tasks, *args, **kwargs)

    async def _aexecute_tasks(self, tasks: Any, *args: Any, **kwargs: Any) -> Any:
        with enter(attachment_of(self).begin_run(last_task=tasks[-1] if tasks else None)):
            return await super()._aexecute_tasks(tasks, *args, **kwargs)

    def _create_crew_output(self, task_outputs: Any) -> Any:
        answers = [one for one in task_outputs if one.raw]
        if answers:  # the last task may have been skipped
            judge_task(attachment_of(self), answers[-1])
        return super()._create_crew_output(task_outputs)


def _bound(output: Any) -> Any:
    """Returns the output of a kickoff. A stream runs when it is read, and belongs where it was kicked off."""
    around = scope()
    if around is not None and isinstance(output, CrewStreamingOutput):
        if (chunks := output._sync_iterator) is not None:  # noqa: SLF001 - there is no public way to it
            output._sync_iterator = _chunks_within(around, chunks)  # noqa: SLF001 - as above
        if (later := output._async_iterator) is not None:  # noqa: SLF001 - as above
            output._async_iterator = SURROUNDINGS.stream_within(around, later)  # noqa: SLF001 - as above
    return output


def _chunks_within(around: CrewScope, chunks: Any) -> Iterator[Any]:
    try:
        while True:
            with enter(around):
                try:
                    chunk = next(chunks)
                except StopIteration:
                    return
            yield chunk
    finally:
        chunks.close()


def watch_last_tasks() -> None:
    """Judges the output of each crew's last task before its callbacks and its file get it."""
    if _judge_last_task not in get_global_hook_list(InterceptionPoint.POST_STEP):
        register(InterceptionPoint.POST_STEP, _judge_last_task)


def _judge_last_task(context: StepContext) -> None:
    """A hook of the host. The host ignores what a hook raises, unless it is a HookAborted."""
    around = scope()
    run = around.run if around is not None else None
    if run is None or run.last_task is not context.task or not isinstance(context.payload, TaskOutput):
        return
    try:
        judge_task(attachment_of(context.task.agent), context.payload)
    except HookAborted:
        raise
    except Exception as error:
        raise HookAborted(f"the answer could not be judged: {error_text(error)}", "guardagent") from error


# --- executors

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

    _guardagent: CrewAttachment | None = PrivateAttr(default=None)

    def invoke(self, inputs: dict[str, Any]) -> Any:
        if is_inside_event_loop():
            return self.invoke_async(inputs)
        with enter(_attachment(self).begin_run(self)):
            try:
                _check()
                return super().invoke(inputs)
            except RunEndedError as ended:
                return {"output": ended.reason}

    async def invoke_async(self, inputs: dict[str, Any]) -> dict[str, Any]:
        with enter(_attachment(self).begin_run(self)):
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


def _attachment(executor: Any) -> CrewAttachment:
    found: CrewAttachment | None = executor._guardagent  # noqa: SLF001 - of this module
    if found is None:
        raise InputError("this executor has lost its guard; attach the guard again")
    return found


def _check() -> None:
    around = scope() or CrewScope(None)
    if around.run is not None:
        around.run.check()
