"""CrewAI: `crew = guarded(crew, guard)`.

    guarded(crew, guard)    the tools of a Crew and its agents, or of one Agent, in place
    conversation(id)        names the conversation of the runs inside it
    CrewHalted              raised by a kickoff when a rule halts the run

Extra: `guardagent[crewai]`.

Tools that run at the model's provider, where no guard sees them, are refused unless the operator names them.

The class of a guarded agent, crew or executor is a subclass of the original class. An executor runs the steps of one
agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.crewai.package import DISTRIBUTIONS, EXTRA, PARTS, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from crewai import Agent, Crew, Process
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.agent_executor import AgentExecutor
from crewai.agents.step_executor import StepExecutor
from crewai.hooks.contexts import StepContext
from crewai.hooks.dispatch import HookAborted, InterceptionPoint, get_global_hook_list, register
from crewai.tasks.task_output import TaskOutput
from crewai.tools import BaseTool
from crewai.tools.agent_tools.agent_tools import AgentTools
from crewai.tools.agent_tools.deferred_tool_result_reader import DeferredToolResultReader
from crewai.types.streaming import CrewStreamingOutput
from crewai.utilities.agent_utils import extract_tool_call_info, is_inside_event_loop, parse_tools
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import PrivateAttr

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.calls import REPEATS
from guardagent.enforcement.host_adapter import NO_APPROVER, HostAdapter, unaccepted_names
from guardagent.enforcement.host_runs import Named
from guardagent.enforcement.tool_arguments import ToolArguments
from guardagent.errors import InputError, error_text
from guardagent.frameworks.crewai.adapter import calls, runs
from guardagent.frameworks.crewai.adapter.runs import CrewHalted, conversation

__all__ = ["CrewHalted", "conversation", "guarded"]

# --- attaching

AnyCrew = TypeVar("AnyCrew", Crew, Agent)


def guarded(
    crew: AnyCrew,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
    unguarded: Collection[str] = (),
) -> AnyCrew:
    """Attaches a guard in place to a crew and its agents, or to an agent.

    Args:
        crew: a Crew, or an Agent, without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the kickoff.
        unjudged: tool -> arguments that the program supplies and no rule needs; they are passed on unchanged, and
            neither judged nor logged.
        unguarded: tools of the model's provider that may run without the guard.

    Returns:
        The crew or agent.

    Raises:
        InputError: an agent or a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of
            the agents', or there is another guard already.
    """
    attachment = CrewAttachment(guard, conversation, dict(unjudged or {}), frozenset(unguarded))
    if isinstance(crew, Crew):
        attachment.guard_crew(crew)
    else:
        attachment.guard_agent(crew)
    attachment.list_tools(crew)
    return crew


# --- agents

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
    _guardagent_repeated: set[int] = PrivateAttr(default_factory=set)

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
        with runs.enter(attachment.begin_run()):
            return calls.judge_result(attachment, task.description, super().execute_task(task, *args, **kwargs))

    async def aexecute_task(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        attachment = attachment_of(self)
        if _within_run():
            return await super().aexecute_task(task, *args, **kwargs)
        with runs.enter(attachment.begin_run()):
            result = await super().aexecute_task(task, *args, **kwargs)
            return calls.judge_result(attachment, task.description, result)

    def kickoff(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_restoring(args, kwargs)
        with runs.enter(attachment_of(self).begin_run()):
            return super().kickoff(messages, *args, **kwargs)  # inside an event loop the coroutine below

    async def kickoff_async(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_restoring(args, kwargs)
        with runs.enter(attachment_of(self).begin_run()):
            return await super().kickoff_async(messages, *args, **kwargs)

    def _build_output_from_result(self, result: Any, executor: Any, *args: Any, **kwargs: Any) -> Any:
        output = super()._build_output_from_result(result, executor, *args, **kwargs)
        return calls.judge_output(attachment_of(self), runs.request_text(executor.state.messages), output)

    def _finalize_kickoff(self, output: Any, executor: Any, inputs: Any, form: Any, messages: Any, *args: Any) -> Any:
        """Judges the output again if a guardrail of the host has changed it."""
        output = super()._finalize_kickoff(output, executor, inputs, form, messages, *args)
        return calls.judge_output(attachment_of(self), runs.request_text(messages), output)


def attachment_of(guarded: Any) -> CrewAttachment:
    """Returns the attachment of a guarded crew or agent.

    Raises:
        InputError: it has none, so that nothing may run.
    """
    crew_attachment: CrewAttachment | None = guarded._guardagent  # noqa: SLF001 - of the guarded classes
    if crew_attachment is None:
        raise InputError(f"this {type(guarded).__name__} has lost its guard; attach the guard again")
    return crew_attachment


def refuse_restoring(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses to kick off the copy that the host makes from a checkpoint, which has no guard.

    Raises:
        InputError: a checkpoint is to be restored.
    """
    if any(getattr(argument, "restore_from", None) is not None for argument in (*args, *kwargs.values())):
        raise InputError(f"a kickoff from a checkpoint runs unguarded copies; {RESTORED}")


def _within_run() -> bool:
    around = runs.scope()
    return around is not None and around.run is not None


# --- crews


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
        with runs.enter(attachment_of(self).begin_run(last_task=tasks[-1] if tasks else None)):
            return super()._execute_tasks(tasks, *args, **kwargs)

    async def _aexecute_tasks(self, tasks: Any, *args: Any, **kwargs: Any) -> Any:
        with runs.enter(attachment_of(self).begin_run(last_task=tasks[-1] if tasks else None)):
            return await super()._aexecute_tasks(tasks, *args, **kwargs)

    def _create_crew_output(self, task_outputs: Any) -> Any:
        answers = [task_output for task_output in task_outputs if task_output.raw]
        if answers:  # the last task may have been skipped
            calls.judge_task(attachment_of(self), answers[-1])
        return super()._create_crew_output(task_outputs)


def _bound(output: Any) -> Any:
    """Returns the output of a kickoff. A stream runs when it is read, and belongs where it was kicked off."""
    around = runs.scope()
    if around is not None and isinstance(output, CrewStreamingOutput):
        require_parts(output, *PARTS["stream"].split())
        if (chunks := output._sync_iterator) is not None:  # noqa: SLF001 - there is no public way to it
            output._sync_iterator = _chunks_within(around, chunks)  # noqa: SLF001 - as above
        if (later := output._async_iterator) is not None:  # noqa: SLF001 - as above
            output._async_iterator = runs.SURROUNDINGS.stream_within(around, later)  # noqa: SLF001 - as above
    return output


def _chunks_within(around: runs.CrewScope, chunks: Any) -> Iterator[Any]:
    try:
        while True:
            with runs.enter(around):
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
    around = runs.scope()
    run = around.run if around is not None else None
    if run is None or run.last_task is not context.task or not isinstance(context.payload, TaskOutput):
        return
    try:
        calls.judge_task(attachment_of(context.task.agent), context.payload)
    except HookAborted:
        raise
    except Exception as error:
        raise HookAborted(f"the answer could not be judged: {error_text(error)}", "guardagent") from error


# --- executors


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
        with runs.enter(_attachment(self).begin_run(self)):
            try:
                _check()
                return super().invoke(inputs)
            except runs.RunEndedError as ended:
                return {"output": ended.reason}

    async def invoke_async(self, inputs: dict[str, Any]) -> dict[str, Any]:
        with runs.enter(_attachment(self).begin_run(self)):
            try:
                _check()
                return await super().invoke_async(inputs)  # type: ignore[no-any-return]
            except runs.RunEndedError as ended:
                return {"output": ended.reason}

    def _should_parallelize_native_tool_calls(self, tool_calls: list[Any]) -> bool:
        self._guardagent_repeated = _repeated(tool_calls)
        return super()._should_parallelize_native_tool_calls(tool_calls)  # type: ignore[no-any-return]

    def _execute_single_native_tool_call(self, tool_call: Any) -> dict[str, Any]:
        repeated = id(tool_call) in self._guardagent_repeated
        with runs.enter(_attachment(self).propose(extract_tool_call_info(tool_call), repeated=repeated)):
            result: dict[str, Any] = super()._execute_single_native_tool_call(tool_call)
        _check()
        return result

    def _handle_agent_action(self, *args: Any, **kwargs: Any) -> Any:
        _check()
        return super()._handle_agent_action(*args, **kwargs)

    def _ensure_step_executor(self) -> Any:
        steps = super()._ensure_step_executor()
        if not isinstance(steps, _CrewSteps):
            require_parts(steps, *PARTS["steps"].split())
            kind: Any = type(steps)
            steps.__class__ = _guarded_steps_class(kind)
        return steps


class _CrewSteps(StepExecutor):
    """Runs the steps of a plan, and ends when the guard ends the run."""

    def _execute_text_tool_with_events(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._execute_text_tool_with_events(*args, **kwargs)
        _check()
        return result

    def _execute_native_tool_calls(self, tool_calls: list[Any], *args: Any, **kwargs: Any) -> Any:
        repeated = _repeated(tool_calls)
        left = [tool_call for tool_call in tool_calls if id(tool_call) not in repeated]
        result = super()._execute_native_tool_calls(left, *args, **kwargs)
        _check()
        return f"{result}\n{REPEATS}" if repeated else result


def _repeated(tool_calls: Iterable[Any]) -> set[int]:
    """Returns the identities of the calls that repeat the id of another one before them."""
    ids, repeated = set[str](), set[int]()
    for tool_call in tool_calls:
        call_id = next(iter(extract_tool_call_info(tool_call) or ("",)))
        if call_id and call_id in ids:
            repeated.add(id(tool_call))
        ids.add(call_id)
    return repeated


@cache
def _guarded_steps_class(base: Any) -> Any:
    return type(base.__name__, (_CrewSteps, base), {"__module__": base.__module__})


def _attachment(executor: Any) -> CrewAttachment:
    crew_attachment: CrewAttachment | None = executor._guardagent  # noqa: SLF001 - of this module
    if crew_attachment is None:
        raise InputError("this executor has lost its guard; attach the guard again")
    return crew_attachment


def _check() -> None:
    around = runs.scope() or runs.CrewScope(None)
    if around.run is not None:
        around.run.check()


# --- tools of the provider

_PARAMETERS = ("mcp_servers", "web_search_options", "plugins")


def refuse_provider_tools(llm: Any, unguarded: Collection[str]) -> None:
    """Refuses a model with tools of its provider.

    Args:
        llm: the model.
        unguarded: the tools that the operator names.

    Raises:
        InputError: it has another one.
    """
    for name in _names(llm):
        if name not in unguarded:
            raise InputError(
                f"{name!r} runs at the model's provider, where no guard sees it; remove it, or name it in unguarded=..."
            )


def _names(llm: Any) -> Iterator[str]:
    """Yields the types of a model's own tools, and the request parameters that add some."""
    yield from (str(builtin_tool) for builtin_tool in getattr(llm, "builtin_tools", None) or ())
    params = getattr(llm, "additional_params", None)
    params = params if isinstance(params, Mapping) else {}
    body = params.get("extra_body")
    for parameters in (params, body if isinstance(body, Mapping) else {}):
        yield from (name for name in _PARAMETERS if parameters.get(name))
        for tool in parameters.get("tools") or ():
            yield str(tool.get("type") or tool.get("name")) if isinstance(tool, Mapping) else str(tool)


# --- the attachment


class CrewAttachment(HostAdapter[runs.CrewScope]):
    """One guard, and the crews and agents that it guards."""

    def __init__(
        self,
        guard: EnforcementPoint,
        named: Named,
        unjudged: Mapping[str, Collection[str]],
        unguarded: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(guard, runs.SURROUNDINGS, named, runs.UNNAMED)
        self.approval.report_missing(NO_APPROVER)
        self._unjudged, self._unguarded = unjudged, unguarded

    def __deepcopy__(self, memo: Any) -> CrewAttachment:
        """Returns itself: copies of an agent have the same guard."""
        return self

    # --- crews and agents

    def guard_crew(self, crew: Any) -> Any:
        watch_last_tasks()
        if self._takes_over(crew, PARTS["crew"]):
            kind: Any = type(crew)
            crew.__class__ = guarded_crew_class(kind)
            crew._guardagent = self  # noqa: SLF001 - of the guarded class
        agents = [*crew.agents, crew.manager_agent, *(task.agent for task in crew.tasks)]
        for agent in agents:
            if agent is not None:
                self.guard_agent(agent)
        return crew

    def guard_agent(self, agent: Any) -> Any:
        if not isinstance(agent, Agent):
            name = type(agent).__name__
            raise InputError(f"this is a {name}, whose tools no guard sees; expected a Crew or an Agent")
        if self._takes_over(agent, PARTS["agent"]):
            self._refuse_remote(agent)
            kind: Any = type(agent)
            guarded_executor_class(agent.executor_class)
            agent.__class__ = guarded_agent_class(kind)
            agent._guardagent = self  # noqa: SLF001 - of the guarded class
            if agent.agent_executor is not None and not agent.agent_executor._resuming:  # noqa: SLF001
                agent.agent_executor = None  # it has the tools themselves
        return agent

    def _takes_over(self, host: Any, parts: str) -> bool:
        """Whether a crew or an agent has no guard yet. One that has it gets this attachment instead of its own."""
        owner: Any = getattr(host, "_guardagent", None)
        if self.is_new(owner, f"this {type(host).__name__}", "one guard for all"):
            require_parts(host, *parts.split())
            return True
        if owner is not self:
            self.listed.specs = {**owner.listed.specs, **self.listed.specs}
            host._guardagent = self  # noqa: SLF001 - of the guarded class
        return False

    def _refuse_remote(self, agent: Any) -> None:
        """Refuses tools that run elsewhere, where no guard sees them."""
        if agent.a2a is not None:
            raise InputError(f"the agent {agent.role!r} hands tasks to remote agents (a2a), which no guard sees")
        for llm in (agent.llm, agent.function_calling_llm):
            refuse_provider_tools(llm, self._unguarded)

    # --- tools

    def guard_executor(self, executor: Any) -> None:
        require_parts(executor, *PARTS["executor"].split())
        self._refuse_remote(executor.agent)  # its model may be another one by now
        kind: Any = type(executor)
        executor.__class__ = guarded_executor_class(kind)
        executor.original_tools = self.guarded_tools(executor.original_tools)
        executor.tools = parse_tools(executor.original_tools)
        executor._guardagent = self  # noqa: SLF001 - of the guarded class
        executor._step_executor = None  # noqa: SLF001 - it has the tools of an earlier task
        if executor.tools_handler is not None:
            executor.tools_handler.cache = None  # a cached result would get past the guard
        if self.guard.judges_answers and hasattr(executor.llm, "stream"):
            executor.llm.stream = False  # no part of an answer is shown before it is judged

    def guarded_tools(self, tools: Iterable[Any]) -> list[Any]:
        own = [self._bare(tool) for tool in tools if not isinstance(tool, DeferredToolResultReader)]
        read = [self._read(tool) for tool in own]
        unread = self._unaccepted(zip(own, read, strict=True))
        made = [
            calls.guarded_tool(tool, arguments, self, unread=arguments.spec.name in unread)
            for tool, arguments in zip(own, read, strict=True)
        ]
        return [*made, *(tool for tool in tools if isinstance(tool, DeferredToolResultReader))]

    def _bare(self, tool: Any) -> Any:
        """Returns the tool behind a guarded one of this attachment; others as they are."""
        return tool.guarded_by(self) if isinstance(tool, calls.CrewTool) else tool

    def _read(self, tool: Any) -> ToolArguments:
        """Reads a tool's declaration, and guards the agents that it delegates to."""
        if isinstance(tool, calls.CrewTool):
            raise InputError(f"the tool {tool.name!r} is guarded already; expected the tool itself")
        for agent in getattr(tool, "agents", None) or ():
            if isinstance(agent, BaseAgent):
                self.guard_agent(agent)
        named = sanitize_tool_name(tool.name)
        require_parts(tool, *PARTS["tool"].split())
        arguments = calls.read_arguments(tool, self._unjudged.get(named) or self._unjudged.get(tool.name, ()))
        self.listed.add(arguments.spec)
        return arguments

    def _unaccepted(self, tools: Iterable[tuple[BaseTool, ToolArguments]]) -> set[str]:
        """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called."""
        servers: dict[str, list[ToolSpec]] = {}
        for tool, arguments in tools:
            if (server := calls.server_of(tool)) is not None:
                servers.setdefault(server, []).append(arguments.spec)
        return unaccepted_names(self.guard, servers)

    def list_tools(self, crew: Any) -> None:
        """Compares the tools that are known now with the rules; the others come with their first run."""
        agents, tools = [crew], list(crew.tools or ()) if isinstance(crew, Agent) else []
        if isinstance(crew, Crew):
            agents = [*crew.agents, *(task.agent for task in crew.tasks if task.agent is not None)]
            tools = [tool for owner in (*agents, *crew.tasks) for tool in owner.tools or ()]
            if crew.process is Process.hierarchical or any(agent.allow_delegation for agent in agents):
                tools += AgentTools(agents=crew.agents).tools()
        for tool in tools:
            self._read(tool)
        if not any(agent.mcps or agent.apps for agent in agents):
            self.listed.check()

    # --- runs

    def begin_run(self, executor: Any = None, last_task: Any = None) -> runs.CrewScope:
        """Returns the surroundings of a new run: within a tool, those of the call.

        Args:
            executor: the executor of an agent's run; its tools are compared with the rules.
            last_task: the last task of a crew's run.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of the agents'.
        """
        if executor is not None:
            self.listed.check()  # the host makes executors before it knows all tools
        return self.begin(lambda outer: runs.CrewRun(outer, executor=executor, last_task=last_task))

    def propose(self, proposed: Iterable[Any] | None, *, repeated: bool = False) -> runs.CrewScope:
        """Notes a call that a model proposed. Returns the surroundings in which it runs.

        Args:
            proposed: the call's id and more.
            repeated: whether another call of its message has its id.
        """
        around = self.around()
        call_id = next(iter(proposed), None) if proposed else None
        if not isinstance(call_id, str) or around.call is not None:
            return around
        self.proposed(around).add(call_id)
        return replace(around, tool_id=f"{call_id}_repeated_1" if repeated else call_id)
