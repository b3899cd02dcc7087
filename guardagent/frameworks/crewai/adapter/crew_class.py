"""The class of a guarded crew: a subclass of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from crewai import Crew
from crewai.hooks.contexts import StepContext
from crewai.hooks.dispatch import HookAborted, InterceptionPoint, get_global_hook_list, register
from crewai.tasks.task_output import TaskOutput
from crewai.types.streaming import CrewStreamingOutput
from pydantic import PrivateAttr

from guardagent.errors import error_text
from guardagent.frameworks.crewai.adapter.agents import attachment_of, refuse_restoring
from guardagent.frameworks.crewai.adapter.answers import judge_task
from guardagent.frameworks.crewai.adapter.attachment_base import CrewParts
from guardagent.frameworks.crewai.adapter.runs import SURROUNDINGS, CrewScope, enter, scope

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

    _guardagent: CrewParts | None = PrivateAttr(default=None)

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
        with enter(attachment_of(self).begin(last_task=tasks[-1] if tasks else None)):
            return super()._execute_tasks(tasks, *args, **kwargs)

    async def _aexecute_tasks(self, tasks: Any, *args: Any, **kwargs: Any) -> Any:
        with enter(attachment_of(self).begin(last_task=tasks[-1] if tasks else None)):
            return await super()._aexecute_tasks(tasks, *args, **kwargs)

    def _create_crew_output(self, task_outputs: Any) -> Any:
        answers = [one for one in task_outputs if one.raw]
        if answers:  # the last task may have been skipped
            judge_task(attachment_of(self).guard, answers[-1])
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
        judge_task(attachment_of(context.task.agent).guard, context.payload)
    except HookAborted:
        raise
    except Exception as error:
        raise HookAborted(f"the answer could not be judged: {error_text(error)}", "guardagent") from error
